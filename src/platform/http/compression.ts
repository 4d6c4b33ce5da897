import { Effect, Option, Semaphore } from "effect"
import { type HttpBody, HttpPlatform, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { type Coding, withCoding } from "../../kernel/http/precondition.ts"
import { weightsIn } from "./negotiation.ts"
import { headersOf } from "./request.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

/** What answers are compressed with, the preferred first. */
const codings: ReadonlyArray<Coding> = ["br", "gzip"]
/** Of a text; higher ones take several times as long for a few percent. */
const levels: Readonly<Record<Coding, number>> = { br: 4, gzip: 6 }
/** What is smaller fits one packet either way. */
const minBytes = 1400

/** The coding that a request prefers among those offered (RFC 9110 §12.5.3); undefined for none. */
export const codingOf = (request: Request, offered: ReadonlyArray<Coding>): Coding | undefined => {
  const accepted = headersOf(request)["accept-encoding"]
  if (accepted === undefined) return undefined
  const weights = weightsIn(accepted)
  let best: Coding | undefined
  let least = weights.get("identity") ?? 0
  for (const coding of offered) {
    const weight = weights.get(coding) ?? weights.get(`x-${coding}`) ?? weights.get("*") ?? 0
    if (weight > 0 && (best === undefined ? weight >= least : weight > least)) {
      best = coding
      least = weight
    }
  }
  return best
}

const textType = /^(?:text\/(?!event-stream)|application\/(?:[\w.-]+\+)?(?:x-nd)?json\b)/

const isLargeText = ({ body, headers }: Response): boolean =>
  (body._tag === "Stream" || (body._tag === "Uint8Array" && body.contentLength >= minBytes)) &&
  textType.test(headers["content-type"] ?? body.contentType)

const withVary = (response: Response): Response => {
  const { vary } = response.headers
  return HttpServerResponse.setHeader(
    response,
    "vary",
    vary === undefined ? "Accept-Encoding" : `${vary}, Accept-Encoding`
  )
}

/** Each coding is a representation of its own, so that it has an entity tag of its own (RFC 9110 §8.8.3). */
const withTagOf = (response: Response, coding: Coding): Response => {
  const { etag } = response.headers
  return etag === undefined ? response : HttpServerResponse.setHeader(response, "etag", withCoding(etag, coding))
}

/** Compressions that run beside each other: the rest of libuv's four threads are for what cannot be left out. */
const maxRunning = 2
/** Those that run or wait. A compression has megabytes of state, and what is behind these is sent as it is, sooner. */
const maxPending = 34

/** Compresses the large texts that a request accepts compressed; what is undefined stays as it is. */
export const makeCompression = Effect.map(HttpPlatform.HttpPlatform, ({ compression }) => {
  const running = Semaphore.makeUnsafe(maxRunning)
  const pending = Semaphore.makeUnsafe(maxPending)
  /** The bodies that are sent more than once. */
  const known = new WeakMap<HttpBody.HttpBody, Map<Coding, HttpBody.HttpBody>>()

  /** The body of a response in a coding; none while too many are being compressed. */
  const bodyIn = (response: Response, coding: Coding): Effect.Effect<Option.Option<Response>> => {
    const { body } = response
    const before = known.get(body)
    const made = before?.get(coding)
    if (made !== undefined) {
      return Effect.succeedSome(
        HttpServerResponse.setBody(HttpServerResponse.setHeader(response, "content-encoding", coding), made)
      )
    }
    return compression.compressResponse(response, coding, { level: levels[coding] }).pipe(
      Effect.tap((compressed) => {
        if (body._tag === "Uint8Array") known.set(body, new Map(before).set(coding, compressed.body))
        return Effect.void
      }),
      running.withPermits(1),
      pending.withPermitsIfAvailable(1)
    )
  }

  return (response: Response, request: Request): Effect.Effect<Response> | undefined => {
    const { headers, status } = response
    if (status === 304) {
      const coding = codingOf(request, codings)
      const tagged = coding === undefined ? response : withTagOf(response, coding)
      // A client names the tag of what it was sent.
      const isNamed = headersOf(request)["if-none-match"]?.includes(tagged.headers.etag ?? "-") === true
      return Effect.succeed(withVary(isNamed ? tagged : response))
    }
    if (status !== 200 || headers["content-encoding"] !== undefined || !isLargeText(response)) return undefined
    const coding = request.method === "HEAD" ? undefined : codingOf(request, codings)
    const varied = withVary(response)
    if (coding === undefined) return Effect.succeed(varied)
    return Effect.map(
      bodyIn(varied, coding),
      Option.match({
        onNone: () => varied,
        onSome: (made) =>
          headers.etag === undefined
            ? made
            : HttpServerResponse.setHeader(made, "etag", withCoding(headers.etag, coding))
      })
    )
  }
})
