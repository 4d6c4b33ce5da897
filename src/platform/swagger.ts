import { Effect, Layer } from "effect"
import { Digest } from "effect/crypto"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiSwagger } from "effect/http-api"
import { Api } from "../api.ts"
import { contentSecurityPolicy, prefersHtml } from "./negotiation.ts"
import { openApiDocument } from "./openapi.ts"
import { Settings } from "./settings.ts"

/** The OpenAPI document at /swagger for clients, and Swagger UI there for whoever prefers HTML. */
export const SwaggerLayer = Layer.unwrap(
  Effect.gen(function* () {
    const { api } = yield* Settings
    if (!api.swagger.enabled) return Layer.empty
    const digest = yield* Digest.Digest
    const document = JSON.stringify(openApiDocument(api.publicUrl))
    const json = HttpServerResponse.text(document, { contentType: "application/json" })

    // The page is a megabyte and seldom asked for, so it is made when it is.
    const page = yield* Effect.cached(makePage(document, digest))
    const negotiated = Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      prefersHtml(request) ? page : Effect.succeed(json)
    ).pipe(Effect.map(HttpServerResponse.setHeader("vary", "Accept")))

    return Layer.mergeAll(
      HttpRouter.add("GET", "/swagger", negotiated),
      HttpRouter.add("GET", "/swagger/index.html", page),
      HttpRouter.add("GET", "/swagger/v1/swagger.json", json)
    )
  })
)

const makePage = (document: string, digest: Digest.Digest["Service"]) =>
  Effect.gen(function* () {
    const app = yield* HttpRouter.toHttpEffect(HttpApiSwagger.layer(Api, { path: "/" }))
    const request = HttpServerRequest.fromWeb(new Request("http://localhost/"))
    const shell = yield* Effect.provideService(app, HttpServerRequest.HttpServerRequest, request)
    const html = shell.body._tag === "Uint8Array" ? (shell.body.text ?? "") : ""
    const filled = html.replace(
      /(<script id="swagger-spec"[^>]*>)[\s\S]*?(<\/script>)/,
      (_, open: string, close: string) => `${open}${document.replaceAll("<", "\\u003c")}${close}`
    )
    const hashes = yield* Effect.forEach(filled.matchAll(/<script>([\s\S]*?)<\/script>/g), ([, script = ""]) =>
      Effect.map(digest.digest(Digest.sha256, new TextEncoder().encode(script)), (bytes) =>
        Buffer.from(bytes).toString("base64")
      )
    )
    return HttpServerResponse.text(filled, {
      contentType: "text/html; charset=utf-8",
      headers: { "content-security-policy": contentSecurityPolicy(hashes) }
    })
  }).pipe(Effect.scoped, Effect.orDie)
