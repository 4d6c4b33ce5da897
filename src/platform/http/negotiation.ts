import { type HttpServerRequest } from "effect/http"

/** The weights that a header of negotiation gives to what it names, from 0 to 1 (RFC 9110 §12.4.2). */
export const weightsIn = (header: string): ReadonlyMap<string, number> =>
  new Map(
    header.split(",").map((element) => {
      const [name = "", ...parameters] = element.split(";").map((part) => part.trim().toLowerCase())
      const given = parameters.find((parameter) => parameter.startsWith("q="))
      return [name, given === undefined ? 1 : Number(given.slice(2)) || 0] as const
    })
  )

/** The weight of a media type in an Accept header, by its most specific range (RFC 9110 §12.5.1). */
const quality = (accept: string, type: string): number => {
  const ranges = weightsIn(accept)
  return ranges.get(type) ?? ranges.get(`${type.slice(0, type.indexOf("/"))}/*`) ?? ranges.get("*/*") ?? 0
}

/** Whether an Accept header accepts one of the media types. */
export const accepts = (accept: string, types: ReadonlyArray<string>): boolean =>
  accept === "*/*" || types.some((type) => quality(accept, type) > 0)

/** Whether the caller prefers one media type to the other. */
export const prefers = (request: HttpServerRequest.HttpServerRequest, type: string, otherType: string): boolean => {
  const accept = request.headers.accept
  return accept !== undefined && quality(accept, type) > quality(accept, otherType)
}

/** Whether the caller prefers HTML to JSON. */
export const prefersHtml = (request: HttpServerRequest.HttpServerRequest): boolean =>
  prefers(request, "text/html", "application/json") && prefers(request, "text/html", "application/problem+json")

/** The headers of every response. */
export const securityHeaders = (publicUrl: string): Readonly<Record<string, string>> => ({
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  ...(publicUrl.startsWith("https:") ? { "strict-transport-security": "max-age=31536000" } : {})
})
