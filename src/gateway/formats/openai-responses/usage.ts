import { openAiUsageTable } from "../common-form/usage.ts"
import { type TokenUsage } from "../domain.ts"
import { countsBy, inclusiveUsage } from "../usage.ts"

const countsOf = countsBy(openAiUsageTable("input", "output"))

export const usageOfResponse = (usage: unknown): TokenUsage => inclusiveUsage(countsOf(usage))
