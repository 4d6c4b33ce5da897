import { DateTime, Schema } from "effect"
import { naturalAnchor, TimeZone } from "../../budgets/caps/domain.ts"
import { Label } from "../../budgets/ledger/domain.ts"
import { Quantity, quantityFault, Total, Unit } from "../../budgets/ledger/quantity-domain.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { listing } from "../../kernel/http/listing.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { described, name } from "../../kernel/text.ts"
import { UsdOrZero } from "../../kernel/usd.ts"

export const SubscriptionId = Uuid.pipe(Schema.brand("SubscriptionId"))
export type SubscriptionId = typeof SubscriptionId.Type

/** How they are listed. */
export const subscriptionListing = listing(
  SubscriptionId,
  { createdAt: "id", name: "text" },
  { searches: "the name, the provider and its plan" }
)

export const SubscriptionPeriod = Schema.Literals(["day", "week", "month", "quarter", "year"]).annotate({
  examples: ["month"]
})
export type SubscriptionPeriod = typeof SubscriptionPeriod.Type

const Quota = Schema.Struct({ unit: Unit, amount: Quantity }).annotate({
  identifier: "SubscriptionQuota",
  description: "What is paid for in each period",
  examples: [{ unit: "tokens", amount: 50_000_000 }]
})
export type Quota = typeof Quota.Type

const Anchor = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 31 }))).annotate({
  description: "Where the period begins, as of a cap: by default as the calendar does",
  examples: [1]
})
const Overage = Schema.Literals(["allow", "deny"]).annotate({
  component: "Overage",
  description: "Whether the gateway's routing `subscription-first` uses the provider beyond the quota",
  examples: ["allow"]
})
const Pending = Schema.Struct({ quota: Quota, priceUsd: UsdOrZero, effectiveAt: Instant }).annotate({
  identifier: "PendingSubscription",
  description: "A change that applies from the next period on"
})
export type Pending = typeof Pending.Type

const Provider = described(Label, { examples: ["openai"] })
const Name = name(200, { examples: ["Team plan"] })
const Plan = name(200, { examples: ["Scale"] })

const shown = {
  id: SubscriptionId,
  tenantId: TenantId,
  provider: Provider,
  name: Name,
  plan: Schema.NullOr(Plan),
  quota: Quota,
  period: SubscriptionPeriod,
  anchor: Schema.NullOr(Anchor),
  timeZone: TimeZone,
  overage: Overage
}

/** A subscription as it is stored: a change that is due is still pending in it. */
export const StoredSubscription = Schema.Struct({
  ...shown,
  price: Schema.BigInt,
  startsAt: InstantFromDate,
  endsAt: Schema.NullOr(InstantFromDate),
  pending: Schema.NullOr(Pending),
  createdAt: InstantFromDate,
  updatedAt: InstantFromDate
})
export type StoredSubscription = typeof StoredSubscription.Type

export const Subscription = Schema.Struct({
  ...shown,
  priceUsd: UsdOrZero,
  startsAt: Instant,
  endsAt: Schema.NullOr(Instant),
  status: Schema.Literals(["scheduled", "active", "ended"]),
  pending: Schema.NullOr(Pending),
  createdAt: Instant,
  updatedAt: Instant
}).annotate({ identifier: "Subscription" })
export type Subscription = typeof Subscription.Type

interface Terms {
  readonly quota: Quota
  readonly period: SubscriptionPeriod
  readonly anchor?: number | null
  readonly startsAt?: DateTime.Utc
  readonly endsAt?: DateTime.Utc | null
}

const largestAnchors: Readonly<Record<SubscriptionPeriod, number>> = {
  day: 0,
  week: 7,
  month: 31,
  quarter: 12,
  year: 12
}

const termFaults = ({ anchor, endsAt, period, quota, startsAt }: Terms) => {
  const faults: Array<{ path: ReadonlyArray<string>; issue: string }> = []
  const fault = quantityFault(quota.unit, quota.amount)
  if (fault !== undefined) faults.push({ path: ["quota", "amount"], issue: fault })
  if (anchor !== undefined && anchor !== null && anchor > largestAnchors[period]) {
    const most = largestAnchors[period]
    faults.push({
      path: ["anchor"],
      issue: most === 0 ? "The period day has no anchor" : `Expected 1 to ${most} for the period ${period}`
    })
  }
  if (startsAt !== undefined && endsAt !== undefined && endsAt !== null && !DateTime.isLessThan(startsAt, endsAt)) {
    faults.push({ path: ["endsAt"], issue: "Expected a moment after startsAt" })
  }
  return faults
}

