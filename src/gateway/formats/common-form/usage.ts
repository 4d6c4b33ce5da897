import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { noUsage, type TokenUsage } from "../domain.ts"
import { count, countsBy, inclusiveUsage, type InclusiveClass, largerUsage, member, type UsageTable } from "../usage.ts"

const details = (names: ReadonlyArray<string>, name: string) => names.map((container) => [container, name] as const)

/**
 * Where the tokens of OpenAI's two formats stand. Cached and cache-write tokens are part of the input, and reasoning is part of
 * the output. Vendors that speak the formats have names of their own: DeepSeek `prompt_cache_hit_tokens`, Mistral
 * `num_cached_tokens`, Moonshot and Together `cached_tokens`, servers in front of Anthropic its names.
 */
export const openAiUsageTable = (prompt: string, completion: string): UsageTable<InclusiveClass> => {
  const read = [`${prompt}_tokens_details`, `${prompt}_token_details`]
  const written = [`${completion}_tokens_details`, `${completion}_token_details`]
  const cachedOf = (name: string) => read.map((container) => [container, "cached_tokens_details", name] as const)
  return {
    input: [[`${prompt}_tokens`]],
    output: [[`${completion}_tokens`]],
    total: [["total_tokens"]],
    cached: [
      ...details(read, "cached_tokens"),
      ["cached_tokens"],
      ["num_cached_tokens"],
      ["prompt_cache_hit_tokens"],
      ["cache_read_input_tokens"],
      ["cache_read_tokens"]
    ],
    cacheWrite: [
      ...details(read, "cache_write_tokens"),
      ...details(read, "cache_creation_tokens"),
      ["cache_write_tokens"],
      ["cache_creation_input_tokens"]
    ],
    reasoning: [...details(written, "reasoning_tokens"), ["reasoning_tokens"]],
    audioInput: [...details(read, "audio_tokens"), [`${prompt}_audio_tokens`], [`audio_${prompt}_tokens`]],
    imageInput: details(read, "image_tokens"),
    videoInput: details(read, "video_tokens"),
    audioCached: cachedOf("audio_tokens"),
    imageCached: cachedOf("image_tokens"),
    videoCached: cachedOf("video_tokens"),
    audioOutput: details(written, "audio_tokens"),
    imageOutput: details(written, "image_tokens"),
    videoOutput: details(written, "video_tokens")
  }
}

const countsOf = countsBy(openAiUsageTable("prompt", "completion"))

/** The usage of a chat completion or a text completion. */
export const usageOfCompletion = (usage: unknown): TokenUsage => inclusiveUsage(countsOf(usage))

/**
 * The usage in a completion or a chunk of one, wherever it stands: beside the choices, in one of them (Moonshot), or in the
 * vendor's own member (Groq). If there are several, the largest counts.
 */
export const usageInCompletion = (value: Json): TokenUsage | undefined => {
  const { choices, usage, x_groq: own } = value
  let largest = isJson(usage) ? usageOfCompletion(usage) : undefined
  const other = (found: unknown) => {
    if (isJson(found)) largest = largerUsage(largest, usageOfCompletion(found))
  }
  for (const choice of listIn(choices)) other(member(choice, "usage"))
  if (own !== undefined) other(member(own, "usage"))
  return largest
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
    audio_tokens: (usage.media?.audioInput ?? 0) + (usage.media?.audioCacheRead ?? 0)
  },
  completion_tokens_details: {
    reasoning_tokens: usage.reasoningTokens,
    audio_tokens: usage.media?.audioOutput ?? 0,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0
  }
})
