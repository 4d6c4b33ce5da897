import { Effect } from "effect"
import { HttpPlatform, type HttpServerRequest, HttpServerResponse } from "effect/http"
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

/** Compresses the large texts that a request accepts compressed; what is undefined stays as it is. */
export const makeCompression = Effect.map(
  HttpPlatform.HttpPlatform,
  ({ compression }) =>
    (response: Response, request: Request): Effect.Effect<Response> | undefined => {
      const { headers, status } = response
      if (status === 304) {
        const coding = codingOf(request, codings)
        const known = coding === undefined ? response : withTagOf(response, coding)
        // A client names the tag of what it was sent.
        const isNamed = headersOf(request)["if-none-match"]?.includes(known.headers.etag ?? "-") === true
        return Effect.succeed(withVary(isNamed ? known : response))
      }
      if (status !== 200 || headers["content-encoding"] !== undefined || !isLargeText(response)) return undefined
      const coding = request.method === "HEAD" ? undefined : codingOf(request, codings)
      if (coding === undefined) return Effect.succeed(withVary(response))
      const compressed = compression.compressResponse(withVary(response), coding, { level: levels[coding] })
      return Effect.map(compressed, (made) =>
        headers.etag === undefined ? made : HttpServerResponse.setHeader(made, "etag", withCoding(headers.etag, coding))
      )
    }
)
