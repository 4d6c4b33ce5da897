import { lookupTable } from "../../kernel/lookup-table.ts"
import { type ConfiguredCredential } from "../credentials/domain.ts"
import { type Dialect, type ProviderApi } from "../formats/domain.ts"
import { type ConfiguredProvider } from "./configuration-domain.ts"

/** What authorizes requests: a key, nothing, or a credential by its type and, of federation, its vendor. */
export type Authorization =
  | "key"
  | "none"
  | Exclude<ConfiguredCredential["type"], "federation" | "key">
  | `federation:${Extract<ConfiguredCredential, { readonly type: "federation" }>["vendor"]}`

/** A service that has models, as a provider of it is configured. */
export interface Vendor {
  /** What the catalogue calls it where it knows its models, and what its provider is usually called. */
  readonly id: string
  readonly name: string
  readonly dialect: Dialect
  /** With `{region}` or `{resource}` where these are a part of it. */
  readonly baseUrl: string
  /** Base URLs of regions that have one of their own form. */
  readonly regions?: Readonly<Record<string, string>>
  readonly platform?: Exclude<ConfiguredProvider["platform"], "direct" | undefined>
  /** What it speaks, where that is not all that is usual for the dialect. */
  readonly apis?: ReadonlyArray<ProviderApi>
  readonly reportsCost?: string
  /** What its requests may be authorized by, the usual one first; a key alone unless given. */
  readonly authorizations?: ReadonlyArray<Authorization>
  /** Whether it runs on machines of one's own, so that its address tells nothing about it. */
  readonly isOwn?: true
}

const vertexAddresses = {
  baseUrl: "https://{region}-aiplatform.googleapis.com",
  regions: {
    global: "https://aiplatform.googleapis.com",
    us: "https://aiplatform.us.rep.googleapis.com",
    eu: "https://aiplatform.eu.rep.googleapis.com"
  },
  platform: "vertex",
  authorizations: ["google"]
} as const

const own = { isOwn: true, authorizations: ["none", "key"] } as const

/**
 * The vendors of which a provider can be added by name: those whose models the catalogue knows, the clouds, and what else serves
 * models in one of the dialects (their documentation, November 2026).
 */
