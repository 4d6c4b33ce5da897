import { lookupTable } from "../../kernel/lookup-table.ts"
import { type ConnectedProvider, type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { type Dialect, type Operation } from "../formats/domain.ts"

/**
 * Which of OpenTelemetry's conventions for generative AI are followed: `before` their first release of their own, which is
 * version 1.41 of the common conventions, or `since` that one, version 0.1.0.
 */
export type Conventions = "before" | "since"

/** The value of `OTEL_SEMCONV_STABILITY_OPT_IN` that asks for the latest ones. */
export const latestOptIn = "gen_ai_latest_experimental"

/** The conventions of a list of opt-ins; those of other signals, such as `http`, say nothing of these. */
export const conventionsOf = (optIns: ReadonlyArray<string>): Conventions =>
  optIns.includes(latestOptIn) ? "since" : "before"

/** A name by the conventions that have it; null where they have none for it. */
interface ConventionName {
  readonly what: string
  readonly before: string | null
  readonly since: string | null
}

/** Names of metrics and attributes that differ between the conventions; the manual has this table. */
export const conventionNames = {
  cacheWriteTokens: {
    what: "span: tokens written into the provider's cache",
    before: "gen_ai.usage.cache_creation.input_tokens",
    since: "gen_ai.usage.cache_write.input_tokens"
  },
  mediaTokens: {
    what: "span: tokens of text, audio, images and video, where the provider reports some",
    before: null,
    since: "gen_ai.usage.<modality>.input_tokens, .cache_read.input_tokens, .output_tokens"
  },
  reasoningLevel: {
    what: "span: the effort of reasoning that is asked for",
    before: null,
    since: "gen_ai.request.reasoning.level"
  },
  previousResponse: {
    what: "span: the response that a request goes on from",
    before: null,
    since: "gen_ai.request.previous_response.id"
  },
  inferenceDuration: {
    what: "histogram, s: duration of a call of a model",
    before: "gen_ai.client.operation.duration",
    since: "gen_ai.client.inference.duration"
  },
  embeddingsDuration: {
    what: "histogram, s: duration of embeddings",
    before: "gen_ai.client.operation.duration",
    since: "gen_ai.client.embeddings.duration"
  },
  operationDuration: {
    what: "histogram, s: duration of other calls, such as moderations",
    before: "gen_ai.client.operation.duration",
    since: "gen_ai.client.operation.duration"
  },
  firstChunk: {
    what: "histogram, s: time to the first bytes of a stream",
    before: "gen_ai.server.time_to_first_token",
    since: "gen_ai.client.inference.time_to_first_chunk"
  },
  inputTokens: {
    what: "histogram, {token}: input of a call of a model",
    before: "gen_ai.client.token.usage",
    since: "gen_ai.client.inference.operation.input_tokens"
  },
  outputTokens: {
    what: "histogram, {token}: output of a call of a model",
    before: "gen_ai.client.token.usage",
    since: "gen_ai.client.inference.operation.output_tokens"
  },
  embeddingsTokens: {
    what: "histogram, {token}: input of embeddings",
    before: "gen_ai.client.token.usage",
    since: "gen_ai.client.embeddings.operation.input_tokens"
  },
  inputTotal: {
    what: "counter, {token}: input of calls of models, by gen_ai.token.modality",
    before: null,
    since: "gen_ai.client.inference.usage.input_tokens"
  },
  outputTotal: {
    what: "counter, {token}: output of calls of models, by gen_ai.token.modality",
    before: null,
    since: "gen_ai.client.inference.usage.output_tokens"
  },
  cacheReadTotal: {
    what: "counter, {token}: the part of the input that the provider's cache had",
    before: null,
    since: "gen_ai.client.inference.usage.cache_read.input_tokens"
  },
  cacheWriteTotal: {
    what: "counter, {token}: the part of the input that was written into it",
    before: null,
    since: "gen_ai.client.inference.usage.cache_write.input_tokens"
  },
  reasoningTotal: {
    what: "counter, {token}: the part of the output that is reasoning",
    before: null,
    since: "gen_ai.client.inference.usage.reasoning.output_tokens"
  },
  tokenType: { what: "attribute of a metric: input or output", before: "gen_ai.token.type", since: null },
  tokenModality: {
    what: "attribute of a metric: text, audio, image, video, or unknown",
    before: null,
    since: "gen_ai.token.modality"
  }
} as const satisfies Readonly<Record<string, ConventionName>>

/** What an operation is to metrics: a call of a model, embeddings, or another one. */
export const kindOf = (operation: Operation): "inference" | "embeddings" | "operation" =>
  kinds[operation] ?? "inference"

const kinds: Readonly<Partial<Record<Operation, "embeddings" | "operation">>> = {
  embed: "embeddings",
  moderate: "operation",
  rerank: "operation",
  speech: "operation",
  transcribe: "operation",
  translate: "operation",
  "count-tokens": "operation",
  "count-responses": "operation"
}

const operationNames: Readonly<Record<Operation, string>> = {
  chat: "chat",
  embed: "embeddings",
  "count-tokens": "count_tokens",
  responses: "chat",
  "count-responses": "count_tokens",
  compact: "chat",
  completions: "text_completion",
  moderate: "moderations",
  "generate-image": "generate_content",
  "edit-image": "generate_content",
  transcribe: "transcribe",
  translate: "translate",
  rerank: "rerank",
  speech: "speech",
  realtime: "realtime"
}

/** What a vendor calls an operation, where the conventions go by that. */
const namesByDialect: Readonly<Partial<Record<Dialect, Readonly<Record<string, string>>>>> = {
  gemini: { chat: "generate_content" }
}

/** `gen_ai.operation.name`; since the first release, that of Google's method where its API is called. */
export const operationName = (
  conventions: Conventions,
  operation: Operation,
  { provider }: Pick<ModelTarget, "provider">
): string =>
  (conventions === "since" ? namesByDialect[provider.speaks.dialect]?.[operationNames[operation]] : undefined) ??
  operationNames[operation]

/** Names in the conventions for vendors that the catalogue names differently. */
const conventionalNames = lookupTable<string>({
  google: "gcp.gemini",
  "mistral-ai": "mistral_ai",
  moonshot: "moonshot_ai",
  "perplexity-ai": "perplexity",
  "x-ai": "x_ai"
})

/** Names of the clouds that serve models of vendors, by `platform` of a provider. */
const platforms = lookupTable<string>({ azure: "azure.ai.openai", bedrock: "aws.bedrock", vertex: "gcp.vertex_ai" })

/** The same by their hosts. */
const clouds: ReadonlyArray<readonly [host: RegExp, name: string]> = [
  [/(?:^|\.)(?:openai\.azure\.com|cognitiveservices\.azure\.com)$/, "azure.ai.openai"],
  [/\.(?:services\.ai|models\.ai|inference\.ml)\.azure\.com$/, "azure.ai.inference"],
  [/(?:^|[.-])aiplatform(?:\.[a-z]+\.rep)?\.googleapis\.com$/, "gcp.vertex_ai"],
  [/^bedrock[a-z-]*\.[a-z0-9-]+\.(?:amazonaws\.com|api\.aws)$/, "aws.bedrock"]
]

/** The name of a provider's vendor in the conventions; a provider without a known vendor is named by its own id. */
const vendorName = ({ id, vendor }: Pick<ConnectedProvider, "id" | "vendor">): string =>
  vendor === undefined ? id : (conventionalNames[vendor] ?? vendor)

/** `gen_ai.provider.name`; since the first release, the cloud's name where a cloud serves the models. */
export const providerName = (
  conventions: Conventions,
  provider: Pick<ConnectedProvider, "id" | "vendor" | "server" | "platform">
): string => {
  if (conventions === "before") return vendorName(provider)
  const host = provider.server?.address.toLowerCase() ?? ""
  return platforms[provider.platform ?? ""] ?? clouds.find(([of]) => of.test(host))?.[1] ?? vendorName(provider)
}
