import { Effect } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { hasSessionCookie } from "../access/session-cookie.ts"
import { RouteNotFound } from "../kernel/problems/problems.ts"
import { codingOf } from "../platform/http/compression.ts"
import { htmlPage } from "../platform/http/html-page.ts"

const directory = path.resolve(import.meta.dirname, "../../dist/console")

const types: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".woff2": "font/woff2"
}

/** Only what the console brings itself: nothing from other origins, and no script or style within a page. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "font-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'"
].join("; ")

const contentOf = (file: string) => Effect.promise(() => fs.readFile(path.join(directory, file)).catch(() => undefined))

/** A file of the build, in gzip where the caller reads it; undefined when there is none. */
const served = Effect.fnUntraced(function* (file: string, headers: Readonly<Record<string, string>>) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const compressed = codingOf(request, ["gzip"]) === undefined ? undefined : yield* contentOf(`${file}.gz`)
  const content = compressed ?? (yield* contentOf(file))
  if (content === undefined) return
  return HttpServerResponse.uint8Array(content, {
    contentType: types[path.extname(file)] ?? "application/octet-stream",
    headers: {
      vary: "Accept-Encoding",
      ...headers,
      ...(compressed === undefined ? {} : { "content-encoding": "gzip" })
    }
  })
})

const notBuilt = HttpServerResponse.setStatus(
  htmlPage(
    "The console is not built",
    `<h1>The console is not built</h1>
<p><code>npm start</code> builds it where the development packages are installed, and so does <code>npm run build:console</code>.</p>`
  ),
  503
)

const pageHeaders = {
  "cache-control": "no-cache",
  "content-security-policy": contentSecurityPolicy,
  vary: "Accept-Encoding, Cookie"
}

/** The page as a browser without a session gets it: it says so, and the page need not ask who is signed in. */
const signedOutPage = Effect.map(contentOf("index.html"), (content) =>
  content === undefined
    ? undefined
    : HttpServerResponse.text(content.toString().replace("<html ", '<html data-session="none" '), {
        contentType: types[".html"]!,
        headers: pageHeaders
      })
)

const page = Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
  Effect.map(
    hasSessionCookie(headers.cookie) ? served("index.html", pageHeaders) : signedOutPage,
    (found) => found ?? notBuilt
  )
)

const noSuchFile = HttpServerResponse.jsonUnsafe(
  { ...new RouteNotFound({}) },
  { status: 404, contentType: "application/problem+json" }
)

// The build names files after their content, so that a name never gets another one.
const asset = Effect.flatMap(HttpRouter.params, ({ file = "" }) =>
  /^[\w-][\w.-]*$/.test(file)
    ? Effect.map(
        served(`assets/${file}`, { "cache-control": "public, max-age=31536000, immutable" }),
        (found) => found ?? noSuchFile
      )
    : Effect.succeed(noSuchFile)
)

/** The management console: every path below /console is a page of it, which its own script shows. */
export const ConsoleLayer = HttpRouter.addAll([
  HttpRouter.route("GET", "/console/assets/:file", asset),
  HttpRouter.route("GET", "/console/*", page)
])
