import { type Vendor } from "./http-provider.ts"

/** OpenAI, and the many that speak its dialect; `baseUrl` ends in `/v1`. */
export const openAi: Vendor = {
  dialect: "openai",
  paths: { chat: "/chat/completions", embed: "/embeddings" },
  modelsPath: "/models",
  headers: {},
  authorize: (apiKey) => ({ authorization: `Bearer ${apiKey}` })
}
