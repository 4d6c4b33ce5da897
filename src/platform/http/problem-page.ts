import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { problemType } from "../../kernel/problems/problem.ts"
import { escapeHtml, htmlPage } from "./html-page.ts"
import { prefersHtml } from "./negotiation.ts"
import { problemJson, type RequestInfo } from "./request.ts"

type Response = HttpServerResponse.HttpServerResponse

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
  if (body._tag !== "Uint8Array" || body.contentType !== problemJson || !prefersHtml(request)) return response
  const problem = JSON.parse(body.text ?? "") as Shown
  if (!isForBrowsers && problem.type !== routeNotFound) return response
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
