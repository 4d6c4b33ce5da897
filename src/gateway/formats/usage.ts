import { type Json } from "../../kernel/json/parsed-json.ts"
import { type TokenUsage } from "./domain.ts"

/** Whether a value is a number; some providers write it as a string. */
export const isCount = (value: unknown): boolean =>
  typeof value === "number" || (typeof value === "string" && value.trim() !== "" && !Number.isNaN(Number(value)))

/** A number of tokens; zero where there is none. */
export const count = (value: unknown): number => {
  const number = isCount(value) ? Number(value) : 0
  return number > 0 ? Math.ceil(number) : 0
}

/** The input tokens that are reported, or else what the total has besides the output. */
export const inputOf = (reported: unknown, totalTokens: number, outputTokens: number): number =>
  isCount(reported) ? count(reported) : Math.max(0, totalTokens - outputTokens)

export const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined

const inputs = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]

/**
 * The usage of a streamed message of Anthropic's so far. Reports are cumulative, so their members overwrite earlier ones; omitted members
 * keep their value, as do those whose report has another type, and the input does in a report that has none.
 */
export const laterUsage = (before: Json, report: Json): Json => {
  const tellsInput = inputs.some((name) => count(report[name]) > 0)
  const given = Object.entries(report).filter(
    ([name, value]) =>
      value !== null &&
      (name.endsWith("_tokens") ? isCount(value) : typeof value === typeof (before[name] ?? value)) &&
      (tellsInput || !inputs.includes(name))
  )
  return { ...before, ...Object.fromEntries(given) }
}

const maxTokens = 2_147_483_647

/** A usage that can be charged: zero tokens, or more than any model accepts, counts as not reported. */
export const plausibleUsage = (usage: TokenUsage | undefined): TokenUsage | undefined => {
  if (usage === undefined) return undefined
  const { inputTokens, outputTokens } = usage
  return inputTokens + outputTokens > 0 && Math.max(inputTokens, outputTokens) <= maxTokens ? usage : undefined
}
