import { noUsage, type TokenUsage } from "../domain.ts"
import { count, inputOf, member } from "../usage.ts"

/**
 * OpenAI includes cached and cache-write tokens in the prompt, and reasoning in the completion. xAI and Google count
 * reasoning separately from the completion, so only the total includes it.
 */
export const usageOfCompletion = (usage: unknown): TokenUsage => {
  const completionTokens = count(member(usage, "completion_tokens"))
  const totalTokens = count(member(usage, "total_tokens"))
  const inputTokens = inputOf(member(usage, "prompt_tokens"), totalTokens, completionTokens)
  const outputTokens = Math.max(completionTokens, totalTokens - inputTokens)
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

/** Embeddings have no output tokens, so all tokens are input; some providers report only the total. */
export const usageOfEmbedding = (usage: unknown): TokenUsage => ({
  ...noUsage,
  inputTokens: count(member(usage, "prompt_tokens")) || count(member(usage, "total_tokens"))
})

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
