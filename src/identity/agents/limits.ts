import { Effect } from "effect"
import { missing } from "../../kernel/capability.ts"
import { AgentLimitsInvalid } from "./domain.ts"
import { type Limits } from "../agent-templates/limits-domain.ts"

/** What is wrong with limits, by themselves and under those of a template. */
const faultsOf = (limits: Limits, bound: Limits | undefined): ReadonlyArray<string> => {
  const { allowedTaskTypes, defaultTaskType, maxCredentialTtlSeconds, perTurnBudget, scopeCeiling } = limits
  const faults: Array<string> = []
  if (defaultTaskType !== null && !allowedTaskTypes.includes(defaultTaskType)) {
    faults.push("defaultTaskType is none of allowedTaskTypes")
  }
  if (bound === undefined) return faults
  const beyond = missing(bound.scopeCeiling, scopeCeiling)
  if (beyond.length > 0) faults.push(`scopeCeiling goes beyond the template's: ${beyond.join(", ")}`)
  if (maxCredentialTtlSeconds > bound.maxCredentialTtlSeconds) {
    faults.push(`maxCredentialTtlSeconds goes beyond the template's ${bound.maxCredentialTtlSeconds}`)
  }
  if (bound.perTurnBudget !== null && (perTurnBudget === null || perTurnBudget > bound.perTurnBudget)) {
    faults.push("perTurnBudget goes beyond the template's")
  }
  return faults
}

/** Refuses limits that contradict each other or go beyond their template's. */
export const validateLimits = (limits: Limits, bound?: Limits): Effect.Effect<void, AgentLimitsInvalid> => {
  const faults = faultsOf(limits, bound)
  return faults.length === 0 ? Effect.void : Effect.fail(new AgentLimitsInvalid({ detail: `${faults.join("; ")}.` }))
}
