import { lookupTable } from "../../kernel/lookup-table.ts"
import { type Dialect } from "../formats/domain.ts"

/** A vendor of the catalogue, and the service of its own that has its models. */
export interface Vendor {
  /** What the catalogue calls it, and what its provider is usually called. */
  readonly id: string
  readonly name: string
  readonly dialect: Dialect
  readonly baseUrl: string
}

/** The vendors whose models the catalogue knows. */
export const vendors: ReadonlyArray<Vendor> = [
  { id: "openai", name: "OpenAI", dialect: "openai", baseUrl: "https://api.openai.com/v1" },
  { id: "anthropic", name: "Anthropic", dialect: "anthropic", baseUrl: "https://api.anthropic.com" },
  { id: "google", name: "Google", dialect: "gemini", baseUrl: "https://generativelanguage.googleapis.com/v1beta" },
  { id: "x-ai", name: "xAI", dialect: "openai", baseUrl: "https://api.x.ai/v1" },
  { id: "mistral-ai", name: "Mistral", dialect: "openai", baseUrl: "https://api.mistral.ai/v1" },
  { id: "groq", name: "Groq", dialect: "openai", baseUrl: "https://api.groq.com/openai/v1" },
  { id: "cohere", name: "Cohere", dialect: "openai", baseUrl: "https://api.cohere.ai/compatibility/v1" },
  { id: "moonshot", name: "Moonshot", dialect: "openai", baseUrl: "https://api.moonshot.ai/v1" },
  { id: "cerebras", name: "Cerebras", dialect: "openai", baseUrl: "https://api.cerebras.ai/v1" },
  { id: "deepseek", name: "DeepSeek", dialect: "openai", baseUrl: "https://api.deepseek.com/v1" },
  { id: "voyage", name: "Voyage AI", dialect: "openai", baseUrl: "https://api.voyageai.com/v1" }
]

const vendorHosts = lookupTable<string>({
  ...Object.fromEntries(vendors.map(({ baseUrl, id }) => [new URL(baseUrl).hostname, id])),
  "api.cohere.com": "cohere"
})

/** The vendor at a base URL, if the catalogue knows it. */
export const vendorAt = (baseUrl: string): string | undefined => vendorHosts[URL.parse(baseUrl)?.hostname ?? ""]
