import { Schema, SchemaTransformation } from "effect"
import { AgentId } from "../../agents/agents/domain.ts"
import { ApiKeyId } from "../../agents/api-keys/domain.ts"
import { ApplicationId } from "../../applications/applications/domain.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { nilUuid, TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { described, name, storable } from "../../kernel/text.ts"
import { UsdOrZero } from "../../kernel/usd.ts"
import { Total, Unit } from "./quantity-domain.ts"

export const ReservationId = Uuid.pipe(Schema.brand("ReservationId"))
export type ReservationId = typeof ReservationId.Type

export const ChargeId = Uuid.pipe(Schema.brand("ChargeId"))
export type ChargeId = typeof ChargeId.Type

export const PlanId = Uuid.pipe(Schema.brand("PlanId"))
export type PlanId = typeof PlanId.Type

export const PlanStatus = Schema.Literals(["active", "suspended", "completed", "aborted", "expired"]).annotate({
  description: "`suspended`: it missed a heartbeat, and the next one revives it",
  examples: ["active"]
})
export type PlanStatus = typeof PlanStatus.Type

export const CapId = Uuid.pipe(Schema.brand("CapId"))
export type CapId = typeof CapId.Type

/** Where caps over all tenants are kept: tenants' ids are never nil. */
export const allTenants = TenantId.make(nilUuid)

/** The tenant of a cap or counter; null where it is over all tenants. */
export const tenantIdOf = ({ tenantId }: { readonly tenantId: TenantId }): TenantId | null =>
  tenantId === allTenants ? null : tenantId

/** A value of a dimension that a caller names freely. */
export const Label = name(200, { component: "Label", examples: ["summarize"] })

/** What scopes of caps name, in the order of the keys of counters. */
export const dimensions = ["agentId", "model", "provider", "taskType", "applicationId", "apiKeyId", "userId"] as const

const each = Schema.Literal("each")
const dimension = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.Union([each, schema]))

/** Which spend a cap governs: all dimensions that it names must match; `each` counts every value by itself. */
export const CapScope = Schema.Struct({
  agentId: dimension(AgentId),
  model: Schema.optionalKey(Label),
  provider: Schema.optionalKey(Label),
  taskType: Schema.optionalKey(Label),
  applicationId: dimension(ApplicationId),
  apiKeyId: dimension(ApiKeyId),
  userId: Schema.optionalKey(Label)
}).annotate({
  identifier: "CapScope",
  description: "Which spend the cap governs: all that is named must match; `each` gives every value its own counter",
  examples: [{ agentId: "each" }]
})
export type CapScope = typeof CapScope.Type

export const Period = Schema.Literals([
  "minute",
  "hour",
  "day",
  "week",
  "month",
  "quarter",
  "year",
  "total",
  "rolling"
]).annotate({ component: "CapPeriod", examples: ["month"] })
export type Period = typeof Period.Type

export const CapMode = Schema.Literals(["hard", "soft", "approval"]).annotate({
  component: "CapMode",
  description: "`hard` refuses, `approval` holds until an approver decides, `soft` only counts and alerts",
  examples: ["hard"]
})
export type CapMode = typeof CapMode.Type

export const CapStatus = Schema.Literals(["active", "paused"]).annotate({ examples: ["active"] })

export const AlertThreshold = Schema.Struct({
  measure: Schema.Literals(["spent", "committed", "forecast"]).annotate({
    description: "`committed` is what is spent and reserved, `forecast` what the period will have spent at this rate",
    examples: ["spent"]
  }),
  percent: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 1000 }))).annotate({ examples: [80] })
}).annotate({
  identifier: "AlertThreshold",
  description:
    "Crossing it is reported once in a period: by an alert of the cap, and by `BudgetCapThresholdPassed` in the audit log"
})

/** A cap as it is stored. */
export const StoredCap = Schema.Struct({
  tenantId: TenantId,
  id: CapId,
  name: Schema.String,
  scope: CapScope,
  unit: Unit,
  limitAmount: Schema.BigInt,
  period: Period,
  windowSeconds: Schema.NullOr(Schema.Int),
  timeZone: Schema.String,
  anchor: Schema.NullOr(Schema.Int),
  mode: CapMode,
  alertThresholds: Schema.Array(AlertThreshold),
  status: CapStatus,
  version: Schema.Int,
  createdAt: InstantFromDate,
  updatedAt: InstantFromDate
})
export type StoredCap = typeof StoredCap.Type

/** Labels that a caller attaches to a reservation. */
export const Metadata = Schema.Record(storable(Schema.String), storable(Schema.String))
  .pipe(
    Schema.check(
      Schema.makeFilter((metadata: Readonly<Record<string, string>>) => JSON.stringify(metadata).length <= 4096, {
        expected: "at most 4,096 characters as JSON",
        toJsonSchema: () => ({})
      })
    )
  )
  .annotate({
    component: "Metadata",
    description: "The caller's own words, at most 4,096 characters",
    examples: [{ ticket: "4711" }]
  })
