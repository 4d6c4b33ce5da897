import { listIn } from "../../../kernel/json/parsed-json.ts"
import { noUsage, type TokenUsage } from "../domain.ts"
import { Counts, member } from "../usage.ts"

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
  reasoningTokens: one.reasoningTokens + other.reasoningTokens,
  ...(one.isContradictory === true || other.isContradictory === true ? { isContradictory: true } : {})
})

/** The usage of a message with its compactions, and with what an advisor read and wrote, as tokens of the model. */
export const usageOfMessage = (usage: unknown): TokenUsage =>
  besidesIn(usage).map(usageOfIteration).reduce(sumOf, usageOfIteration(usage))

/** The members of Anthropic's usage that count tokens. */
const table = {
  input: [["input_tokens"]],
  output: [["output_tokens"]],
  cached: [["cache_read_input_tokens"]],
  cacheWrite: [["cache_creation_input_tokens"]],
  cacheWrite5m: [["cache_creation", "ephemeral_5m_input_tokens"]],
  cacheWrite1h: [["cache_creation", "ephemeral_1h_input_tokens"]],
  reasoning: [["output_tokens_details", "thinking_tokens"]]
} as const

/** Anthropic excludes cache reads and cache writes from `input_tokens`. */
const usageOfIteration = (usage: unknown): TokenUsage => {
  const counts = new Counts(usage)
  const cachedInputTokens = counts.largest(table.cached)
  const written = counts.largest(table.cacheWrite)
  const writtenFor1h = counts.largest(table.cacheWrite1h)
  const byTime = counts.largest(table.cacheWrite5m) + writtenFor1h
  const cacheWriteTokens = Math.max(written, byTime)
  const outputTokens = counts.largest(table.output)
  const reasoningTokens = counts.part(table.reasoning, outputTokens)
  const isContradictory = counts.isContradictory || (byTime > 0 && written > 0 && byTime !== written)
  return {
    inputTokens: counts.largest(table.input) + cachedInputTokens + cacheWriteTokens,
    outputTokens,
    cachedInputTokens,
    cacheWriteTokens,
    cacheWrite1hTokens: writtenFor1h,
    reasoningTokens,
    ...(isContradictory ? { isContradictory } : {})
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
