import { Schema, SchemaGetter } from "effect"
import { AgentId } from "../../agents/agents/domain.ts"
import { ApiKeyId } from "../../agents/api-keys/domain.ts"
import { ApplicationId } from "../../applications/applications/domain.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { listing } from "../../kernel/http/listing.ts"
import { integerParameter } from "../../kernel/http/parameter.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { name, text } from "../../kernel/text.ts"
import { AlertThreshold, CapId, CapMode, CapScope, CapStatus, dimensions, Label, Period } from "../ledger/domain.ts"
import { Quantity, quantityFault, Total, Unit } from "../ledger/quantity-domain.ts"

/** How they are listed. */
export const capListing = listing(CapId, { createdAt: "id", name: "text" }, { searches: "the name and the scope" })

// To look a zone up costs more than the rest of a cap's check.
const zones = new Map(["UTC", ...Intl.supportedValuesOf("timeZone")].map((zone) => [zone.toLowerCase(), zone]))

/** The name of the zone of a text, which may be in any case; undefined where there is none. An older or newer name of it stays. */
const zoneIn = (text: string): string | undefined => {
  const known = zones.get(text.toLowerCase())
  if (known !== undefined || !/^[A-Z]{2}/i.test(text)) return known
  try {
    return Temporal.Now.zonedDateTimeISO(text).timeZoneId
  } catch {
    return undefined
  }
}
export const TimeZone = text(1, 64)
  .annotate({ component: "TimeZone", examples: ["Europe/Berlin"] })
  .pipe(
    Schema.decodeTo(
      Schema.String.pipe(
        Schema.check(
          Schema.makeFilter((zone) => zoneIn(zone) === zone, {
            expected: "a time zone of the IANA database, such as Europe/Berlin"
          })
        )
      ),
      { decode: SchemaGetter.transform((text) => zoneIn(text) ?? text), encode: SchemaGetter.passthrough() }
    )
  )

/** The day of the week (1 is Monday), the day of the month, or the first month, by the period. */
const Anchor = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 31 }))).annotate({
  component: "PeriodAnchor",
  description:
    "Where the period begins: week 1 (Monday) to 7, month 1 to 31 (the last day of shorter months), quarter and year the first month 1 to 12",
  examples: [1]
})
const WindowSeconds = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 31_622_400 }))).annotate({
  description: "The length of a rolling window",
  examples: [3600]
})

const AlertThresholds = Schema.Array(AlertThreshold).pipe(Schema.check(Schema.isMaxLength(20), Schema.isUnique()))

export const CapName = name(200, { examples: ["All agents, monthly"] })
const Version = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))

/** A limit on what is spent in a period. */
export const Cap = Schema.Struct({
  id: CapId,
  tenantId: Schema.NullOr(TenantId).annotate({ description: "null: over all tenants" }),
  name: CapName,
  scope: CapScope,
  unit: Unit,
  limit: Quantity,
  period: Period,
  windowSeconds: Schema.NullOr(WindowSeconds),
  timeZone: TimeZone,
  anchor: Schema.NullOr(Anchor),
  mode: CapMode,
  alertThresholds: AlertThresholds,
  status: CapStatus,
  version: Version,
  createdAt: Instant,
  updatedAt: Instant
}).annotate({ identifier: "Cap" })
export type Cap = typeof Cap.Type

const anchored: Partial<Record<Period, number>> = { week: 7, month: 31, quarter: 12, year: 12 }

/** The default start of a period; null for periods whose start cannot be chosen. */
export const naturalAnchor = (period: Period): number | null => (period in anchored ? 1 : null)

interface Terms {
  readonly unit: Unit
  readonly limit: number
  readonly period: Period
  readonly windowSeconds?: number | null
  readonly anchor?: number | null
}

