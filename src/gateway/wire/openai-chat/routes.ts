import { Effect, Layer } from "effect"
import { type CallRoute, makeCallRoutes } from "../http/serve.ts"
import { openAiErrors } from "./errors.ts"

const chat: CallRoute = {
  path: "/v1/chat/completions",
  dialect: "openai",
  operation: "chat",
  capability: "llm:complete"
}
const embeddings: CallRoute = {
  path: "/v1/embeddings",
  dialect: "openai",
  operation: "embed",
  capability: "llm:embed"
}
/** The older API, which editors use to complete text. */
const completions: CallRoute = {
  path: "/v1/completions",
  dialect: "openai",
  operation: "completions",
  capability: "llm:complete"
}

export const openAiRoutes = [chat, embeddings, completions] as const

/** Chat completions, text completions and embeddings, as OpenAI's SDKs call them. */
export const OpenAiChatLayer = Layer.unwrap(
  Effect.map(makeCallRoutes, (route) =>
    Layer.mergeAll(route(chat, openAiErrors), route(embeddings, openAiErrors), route(completions, openAiErrors))
  )
)
