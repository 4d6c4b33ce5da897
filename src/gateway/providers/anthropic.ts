import { type Vendor } from "./http-provider.ts"

/** Anthropic; `baseUrl` has no `/v1` at its end. */
export const anthropic: Vendor = {
  dialect: "anthropic",
  paths: { chat: "/v1/messages", "count-tokens": "/v1/messages/count_tokens" },
  modelsPath: "/v1/models?limit=1000",
  headers: { "anthropic-version": "2023-06-01" },
  authorize: (apiKey) => ({ "x-api-key": apiKey })
}
