import { type Effect, type Scope } from "effect"
import { HttpMiddleware, type HttpServerRequest, type HttpServerResponse } from "effect/http"
import { type SettingsValues } from "../settings/settings.ts"

const corsFor = (allowedOrigins: ReadonlyArray<string>) =>
  HttpMiddleware.cors({
    allowedOrigins,
    allowedMethods: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
    allowedHeaders: [
      "Authorization",
      "Content-Type",
      "Idempotency-Key",
      "If-Match",
      "If-None-Match",
      "Last-Event-ID",
      "X-Api-Key",
      "X-Request-Id",
      "traceparent"
    ],
    exposedHeaders: ["ETag", "Idempotency-Replayed", "Link", "Location", "RateLimit", "Retry-After", "X-Request-Id"],
    maxAge: 600
  })

type App<E> = Effect.Effect<HttpServerResponse.HttpServerResponse, E, HttpServerRequest.HttpServerRequest | Scope.Scope>
type Middleware = <E>(app: App<E>) => App<E>

/** Middleware ahead of the routes, as configured: CORS for allowed origins, and forwarded headers of trusted proxies. */
export const cors = (api: SettingsValues["api"]): { readonly middleware?: Middleware } => {
  const middlewares: Array<Middleware> = []
  if (api.cors.allowedOrigins.length > 0) middlewares.push(corsFor(api.cors.allowedOrigins))
  if (api.trustedProxies.length > 0) {
    middlewares.push(HttpMiddleware.xForwardedHeaders({ trustedProxies: api.trustedProxies }))
  }
  return middlewares.length === 0
    ? {}
    : { middleware: (app) => middlewares.reduce((inner, outer) => outer(inner), app) }
}
