import { type TokenUsage } from "./domain.ts"

/** Some write numbers as texts. */
export const count = (value: unknown): number => {
  const number = typeof value === "string" ? Number(value) : value
  return typeof number === "number" && number > 0 ? Math.ceil(number) : 0
}

export const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined

const maxTokens = 2_147_483_647

/** A usage that can be charged: one of nothing at all, or of more than any model takes, tells nothing. */
export const plausibleUsage = (usage: TokenUsage | undefined): TokenUsage | undefined => {
  if (usage === undefined) return undefined
  const { inputTokens, outputTokens } = usage
  return inputTokens + outputTokens > 0 && Math.max(inputTokens, outputTokens) <= maxTokens ? usage : undefined
}