const terms = {
  provider: Provider,
  name: Name,
  priceUsd: UsdOrZero,
  quota: Quota,
  period: SubscriptionPeriod,
  plan: Schema.optionalKey(Schema.NullOr(Plan)),
  anchor: Schema.optionalKey(Schema.NullOr(Anchor)),
  timeZone: Schema.optionalKey(TimeZone),
  startsAt: Schema.optionalKey(Instant),
  endsAt: Schema.optionalKey(Schema.NullOr(Instant)),
  overage: Schema.optionalKey(Overage)
}

const example = {
  provider: "openai",
  name: "Team plan",
  priceUsd: 200_000_000_000n,
  quota: { unit: "tokens", amount: 50_000_000 },
  period: "month"
} as const

export const SubscriptionCreation = Schema.Struct({ ...terms, tenantId: Schema.optionalKey(TenantId) })
  .pipe(Schema.check(Schema.makeFilter(termFaults)))
  .annotate({ identifier: "NewSubscription", examples: [example] })
export type SubscriptionCreation = typeof SubscriptionCreation.Type

export const SubscriptionUpdate = Schema.Struct({
  ...terms,
  effective: Schema.optionalKey(Schema.Literals(["next-period", "immediate"])).annotate({
    description: "When another quota or price applies; by default from the next period on"
  }),
  pending: Schema.optionalKey(Schema.NullOr(Pending)),
  ...serverSet("id", "tenantId", "status", "createdAt", "updatedAt")
})
  .pipe(Schema.check(Schema.makeFilter(termFaults)))
  .annotate({ identifier: "SubscriptionUpdate", examples: [example] })
export type SubscriptionUpdate = typeof SubscriptionUpdate.Type

const Percent = Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 1e21 }))).annotate({
  examples: [42.5]
})

export const SubscriptionUtilization = Schema.Struct({
  periodStart: Instant,
  periodEnd: Instant,
  quota: Quota,
  used: Total.annotate({ description: "All requests of the tenant to the provider in the period" }),
  remaining: Total,
  percentUsed: Percent,
  percentElapsed: Percent,
  projected: Schema.NullOr(Total).annotate({ description: "At the end of the period; null in its first tenth" }),
  exhaustsAt: Schema.NullOr(Instant).annotate({ description: "null where the quota lasts" }),
  byDay: Schema.Array(
    Schema.Struct({ date: Schema.String.annotate({ examples: ["2026-01-31"] }), used: Total }).annotate({
      identifier: "SubscriptionDay"
    })
  )
}).annotate({ identifier: "SubscriptionUtilization" })
export type SubscriptionUtilization = typeof SubscriptionUtilization.Type

/** The anchor of a period: null where it has none. */
export const anchorOf = (period: SubscriptionPeriod, given: number | null | undefined): number | null =>
  given ?? naturalAnchor(period)

/** A subscription as it is at a moment: a pending change whose time has come is in it. */
export const asOf = (stored: StoredSubscription, now: DateTime.Utc): StoredSubscription => {
  const { pending } = stored
  return pending === null || DateTime.isLessThan(now, pending.effectiveAt)
    ? stored
    : { ...stored, quota: pending.quota, price: pending.priceUsd, pending: null }
}

export const toSubscription = ({ price, ...stored }: StoredSubscription, now: DateTime.Utc): Subscription => ({
  ...stored,
  priceUsd: price,
  status: DateTime.isLessThan(now, stored.startsAt)
    ? "scheduled"
    : stored.endsAt !== null && !DateTime.isLessThan(now, stored.endsAt)
      ? "ended"
      : "active"
})

export const subscriptionActions = auditActions("Subscription", [
  "SubscriptionCreated",
  "SubscriptionUpdated",
  "SubscriptionDeleted"
])

export class SubscriptionNotFound extends Problem<SubscriptionNotFound>()("SubscriptionNotFound", {
  slug: "subscription-not-found",
  status: 404,
  meaning: "No subscription that the caller may see has this id."
}) {}
