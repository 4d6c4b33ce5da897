import { Schema, Struct } from "effect"
import { TenantId } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { text } from "../../kernel/text.ts"
import { Filter, type Target, TargetConfig, TargetId, TargetStatus, Url } from "../deliveries/domain.ts"

const maxFilterCharacters = 8192

const Types = Schema.Array(text(1, 255))
  .pipe(Schema.check(Schema.isMaxLength(100)))
  .annotate({
    description: "Exact event types; absent or empty for all",
    examples: [["com.application-manager.trial-user.created"]]
  })
const Filters = Schema.Array(Filter).pipe(
  Schema.check(
    Schema.isMaxLength(20),
    Schema.makeFilter((filters) => JSON.stringify(filters).length <= maxFilterCharacters, {
      expected: `filters of at most ${maxFilterCharacters} characters as JSON`
    })
  )
)
const Sink = Url.annotate({ description: "Where events are sent", examples: ["https://crm.example/events"] })
const Protocol = Schema.Literal("HTTP")

/** A subscription of the CloudEvents Subscriptions API. */
export const EventSubscription = Schema.Struct({
  id: TargetId,
  sink: Sink,
  protocol: Protocol,
  types: Types,
  filters: Filters,
  config: TargetConfig,
  tenantId: Schema.NullOr(TenantId),
  status: TargetStatus.annotate({
    description: "`refused`: the sink has not agreed to receive events of this service",
    examples: ["active"]
  }),
  createdAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }),
  updatedAt: Instant
}).annotate({ identifier: "EventSubscription" })
export type EventSubscription = typeof EventSubscription.Type

const terms = {
  sink: Sink,
  protocol: Schema.optionalKey(Protocol),
  types: Schema.optionalKey(Types),
  filters: Schema.optionalKey(Filters),
  config: Schema.optionalKey(TargetConfig)
}
const example = { sink: "https://crm.example/events", types: ["com.application-manager.trial-user.created"] } as const

export const EventSubscriptionCreation = Schema.Struct({
  ...terms,
  tenantId: Schema.optionalKey(TenantId)
}).annotate({ identifier: "EventSubscriptionCreation", examples: [example] })
export type EventSubscriptionCreation = typeof EventSubscriptionCreation.Type

export const EventSubscriptionUpdate = Schema.Struct({
  ...terms,
  status: Schema.optionalKey(TargetStatus).annotate({
    description: "`disabled` ends deliveries; else the sink is asked again, and its answer decides"
  }),
  ...serverSet("id", "tenantId", "createdAt", "createdBy", "updatedAt")
}).annotate({ identifier: "EventSubscriptionUpdate", examples: [example] })
export type EventSubscriptionUpdate = typeof EventSubscriptionUpdate.Type

export const toSubscription = (target: Target): EventSubscription => ({
  ...Struct.omit(target, ["eventTypes", "kind", "name", "url"]),
  sink: target.url,
  protocol: "HTTP",
  types: target.eventTypes.includes("*") ? [] : target.eventTypes
})