const termFaults = ({ anchor, limit, period, unit, windowSeconds }: Terms) => {
  const faults: Array<{ path: ReadonlyArray<string>; issue: string }> = []
  const limitFault = quantityFault(unit, limit)
  if (limitFault !== undefined) faults.push({ path: ["limit"], issue: limitFault })
  if ((period === "rolling") !== (windowSeconds !== undefined && windowSeconds !== null)) {
    faults.push({ path: ["windowSeconds"], issue: "Expected with the period rolling, and with no other" })
  }
  const most = anchored[period]
  if (anchor !== undefined && anchor !== null && (most === undefined || anchor > most)) {
    faults.push({
      path: ["anchor"],
      issue:
        most === undefined ? `The period ${period} has no anchor` : `Expected 1 to ${most} for the period ${period}`
    })
  }
  return faults
}

const terms = {
  unit: Unit,
  limit: Quantity,
  period: Period,
  windowSeconds: Schema.optionalKey(Schema.NullOr(WindowSeconds)),
  timeZone: Schema.optionalKey(TimeZone),
  anchor: Schema.optionalKey(Schema.NullOr(Anchor))
}

export const CapCreation = Schema.Struct({
  name: CapName,
  scope: Schema.optionalKey(CapScope),
  ...terms,
  mode: Schema.optionalKey(CapMode),
  alertThresholds: Schema.optionalKey(AlertThresholds),
  status: Schema.optionalKey(CapStatus),
  tenantId: Schema.optionalKey(Schema.NullOr(TenantId)).annotate({
    description: "From system callers only; null: over all tenants"
  })
})
  .pipe(Schema.check(Schema.makeFilter(termFaults, { toJsonSchema: () => ({}) })))
  .annotate({
    identifier: "NewCap",
    examples: [{ name: "All agents, monthly", unit: "usd", limit: 250, period: "month", scope: { agentId: "each" } }]
  })
export type CapCreation = typeof CapCreation.Type

/** The body of a PUT: members that cannot change must have their current values. */
export const CapUpdate = Schema.Struct({
  name: CapName,
  limit: Quantity,
  mode: Schema.optionalKey(CapMode),
  alertThresholds: Schema.optionalKey(AlertThresholds),
  status: Schema.optionalKey(CapStatus),
  scope: Schema.optionalKey(CapScope),
  unit: Schema.optionalKey(Unit),
  period: Schema.optionalKey(Period),
  windowSeconds: Schema.optionalKey(Schema.NullOr(WindowSeconds)),
  timeZone: Schema.optionalKey(TimeZone),
  anchor: Schema.optionalKey(Schema.NullOr(Anchor)),
  ...serverSet("id", "tenantId", "version", "createdAt", "updatedAt")
}).annotate({ identifier: "CapUpdate", examples: [{ name: "All agents, monthly", limit: 300 }] })
export type CapUpdate = typeof CapUpdate.Type

export const GrantId = Uuid.pipe(Schema.brand("GrantId"))
export type GrantId = typeof GrantId.Type
const Reason = name(500, { examples: ["Month-end close"] })

/** A raise of a cap: bounded, attributed, and over some day. */
export const Grant = Schema.Struct({
  id: GrantId,
  capId: CapId,
  amount: Quantity,
  reason: Reason,
  expiresAt: Schema.NullOr(Instant),
  createdAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }),
  endedAt: Schema.NullOr(Instant)
}).annotate({ identifier: "Grant" })
export type Grant = typeof Grant.Type

export const GrantCreation = Schema.Struct({
  amount: Quantity,
  reason: Reason,
  expiresAt: Schema.optionalKey(Schema.NullOr(Instant))
}).annotate({ identifier: "NewGrant", examples: [{ amount: 50, reason: "Month-end close" }] })
export type GrantCreation = typeof GrantCreation.Type

/** The scope of one counter of a cap. */
export const CountedScope = Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Int])).annotate({
  component: "CountedScope",
  description: "The scope, with the value that is counted in the place of `each`",
  examples: [{ model: "gpt-5" }]
})

