import { type ByteSize, Context, Effect } from "effect"
import { Headers, type HttpServerError, HttpServerRequest } from "effect/http"
import { headersOf } from "./request.ts"
import { isUtf8 } from "node:buffer"
import { IncomingMessage } from "node:http"

/**
 * Whether a body is refused by what its Content-Length declares, in bytes: so that nobody sends, and no request waits
 * for, what will not be taken.
 */
export const declaresMoreThan = (headers: Headers.Headers, most: number | ByteSize.ByteSize | undefined): boolean =>
  most !== undefined && Number(headers["content-length"] ?? 0) > Number(most)

/** Whether nothing is to be decided about a body while it comes: its length was declared, and is one that is taken. */
const comesAsDeclared = (request: HttpServerRequest.HttpServerRequest): boolean => {
  const headers = headersOf(request)
  return headers["content-length"] !== undefined && headers.expect === undefined
}

/**
 * The bytes of a body that is not larger than may be, once. What was declared is read by the events of its stream: Node's
 * `finished`, as Effect reads a body, took a thirtieth of the time of a small POST.
 */
export const bytesOf = (
  request: HttpServerRequest.HttpServerRequest
): Effect.Effect<Uint8Array, HttpServerError.HttpServerError> =>
  Effect.suspend(() => {
    const { source } = request
    return source instanceof IncomingMessage && isUnread(source) && comesAsDeclared(request)
      ? eventsOf(source, () => inOtherWays(request))
      : inOtherWays(request)
  })

/** An empty body was never read when its end was. */
const isUnread = ({ destroyed, readableDidRead, readableEnded }: IncomingMessage): boolean =>
  !readableDidRead && !readableEnded && !destroyed

const inOtherWays = (request: HttpServerRequest.HttpServerRequest) =>
  Effect.map(request.arrayBuffer, (buffer) => new Uint8Array(buffer))

const eventsOf = <E>(
  source: IncomingMessage,
  brokenOff: () => Effect.Effect<Uint8Array, E>
): Effect.Effect<Uint8Array, E> =>
  Effect.callback((resume) => {
    const chunks: Array<Buffer> = []
    const take = (chunk: Buffer) => void chunks.push(chunk)
    const stop = () => source.off("data", take).off("end", end).off("error", breakOff).off("close", breakOff)
    const end = () => {
      stop()
      resume(Effect.succeed(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)))
    }
    const breakOff = () => {
      stop()
      resume(brokenOff())
    }
    source.on("data", take).on("end", end).on("error", breakOff).on("close", breakOff)
    return Effect.sync(() => {
      stop()
      source.destroy()
    })
  })

const headersPrototype: object = Object.getPrototypeOf(Headers.empty)

/** Gives a request its headers, which HttpApi asks for: NodeHttpServer makes the same copy, in three times the time. */
const withOwnHeaders = (request: { headersOverride?: Headers.Headers }, { headers }: IncomingMessage): void => {
  if (!("headersOverride" in request) || request.headersOverride !== undefined) return
  const own: Record<string, string> = Object.create(headersPrototype)
  for (const name in headers) {
    const value = headers[name]
    if (value !== undefined) own[name] = typeof value === "string" ? value : value.join(", ")
  }
  request.headersOverride = own as Headers.Headers
}

const decoder = new TextDecoder()
const noJson = "\0"

/**
 * Reads a JSON body that is not UTF-8 as what is no JSON (RFC 8259 §8.1); taken leniently, its bytes would be kept as other
 * text than was sent.
 */
export const inUtf8 = <A, E, R>(
  httpEffect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R | HttpServerRequest.HttpServerRequest> =>
  Effect.withFiber((fiber) => {
    const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    let read: string | undefined
    const text = Effect.map(bytesOf(request), (bytes) => (read = isUtf8(bytes) ? decoder.decode(bytes) : noJson))
    // A request made of this one, as a prototype or a copy, would cost a twentieth of the time of a small POST.
    Object.defineProperty(request, "text", {
      configurable: true,
      value: Effect.suspend(() => (read === undefined ? text : Effect.succeed(read)))
    })
    if (request.source instanceof IncomingMessage) withOwnHeaders(request as object, request.source)
    return httpEffect
  })
