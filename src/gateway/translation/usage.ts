import { type MessageUsage } from "./anthropic-messages/domain.ts"
import { noUsage, type TokenUsage } from "./domain.ts"

/** Some write numbers as texts. */
const count = (value: unknown): number => {
  const number = typeof value === "string" ? Number(value) : value
  return typeof number === "number" && number > 0 ? Math.ceil(number) : 0
}

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined

/**
 * OpenAI counts cached and written tokens within the prompt, and reasoning within the completion. xAI and Google count
 * reasoning beside the completion, where only the total has it.
 */
export const usageOfCompletion = (usage: unknown): TokenUsage => {
  const inputTokens = count(member(usage, "prompt_tokens"))
  const completionTokens = count(member(usage, "completion_tokens"))
  const outputTokens = Math.max(completionTokens, count(member(usage, "total_tokens")) - inputTokens)
  const read = member(usage, "prompt_tokens_details")
  const cachedInputTokens = Math.min(inputTokens, count(member(read, "cached_tokens")))
  const reasoning = count(member(member(usage, "completion_tokens_details"), "reasoning_tokens"))
  return {
    inputTokens,
    outputTokens,
    cachedInputTokens,
    cacheWriteTokens: Math.min(inputTokens - cachedInputTokens, count(member(read, "cache_write_tokens"))),
    cacheWrite1hTokens: 0,
    reasoningTokens: Math.min(outputTokens, Math.max(reasoning, outputTokens - completionTokens))
  }
}

const maxTokens = 2_147_483_647

/** A usage that can be charged: one of nothing at all, or of more than any model takes, tells nothing. */
export const plausibleUsage = (usage: TokenUsage | undefined): TokenUsage | undefined => {
  if (usage === undefined) return undefined
  const { inputTokens, outputTokens } = usage
  return inputTokens + outputTokens > 0 && Math.max(inputTokens, outputTokens) <= maxTokens ? usage : undefined
}

/** Vectors are no tokens, so all of them were read; some providers tell the total alone. */
export const usageOfEmbedding = (usage: unknown): TokenUsage => ({
  ...noUsage,
  inputTokens: count(member(usage, "prompt_tokens")) || count(member(usage, "total_tokens"))
})

/** What Anthropic charges beside a message's own usage, and tells of nowhere else: that it made its context shorter. */
const compactionsIn = ({ iterations }: MessageUsage): ReadonlyArray<MessageUsage> =>
  (Array.isArray(iterations) ? iterations : []).filter((iteration) => member(iteration, "type") === "compaction")

const sumOf = (one: TokenUsage, other: TokenUsage): TokenUsage => ({
  inputTokens: one.inputTokens + other.inputTokens,
  outputTokens: one.outputTokens + other.outputTokens,
  cachedInputTokens: one.cachedInputTokens + other.cachedInputTokens,
  cacheWriteTokens: one.cacheWriteTokens + other.cacheWriteTokens,
  cacheWrite1hTokens: one.cacheWrite1hTokens + other.cacheWrite1hTokens,
  reasoningTokens: one.reasoningTokens + other.reasoningTokens
})

/** The usage of a message with its compactions. */
export const usageOfMessage = (usage: MessageUsage): TokenUsage =>
  compactionsIn(usage).map(usageOfIteration).reduce(sumOf, usageOfIteration(usage))

/** Anthropic counts what it read from and wrote to its cache beside `input_tokens`. */
const usageOfIteration = (usage: MessageUsage): TokenUsage => {
  const cachedInputTokens = count(usage.cache_read_input_tokens)
  const cacheWriteTokens = count(usage.cache_creation_input_tokens)
  const outputTokens = count(usage.output_tokens)
  return {
    inputTokens: count(usage.input_tokens) + cachedInputTokens + cacheWriteTokens,
    outputTokens,
    cachedInputTokens,
    cacheWriteTokens,
    cacheWrite1hTokens: Math.min(cacheWriteTokens, count(usage.cache_creation?.ephemeral_1h_input_tokens)),
    reasoningTokens: Math.min(outputTokens, count(usage.output_tokens_details?.thinking_tokens))
  }
}

/**
 * The usage of a streamed message so far. Each report is cumulative, so its members overwrite those before; what it leaves
 * out stays as it was.
 */
export const laterUsage = (before: MessageUsage, report: MessageUsage | null | undefined): MessageUsage => {
  const given = Object.entries(report ?? {}).filter(([, value]) => value !== null)
  return { ...before, ...Object.fromEntries(given) }
}

export const toCompletionUsage = (usage: TokenUsage) => ({
  prompt_tokens: usage.inputTokens,
  completion_tokens: usage.outputTokens,
  total_tokens: usage.inputTokens + usage.outputTokens,
  prompt_tokens_details: {
    cached_tokens: usage.cachedInputTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    audio_tokens: 0
  },
  completion_tokens_details: {
    reasoning_tokens: usage.reasoningTokens,
    audio_tokens: 0,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0
  }
})

export const toMessageUsage = (usage: TokenUsage = noUsage) => ({
  input_tokens: usage.inputTokens - usage.cachedInputTokens - usage.cacheWriteTokens,
  output_tokens: usage.outputTokens,
  cache_read_input_tokens: usage.cachedInputTokens,
  cache_creation_input_tokens: usage.cacheWriteTokens,
  cache_creation: {
    ephemeral_5m_input_tokens: usage.cacheWriteTokens - usage.cacheWrite1hTokens,
    ephemeral_1h_input_tokens: usage.cacheWrite1hTokens
  },
  output_tokens_details: { thinking_tokens: usage.reasoningTokens },
  server_tool_use: null,
  service_tier: null,
  inference_geo: null,
  speed: null
})
