import { Schema } from "effect"
import { type Fault } from "../../kernel/problems/problem.ts"

/** The vendors whose formats callers and providers speak. */
export const PromptCache = Schema.Literals(["auto", "1h", "off"])
export type PromptCache = typeof PromptCache.Type

export const Dialect = Schema.Literals(["openai", "anthropic", "gemini"]).annotate({ examples: ["openai"] })
export type Dialect = typeof Dialect.Type

/** Tools that providers run, and bill by use. */
export const billedTools = ["webSearch", "codeExecution", "fileSearch", "imageGeneration"] as const
export type BilledTool = (typeof billedTools)[number]

/** How often each of them was used: a search, an image, or a container in which code ran. */
export type ToolUses = { readonly [Tool in BilledTool]?: number }

/** Kinds of tokens that vendors may price apart from those of text. */
export const media = ["audio", "image", "video"] as const
export type Medium = (typeof media)[number]

/** The class of tokens that those of a medium are a part of: input that is read for the first time, or from a cache; output. */
export type ContainingClass = "Input" | "CacheRead" | "Output"
export type MediaClass = `${Medium}${ContainingClass}`

/** The parts of each class that are audio, images or video. */
export type MediaTokens = { readonly [Class in MediaClass]?: number }

/** What vendors count besides tokens, or instead of them. */
export const countedUnits = ["searchUnits", "characters", "audioMilliseconds", "pages"] as const
export type CountedUnit = (typeof countedUnits)[number]

/** Images of one kind; a size or a quality that is missing may be any. */
export interface ImageUnits {
  readonly count: number
  readonly size?: string | undefined
  readonly quality?: string | undefined
}

/** Units by their kind. */
export type UsageUnits = { readonly [Unit in CountedUnit]?: number } & { readonly images?: ReadonlyArray<ImageUnits> }

/** What an answer names of the service that it was given, where that is not the usual one. */
export interface Served {
  readonly tier?: string | undefined
  readonly speed?: string | undefined
  readonly geo?: string | undefined
}

/** The cost that a provider reports itself; `nanoUsd` is undefined where the report is missing or no amount. */
export interface ReportedCost {
  readonly nanoUsd: bigint | undefined
}

/**
 * Tokens by class. Cached, cache-write and reasoning tokens are included in input and output, whatever the vendor's own
 * convention.
 */
export interface TokenUsage {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cachedInputTokens: number
  readonly cacheWriteTokens: number
  /** The part of `cacheWriteTokens` that is kept for an hour. */
  readonly cacheWrite1hTokens: number
  readonly reasoningTokens: number
  /** Uses of tools that the provider bills beside the tokens; absent where there were none. */
  readonly toolUses?: ToolUses
  /** What is billed by another unit than tokens; absent where nothing is. */
  readonly units?: UsageUnits
  /** Absent where all tokens are of text, as far as the provider reports. */
  readonly media?: MediaTokens
  /** Absent where it is the usual service. */
  readonly served?: Served
  /** Present where the provider is to report the cost. */
  readonly reportedCost?: ReportedCost
  /** The parts of these tokens that other models read and wrote; absent where the answer names none. */
  readonly otherModels?: ReadonlyArray<OtherModel>
  /** Milliseconds that the call took at its provider; present where these are charged, and nothing else. */
  readonly upstreamMs?: number
  /** Whether the report contradicts itself: it is charged by the larger of its numbers. */
  readonly isContradictory?: true
}

/** What another model than the target's read and wrote for an answer, under its vendor's name. */
export interface OtherModel {
  readonly model: string
  readonly usage: TokenUsage
}

/** What an answer reports besides its tokens. */
export type UsageExtras = Pick<TokenUsage, "toolUses" | "units" | "served" | "reportedCost">

export const noUsage: TokenUsage = {
  inputTokens: 0,
  outputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  reasoningTokens: 0
}

/** What a translation cannot carry over, each with the path of its member. */
export type Untranslatable = ReadonlyArray<Fault>

/** Why a model stopped, as OpenAI's `finish_reason`. */
export type FinishReason = "stop" | "length" | "tool_calls" | "content_filter"

/** Anthropic's own limit, by its documentation of the Messages API; each message takes microseconds. */
export const maxMessages = 100_000

/** What a model does. */
export const modelKinds = [
  "chat",
  "embedding",
  "moderation",
  "rerank",
  "speech",
  "image",
  "transcription",
  "realtime"
] as const
export type ModelKind = (typeof modelKinds)[number]

/** What a call does: usage rows, transcripts and spans name it. */
export const operations = [
  "chat",
  "embed",
  "count-tokens",
  "responses",
  "count-responses",
  "compact",
  "completions",
  "moderate",
  "generate-image",
  "edit-image",
  "transcribe",
  "translate",
  "rerank",
  "speech",
  "realtime"
] as const
export type Operation = (typeof operations)[number]

/** An API of a dialect that a provider, or a model of it, may lack; Anthropic's has `chat` alone, as messages. */
export const ProviderApi = Schema.Literals([
  "chat",
  "responses",
  "completions",
  "embeddings",
  "moderations",
  "images",
  "transcriptions",
  "rerank",
  "speech",
  "realtime"
]).annotate({ examples: ["responses"] })
export type ProviderApi = typeof ProviderApi.Type

/** The one API of models that do not chat. */
export const ownApis = {
  chat: undefined,
  embedding: "embeddings",
  moderation: "moderations",
  rerank: "rerank",
  speech: "speech",
  image: "images",
  transcription: "transcriptions",
  realtime: "realtime"
} as const satisfies Readonly<Record<ModelKind, ProviderApi | undefined>>
