import { DateTime, Schema } from "effect"
import { type AuditEntry, AuditEntryId } from "../../audit/log/domain.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { listing } from "../../kernel/http/listing.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { described } from "../../kernel/text.ts"

export const TargetId = Uuid.pipe(Schema.brand("EventTargetId"))
export type TargetId = typeof TargetId.Type

/** How subscriptions and integrations are listed. */
export const targetListing = listing(
  TargetId,
  { createdAt: "id", name: "text" },
  { searches: "the name and the address" }
)

export const TargetKind = Schema.Literals(["webhook", "slack", "cloudevents", "subscription"])
export const TargetStatus = Schema.Literals(["active", "refused", "disabled"])

type Attributes = { readonly [attribute: string]: string }
export type Filter =
  | { readonly exact: Attributes }
  | { readonly prefix: Attributes }
  | { readonly suffix: Attributes }
  | { readonly all: ReadonlyArray<Filter> }
  | { readonly any: ReadonlyArray<Filter> }
  | { readonly not: Filter }

const Attributes = Schema.Record(
  Schema.String.pipe(Schema.check(Schema.isPattern(/^[a-z0-9]{1,64}$/u, { expected: "the name of an attribute" }))),
  Schema.String.pipe(Schema.check(Schema.isBetweenCodePoints(1, 1024)))
)
  .pipe(Schema.check(Schema.isBetweenProperties(1, 20)))
  .annotate({ component: "EventAttributes" })
const nested = Schema.Array(Schema.suspend((): Schema.Codec<Filter> => Filter)).pipe(
  Schema.check(Schema.isMinLength(1), Schema.isMaxLength(20))
)

/** A filter of the CloudEvents Subscriptions API: exactly one of its dialects. */
export const Filter: Schema.Codec<Filter> = Schema.Union([
  Schema.Struct({ exact: Attributes }),
  Schema.Struct({ prefix: Attributes }),
  Schema.Struct({ suffix: Attributes }),
  Schema.Struct({ all: nested }),
  Schema.Struct({ any: nested }),
  Schema.Struct({ not: Schema.suspend((): Schema.Codec<Filter> => Filter) })
]).annotate({
  identifier: "EventFilter",
  description: "One of `exact`, `prefix`, `suffix` (all attributes must match), `all`, `any` and `not`",
  examples: [{ prefix: { type: "com.application-manager.trial-user." } }]
})

/** Whether an event passes a filter. */
export const passes = (filter: Filter, event: Readonly<Record<string, unknown>>): boolean => {
  const each = (attributes: Attributes, test: (value: string, wanted: string) => boolean) =>
    Object.entries(attributes).every(([name, wanted]) => {
      const isAttribute = Object.hasOwn(event, name) && name !== "data" && event[name] !== undefined
      return isAttribute && test(String(event[name]), wanted)
    })
  if ("exact" in filter) return each(filter.exact, (value, wanted) => value === wanted)
  if ("prefix" in filter) return each(filter.prefix, (value, wanted) => value.startsWith(wanted))
  if ("suffix" in filter) return each(filter.suffix, (value, wanted) => value.endsWith(wanted))
  if ("all" in filter) return filter.all.every((one) => passes(one, event))
  if ("any" in filter) return filter.any.some((one) => passes(one, event))
  return !passes(filter.not, event)
}

export const contentMode = Schema.optionalKey(Schema.Literals(["structured", "binary"])).annotate({
  description: "All of an event in the body, or its attributes in headers"
})
/** Stands for a secret, which is stored apart and not shown. */
export const redactedSecret = "********"

/** How events are written for a subscription, and whether they are signed. */
export const TargetConfig = Schema.Struct({
  contentMode,
  secret: Schema.optionalKey(Schema.Literal(redactedSecret)).annotate({
    description: "Deliveries are signed; the secret is not shown"
  })
}).annotate({ identifier: "EventSubscriptionConfig", examples: [{ contentMode: "structured" }] })

/** Where events are delivered, as it is stored; its secrets are read apart. */
export const Target = Schema.Struct({
  id: TargetId,
  tenantId: Schema.NullOr(TenantId),
  kind: TargetKind,
  name: Schema.String,
  url: Schema.String,
  eventTypes: Schema.Array(Schema.String),
  filters: Schema.Array(Filter),
  config: TargetConfig,
  status: TargetStatus,
  createdAt: InstantFromDate,
  createdBy: Schema.String,
  updatedAt: InstantFromDate
})
export type Target = typeof Target.Type

/**
 * The address of a target as events and audit entries show it. That of an incoming webhook of Slack may be used by all who know it,
 * and other receivers expect a key in the query.
 */
export const redactedUrl = (url: string, kind: Target["kind"]): string => {
  const parsed = URL.parse(url)
  if (parsed === null) return url
  if (kind === "slack") return `${parsed.origin}/${redactedSecret}`
  return parsed.search === "" ? url : `${parsed.origin}${parsed.pathname}?${redactedSecret}`
}

