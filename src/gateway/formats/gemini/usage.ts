import { isJson, type Json, textIn } from "../../../kernel/json/parsed-json.ts"
import { media, noUsage, type TokenUsage } from "../domain.ts"
import { count, inputOf, isCount, member, withMedia } from "../usage.ts"

/** The tokens of some details that are audio, images and video. */
const mediaIn = (details: unknown): ReadonlyArray<number> => {
  if (!Array.isArray(details)) return none
  const sums = [0, 0, 0]
  for (const detail of details) {
    const index = modalities.indexOf(textIn(member(detail, "modality")).toUpperCase())
    if (index >= 0) sums[index]! += count(member(detail, "tokenCount"))
  }
  return sums
}
const none: ReadonlyArray<number> = []
const modalities = media.map((medium) => medium.toUpperCase())

/**
 * Gemini includes cached tokens in the prompt; what its own tools returned is beside the prompt. Thoughts are beside the
 * candidates, and within them only where the total says so: a sum without them, and no more thoughts than candidates.
 */
export const usageOfAnswer = (usage: unknown): TokenUsage => {
  const candidates = count(member(usage, "candidatesTokenCount"))
  const thoughts = count(member(usage, "thoughtsTokenCount"))
  const toolUse = count(member(usage, "toolUsePromptTokenCount"))
  const total = count(member(usage, "totalTokenCount"))
  const prompt = inputOf(member(usage, "promptTokenCount"), total, candidates + thoughts + toolUse)
  const cached = count(member(usage, "cachedContentTokenCount"))
  const areWithin = total === prompt + toolUse + candidates && thoughts <= candidates
  const inputTokens = prompt + toolUse
  const outputTokens = Math.max(areWithin ? candidates : candidates + thoughts, total - inputTokens)
  const read = {
    ...noUsage,
    inputTokens,
    outputTokens,
    cachedInputTokens: Math.min(prompt, cached),
    reasoningTokens: Math.min(outputTokens, thoughts)
  }
  const all = mediaIn(member(usage, "promptTokensDetails"))
  const fromTools = mediaIn(member(usage, "toolUsePromptTokensDetails"))
  return withMedia(
    read,
    { isContradictory: cached > prompt || (total > 0 && total < inputTokens + candidates) },
    fromTools === none ? all : media.map((_, index) => (all[index] ?? 0) + (fromTools[index] ?? 0)),
    mediaIn(member(usage, "cacheTokensDetails")),
    mediaIn(member(usage, "candidatesTokensDetails"))
  )
}

const counts = ["promptTokenCount", "candidatesTokenCount", "totalTokenCount"]

/** Whether a report counts anything; that of the last element of a stream which does is the one that counts. */
export const reportsUsage = (usage: unknown): usage is Json =>
  isJson(usage) && counts.some((name) => isCount(usage[name]))

/** A usage as Gemini writes it; counts of nothing are left out. */
export const toAnswerUsage = (usage: TokenUsage): Json => ({
  promptTokenCount: usage.inputTokens,
  candidatesTokenCount: usage.outputTokens - usage.reasoningTokens,
  totalTokenCount: usage.inputTokens + usage.outputTokens,
  ...(usage.cachedInputTokens > 0 ? { cachedContentTokenCount: usage.cachedInputTokens } : {}),
  ...(usage.reasoningTokens > 0 ? { thoughtsTokenCount: usage.reasoningTokens } : {})
})

/** The tier that an answer names: in its header, beside its usage, or as the kind of traffic on Vertex AI. */
export const tierOf = (answer: unknown, headers: Readonly<Record<string, string>>): string | undefined => {
  const usage = member(answer, "usageMetadata")
  const named = [headers["x-gemini-service-tier"], member(answer, "serviceTier"), member(usage, "serviceTier")]
  return named
    .concat(member(usage, "trafficType"))
    .map(textIn)
    .find((tier) => tier !== "")
}
