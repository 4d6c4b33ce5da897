import { Effect, Fiber, Layer } from "effect"
import { Digest } from "effect/crypto"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApi } from "effect/http-api"
import { RouteNotFound } from "../../kernel/problems/problems.ts"
import { contentSecurityPolicy } from "../http/html-page.ts"
import { prefersHtml } from "../http/negotiation.ts"
import { compressible } from "../http/request.ts"
import { ServedApi } from "../http/served-api.ts"
import { loadLate } from "../runtime/packages.ts"
import { Settings } from "../settings/settings.ts"

const paths = ["/swagger", "/swagger/index.html", "/swagger/v1/swagger.json", "/openapi.json"] as const

const disabled = HttpServerResponse.jsonUnsafe(
  { ...new RouteNotFound({ detail: "The OpenAPI document is not served here: Api:Swagger:Enabled is false." }) },
  { status: 404, contentType: "application/problem+json" }
)

/** Serves the OpenAPI document at /swagger and /openapi.json, and Swagger UI there to clients that prefer HTML. */
export const SwaggerLayer = Layer.unwrap(
  Effect.gen(function* () {
    const { api } = yield* Settings
    if (!api.swagger.enabled) {
      return HttpRouter.addAll(paths.map((path) => HttpRouter.route("GET", path, disabled)))
    }
    const digest = yield* Digest.Digest
    const served = yield* ServedApi

    // Loaded now, since npm ci may replace packages later; what is large is built when it is first requested.
    const openApi = yield* Effect.forkScoped(Effect.promise(() => import("./openapi.ts")))
    const document = yield* Effect.cached(
      Effect.map(Fiber.join(openApi), ({ openApiDocument }) => JSON.stringify(openApiDocument(served, api.publicUrl)))
    )
    const madePage = yield* Effect.cached(Effect.flatMap(document, (text) => makePage(text, digest)))
    // Anyone may ask for these: one body of each is encoded and compressed once.
    const madeJson = yield* Effect.cached(
      Effect.map(document, (text) => HttpServerResponse.text(text, { contentType: "application/json" }))
    )
    const page = Effect.andThen(compressible, madePage)
    const json = Effect.andThen(compressible, madeJson)
    const negotiated = Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      prefersHtml(request) ? page : json
    ).pipe(Effect.map(HttpServerResponse.setHeader("vary", "Accept")))

    return Layer.mergeAll(
      HttpRouter.add("GET", "/swagger", negotiated),
      HttpRouter.add("GET", "/swagger/index.html", page),
      HttpRouter.add("GET", "/swagger/v1/swagger.json", json),
      HttpRouter.add("GET", "/openapi.json", json)
    )
  })
)

// `:root:root:root` outweighs the selectors of Swagger UI's dark mode.
const style = `
:root {
  color-scheme: light dark;
  --page: light-dark(#fafbfc, #14161b); --raised: light-dark(#fff, #1b1e25); --line: light-dark(#dde1e7, #363c48);
  --text: light-dark(#1b1f27, #e6e8ec); --quiet: light-dark(#5a6270, #a0a8b5); --accent: light-dark(#1d4ed8, #8fb0ff);
}
:root:root:root {
  &, body { margin: 0; background: var(--page) }
  .swagger-ui {
    &, :is(a:not(.nostyle), h1, h2, .title, h3, h4, h5, p, li, td, th, label, input, select, button, small, table, .tab, .parameter__name, .response-col_status):not(.microlight *) {
      font-family: system-ui, sans-serif
    }
    :is(.info .title, .info p, .info li, .opblock-tag, .opblock-summary-path, .opblock-summary-description, .header-col, .response-col_status, .response-col_links, td, th, h4, h5, label) {
      color: var(--text)
    }
    :is(a:not(.nostyle), .info a) { color: var(--accent) }
    .info { margin: 2rem 0 1rem; .title { font-size: 1.75rem } }
    .info .title small { background: var(--quiet); &.version-stamp { background: var(--accent) } pre { color: var(--page) } }
    background: none;
    .scheme-container { margin: 0; padding: 1rem 0; background: none; box-shadow: none; border-block: 1px solid var(--line) }
    .btn.authorize { color: var(--accent); border-color: var(--accent); svg { fill: var(--accent) } }
    .opblock-tag { border-color: var(--line); font-size: 1.125rem; padding: .5rem 0; small { color: var(--quiet) } }
    .opblock.opblock { background: var(--raised); border-color: var(--line); border-radius: 6px; box-shadow: none; .opblock-summary { border-color: var(--line) } }
    .opblock-section-header.opblock-section-header { background: none; box-shadow: none; border-block: 1px solid var(--line) }
    section.models { border-color: var(--line); .model-container { background: var(--raised) } }
  }
  .operation-filter {
    box-sizing: border-box; width: 100%; margin: 1rem 0 .5rem; padding: .625rem .875rem; border: 1px solid var(--line); border-radius: 6px;
    background: var(--raised); color: var(--text); font: 1rem/1.5 system-ui, sans-serif
  }
}
`

