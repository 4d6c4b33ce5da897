import { Effect, Layer } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { MethodNotAllowed, RouteNotFound } from "../../../kernel/problems.ts"
import { AnthropicMessagesLayer, anthropicRoutes } from "../anthropic-messages/routes.ts"
import { anthropicErrors } from "../anthropic-messages/errors.ts"
import { gatewayError, type GatewayError } from "../../errors/gateway-error.ts"
import { serve } from "../http/serve.ts"
import { openAiErrors } from "../openai-chat/errors.ts"
import { OpenAiChatLayer, openAiRoutes } from "../openai-chat/routes.ts"
import { OpenAiResponsesLayer, responsesPaths } from "../openai-responses/routes.ts"
import { ModelsLayer } from "./models.ts"

export const gatewayRoutes = [...openAiRoutes, ...anthropicRoutes] as const

const unknownPath = gatewayError(new RouteNotFound({ detail: "The gateway serves nothing at this path." }))

const allowedAt = (url: string): string | undefined => {
  const [path = ""] = url.split("?")
  const methods = responsesPaths.find(([form]) => form.test(path))?.[1]
  if (methods !== undefined) return `${methods}, OPTIONS`
  if (gatewayRoutes.some((route) => route.path === path)) return "POST, OPTIONS"
  return path === "/v1/models" || path.startsWith("/v1/models/") ? "GET, HEAD, OPTIONS" : undefined
}

/** Unsupported methods, and paths that do not exist. */
const notServed = ({
  method,
  url
}: HttpServerRequest.HttpServerRequest): Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  GatewayError<MethodNotAllowed | RouteNotFound>
> => {
  const allow = allowedAt(url)
  if (allow === undefined) return Effect.fail(unknownPath)
  if (method === "OPTIONS") return Effect.succeed(HttpServerResponse.empty({ status: 204, headers: { allow } }))
  const detail = `The gateway does not serve ${method} at this path.`
  return Effect.fail(gatewayError(new MethodNotAllowed({ detail }), { headers: { allow } }))
}

const isAnthropic = ({ headers, url }: HttpServerRequest.HttpServerRequest): boolean =>
  url.startsWith("/v1/messages") || headers["anthropic-version"] !== undefined

/** Other paths below `/v1`: the vendors' SDKs do not read problem details, and would report an empty response. */
const UnknownPathsLayer = HttpRouter.add(
  "*",
  "/v1/*",
  serve("/v1/*", (request) => (isAnthropic(request) ? anthropicErrors : openAiErrors), notServed)
)

/** `/v1/*`: the APIs of OpenAI and Anthropic, errors included. */
export const VendorRoutesLayer = Layer.mergeAll(
  OpenAiChatLayer,
  OpenAiResponsesLayer,
  AnthropicMessagesLayer,
  ModelsLayer,
  UnknownPathsLayer
)
