import { ByteSize, Context, Effect } from "effect"
import { Headers, HttpIncomingMessage, type HttpServerError, HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"
import { IncomingMessage } from "node:http"
import { excessIn, repeatedMember } from "../../kernel/json/json-scanner.ts"
import { headersOf } from "./request.ts"

/**
 * Whether Content-Length exceeds the largest accepted body, so that the request is rejected before its body is sent.
 */
export const declaresMoreThan = (headers: Headers.Headers, maximum: number | ByteSize.ByteSize | undefined): boolean =>
  maximum !== undefined && Number(headers["content-length"] ?? 0) > Number(maximum)

/** What is wrong with a body that is compressed. */
export const encoded = "The service decodes no Content-Encoding; send the body without one."

/** Whether a body would have to be decoded before it is read (RFC 9110 §8.4). */
export const isEncoded = ({ "content-encoding": coding }: Readonly<Record<string, string | undefined>>): boolean =>
  coding !== undefined && coding !== "" && coding.toLowerCase() !== "identity"

/** Whether the length of the body is declared, and so already checked. */
const hasDeclaredLength = (request: HttpServerRequest.HttpServerRequest): boolean => {
  const headers = headersOf(request)
  return headers["content-length"] !== undefined && headers.expect === undefined
}

/**
 * The bytes of a body within the size limit, by default that of the route; can be read once. A body of a declared length is read by the events of its
 * stream: Node's `finished`, which Effect uses, took a thirtieth of the time of a small POST.
 */
export const bytesOf = (
  request: HttpServerRequest.HttpServerRequest,
  maxBytes?: number
): Effect.Effect<Uint8Array, HttpServerError.HttpServerError> =>
  Effect.suspend(() => {
    const { source } = request
    return source instanceof IncomingMessage && isUnread(source) && hasDeclaredLength(request)
      ? byEvents(source, () => byEffect(request, maxBytes))
      : byEffect(request, maxBytes)
  })

/** `readableDidRead` stays false for an empty body, whose end may have been read. */
const isUnread = ({ destroyed, readableDidRead, readableEnded }: IncomingMessage): boolean =>
  !readableDidRead && !readableEnded && !destroyed

const byEffect = ({ arrayBuffer }: HttpServerRequest.HttpServerRequest, maxBytes: number | undefined) => {
  const bytes = Effect.map(arrayBuffer, (buffer) => new Uint8Array(buffer))
  return maxBytes === undefined
    ? bytes
    : Effect.provideService(bytes, HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxBytes))
}

const byEvents = <E>(
  source: IncomingMessage,
  onBreak: () => Effect.Effect<Uint8Array, E>
): Effect.Effect<Uint8Array, E> =>
  Effect.callback((resume) => {
    const chunks: Array<Buffer> = []
    const take = (chunk: Buffer) => void chunks.push(chunk)
    const stop = () => source.off("data", take).off("end", end).off("close", breakOff)
    const end = () => {
      stop()
      resume(Effect.succeed(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)))
    }
    const breakOff = () => {
      stop()
      resume(onBreak())
    }
    // An error closes the request too, and is emitted only where something listens for it.
    source.on("data", take).on("end", end).on("close", breakOff)
    // What still comes is discarded: a request that was stopped has an answer, which a destroyed connection would lose.
    return Effect.sync(stop)
  })

const headersPrototype: object = Object.getPrototypeOf(Headers.empty)

/** Whether a request has a body of a length that is not 0, or of one that only its end tells (RFC 9112 §6.3). */
const hasBody = (headers: Headers.Headers): boolean =>
  Number(headers["content-length"] ?? 0) > 0 || headers["transfer-encoding"] !== undefined

/** Sets the headers that HttpApi reads: NodeHttpServer makes the same copy, in three times the time. */
const withOwnHeaders = (
  request: { headersOverride?: Headers.Headers },
  { headers }: IncomingMessage,
  takesNoBody: boolean
): void => {
  if (!("headersOverride" in request) || request.headersOverride !== undefined) return
  const own: Record<string, string> = Object.create(headersPrototype)
  for (const name in headers) {
    const value = headers[name]
    if (value !== undefined) own[name] = typeof value === "string" ? value : value.join(", ")
  }
  // Some clients name a type of the body that they do not send.
  if (takesNoBody && !hasBody(own as Headers.Headers)) own["content-type"] = "application/json"
  request.headersOverride = own as Headers.Headers
}

const decoder = new TextDecoder()
const malformedJson = "\0"
const faulty = "\0fault "

/** What is wrong with a body of well-formed JSON, where its text was replaced by one that is no JSON. */
export const faultIn = (text: string): string | undefined =>
  text.startsWith(faulty) ? text.slice(faulty.length) : undefined

/** What is wrong with a body that has too much of something. */
export const exceeds = (excess: string): string => `The body has ${excess}.`

/** What is wrong with a body that repeats a member. */
export const repeats = (member: string): string => `${member}: The member is there twice`

const textOf = (bytes: Uint8Array, headers: Headers.Headers): string => {
  if (!isUtf8(bytes)) return malformedJson
  if (!/\bjson\b/i.test(headers["content-type"] ?? "")) return decoder.decode(bytes)
  const excess = excessIn(bytes)
  if (excess !== undefined) return `${faulty}${exceeds(excess)}`
  const repeated = repeatedMember(bytes)
  return repeated === undefined ? decoder.decode(bytes) : `${faulty}${repeats(repeated)}`
}

/**
 * Treats a JSON body that is not UTF-8 as malformed (RFC 8259 §8.1); decoded leniently, other text than was sent would be
 * stored. One that names a member twice is malformed as well: readers differ in which of the two counts (§4). A body that is
 * not there counts as `{}` where none is needed.
 */
export const inStrictJson = <A, E, R>(
  httpEffect: Effect.Effect<A, E, R>,
  takesNoBody = false
): Effect.Effect<A, E, R | HttpServerRequest.HttpServerRequest> =>
  Effect.withFiber((fiber) => {
    const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    let read: string | undefined
    const text = Effect.map(bytesOf(request), (bytes) => {
      read = bytes.length === 0 && takesNoBody ? "{}" : textOf(bytes, headersOf(request))
      return read
    })
    // A copy of the request, or one with it as a prototype, would cost a twentieth of the time of a small POST.
    Object.defineProperty(request, "text", {
      configurable: true,
      value: Effect.suspend(() => (read === undefined ? text : Effect.succeed(read)))
    })
    if (request.source instanceof IncomingMessage) withOwnHeaders(request as object, request.source, takesNoBody)
    return httpEffect
  })
