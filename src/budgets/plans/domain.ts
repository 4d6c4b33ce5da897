import { Schema } from "effect"
import { AgentId } from "../../agents/agents/domain.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { listing } from "../../kernel/http/listing.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { exactNumber } from "../../kernel/json/exact-number.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { described, name } from "../../kernel/text.ts"
import { Usd, UsdOrZero } from "../../kernel/usd.ts"
import { denial, Label, Metadata, PlanId, PlanStatus } from "../ledger/domain.ts"

/** How they are listed. */
export const planListing = listing(PlanId, { createdAt: "id" }, { searches: "the name" })

const PlanName = name(200, { examples: ["Read the invoices of March"] })
const HeartbeatSeconds = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 5, maximum: 86_400 }))).annotate({
  description:
    "How often the plan must be heard of: after one interval of silence it is suspended, after two it is over",
  examples: [120]
})
export const heartbeatSecondsDefault = 120
const ExpiresInSeconds = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 31_536_000 }))).annotate({
  description: "When the plan is over, whatever its heartbeats; absent: never by itself",
  examples: [7200]
})

/** A budget for a unit of work: held on the caps that govern it, and drawn on call by call. */
export const Plan = Schema.Struct({
  id: PlanId,
  tenantId: TenantId,
  agentId: AgentId,
  taskType: Schema.NullOr(Label),
  name: Schema.NullOr(PlanName),
  status: PlanStatus,
  budgetUsd: UsdOrZero,
  spentUsd: exactNumber({ description: "The actual cost of its calls, including those settled late", examples: [2.5] }),
  reservedUsd: exactNumber({ description: "What its open calls hold", examples: [2.5] }),
  remainingUsd: exactNumber({ description: "What calls may still draw; nothing once it has ended", examples: [2.5] }),
  heartbeatSeconds: HeartbeatSeconds,
  heartbeatBy: Instant.annotate({ description: "When it is suspended unless it is heard of before" }),
  expiresAt: Schema.NullOr(Instant),
  metadata: Schema.NullOr(Metadata),
  createdAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }),
  endedAt: Schema.NullOr(Instant)
}).annotate({ identifier: "Plan" })
export type Plan = typeof Plan.Type

export const PlanStart = Schema.Struct({
  budgetUsd: Usd,
  taskType: Schema.optionalKey(
    described(Label, {
      description: "One that the agent is allowed; absent: the agent's default. Every call of the plan has it."
    })
  ),
  name: Schema.optionalKey(PlanName),
  heartbeatSeconds: Schema.optionalKey(HeartbeatSeconds),
  expiresInSeconds: Schema.optionalKey(ExpiresInSeconds),
  metadata: Schema.optionalKey(Metadata)
}).annotate({
  identifier: "PlanStart",
  examples: [{ budgetUsd: 5_000_000_000n, name: "Read the invoices of March" }]
})
export type PlanStart = typeof PlanStart.Type

export const PlanExtension = Schema.Struct({
  additionalUsd: Usd,
  reason: Schema.optionalKey(name(500, { examples: ["More invoices than expected"] }))
}).annotate({
  identifier: "PlanExtension",
  examples: [{ additionalUsd: 2_500_000_000n, reason: "More invoices than expected" }]
})
export type PlanExtension = typeof PlanExtension.Type

export const Heartbeat = Schema.Struct({ heartbeatBy: Instant }).annotate({ identifier: "Heartbeat" })
export type Heartbeat = typeof Heartbeat.Type

export class PlanExtensionDenied extends Problem<PlanExtensionDenied>()(
  "PlanExtensionDenied",
  {
    slug: "budget-denied",
    status: 400,
    meaning: "A budget cap has no room for what the plan would have in addition; `caps` has what each has left."
  },
  denial
) {}

export class PlanHasOpenReservations extends Problem<PlanHasOpenReservations>()("PlanHasOpenReservations", {
  slug: "plan-has-open-reservations",
  status: 409,
  meaning: "Calls of the plan are open: settle or release them first, or abort the plan."
}) {}

export const planActions = auditActions("Plan", [
  "PlanStarted",
  "PlanExtended",
  "PlanCompleted",
  "PlanAborted",
  "PlanResumed",
  "PlanSuspended",
  "PlanExpired"
])
