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

export const openAiRoutes = [chat, embeddings] as const

/** Chat completions and embeddings, as OpenAI's SDKs call them. */
export const OpenAiChatLayer = Layer.unwrap(
  Effect.map(makeCallRoutes, (route) => Layer.mergeAll(route(chat, openAiErrors), route(embeddings, openAiErrors)))
)
