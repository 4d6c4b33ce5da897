import { type MessageUsage } from "./anthropic-domain.ts"
import { noUsage, type TokenUsage } from "./domain.ts"
import { type CompletionUsage } from "./openai-domain.ts"

const count = (value: number | null | undefined): number =>
  value === null || value === undefined || !(value > 0) ? 0 : Math.ceil(value)

/** OpenAI counts cached and written tokens within the prompt, and reasoning within the completion. */
export const usageOfCompletion = (usage: CompletionUsage): TokenUsage => {
  const inputTokens = count(usage.prompt_tokens)
  const outputTokens = count(usage.completion_tokens)
  const cachedInputTokens = Math.min(inputTokens, count(usage.prompt_tokens_details?.cached_tokens))
  return {
    inputTokens,
    outputTokens,
    cachedInputTokens,
    cacheWriteTokens: Math.min(inputTokens - cachedInputTokens, count(usage.prompt_tokens_details?.cache_write_tokens)),
    cacheWrite1hTokens: 0,
    reasoningTokens: Math.min(outputTokens, count(usage.completion_tokens_details?.reasoning_tokens))
  }
}

/** Anthropic counts what it read from and wrote to its cache beside `input_tokens`. */
export const usageOfMessage = (usage: MessageUsage): TokenUsage => {
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
