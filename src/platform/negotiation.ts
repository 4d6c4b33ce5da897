import { type HttpServerRequest } from "effect/http"

const weight = (accept: string, wanted: ReadonlyArray<string>): number => {
  let best = 0
  for (const range of accept.split(",")) {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase())
    if (!wanted.includes(type)) continue
    const quality = parameters.find((parameter) => parameter.startsWith("q="))
    best = Math.max(best, quality === undefined ? 1 : Number(quality.slice(2)) || 0)
  }
  return best
}

/** Whether the caller would rather have a page than JSON: it names HTML, with a weight above that of JSON. */
export const prefersHtml = (request: HttpServerRequest.HttpServerRequest): boolean => {
  const accept = request.headers.accept
  if (accept === undefined) return false
  const html = weight(accept, ["text/html", "application/xhtml+xml"])
  return html > 0 && html > weight(accept, ["application/json", "application/problem+json"])
}

/** Whether the caller would rather have one media type than the other: it names the one, with a higher weight. */
export const prefers = (request: HttpServerRequest.HttpServerRequest, type: string, otherType: string): boolean => {
  const accept = request.headers.accept
  if (accept === undefined) return false
  const wanted = weight(accept, [type])
  return wanted > 0 && wanted > weight(accept, [otherType])
}

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
