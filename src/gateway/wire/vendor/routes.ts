import { Effect, Layer } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { type MethodNotAllowed, RouteNotFound } from "../../../kernel/problems/problems.ts"
import { Settings } from "../../../platform/settings/settings.ts"
import { gatewayError, type GatewayError, invalidMember } from "../../errors/gateway-error.ts"
import { dialectOf, dialects, routedFormats } from "../../formats/registry/formats.ts"
import { BatchesLayer, batchPaths } from "../batches/routes.ts"
import { GeminiLayer, modelsAllow } from "../gemini/routes.ts"
import { makeCallRoutes, methodNotServed, vendorRoute } from "../http/serve.ts"
import { OpenAiRealtimeLayer } from "../openai-realtime/routes.ts"
import { OpenAiResponsesLayer, responsesPaths } from "../openai-responses/routes.ts"
import { ModelsLayer } from "./models.ts"

export const gatewayRoutes = routedFormats.flatMap(({ operation, route }) =>
  route === undefined ? [] : [{ ...route, operation }]
)

/** The paths that the gateway serves, as an error lists them. */
const served = [
  ...gatewayRoutes.map(({ path }) => path),
  "/v1/responses",
  "/v1/realtime",
  "/v1/files",
  "/v1/batches",
  "/v1/messages/batches",
  "/v1/models"
].join(", ")

/** Paths of the vendors that a client finds when its base URL has no `/v1`. */
const withoutVersion = [
  "/chat/completions",
  "/completions",
  "/embeddings",
  "/moderations",
  "/images/*",
  "/audio/*",
  "/rerank",
  "/responses",
  "/realtime",
  "/files",
  "/batches",
  "/models/*",
  "/messages"
] as const

const unknownPath = (url: string, publicUrl: string): GatewayError<RouteNotFound> => {
  const [path = ""] = url.split("?")
  const bases = `the base URL of OpenAI's clients is ${publicUrl}/v1, that of Anthropic's and of Google's is ${publicUrl}`
  const detail = path.startsWith("/v1/v1")
    ? `The base URL contains /v1 twice: ${bases}.`
    : !/^\/v[12](?:\/|$)/.test(path)
      ? `The base URL lacks /v1: ${bases}.`
      : `The gateway serves nothing at this path. It serves ${served}.`
  return gatewayError(new RouteNotFound({ detail }))
}

const allowedAt = (url: string): string | undefined => {
  const [path = ""] = url.split("?")
  if (path === "/v1" || path === "/v1/") return "GET, HEAD"
  const methods = [...responsesPaths, ...batchPaths].find(([form]) => form.test(path))?.[1]
  if (methods !== undefined) return `${methods}, OPTIONS`
  if (gatewayRoutes.some((route) => route.path === path)) return "POST, OPTIONS"
  return modelsAllow(path)
}

/** Some clients ask for the base URL itself, to see whether the service is there. */
const base = HttpServerResponse.jsonUnsafe({ object: "gateway", paths: served.split(", ") })

const noWebSocket = invalidMember(
  "upgrade",
  "The gateway has WebSockets at /v1/responses and /v1/realtime alone: POST the request, with `stream: true` for its events."
)

/** Unsupported methods, and paths that do not exist. */
const notServed =
  (publicUrl: string) =>
  ({
    headers,
    method,
    url
  }: HttpServerRequest.HttpServerRequest): Effect.Effect<
    HttpServerResponse.HttpServerResponse,
    GatewayError<MethodNotAllowed | RouteNotFound> | GatewayError
  > => {
    if (headers.upgrade?.toLowerCase() === "websocket") return Effect.fail(noWebSocket)
    const allow = allowedAt(url)
    if (allow === "GET, HEAD" && (method === "GET" || method === "HEAD")) return Effect.succeed(base)
    if (allow === undefined) return Effect.fail(unknownPath(url, publicUrl))
    if (method === "OPTIONS") return Effect.succeed(HttpServerResponse.empty({ status: 204, headers: { allow } }))
    return Effect.fail(methodNotServed(method, allow))
  }

/**
 * Other paths below `/v1` and `/v2`, and the vendors' paths without it: the vendors' SDKs do not read problem details, and would
 * report an empty response.
 */
const UnknownPathsLayer = Layer.unwrap(
  Effect.map(Settings, ({ api: { publicUrl } }) => {
    const unknown = (path: `/${string}`) =>
      vendorRoute("*", path, (request) => dialectOf(request).errors, notServed(publicUrl))
    return Layer.mergeAll(unknown("/v1/*"), unknown("/v2/*"), ...withoutVersion.map(unknown))
  })
)

/** The formats that have a path of their own. */
const FormatsLayer = Layer.unwrap(
  Effect.map(makeCallRoutes, (serve) =>
    Layer.mergeAll(
      Layer.empty,
      ...routedFormats.flatMap((format) =>
        format.route === undefined ? [] : [serve(format, format.route, dialects[format.dialect].errors)]
      )
    )
  )
)

/** `/v1/*`: the APIs of the vendors, errors included. */
export const VendorRoutesLayer = Layer.mergeAll(
  FormatsLayer,
  OpenAiResponsesLayer,
  OpenAiRealtimeLayer,
  BatchesLayer,
  GeminiLayer,
  ModelsLayer,
  UnknownPathsLayer
)
