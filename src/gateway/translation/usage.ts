import { type TokenUsage } from "./domain.ts"

/** Some providers write numbers as strings. */
export const count = (value: unknown): number => {
  const number = typeof value === "string" ? Number(value) : value
  return typeof number === "number" && number > 0 ? Math.ceil(number) : 0
}

export const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined

const maxTokens = 2_147_483_647

/** A usage that can be charged: zero tokens, or more than any model accepts, counts as not reported. */
export const plausibleUsage = (usage: TokenUsage | undefined): TokenUsage | undefined => {
  if (usage === undefined) return undefined
  const { inputTokens, outputTokens } = usage
  return inputTokens + outputTokens > 0 && Math.max(inputTokens, outputTokens) <= maxTokens ? usage : undefined
}