/** The utilization of a cap: one item for each of its counters. */
export const CapUtilization = Schema.Struct({
  capId: CapId,
  tenantId: Schema.NullOr(TenantId).annotate({ description: "null: over all tenants" }),
  name: CapName,
  scope: CountedScope,
  unit: Unit,
  limit: Quantity,
  grants: Total,
  spent: Total,
  reserved: Total,
  held: Total,
  headroom: Total,
  percentUsed: Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 1e21 }))).annotate({
    description: "What is spent, of the limit and the grants",
    examples: [42.5]
  }),
  state: Schema.Literals(["ok", "warning", "exhausted", "over"]).annotate({ examples: ["ok"] }),
  periodStart: Schema.NullOr(Instant),
  periodEnd: Schema.NullOr(Instant),
  projected: Schema.NullOr(Total),
  exhaustsAt: Schema.NullOr(Instant)
}).annotate({ identifier: "CapStanding" })
export type CapUtilization = typeof CapUtilization.Type

/** What caps may apply to: an agent, a key, or what else a scope names. */
export const capsSubject = {
  tenantId: Schema.optionalKey(TenantId),
  agentId: Schema.optionalKey(AgentId),
  apiKeyId: Schema.optionalKey(ApiKeyId),
  applicationId: Schema.optionalKey(integerParameter(ApplicationId)),
  model: Schema.optionalKey(Label),
  provider: Schema.optionalKey(Label),
  taskType: Schema.optionalKey(Label),
  userId: Schema.optionalKey(Label)
}
export type CapsSubject = Schema.Struct<typeof capsSubject>["Type"]

/** A cap that applies to a subject, and what it has left. */
export const ApplicableCap = Schema.Struct({
  use: CapUtilization,
  mode: CapMode,
  period: Period,
  dependsOn: Schema.Array(Schema.Literals(dimensions)).annotate({
    description: "What else decides whether it applies to a request; empty where it applies to all of them",
    examples: [["model"]]
  })
}).annotate({ identifier: "ApplicableCap" })

export type ApplicableCap = typeof ApplicableCap.Type

export const ApplicableCaps = Schema.Struct({
  asOf: Instant,
  fullOverAllTenants: Schema.Boolean.annotate({
    description: "Whether a cap over all tenants that applies to all of it is full; only system callers see which one"
  }),
  items: Schema.Array(ApplicableCap)
}).annotate({ identifier: "ApplicableCaps" })

/** The sort key of an item: its cap and its counter. */
export const UtilizationKey = Schema.Tuple([CapId, Uuid])
export type UtilizationKey = typeof UtilizationKey.Type

/** The other orders of the utilizations. */
export const UtilizationSort = Schema.Literals(["percentUsed", "-percentUsed"]).annotate({ examples: ["-percentUsed"] })
export type UtilizationSort = typeof UtilizationSort.Type

const Share = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^\d{1,20}(?:\.\d{1,20})?(?:e[+-]\d{1,2})?$/u, { expected: "a share" }))
)
/** The place of an item in such an order: the share that is used, as PostgreSQL writes it, before the sort key. */
export const UsePlace = Schema.Tuple([UtilizationSort, Share, ...UtilizationKey.elements])
export type UsePlace = typeof UsePlace.Type

export const capActions = auditActions("BudgetCap", [
  "BudgetCapCreated",
  "BudgetCapUpdated",
  "BudgetCapDeleted",
  "BudgetCapThresholdPassed"
])
export const grantActions = auditActions("BudgetGrant", ["BudgetGrantCreated", "BudgetGrantEnded"])

export class CapNotFound extends Problem<CapNotFound>()("CapNotFound", {
  slug: "cap-not-found",
  status: 404,
  meaning: "No budget cap that the caller may see has this id."
}) {}

export class TooManyCaps extends Problem<TooManyCaps>()(
  "TooManyCaps",
  {
    slug: "too-many-caps",
    status: 409,
    meaning: "The tenant has as many budget caps as it may have; one must be deleted before another is made."
  },
  { maximum: Schema.Int.annotate({ description: "Budgets:MaxCaps", examples: [1000] }) }
) {}

export class GrantNotFound extends Problem<GrantNotFound>()("GrantNotFound", {
  slug: "grant-not-found",
  status: 404,
  meaning: "The cap has no grant with this id."
}) {}

export class CapImmutable extends Problem<CapImmutable>()(
  "CapImmutable",
  {
    slug: "cap-immutable",
    status: 409,
    meaning: "Unit, scope, period, time zone and anchor of a cap stay as they were made; `members` names what differs."
  },
  { members: Schema.Array(Schema.String) }
) {}