export type Metadata = typeof Metadata.Type

/** A cap that applies to a reservation. Callers that may not see its figures get only its id and when it resets. */
export const GoverningCap = Schema.Struct({
  capId: CapId,
  name: Schema.optionalKey(Schema.String.annotate({ examples: ["All agents, monthly"] })),
  headroom: Schema.optionalKey(Total),
  resetsAt: Schema.NullOr(Instant)
}).annotate({ identifier: "GoverningCap" })
export type GoverningCap = typeof GoverningCap.Type

export const ReservationState = Schema.Literals(["held", "open", "denied", "expired", "released", "settled"]).annotate({
  examples: ["open"]
})
export type ReservationState = typeof ReservationState.Type

export const Origin = Schema.Literals(["api", "gateway", "plan"]).annotate({
  description: "Who looks after it: `api` ones are their caller's",
  examples: ["api"]
})
export type Origin = typeof Origin.Type

/** Amounts of one row in JSON, which fit a double. */
export const Amount = Schema.Finite.pipe(
  Schema.decodeTo(Schema.BigInt, SchemaTransformation.transform({ decode: BigInt, encode: Number }))
)
/** Sums, which may exceed what a double holds. */
export const Sum = Schema.String.pipe(
  Schema.decodeTo(Schema.BigInt, SchemaTransformation.transform({ decode: BigInt, encode: String }))
)

/** A reservation as it is stored. */
export const StoredReservation = Schema.Struct({
  tenantId: TenantId,
  id: ReservationId,
  state: ReservationState,
  origin: Origin,
  agentId: Schema.NullOr(AgentId),
  planId: Schema.NullOr(PlanId),
  applicationId: Schema.NullOr(ApplicationId),
  apiKeyId: Schema.NullOr(ApiKeyId),
  userId: Schema.NullOr(Schema.String),
  model: Schema.NullOr(Schema.String),
  provider: Schema.NullOr(Schema.String),
  taskType: Schema.NullOr(Schema.String),
  amount: Amount,
  tokens: Schema.Int,
  ttlSeconds: Schema.Int,
  expiresAt: Instant,
  createdAt: Instant,
  createdBy: Schema.String,
  metadata: Schema.NullOr(Schema.Record(Schema.String, Schema.String)),
  counterIds: Schema.Array(Uuid),
  answer: Schema.NullOr(
    Schema.Struct({
      state: Schema.Literals(["open", "held"]),
      amount: Schema.optionalKey(Amount),
      tokens: Schema.optionalKey(Schema.Int),
      ttl: Schema.optionalKey(Schema.Int),
      caps: Schema.NullOr(
        Schema.Array(Schema.Struct({ tenantId: TenantId, id: Uuid, name: Schema.String, unit: Schema.String }))
      ),
      headrooms: Schema.NullOr(Schema.Array(Sum)),
      ends: Schema.NullOr(Schema.Array(Schema.NullOr(Schema.Finite)))
    })
  ),
  decidedAt: Schema.NullOr(Instant),
  decidedBy: Schema.NullOr(Schema.String),
  decisionReason: Schema.NullOr(Schema.String),
  closedAt: Schema.NullOr(Instant),
  chargeId: Schema.NullOr(ChargeId),
  actual: Schema.NullOr(Amount),
  actualTokens: Schema.NullOr(Schema.Int),
  late: Schema.Boolean
})
export type StoredReservation = typeof StoredReservation.Type

/** A charge or a refund as it is stored. */
export const StoredEntry = Schema.Struct({
  tenantId: TenantId,
  id: ChargeId,
  reservationId: ReservationId,
  kind: Schema.Literals(["charge", "refund"]),
  chargeId: ChargeId,
  amount: Amount,
  tokens: Schema.Int,
  overrun: Amount,
  late: Schema.Boolean,
  reason: Schema.NullOr(Schema.String),
  metadata: Schema.NullOr(Schema.Record(Schema.String, Schema.String)),
  occurredAt: Instant,
  createdBy: Schema.String
})
export type StoredEntry = typeof StoredEntry.Type

/** The part of a plan that its calls need; it never changes. */
export const CallPlan = Schema.Struct({
  tenantId: TenantId,
  id: PlanId,
  agentId: AgentId,
  taskType: Schema.NullOr(Schema.String),
  name: Schema.NullOr(Schema.String)
})
export type CallPlan = typeof CallPlan.Type

/** Audited: decisions about reservations, and denials. Reservations and charges are stored in their own tables. */
export const spendActions = auditActions("Reservation", [
  "SpendApproved",
  "SpendDenied",
  "SpendRefunded",
  "SpendRefused"
])
export const sweepActions = auditActions("Tenant", ["SpendReservationsExpired"])

