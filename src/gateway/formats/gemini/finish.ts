import { type FinishReason } from "../domain.ts"
import { lookupTable } from "../../../kernel/lookup-table.ts"

const finishReasons = lookupTable<FinishReason>({
  STOP: "stop",
  MAX_TOKENS: "length",
  SAFETY: "content_filter",
  RECITATION: "content_filter",
  LANGUAGE: "content_filter",
  BLOCKLIST: "content_filter",
  PROHIBITED_CONTENT: "content_filter",
  SPII: "content_filter",
  IMAGE_SAFETY: "content_filter",
  IMAGE_PROHIBITED_CONTENT: "content_filter",
  IMAGE_RECITATION: "content_filter"
})

const unspecified = "FINISH_REASON_UNSPECIFIED"

/**
 * Whether a model stopped without having completed its answer: its call was malformed, or the reason is not known. Where
 * nothing was said, another target can answer.
 */
export const isIncomplete = (reason: string | undefined): boolean =>
  reason !== undefined && reason !== "" && finishReasons[reason] === undefined

/** Maps Gemini's `finishReason` to OpenAI's; an incomplete answer is one that was cut. */
export const toFinishReason = (reason: string | undefined, callsTools: boolean): FinishReason => {
  const found = isIncomplete(reason) ? "length" : (finishReasons[reason ?? ""] ?? "stop")
  return callsTools && found === "stop" ? "tool_calls" : found
}

/** Whether a candidate has ended. */
export const hasEnded = (reason: string | undefined): reason is string =>
  reason !== undefined && reason !== "" && reason !== unspecified

const geminiReasons = lookupTable<string>({
  stop: "STOP",
  tool_calls: "STOP",
  function_call: "STOP",
  length: "MAX_TOKENS",
  content_filter: "SAFETY"
})

/** Maps OpenAI's `finish_reason` to Gemini's. */
export const toGeminiReason = (reason: string | null | undefined): string => geminiReasons[reason ?? ""] ?? "STOP"
