import { Effect, Layer } from "effect"
import { Digest } from "effect/crypto"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { contentSecurityPolicy, prefersHtml } from "../http/negotiation.ts"
import { ServedApi } from "../http/served-api.ts"
import { Settings } from "../settings/settings.ts"

/** The OpenAPI document at /swagger for clients, and Swagger UI there for whoever prefers HTML. */
export const SwaggerLayer = Layer.unwrap(
  Effect.gen(function* () {
    const { api } = yield* Settings
    if (!api.swagger.enabled) return Layer.empty
    const digest = yield* Digest.Digest
    const served = yield* ServedApi

    // Both are seldom asked for and large, so they are made when they are, and kept.
    const document = yield* Effect.cached(
      Effect.map(
        Effect.promise(() => import("./openapi.ts")),
        ({ openApiDocument }) => JSON.stringify(openApiDocument(served, api.publicUrl))
      )
    )
    const page = yield* Effect.cached(Effect.flatMap(document, (text) => makePage(served, text, digest)))
    const json = Effect.map(document, (text) => HttpServerResponse.text(text, { contentType: "application/json" }))
    const negotiated = Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      prefersHtml(request) ? page : json
    ).pipe(Effect.map(HttpServerResponse.setHeader("vary", "Accept")))

    return Layer.mergeAll(
      HttpRouter.add("GET", "/swagger", negotiated),
      HttpRouter.add("GET", "/swagger/index.html", page),
      HttpRouter.add("GET", "/swagger/v1/swagger.json", json)
    )
  })
)

/** Effect's Swagger UI page around our own document, with a policy that lets just its script run. */
const makePage = (served: ServedApi["Service"], document: string, digest: Digest.Digest["Service"]) =>
  Effect.gen(function* () {
    const HttpApiSwagger = yield* Effect.promise(() => import("effect/http-api/HttpApiSwagger"))
    const app = yield* HttpRouter.toHttpEffect(HttpApiSwagger.layer(served, { path: "/" }))
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
