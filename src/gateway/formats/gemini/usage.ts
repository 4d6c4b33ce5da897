import { isJson, type Json, listIn, textIn } from "../../../kernel/json/parsed-json.ts"
import { noUsage, type TokenUsage } from "../domain.ts"
import { count, inputOf, isCount, member } from "../usage.ts"

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
  const areWithin = total === prompt + toolUse + candidates && thoughts <= candidates
  const inputTokens = prompt + toolUse
  const outputTokens = Math.max(areWithin ? candidates : candidates + thoughts, total - inputTokens)
  return {
    ...noUsage,
    inputTokens,
    outputTokens,
    cachedInputTokens: Math.min(prompt, count(member(usage, "cachedContentTokenCount"))),
    reasoningTokens: Math.min(outputTokens, thoughts)
  }
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

/** Tokens of one kind of input: those that were read for the first time, and those that were cached. */
export interface ModalityTokens {
  readonly fresh: number
  readonly cached: number
}

const byModality = (details: unknown): ReadonlyMap<string, number> => {
  const found = new Map<string, number>()
  for (const detail of listIn(details)) {
    const modality = textIn(member(detail, "modality"))
    if (modality !== "") found.set(modality, (found.get(modality) ?? 0) + count(member(detail, "tokenCount")))
  }
  return found
}

/** The input by modality (`TEXT`, `IMAGE`, `AUDIO`, `VIDEO`, `DOCUMENT`), which may have prices of their own. */
export const inputByModality = (usage: unknown): ReadonlyMap<string, ModalityTokens> => {
  const cached = byModality(member(usage, "cacheTokensDetails"))
  const toolUse = byModality(member(usage, "toolUsePromptTokensDetails"))
  const prompt = byModality(member(usage, "promptTokensDetails"))
  const modalities = new Set([...prompt.keys(), ...cached.keys(), ...toolUse.keys()])
  return new Map(
    Array.from(modalities, (modality) => {
      const all = prompt.get(modality) ?? 0
      const read = Math.min(all, cached.get(modality) ?? 0)
      return [modality, { fresh: all - read + (toolUse.get(modality) ?? 0), cached: read }]
    })
  )
}

/** The tier that an answer names: in its header, beside its usage, or as the kind of traffic on Vertex AI. */
export const tierOf = (answer: unknown, headers: Readonly<Record<string, string>>): string | undefined => {
  const usage = member(answer, "usageMetadata")
  const named = [headers["x-gemini-service-tier"], member(answer, "serviceTier"), member(usage, "serviceTier")]
  return named
    .concat(member(usage, "trafficType"))
    .map(textIn)
    .find((tier) => tier !== "")
}
