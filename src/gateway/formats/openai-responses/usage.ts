import { type TokenUsage } from "../domain.ts"
import { count, inputOf, member } from "../usage.ts"

/** Cached tokens are part of the input, and reasoning is part of the output. */
export const usageOfResponse = (usage: unknown): TokenUsage => {
  const reported = count(member(usage, "output_tokens"))
  const totalTokens = count(member(usage, "total_tokens"))
  const inputTokens = inputOf(member(usage, "input_tokens"), totalTokens, reported)
  const read = member(usage, "input_tokens_details")
  const cachedInputTokens = Math.min(inputTokens, count(member(read, "cached_tokens")))
  const outputTokens = Math.max(reported, totalTokens - inputTokens)
  const reasoning = count(member(member(usage, "output_tokens_details"), "reasoning_tokens"))
  return {
    inputTokens,
    outputTokens,
    cachedInputTokens,
    cacheWriteTokens: Math.min(inputTokens - cachedInputTokens, count(member(read, "cache_write_tokens"))),
    cacheWrite1hTokens: 0,
    reasoningTokens: Math.min(outputTokens, reasoning)
  }
}
