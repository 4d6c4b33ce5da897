import { Schema } from "effect"
import { Capability, intersection, missing } from "../../kernel/capability.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { AgentId, AgentStatus } from "./domain.ts"

/** An agent with what bounds it now: its own limits, and those of its template as that is now. */
export const BoundedAgent = Schema.Struct({
  id: AgentId,
  tenantId: TenantId,
  status: AgentStatus,
  scopeCeiling: Schema.Array(Capability),
  templateCeiling: Schema.NullOr(Schema.Array(Capability)),
  maxCredentialTtlSeconds: Schema.Int,
  perTurnBudget: Schema.NullOr(Schema.BigInt),
  allowedTaskTypes: Schema.Array(Schema.String),
  defaultTaskType: Schema.NullOr(Schema.String),
  /** Another one whenever the agent or its template was changed. */
  version: Schema.String
})
export type BoundedAgent = typeof BoundedAgent.Type

/** The most that the agent may be granted now. */
export const ceilingOf = ({
  scopeCeiling,
  templateCeiling
}: Pick<BoundedAgent, "scopeCeiling" | "templateCeiling">): ReadonlyArray<Capability> =>
  templateCeiling === null || missing(templateCeiling, scopeCeiling).length === 0
    ? scopeCeiling
    : intersection(scopeCeiling, templateCeiling)
