import { Effect, Layer } from "effect"
import { type CallRoute, makeCallRoutes } from "../http/serve.ts"
import { anthropicErrors } from "./errors.ts"

const messages: CallRoute = {
  path: "/v1/messages",
  dialect: "anthropic",
  operation: "chat",
  capability: "llm:complete"
}
const countTokens: CallRoute = {
  path: "/v1/messages/count_tokens",
  dialect: "anthropic",
  operation: "count-tokens",
  capability: "llm:complete"
}

export const anthropicRoutes = [messages, countTokens] as const

/** Messages and token counts, as Anthropic's SDKs call them. */
export const AnthropicMessagesLayer = Layer.unwrap(
  Effect.map(makeCallRoutes, (route) =>
    Layer.mergeAll(route(messages, anthropicErrors), route(countTokens, anthropicErrors))
  )
)
