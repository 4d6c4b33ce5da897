import { type Json } from "../../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../../kernel/lookup-table.ts"
import { type ThinkingConfig } from "./domain.ts"

/** The budgets that Google's own OpenAI endpoint gives to the efforts. */
const budgets = lookupTable<number>({
  none: 0,
  minimal: 1024,
  low: 1024,
  medium: 8192,
  high: 24_576,
  xhigh: 24_576,
  max: 24_576
})

const levels = lookupTable<string>({
  none: "minimal",
  minimal: "minimal",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high"
})

const version = /gemini-(\d+(?:\.\d+)?)/
/** From this version on models think by level; before it by budget, and before 2.5 not at all. */
const firstWithLevels = 3
const firstWithThoughts = 2.5
/** Models of this name always think, with at least this budget. */
const alwaysThinks = /-pro\b/
const leastBudget = 128

/** The thinking parameters for an effort, for one of Google's models; undefined if it takes none. */
export const thinkingOf = (effort: string | null | undefined, model: string): Json | undefined => {
  const level = levels[effort ?? ""]
  const budget = budgets[effort ?? ""]
  if (level === undefined || budget === undefined) return undefined
  const includeThoughts = effort !== "none"
  // A name without a version is that of a current model, unless it is of another family.
  const known = Number(version.exec(model)?.[1] ?? (model.includes("gemini") ? firstWithLevels : 0))
  if (known < firstWithThoughts) return undefined
  if (known >= firstWithLevels) {
    return { thinkingLevel: alwaysThinks.test(model) && level === "minimal" ? "low" : level, includeThoughts }
  }
  return { thinkingBudget: alwaysThinks.test(model) ? Math.max(leastBudget, budget) : budget, includeThoughts }
}

/** The effort that a caller asked for; undefined where the model decides. */
export const effortOf = (config: ThinkingConfig | null | undefined): string | undefined => {
  const level = levels[config?.thinkingLevel?.toLowerCase() ?? ""]
  if (level !== undefined) return level
  const budget = config?.thinkingBudget ?? -1
  const tokens = Number(budget)
  if (tokens < 0) return undefined
  if (tokens === 0) return "none"
  return tokens <= 1024 ? "low" : tokens <= 8192 ? "medium" : "high"
}
