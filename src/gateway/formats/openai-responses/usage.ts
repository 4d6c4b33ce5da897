import { openAiUsageTable } from "../common-form/usage.ts"
import { type TokenUsage } from "../domain.ts"
import { inclusiveUsage } from "../usage.ts"

const table = openAiUsageTable("input", "output")

export const usageOfResponse = (usage: unknown): TokenUsage => inclusiveUsage(usage, table)
