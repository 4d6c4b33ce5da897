import { thinksAdaptively } from "./claude-models.ts"
import { type ChatRequest } from "../openai-chat/domain.ts"

type Json = Readonly<Record<string, unknown>>

/** How much a model of Anthropic's is asked to think. */
interface Asked {
  readonly thinking?: Json
  readonly effort?: string
}

/** A model that cannot be told not to think does the least of it. */
const efforts: Readonly<Record<string, string>> = {
  none: "low",
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "xhigh",
  max: "max"
}

const budgets: Readonly<Record<string, number>> = { low: 1024, medium: 4096, high: 16_384, xhigh: 32_768, max: 65_536 }

/** The least that Anthropic takes. */
const leastBudget = 1024

/** So much of the output limit is left for the answer. */
const answerShare = 0.2

/**
 * A request's effort in Anthropic's words. Nobody thinks where a tool is forced; by a budget nobody thinks either in the middle
 * of a turn, which would have to begin with what was thought.
 */
export const thinkingOf = (request: ChatRequest, model: string, maxTokens: number, isMidway: boolean): Asked => {
  const asked = request.reasoning_effort ?? ""
  const choice = request.tool_choice ?? "auto"
  const isForced = choice === "required" || typeof choice === "object"
  if (!thinksAdaptively(model)) {
    const budget = Math.min(budgets[asked] ?? 0, Math.floor(maxTokens * (1 - answerShare)))
    return budget < leastBudget || isForced || isMidway ? {} : { thinking: { type: "enabled", budget_tokens: budget } }
  }
  const effort = efforts[asked]
  if (effort === undefined) return {}
  // Thoughts are left out of the answer unless they are asked for.
  return isForced || asked === "none" ? { effort } : { effort, thinking: { type: "adaptive", display: "summarized" } }
}

/** Whether a model takes a temperature and the like: the newer ones never do, the others unless they think. */
export const takesSampling = (model: string, { thinking }: Asked): boolean =>
  thinking === undefined && !thinksAdaptively(model)
