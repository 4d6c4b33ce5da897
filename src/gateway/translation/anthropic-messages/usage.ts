import { type Json } from "../../../kernel/json/parsed-json.ts"
import { noUsage, type TokenUsage } from "../domain.ts"
import { count, member } from "../usage.ts"
import { type MessageUsage } from "./domain.ts"

/** Tokens of context compactions, which Anthropic charges in addition to the message's own usage and reports only here. */
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

/** Anthropic excludes cache reads and cache writes from `input_tokens`. */
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

const inputs = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]

/**
 * The usage of a streamed message so far. Reports are cumulative, so their members overwrite earlier ones; omitted members
 * keep their value, and the input does in a report that has none.
 */
export const laterUsage = (before: MessageUsage, report: Json): MessageUsage => {
  const tellsInput = inputs.some((name) => count(report[name]) > 0)
  const given = Object.entries(report).filter(
    ([name, value]) => value !== null && (tellsInput || !inputs.includes(name))
  )
  return { ...before, ...Object.fromEntries(given) }
}

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
