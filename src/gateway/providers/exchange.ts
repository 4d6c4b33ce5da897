import { type Dispatcher } from "@effect/platform-node/Undici"
import { Cause, Clock, Effect, Schedule, Scope } from "effect"
import { Readable } from "node:stream"
import * as zlib from "node:zlib"
import { lookupTable } from "../../kernel/lookup-table.ts"
import { type Slotted, Slots } from "../../kernel/slots.ts"
import { type SentForm } from "../formats/forms/form.ts"
import { type Bytes, type ProviderAnswer, type ProviderFailure } from "./provider.ts"
import { bad, failure, fromTransport, transportError } from "./transport-failures.ts"

/** What has a deadline. */
interface Limited extends Slotted {
  /** Its deadline, in milliseconds since 1970. */
  readonly deadline: number
  expire(): void
}

/**
 * What has a deadline and has not ended. One sweep per second checks all of it, so a call costs two set operations instead
 * of a fiber and a timer.
 */
export type Deadlines = Slots<Limited>

export const makeDeadlines = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const deadlines: Deadlines = new Slots()
  yield* Effect.sync(() => {
    const now = clock.currentTimeMillisUnsafe()
    for (const limited of deadlines) {
      if (limited.deadline > now) continue
      deadlines.delete(limited)
      limited.expire()
    }
  }).pipe(Effect.repeat(Schedule.spaced("1 second")), Effect.forkScoped)
  return deadlines
})

type Decode = (
  bytes: Uint8Array,
  options: { readonly maxOutputLength: number },
  done: (error: Error | null, decoded: Buffer) => void
) => void

const decoders = lookupTable<Decode>({
  gzip: zlib.gunzip,
  "x-gzip": zlib.gunzip,
  deflate: zlib.inflate,
  br: zlib.brotliDecompress,
  zstd: zlib.zstdDecompress
})

const unreadableCoding = failure(
  "broken-off",
  bad(
    502,
    "The provider's answer is encoded in a way that was not requested, and cannot be decoded.",
    "provider-error"
  ),
  true
)

/**
 * Decodes a response's content coding (RFC 9110, section 8.4). The gateway requests none, but some providers and proxies
 * apply one anyway. An encoded stream cannot be read as it arrives.
 */
const decoded = (answer: ProviderAnswer, maxBytes: number): Effect.Effect<ProviderAnswer, ProviderFailure> => {
  const coding = answer.headers["content-encoding"]?.trim().toLowerCase()
  if (coding === undefined || coding === "" || coding === "identity") return Effect.succeed(answer)
  return Effect.interruptible(decodedBy(coding, answer, maxBytes))
}

/**
 * What so many encoded bytes may become: JSON is rarely a twentieth of its size, and a small answer may repeat one word. Else
 * each of a few bytes would take a thousand of memory, in every call at once.
 */
const mostDecoded = (encodedBytes: number): number => Math.max(4_194_304, 30 * encodedBytes)

const decodedBy = (coding: string, answer: ProviderAnswer, maxBytes: number) => {
  const decode = decoders[coding]
  const { body } = answer
  if (decode === undefined || !(body instanceof Uint8Array)) return Effect.fail(unreadableCoding)
  return Effect.callback<ProviderAnswer, ProviderFailure>((resume) => {
    decode(body, { maxOutputLength: Math.min(maxBytes, mostDecoded(body.length)) }, (error, bytes) =>
      resume(error === null ? Effect.succeed({ ...answer, body: bytes }) : Effect.fail(unreadableCoding))
    )
  })
}

/** A request to a provider. */
export interface ExchangeRequest {
  readonly method: "GET" | "POST" | "DELETE"
  readonly origin: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Parts that are sent as they come have no declared length; a form has one among the headers. */
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array> | SentForm
  /** Whether a successful response is passed on as it arrives, or if it is `bytes` and no text; of events it always is. */
  readonly streams?: boolean | "bytes"
  /** Maximum seconds until the first byte of a response, and between two of them. */
  readonly timeoutSeconds: number
  /** When the complete response must have arrived, in milliseconds since 1970. */
  readonly deadline?: number | undefined
  /** The maximum size of a complete response. */
  readonly maxBytes?: number
}