export const vendors: ReadonlyArray<Vendor> = [
  {
    id: "openai",
    name: "OpenAI",
    dialect: "openai",
    baseUrl: "https://api.openai.com/v1",
    authorizations: ["key", "federation:openai"]
  },
  {
    id: "anthropic",
    name: "Anthropic",
    dialect: "anthropic",
    baseUrl: "https://api.anthropic.com",
    authorizations: ["key", "federation:anthropic"]
  },
  { id: "google", name: "Google", dialect: "gemini", baseUrl: "https://generativelanguage.googleapis.com/v1beta" },
  // docs.x.ai/developers/rest-api-reference/inference: its speech has paths of its own, its voice is billed by the minute.
  {
    id: "x-ai",
    name: "xAI",
    dialect: "openai",
    baseUrl: "https://api.x.ai/v1",
    apis: ["chat", "responses", "images"]
  },
  { id: "mistral-ai", name: "Mistral", dialect: "openai", baseUrl: "https://api.mistral.ai/v1" },
  { id: "groq", name: "Groq", dialect: "openai", baseUrl: "https://api.groq.com/openai/v1" },
  { id: "cohere", name: "Cohere", dialect: "openai", baseUrl: "https://api.cohere.ai/compatibility/v1" },
  { id: "moonshot", name: "Moonshot", dialect: "openai", baseUrl: "https://api.moonshot.ai/v1" },
  { id: "cerebras", name: "Cerebras", dialect: "openai", baseUrl: "https://api.cerebras.ai/v1" },
  { id: "deepseek", name: "DeepSeek", dialect: "openai", baseUrl: "https://api.deepseek.com/v1" },
  // By deployment: openai 6.49.0, AzureOpenAI; learn.microsoft.com/azure/foundry/openai/realtime-audio-reference.
  {
    id: "azure",
    name: "Azure OpenAI",
    dialect: "openai",
    baseUrl: "https://{resource}.openai.azure.com/openai/v1",
    platform: "azure",
    apis: ["chat", "responses", "completions", "embeddings", "images", "transcriptions", "speech", "realtime"],
    authorizations: ["key", "entra"]
  },
  {
    id: "azure-claude",
    name: "Azure, Claude",
    dialect: "anthropic",
    baseUrl: "https://{resource}.services.ai.azure.com/anthropic",
    authorizations: ["key", "entra"]
  },
  {
    id: "bedrock",
    name: "Amazon Bedrock, OpenAI's API",
    dialect: "openai",
    baseUrl: "https://bedrock-runtime.{region}.amazonaws.com/openai/v1",
    platform: "bedrock",
    apis: ["chat", "responses"],
    authorizations: ["aws", "key"]
  },
  {
    id: "bedrock-claude",
    name: "Amazon Bedrock, Claude",
    dialect: "anthropic",
    baseUrl: "https://bedrock-runtime.{region}.amazonaws.com/anthropic",
    platform: "bedrock",
    authorizations: ["aws", "key"]
  },
  { id: "vertex", name: "Vertex AI, Gemini", dialect: "gemini", ...vertexAddresses },
  { id: "vertex-claude", name: "Vertex AI, Claude", dialect: "anthropic", ...vertexAddresses },
  { id: "vertex-models", name: "Vertex AI, other models", dialect: "openai", ...vertexAddresses },
  // openrouter.ai/blog/insights/every-modality-one-api: its images and transcriptions have forms of their own (openrouter-stt
  // of openrouterteam/skills); of its speech and of its Responses API, a beta, no document of the form was found.
  {
    id: "openrouter",
    name: "OpenRouter",
    dialect: "openai",
    baseUrl: "https://openrouter.ai/api/v1",
    apis: ["chat", "completions", "embeddings", "rerank"],
    authorizations: ["key", "federation:openrouter"],
    reportsCost: "usage.cost"
  },
  {
    id: "together",
    name: "Together AI",
    dialect: "openai",
    baseUrl: "https://api.together.ai/v1",
    apis: ["chat", "completions", "embeddings"]
  },
  {
    id: "fireworks",
    name: "Fireworks AI",
    dialect: "openai",
    baseUrl: "https://api.fireworks.ai/inference/v1",
    apis: ["chat", "responses", "completions", "embeddings", "rerank"]
  },
  {
    id: "perplexity",
    name: "Perplexity",
    dialect: "openai",
    baseUrl: "https://api.perplexity.ai/v1",
    apis: ["responses"],
    reportsCost: "usage.cost.total_cost"
  },
  // No document that lists all of its paths was found.
  {
    id: "nvidia",
    name: "NVIDIA NIM",
    dialect: "openai",
    baseUrl: "https://integrate.api.nvidia.com/v1",
    apis: ["chat", "completions", "embeddings"]
  },
  // docs.voyageai.com/reference.
  {
    id: "voyage",
    name: "Voyage AI",
    dialect: "openai",
    baseUrl: "https://api.voyageai.com/v1",
    apis: ["embeddings", "rerank"]
  },
  // No document that lists all of its paths was found.
  {
    id: "jina",
    name: "Jina AI",
    dialect: "openai",
    baseUrl: "https://api.jina.ai/v1",
    apis: ["embeddings", "rerank"]
  },
  {
    id: "ollama",
    name: "Ollama",
    dialect: "openai",
    baseUrl: "http://localhost:11434/v1",
    apis: ["chat", "responses", "completions", "embeddings"],
    ...own
  },
  // docs.vllm.ai/en/v0.32.0/serving/online_serving: its /v1/realtime transcribes alone.
  {
    id: "vllm",
    name: "vLLM",
    dialect: "openai",
    baseUrl: "http://localhost:8000/v1",
    apis: ["chat", "responses", "completions", "embeddings", "rerank", "transcriptions"],
    ...own
  },
  // lmstudio.ai/docs/api/openai-api.
  {
    id: "lm-studio",
    name: "LM Studio",
    dialect: "openai",
    baseUrl: "http://localhost:1234/v1",
    apis: ["chat", "responses", "completions", "embeddings"],
    ...own
  }
]

/** Whether the host of a vendor's base URL is its own alone. */
export const hasOwnHost = ({ baseUrl, isOwn }: Vendor): boolean => isOwn !== true && !baseUrl.includes("{")

const vendorHosts = lookupTable<string>({
  ...Object.fromEntries(vendors.filter(hasOwnHost).map(({ baseUrl, id }) => [new URL(baseUrl).hostname, id])),
  "api.cohere.com": "cohere",
  "api.together.xyz": "together"
})

/** The vendor at a base URL, if it is known by that. */
export const vendorAt = (baseUrl: string): string | undefined => vendorHosts[URL.parse(baseUrl)?.hostname ?? ""]
