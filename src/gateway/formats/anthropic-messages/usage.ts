import { listIn } from "../../../kernel/json/parsed-json.ts"
import { noUsage, type TokenUsage } from "../domain.ts"
import { count, member } from "../usage.ts"

/** Steps that Anthropic charges in addition to the message's own usage, and reports only here. */
const besides: ReadonlySet<unknown> = new Set(["compaction", "advisor_message"])
const besidesIn = (usage: unknown): ReadonlyArray<unknown> =>
  listIn(member(usage, "iterations")).filter((iteration) => besides.has(member(iteration, "type")))

const sumOf = (one: TokenUsage, other: TokenUsage): TokenUsage => ({
  inputTokens: one.inputTokens + other.inputTokens,
  outputTokens: one.outputTokens + other.outputTokens,
  cachedInputTokens: one.cachedInputTokens + other.cachedInputTokens,
  cacheWriteTokens: one.cacheWriteTokens + other.cacheWriteTokens,
  cacheWrite1hTokens: one.cacheWrite1hTokens + other.cacheWrite1hTokens,
  reasoningTokens: one.reasoningTokens + other.reasoningTokens
})

/** The usage of a message with its compactions, and with what an advisor read and wrote, as tokens of the model. */
export const usageOfMessage = (usage: unknown): TokenUsage =>
  besidesIn(usage).map(usageOfIteration).reduce(sumOf, usageOfIteration(usage))

/** Anthropic excludes cache reads and cache writes from `input_tokens`. */
const usageOfIteration = (usage: unknown): TokenUsage => {
  const cachedInputTokens = count(member(usage, "cache_read_input_tokens"))
  const cacheWriteTokens = count(member(usage, "cache_creation_input_tokens"))
  const cacheWrite1hTokens = count(member(member(usage, "cache_creation"), "ephemeral_1h_input_tokens"))
  const outputTokens = count(member(usage, "output_tokens"))
  const reasoning = count(member(member(usage, "output_tokens_details"), "thinking_tokens"))
  return {
    inputTokens: count(member(usage, "input_tokens")) + cachedInputTokens + cacheWriteTokens,
    outputTokens,
    cachedInputTokens,
    cacheWriteTokens,
    cacheWrite1hTokens: Math.min(cacheWriteTokens, cacheWrite1hTokens),
    reasoningTokens: Math.min(outputTokens, reasoning)
  }
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
