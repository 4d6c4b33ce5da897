import { Effect } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { HttpApi } from "effect/http-api"
import { MethodNotAllowed } from "../../kernel/problems/problems.ts"
import { ServedApi } from "../http/served-api.ts"

const methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "QUERY", "TRACE"] as const
const pages = [
  "/",
  "/favicon.ico",
  "/openapi.json",
  "/swagger",
  "/swagger/index.html",
  "/swagger/v1/swagger.json",
  "/problems",
  "/problems/:slug",
  "/metrics",
  "/console/*",
  "/console/assets/:file"
]

/** The paths whose format is that of OAuth, beside the groups of the API. */
const oauth: ReadonlyArray<readonly [path: string, methods: ReadonlyArray<string>]> = [
  ["/oauth2/token", ["POST"]],
  ["/oauth2/introspect", ["POST"]],
  ["/oauth2/revoke", ["POST"]],
  ["/api/applications/register", ["POST"]],
  ["/api/applications/register/:clientId", ["GET", "PUT", "DELETE"]]
]

/**
 * Answers 405 with `Allow` for the methods that a path does not have (RFC 9110 §15.5.6). The gateway's own paths answer it
 * in the format of each SDK.
 */
export const AllowedMethodsLayer = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const served = new Map<string, Set<string>>(pages.map((path) => [path, new Set(["GET"])]))
    for (const [path, allowed] of oauth) served.set(path, new Set(allowed))
    HttpApi.reflect(yield* ServedApi, {
      onGroup: () => {},
      onEndpoint: ({ endpoint }) => {
        const path = endpoint.path
        served.set(path, (served.get(path) ?? new Set()).add(endpoint.method))
      }
    })
    for (const [path, allowed] of served) {
      const answer = HttpServerResponse.jsonUnsafe(
        { ...new MethodNotAllowed({}) },
        {
          status: 405,
          contentType: "application/problem+json",
          headers: { allow: [...allowed, ...(allowed.has("GET") ? ["HEAD"] : []), "OPTIONS"].join(", ") }
        }
      )
      yield* router.addAll(
        methods
          .filter((method) => !allowed.has(method))
          .map((method) => HttpRouter.route(method, path as HttpRouter.PathInput, answer))
      )
      yield* router.add(
        "OPTIONS",
        path as HttpRouter.PathInput,
        HttpServerResponse.empty({ status: 204, headers: { allow: answer.headers.allow } })
      )
    }
  })
)