/** The maximum size of an error response. */
const maxErrorBytes = 65_536

/** The maximum size of a complete response; embeddings of 2,048 texts take half of it. */
const largestAnswerBytes = 134_217_728

/** The number of unread bytes of a stream at which the provider is paused. */
const maxWaitingBytes = 65_536

const givenUp = transportError("The caller gave the request up", "ERR_GIVEN_UP")
const tooLate = transportError("The request took longer than it may", "ERR_DEADLINE")
const enough = transportError("More than is read", "ERR_ENOUGH")
const tooLarge = transportError("The answer is larger than any", "ERR_TOO_LARGE")

const isSuccess = (status: number) => status >= 200 && status < 300

/** Whether a response is of Server-Sent Events, or of AWS's frames of events. */
export const isEventStream = (headers: Readonly<Record<string, string>>): boolean =>
  /^(?:text\/event-stream|application\/vnd\.amazon\.eventstream)\b/i.test(headers["content-type"] ?? "")

/** A text, such as an error, is read as a whole. */
const isText = (headers: Readonly<Record<string, string>>): boolean =>
  /^\s*(?:text\/|application\/(?:[a-z0-9.+-]+\+)?(?:json|xml)\b)/i.test(headers["content-type"] ?? "")

type IncomingHeaders = Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

/** The headers of an answer, each as one text. */
export const headersOf = (given: IncomingHeaders): Readonly<Record<string, string>> => {
  const headers: Record<string, string> = {}
  for (const name in given) {
    const value = given[name]
    if (value !== undefined) headers[name] = typeof value === "string" ? value : value.join(", ")
  }
  return headers
}

/**
 * One request and its response, through undici's handler callbacks. Promises, abort signals and a stream object for each
 * response took a fifth of a call's time, and undici's own timeouts need no fiber.
 */
class Exchange implements Dispatcher.DispatchHandler, Limited {
  readonly deadline: number
  slot: number | undefined
  status = 0
  headers: Readonly<Record<string, string>> = {}
  /** Whether the response is passed on as it arrives. */
  streams = false
  ended = false
  error: Error | undefined
  /** Called once for the next event: a complete response, bytes of a stream, or the end. */
  wake: (() => void) | undefined
  private chunks: Array<Uint8Array> = []
  private length = 0
  private controller: Dispatcher.DispatchController | undefined
  private readonly maxBytes: number
  private readonly passing: ExchangeRequest["streams"]
  private readonly deadlines: Deadlines

  constructor({ deadline = Infinity, maxBytes = Infinity, streams }: ExchangeRequest, deadlines: Deadlines) {
    this.deadline = deadline
    this.maxBytes = maxBytes
    this.passing = streams
    this.deadlines = deadlines
    deadlines.add(this)
  }

  expire(): void {
    this.breakOff(tooLate)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller
    if (this.error !== undefined) controller.abort(this.error)
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: IncomingHeaders): void {
    if (status < 200) return
    this.status = status
    this.headers = headersOf(headers)
    const { passing } = this
    const passes = passing === true || (passing === "bytes" && !isText(this.headers)) || isEventStream(this.headers)
    this.streams = isSuccess(status) && passes
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

  /** Aborts an unfinished exchange and closes its connection. */
  breakOff(error: Error): void {
    if (this.ended) return
    this.error = error
    this.end()
    this.controller?.abort(error)
  }

  /** The bytes that have arrived and were not taken yet. */
  take(): Array<Uint8Array> {
    const { chunks } = this
    this.chunks = []
    this.length = 0
    if (this.controller?.paused === true) this.controller.resume()
    return chunks
  }

  private end(): void {
    this.ended = true
    this.deadlines.delete(this)
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

const sendable = (body: NonNullable<ExchangeRequest["body"]> | null) =>
  body === null || typeof body === "string" || body instanceof Uint8Array
    ? body
    : Readable.from(body, { objectMode: false })

/**
 * Sends a request; returns the complete response, or a stream with its first bytes, which closing the scope cancels.
 * Redirects are not followed.
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
        { method, origin, path, headers, body: sendable(body), headersTimeout: patience, bodyTimeout: patience },
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
        return decoded({ status, headers, body }, largestAnswerBytes)
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
