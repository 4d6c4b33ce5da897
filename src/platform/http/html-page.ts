import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { problemType } from "../../kernel/problems/problem.ts"
import { prefersHtml } from "./negotiation.ts"
import { problemJson, type RequestInfo } from "./request.ts"

type Response = HttpServerResponse.HttpServerResponse

/** The policy of a page: nothing from other origins, and only scripts with these hashes. */
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

/** A text as HTML shows it. */
export const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;")

/** A page of the service; clients that prefer JSON may get another answer at its path. */
export const htmlPage = (
  title: string,
  body: string,
  { scriptHashes, style = "" }: { readonly scriptHashes?: ReadonlyArray<string>; readonly style?: string } = {}
) =>
  HttpServerResponse.text(
    `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 10vh auto; padding: 0 1rem }${style}
</style>
${body}
</html>
`,
    {
      contentType: "text/html; charset=utf-8",
      headers: { "content-security-policy": contentSecurityPolicy(scriptHashes), vary: "Accept" }
    }
  )

const routeNotFound: string = problemType("route-not-found")

interface Shown {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly traceId: string
}

/**
 * A problem as a page, where a person reads it: of a route that browsers visit, or of none, and asked for as HTML. Its status
 * and headers stay, and it leads to the console, which is below `publicUrl`.
 */
export const asPage = (
  response: Response,
  request: HttpServerRequest.HttpServerRequest,
  { isForBrowsers }: RequestInfo,
  publicUrl: string
): Response => {
  const { body, headers } = response
  if (body._tag !== "Uint8Array" || body.contentType !== problemJson) return response
  if (!isForBrowsers && response.status !== 404) return response
  const problem = JSON.parse(body.text ?? "") as Shown
  if (!isForBrowsers && problem.type !== routeNotFound) return response
  if (!prefersHtml(request)) return HttpServerResponse.setHeader(response, "vary", "Accept")
  const page = htmlPage(
    `${problem.title} · Application Manager`,
    `<h1>${problem.title}</h1>
<p>${escapeHtml(problem.detail)}</p>
<p><a href="${new URL("./console", `${publicUrl}/`).pathname}">Open the console</a></p>
<p><small>Trace id ${problem.traceId}</small></p>`
  )
  const { "content-type": _, ...others } = headers
  return HttpServerResponse.setStatus(HttpServerResponse.setHeaders(page, others), response.status)
}