/** Starts Swagger UI collapsed, with links to operations, and with a filter that searches more than tags. */
const script = `
const scheme = matchMedia("(prefers-color-scheme: dark)")
const follow = () => document.documentElement.classList.toggle("dark-mode", scheme.matches)
scheme.addEventListener("change", follow)
follow()
const textOf = (tag, operation) =>
  [tag, operation.get("method"), operation.get("path")]
    .concat(["operationId", "summary", "description"].map((member) => operation.getIn(["operation", member])))
    .join(" ")
    .toLowerCase()
const filtered = (groups, phrase) => {
  const words = phrase.toLowerCase().split(" ")
  const matches = (tag) => (operation) => words.every((word) => textOf(tag, operation).includes(word))
  return groups
    .map((group, tag) => group.update("operations", (operations) => operations.filter(matches(tag))))
    .filter((group) => group.get("operations").size > 0)
}
const Filter = (_, { React }) => ({ layoutActions, layoutSelectors, specSelectors }) => {
  const current = layoutSelectors.currentFilter()
  const onChange = ({ target }) => {
    const phrase = target.value
    layoutActions.updateFilter(phrase === "" ? true : phrase)
    specSelectors.tags().forEach((tag) => layoutActions.show(["operations-tag", tag.get("name")], phrase !== ""))
  }
  const label = "Filter by path, name or description"
  const value = current === true ? "" : current
  const input = { "aria-label": label, className: "operation-filter", onChange, placeholder: label, type: "search", value }
  return React.createElement("div", { className: "wrapper" }, React.createElement("input", input))
}
const options = {
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  plugins: [{ fn: { opsFilter: filtered }, wrapComponents: { FilterContainer: Filter } }]
}
`

/** Effect's Swagger UI page, with an empty document. */
const shell = Effect.gen(function* () {
  const HttpApiSwagger = yield* Effect.promise(() => import("effect/http-api/HttpApiSwagger"))
  const app = yield* HttpRouter.toHttpEffect(HttpApiSwagger.layer(HttpApi.make("shell"), { path: "/" }))
  const request = HttpServerRequest.fromWeb(new Request("http://localhost/"))
  const { body } = yield* Effect.provideService(app, HttpServerRequest.HttpServerRequest, request)
  return body._tag === "Uint8Array" ? (body.text ?? "") : ""
}).pipe(Effect.scoped)

/** The page with our document, style and options, and a policy that allows its script only. */
const makePage = Effect.fnUntraced(function* (document: string, digest: Digest.Digest["Service"]) {
  // Loaded when the page is first opened, since its script takes 25 MB of memory.
  const html = yield* loadLate(() => Effect.runPromise(shell))
  const filled = html
    .replace(/<title>.*<\/title>/, '<title>API · Application Manager</title><link rel="icon" href="data:,">')
    .replace("</style>", () => `${style}</style>`)
    .replace("window.onload =", () => `${script}window.onload =`)
    .replace("SwaggerUIBundle({", "SwaggerUIBundle({ ...options,")
    .replace(
      /(<script id="swagger-spec"[^>]*>)[\s\S]*?(<\/script>)/,
      (_, open: string, close: string) => `${open}${document.replaceAll("<", "\\u003c")}${close}`
    )
  const hashes = yield* Effect.forEach(filled.matchAll(/<script>([\s\S]*?)<\/script>/g), ([, code = ""]) =>
    Effect.map(digest.digest(Digest.sha256, new TextEncoder().encode(code)), (bytes) =>
      Buffer.from(bytes).toString("base64")
    )
  )
  return HttpServerResponse.text(filled, {
    contentType: "text/html; charset=utf-8",
    headers: { "content-security-policy": contentSecurityPolicy(hashes) }
  })
}, Effect.orDie)
