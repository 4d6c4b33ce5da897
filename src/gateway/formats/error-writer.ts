import { type DialectError, type Quota } from "./errors.ts"

/** How a dialect writes errors; all members are pure functions. */
export interface ErrorWriter {
  /** The complete response: its status, its body, and the headers that show what a limit leaves. */
  answer(error: DialectError, quota: Quota | undefined, requestId: string, now: number): WrittenError
  /** The error as an event of a stream, whose status was sent already. */
  event(error: DialectError, requestId: string): string
}

export interface WrittenError {
  readonly status: number
  readonly body: object
  readonly headers: Readonly<Record<string, string>>
}
