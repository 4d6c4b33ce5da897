import { type HttpServerRequest } from "effect/http"

/** How much an Accept header wants a media type, from 0 to 1: as its most specific range says (RFC 9110 §12.5.1). */
const quality = (accept: string, type: string): number => {
  const ranges = new Map(
    accept.split(",").map((range) => {
      const [name = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase())
      const given = parameters.find((parameter) => parameter.startsWith("q="))
      return [name, given === undefined ? 1 : Number(given.slice(2)) || 0] as const
    })
  )
  return ranges.get(type) ?? ranges.get(`${type.slice(0, type.indexOf("/"))}/*`) ?? ranges.get("*/*") ?? 0
}

/** Whether an Accept header lets one of the media types through. */
export const accepts = (accept: string, types: ReadonlyArray<string>): boolean =>
  accept === "*/*" || types.some((type) => quality(accept, type) > 0)

/** Whether the caller would rather have one media type than the other. */
export const prefers = (request: HttpServerRequest.HttpServerRequest, type: string, otherType: string): boolean => {
  const accept = request.headers.accept
  return accept !== undefined && quality(accept, type) > quality(accept, otherType)
}

/** Whether the caller would rather have a page than JSON. */
export const prefersHtml = (request: HttpServerRequest.HttpServerRequest): boolean =>
  prefers(request, "text/html", "application/json") && prefers(request, "text/html", "application/problem+json")

/** A page's policy: nothing from elsewhere, and no script but the ones named by their hash. */
export const contentSecurityPolicy = (scriptHashes: ReadonlyArray<string> = []): string =>
  [
    "default-src 'none'",
    `script-src ${scriptHashes.length === 0 ? "'none'" : scriptHashes.map((hash) => `'sha256-${hash}'`).join(" ")}`,
    "style-src 'unsafe-inline'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'"
  ].join("; ")
