import { Effect, Schema } from "effect"
import { Model } from "effect/schema"
import { distinct, missing, Scopes } from "../../kernel/authority/capability.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { composed, name, text } from "../../kernel/text.ts"
import { Usd } from "../../kernel/usd.ts"

export const maxCredentialTtlSecondsDefault = 3600

export const AgentName = name(100, { examples: ["invoice-reader"] })
export const AgentDescription = composed(text(0, 1000), { examples: ["Reads invoices and files them"] })

/** The most that any credential of the agent may do; empty means nothing at all. */
export const ScopeCeiling = Scopes.annotate({
  component: "ScopeCeiling",
  description: "The most that a credential may ever be granted; empty means no scope at all",
  examples: [["llm:complete", "agents:read"]]
})
export const CredentialTtlSeconds = Schema.Int.pipe(
  Schema.check(Schema.isBetween({ minimum: 60, maximum: 86_400 }))
).annotate({
  component: "CredentialTtlSeconds",
  description: "The longest life of a credential in seconds",
  examples: [3600]
})

const TaskType = name(100, { component: "TaskType", examples: ["extraction"] })
export const TaskTypes = Schema.Array(TaskType).pipe(Schema.check(Schema.isMaxLength(100)))
export const DefaultTaskType = Schema.NullOr(TaskType)

const Budget = Schema.NullOr(Usd).annotate({
  component: "PerTurnBudget",
  description: "US dollars that one LLM call may reserve; null: no limit"
})
const StoredBudget = Schema.NullOr(Schema.BigInt)

/** Nano-dollars in the database, dollars on the wire. */
export const PerTurnBudget = Model.Field({
  select: StoredBudget,
  insert: StoredBudget,
  update: StoredBudget,
  json: Budget
})

/** Whether work of a type may be done: where none is listed, of any; work of no type always may. */
export const allowsTaskType = (allowed: typeof TaskTypes.Type, taskType: string | null): boolean =>
  taskType === null || allowed.length === 0 || allowed.includes(taskType)

/** What bounds an agent, as an agent and a template have it. */
export interface Limits {
  readonly scopeCeiling: typeof ScopeCeiling.Type
  readonly maxCredentialTtlSeconds: number
  readonly perTurnBudget: bigint | null
  readonly allowedTaskTypes: typeof TaskTypes.Type
  readonly defaultTaskType: string | null
}

/** Limits as requests name them: each member is optional. */
export const limitMembers = {
  scopeCeiling: Schema.optionalKey(ScopeCeiling),
  maxCredentialTtlSeconds: Schema.optionalKey(CredentialTtlSeconds),
  perTurnBudget: Schema.optionalKey(Budget),
  allowedTaskTypes: Schema.optionalKey(TaskTypes),
  defaultTaskType: Schema.optionalKey(DefaultTaskType)
}
export type GivenLimits = { readonly [Key in keyof Limits]?: Limits[Key] }

export const noLimitsGiven: Limits = {
  scopeCeiling: [],
  maxCredentialTtlSeconds: maxCredentialTtlSecondsDefault,
  perTurnBudget: null,
  allowedTaskTypes: [],
  defaultTaskType: null
}

/** The given limits, and the rest from the defaults. */
export const limitsFrom = (given: GivenLimits, behind: Limits): Limits => ({
  scopeCeiling: distinct(given.scopeCeiling ?? behind.scopeCeiling),
  maxCredentialTtlSeconds: given.maxCredentialTtlSeconds ?? behind.maxCredentialTtlSeconds,
  perTurnBudget: given.perTurnBudget === undefined ? behind.perTurnBudget : given.perTurnBudget,
  allowedTaskTypes: [...new Set(given.allowedTaskTypes ?? behind.allowedTaskTypes)],
  defaultTaskType: given.defaultTaskType === undefined ? behind.defaultTaskType : given.defaultTaskType
})

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

export class AgentLimitsInvalid extends Problem<AgentLimitsInvalid>()("AgentLimitsInvalid", {
  slug: "agent-limits-invalid",
  status: 400,
  meaning: "The limits contradict each other, or go beyond what the template allows."
}) {}
