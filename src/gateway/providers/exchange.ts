import { type Dispatcher } from "@effect/platform-node/Undici"
import { Cause, Effect, Scope } from "effect"
import { decoded } from "./encodings.ts"
import { type Deadlines } from "./deadlines.ts"
import { type Bytes, type ProviderAnswer, type ProviderFailure } from "./provider.ts"
import { fromTransport, transportError } from "./transport-failures.ts"

/** A request to a provider. */
export interface ExchangeRequest {
  readonly method: "GET" | "POST"
  readonly origin: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  /** Seconds until the first byte of an answer, and between any two. */
  readonly timeoutSeconds: number
  /** When, in milliseconds since 1970, the whole answer must be there. */
  readonly deadline?: number | undefined
  /** No more than so much of a whole answer is read. */
  readonly maxBytes?: number
}

/** No error page is read beyond this. */
const maxErrorBytes = 65_536

/** No whole answer is larger; embeddings of 2,048 texts are half of it. */
const largestAnswerBytes = 134_217_728

/** What waits to be read of a stream before its provider is made to wait. */
const maxWaitingBytes = 65_536

const givenUp = transportError("The caller gave the request up", "ERR_GIVEN_UP")
const tooLate = transportError("The request took longer than it may", "ERR_DEADLINE")
const enough = transportError("More than is read", "ERR_ENOUGH")
const tooLarge = transportError("The answer is larger than any", "ERR_TOO_LARGE")

const isSuccess = (status: number) => status >= 200 && status < 300

type IncomingHeaders = Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

const headersOf = (given: IncomingHeaders): Readonly<Record<string, string>> => {
  const headers: Record<string, string> = {}
  for (const name in given) {
    const value = given[name]
    if (value !== undefined) headers[name] = typeof value === "string" ? value : value.join(", ")
  }
  return headers
}

/**
 * One request and its answer, by the events that undici tells. Promises, abort signals and a stream object for each answer
 * took a fifth of the time of a call, and undici's own timeouts cost no fiber.
 */
class Exchange implements Dispatcher.DispatchHandler {
  status = 0
  headers: Readonly<Record<string, string>> = {}
  /** Whether the answer is handed on as it comes. */
  streams = false
  ended = false
  error: Error | undefined
  /** Told once of what comes next: a whole answer, the bytes of a stream, or the end. */
  wake: (() => void) | undefined
  private chunks: Array<Uint8Array> = []
  private length = 0
  private controller: Dispatcher.DispatchController | undefined
  private readonly maxBytes: number
  private readonly forget: () => void

  constructor({ deadline, maxBytes = Infinity }: ExchangeRequest, deadlines: Deadlines) {
    this.maxBytes = maxBytes
    this.forget = deadline === undefined ? () => {} : deadlines.add(deadline, () => this.breakOff(tooLate))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller
    if (this.error !== undefined) controller.abort(this.error)
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: IncomingHeaders): void {
    if (status < 200) return
    this.status = status
    this.headers = headersOf(headers)
    this.streams = isSuccess(status) && /^text\/event-stream\b/i.test(this.headers["content-type"] ?? "")
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.chunks.push(chunk)
    this.length += chunk.length
    if (this.streams) {
      if (this.length > maxWaitingBytes) controller.pause()
      this.tell()
    } else if (this.length >= (isSuccess(this.status) ? this.maxBytes : maxErrorBytes)) {
      this.end()
      controller.abort(enough)
    } else if (this.length > largestAnswerBytes) {
      this.breakOff(tooLarge)
    }
  }

  onResponseEnd(): void {
    this.end()
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.ended) return
    this.error = error
    this.end()
  }

  /** Ends what is still under way; its connection is closed. */
  breakOff(error: Error): void {
    if (this.ended) return
    this.error = error
    this.end()
    this.controller?.abort(error)
  }

  /** The bytes that came and were not taken yet. */
  take(): Array<Uint8Array> {
    const { chunks } = this
    this.chunks = []
    this.length = 0
    if (this.controller?.paused === true) this.controller.resume()
    return chunks
  }

  private end(): void {
    this.ended = true
    this.forget()
    this.tell()
  }

  private tell(): void {
    const { wake } = this
    this.wake = undefined
    wake?.()
  }
}

const next = (exchange: Exchange): Bytes =>
  Effect.suspend(() => {
    const [first, ...more] = exchange.take()
    if (first !== undefined) return Effect.succeed([first, ...more] as const)
    if (exchange.error !== undefined) return Effect.fail(fromTransport(exchange.error))
    if (exchange.ended) return Cause.done()
    return Effect.callback((resume) => {
      exchange.wake = () => resume(next(exchange))
      return Effect.sync(() => (exchange.wake = undefined))
    })
  })

/**
 * Sends a request; answers the whole of what comes back, or a stream with its first bytes, which the end of the scope gives
 * up. No redirect is followed.
 */
export const exchange = (
  dispatcher: Dispatcher,
  deadlines: Deadlines,
  request: ExchangeRequest
): Effect.Effect<ProviderAnswer, ProviderFailure, Scope.Scope> => {
  const patience = Math.ceil(request.timeoutSeconds * 1000)
  const sent = Effect.callback<Exchange>((resume) => {
    const made = new Exchange(request, deadlines)
    made.wake = () => resume(Effect.succeed(made))
    const { body = null, headers, method, origin, path } = request
    try {
      dispatcher.dispatch(
        { method, origin, path, headers, body, headersTimeout: patience, bodyTimeout: patience },
        made
      )
    } catch (error) {
      made.onResponseError(undefined, error as Error)
    }
    return Effect.sync(() => made.breakOff(givenUp))
  })
  return Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(restore(sent), (made): Effect.Effect<ProviderAnswer, ProviderFailure, Scope.Scope> => {
      const { headers, status } = made
      if (!made.streams) {
        if (made.error !== undefined) return Effect.fail(fromTransport(made.error))
        const chunks = made.take()
        const [only] = chunks
        const body = chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks)
        return restore(decoded({ status, headers, body }, largestAnswerBytes))
      }
      const first = made.take()
      if (first.length === 0 && made.error !== undefined) return Effect.fail(fromTransport(made.error))
      const answer = { status, headers, body: { first, rest: next(made) } }
      return Effect.andThen(
        Effect.flatMap(Effect.scope, (scope) =>
          Scope.addFinalizer(
            scope,
            Effect.sync(() => made.breakOff(givenUp))
          )
        ),
        decoded(answer, largestAnswerBytes)
      )
    })
  )
}
