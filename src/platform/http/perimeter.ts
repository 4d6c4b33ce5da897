import { type Effect, type Scope } from "effect"
import { HttpMiddleware, type HttpServerRequest, type HttpServerResponse } from "effect/http"
import { type SettingsValues } from "../settings/settings.ts"

const cors = (allowedOrigins: ReadonlyArray<string>) =>
  HttpMiddleware.cors({
    allowedOrigins,
    allowedMethods: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
    allowedHeaders: [
      "Authorization",
      "Content-Type",
      "Idempotency-Key",
      "If-Match",
      "Last-Event-ID",
      "X-Api-Key",
      "X-Request-Id",
      "traceparent"
    ],
    exposedHeaders: ["ETag", "Idempotency-Replayed", "Link", "Location", "RateLimit", "Retry-After", "X-Request-Id"],
    maxAge: 600
  })

type App<E> = Effect.Effect<HttpServerResponse.HttpServerResponse, E, HttpServerRequest.HttpServerRequest | Scope.Scope>
type Part = <E>(app: App<E>) => App<E>

/** What stands before the service where it is set up: proxies that may speak for callers, origins that may call. */
export const perimeter = (api: SettingsValues["api"]): { readonly middleware?: Part } => {
  const parts: Array<Part> = []
  if (api.cors.allowedOrigins.length > 0) parts.push(cors(api.cors.allowedOrigins))
  if (api.trustedProxies.length > 0) {
    parts.push(HttpMiddleware.xForwardedHeaders({ trustedProxies: api.trustedProxies }))
  }
  return parts.length === 0
    ? {}
    : {
        middleware: <E>(app: App<E>) => {
          let guarded = app
          for (const part of parts) guarded = part(guarded)
          return guarded
        }
      }
}
