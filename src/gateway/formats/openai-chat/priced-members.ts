import { type PricedMembers } from "../token-upper-bound.ts"

/** Members of the APIs of OpenAI and of their providers that add costs beyond the tokens. */
export const openAiPriced: PricedMembers = [
  ["service_tier", ["auto", "default", "flex"]],
  ["audio", []],
  ["moderation", []],
  // xAI bills its search per source; OpenRouter routes to models and providers of the caller's choice, and bills plugins.
  ["search_parameters", []],
  ["models", []],
  ["provider", []],
  // LiteLLM, Vercel's gateway and OpenRouter call other models by these.
  ["fallbacks", []],
  ["providerOptions", []],
  ["preset", []],
  ["plugins", []]
]
