import { Data } from "effect"
import { type DialectError } from "../compat/errors.ts"
import { type BudgetDenied } from "../ledger/problem-domain.ts"
import { type AlreadyCompleted } from "./repeat-domain.ts"

/** Why a call gets no answer, before it is written in the dialect of its caller. */
export class CallRefused extends Data.TaggedError("CallRefused")<{
  readonly error: DialectError
  readonly headers?: Readonly<Record<string, string>>
  /** What the gateway's own words tell, where that is more than a message. */
  readonly problem?: BudgetDenied | AlreadyCompleted
}> {
  override get message() {
    return this.error.message
  }
}

/** No caller is told to wait for longer. */
const longestRetryAfterSeconds = 60

export const refused = (
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
  param?: string
): CallRefused => new CallRefused({ error: { status, code, message, param }, headers })

export const retryAfter = (seconds: number): Readonly<Record<string, string>> => ({
  "retry-after": String(Math.min(longestRetryAfterSeconds, Math.max(1, Math.ceil(seconds))))
})