/** What a cap counts and has left, for callers that may see it: none but system callers see that of a cap over all tenants. */
const capFigures = {
  capName: Schema.optionalKey(Schema.String.annotate({ examples: ["All agents, monthly"] })),
  unit: Schema.optionalKey(Unit),
  requested: Schema.optionalKey(Total),
  limit: Schema.optionalKey(Total),
  spent: Schema.optionalKey(Total),
  reserved: Schema.optionalKey(Total),
  headroom: Schema.optionalKey(Total)
}

/** Why a cap or a plan denies a reservation. */
export const denial = {
  reason: Schema.Literals(["exhausted", "exceeds-limit", "in-flight"]),
  capId: Schema.NullOr(CapId),
  planId: Schema.optionalKey(described(PlanId, { description: "The plan, where it is that which has no room" })),
  ...capFigures,
  resetsAt: Schema.NullOr(Instant),
  caps: Schema.Array(GoverningCap)
}

export type Denial = { readonly detail: string } & Schema.Struct<typeof denial>["Type"]

export class BudgetDenied extends Problem<BudgetDenied>()(
  "BudgetDenied",
  {
    slug: "budget-denied",
    status: 402,
    meaning:
      "A budget cap has no room. `exhausted`: what is left is less than the amount. `exceeds-limit`: the amount is more than the cap ever allows. `in-flight`: it would fit once open reservations settle."
  },
  denial
) {}

export class ReservationNotFound extends Problem<ReservationNotFound>()("ReservationNotFound", {
  slug: "reservation-not-found",
  status: 404,
  meaning: "No reservation that the caller may see has this id."
}) {}

export class PlanNotFound extends Problem<PlanNotFound>()("PlanNotFound", {
  slug: "plan-not-found",
  status: 404,
  meaning: "The agent has no plan with this id."
}) {}

export class PlanNotActive extends Problem<PlanNotActive>()(
  "PlanNotActive",
  {
    slug: "plan-not-active",
    status: 409,
    meaning:
      "The plan is not active: `planStatus` says what it is. A heartbeat revives one that is suspended; what has ended stays ended."
  },
  { planStatus: PlanStatus }
) {}

export class ChargeNotFound extends Problem<ChargeNotFound>()("ChargeNotFound", {
  slug: "charge-not-found",
  status: 404,
  meaning: "No charge that the caller may see has this id."
}) {}

export class ReservationManaged extends Problem<ReservationManaged>()(
  "ReservationManaged",
  {
    slug: "reservation-managed",
    status: 409,
    meaning: "The gateway or a plan looks after this reservation; it is not settled, released or extended by hand."
  },
  { origin: Origin }
) {}

export class ReservationSettled extends Problem<ReservationSettled>()("ReservationSettled", {
  slug: "reservation-settled",
  status: 409,
  meaning: "The reservation is settled, with another actual or for good."
}) {}

export class ReservationNotOpen extends Problem<ReservationNotOpen>()(
  "ReservationNotOpen",
  {
    slug: "reservation-not-open",
    status: 409,
    meaning: "The reservation is not, or no longer, open."
  },
  { state: ReservationState }
) {}

export class CounterFull extends Problem<CounterFull>()("CounterFull", {
  slug: "counter-full",
  status: 409,
  meaning:
    "A cap that governs the reservation can count no more in its period: about nine billion US dollars, or nine billion billions of tokens. What was reserved can always be settled."
}) {}

export class ReservationTooSmall extends Problem<ReservationTooSmall>()(
  "ReservationTooSmall",
  {
    slug: "reservation-too-small",
    status: 409,
    meaning: "The call may cost more than the reservation has."
  },
  { estimateUsd: UsdOrZero.annotate({ description: "What the call may cost" }) }
) {}

export class ReservationNotHeld extends Problem<ReservationNotHeld>()("ReservationNotHeld", {
  slug: "reservation-not-held",
  status: 409,
  meaning: "The reservation does not, or no longer, wait for an approval."
}) {}

export class StillNoHeadroom extends Problem<StillNoHeadroom>()(
  "StillNoHeadroom",
  {
    slug: "still-no-headroom",
    status: 409,
    meaning:
      "A cap still has no room for the reservation. `override` raises caps of mode approval by what is short; it raises no hard cap, and caps over all tenants for system callers only."
  },
  { capId: Schema.NullOr(CapId), ...capFigures, resetsAt: Schema.NullOr(Instant) }
) {}

export class RefundExceedsCharge extends Problem<RefundExceedsCharge>()(
  "RefundExceedsCharge",
  {
    slug: "refund-exceeds-charge",
    status: 409,
    meaning: "All refunds of a charge together are at most the charge; `refundableUsd` is what is left."
  },
  { refundableUsd: UsdOrZero }
) {}

export class PriceUnknown extends Problem<PriceUnknown>()(
  "PriceUnknown",
  {
    slug: "price-unknown",
    status: 400,
    meaning:
      "The catalogue has no price for this model, or one by units that are not named; name them, or the amount in US dollars instead."
  },
  { model: Schema.String }
) {}
