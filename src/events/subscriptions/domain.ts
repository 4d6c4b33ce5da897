import { Schema, Struct } from "effect"
import { serverSet } from "../../kernel/http/server-set.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { described, HttpUrl } from "../../kernel/text.ts"
import { EventTypePattern } from "../cloud-events/domain.ts"
import {
  contentMode,
  Filter,
  redactedSecret,
  type Target,
  TargetConfig,
  TargetId,
  TargetStatus
} from "../deliveries/domain.ts"

const maxFilterCharacters = 8192

const Types = Schema.Array(EventTypePattern)
  .pipe(Schema.check(Schema.isMaxLength(100)))
  .annotate({
    component: "SubscribedTypes",
    description: "Event types; one may be a prefix that ends in `*`; absent or empty for all",
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
const Sink = described(HttpUrl, { description: "Where events are sent", examples: ["https://crm.example/events"] })
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

/** A secret of Standard Webhooks: 24 to 64 bytes in base64; or what a response shows in its place, to keep the one in use. */
const SigningSecret = Schema.String.pipe(
  Schema.check(
    Schema.isPattern(/^(?:whsec_(?:[A-Za-z0-9+/]{4}){8,21}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?|\*{8})$/u, {
      expected: `whsec_ and 24 to 64 bytes in base64, or ${redactedSecret} for the secret in use`
    })
  )
)
const GivenConfig = Schema.Struct({
  contentMode,
  secret: Schema.optionalKey(SigningSecret).annotate({
    description: `Signs deliveries (Standard Webhooks). It is not shown again; ${redactedSecret} keeps the one in use, none removes it. One that replaces another signs beside it for a day.`,
    examples: ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]
  })
}).annotate({ identifier: "EventSubscriptionGivenConfig", examples: [{ contentMode: "structured" }] })

const terms = {
  sink: Sink,
  protocol: Schema.optionalKey(Protocol),
  types: Schema.optionalKey(Types),
  filters: Schema.optionalKey(Filters),
  config: Schema.optionalKey(GivenConfig)
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