export const DeliveryId = Uuid.pipe(Schema.brand("EventDeliveryId"))
export type DeliveryId = typeof DeliveryId.Type

export const DeliveryStatus = Schema.Literals(["pending", "delivered", "failed"])

export const DeliveryAttempt = Schema.Struct({
  at: Instant,
  status: Schema.NullOr(
    Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 100, maximum: 999 }))).annotate({ examples: [204] })
  ).annotate({ description: "Of the HTTP response; null without one" }),
  error: Schema.NullOr(Schema.String.annotate({ examples: ["The server did not answer within 15 seconds"] }))
}).annotate({ identifier: "EventDeliveryAttempt" })
export type DeliveryAttempt = typeof DeliveryAttempt.Type

const delivery = {
  id: DeliveryId,
  type: Schema.String.annotate({ examples: ["com.application-manager.trial-user.created"] }),
  status: DeliveryStatus,
  attempts: Schema.Array(DeliveryAttempt)
}

export const StoredDelivery = Schema.Struct({
  ...delivery,
  webhookId: AuditEntryId,
  nextAttemptAt: Schema.NullOr(InstantFromDate)
})
export type StoredDelivery = typeof StoredDelivery.Type

export const Delivery = Schema.Struct({
  ...delivery,
  webhookId: described(AuditEntryId, { description: "`webhook-id` of each attempt" }),
  nextAttemptAt: Schema.NullOr(Instant)
}).annotate({ identifier: "EventDelivery" })
export type Delivery = typeof Delivery.Type

/** A delivery that a replica has taken, with the entry whose event it is; null when retention has dropped that. */
export interface TakenDelivery {
  readonly id: DeliveryId
  readonly targetId: TargetId
  readonly tried: number
  readonly entry: AuditEntry | null
}

/** What became of an attempt; `retryInMillis` is null when there is no further one. */
export interface AttemptResult {
  readonly id: DeliveryId
  readonly targetId: TargetId
  readonly attempt: DeliveryAttempt
  readonly isDelivered: boolean
  readonly retryInMillis: number | null
}

/** How long a secret signs beside the one that replaced it, by default. */
export const overlapSecondsDefault = 86_400

const second = 1000
const minute = 60 * second
const hour = 60 * minute

/** The pauses behind the failed attempts, as Standard Webhooks recommends them. */
export const retryPausesMillis: ReadonlyArray<number> = [
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour
]
/** By how much of itself a pause may be longer, so that many deliveries that failed together are not retried together. */
export const jitter = 0.1

/** The pause before the next attempt; null behind the last one. `random` is from 0 to 1. */
export const retryPauseMillis = (failedAttempts: number, random: number): number | null => {
  const pause = retryPausesMillis[failedAttempts - 1]
  return pause === undefined ? null : Math.round(pause * (1 + jitter * random))
}

/** How long every attempt has to fail until a target is disabled. */
export const failingDays = 10
export const hasFailedTooLong = (since: DateTime.Utc, now: DateTime.Utc): boolean =>
  DateTime.isLessThanOrEqualTo(DateTime.add(since, { days: failingDays }), now)

export const integrationActions = auditActions("Integration", [
  "IntegrationCreated",
  "IntegrationUpdated",
  "IntegrationDeleted",
  "IntegrationTested",
  "IntegrationSecretRotated",
  "IntegrationReplayed",
  "IntegrationDeliveryRetried",
  "IntegrationDisabled"
])

export const eventSubscriptionActions = auditActions("EventSubscription", [
  "EventSubscriptionCreated",
  "EventSubscriptionUpdated",
  "EventSubscriptionDeleted",
  "EventSubscriptionDisabled"
])

export class IntegrationNotFound extends Problem<IntegrationNotFound>()("IntegrationNotFound", {
  slug: "integration-not-found",
  status: 404,
  meaning: "No integration that the caller may see has this id."
}) {}

export class EventSubscriptionNotFound extends Problem<EventSubscriptionNotFound>()("EventSubscriptionNotFound", {
  slug: "event-subscription-not-found",
  status: 404,
  meaning: "No event subscription that the caller may see has this id."
}) {}

/** How many integrations and event subscriptions a tenant may have together; as many may be without a tenant. */
export const maxTargets = 100

export class TooManyEventTargets extends Problem<TooManyEventTargets>()(
  "TooManyEventTargets",
  {
    slug: "too-many-event-targets",
    status: 409,
    meaning:
      "The tenant has as many integrations and event subscriptions as it may have; one must be deleted before another is made."
  },
  {
    maximum: Schema.Int.annotate({
      description: "Of integrations and event subscriptions together",
      examples: [maxTargets]
    })
  }
) {}

export class DeliveryNotFound extends Problem<DeliveryNotFound>()("DeliveryNotFound", {
  slug: "delivery-not-found",
  status: 404,
  meaning: "The integration has no delivery with this id; deliveries are kept for 30 days."
}) {}
