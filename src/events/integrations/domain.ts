import { Schema, Struct } from "effect"
import { serverSet } from "../../kernel/http/server-set.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { HttpUrl, name } from "../../kernel/text.ts"
import { EventTypePattern } from "../cloud-events/domain.ts"
import { DeliveryAttempt, type Target, TargetId } from "../deliveries/domain.ts"

export const IntegrationKind = Schema.Literals(["webhook", "slack", "cloudevents"]).annotate({
  component: "IntegrationKind",
  description:
    "`webhook`: Standard Webhooks with the event in `data`; `slack`: a message for an incoming webhook of Slack; `cloudevents`: the structured mode",
  examples: ["webhook"]
})
export type IntegrationKind = typeof IntegrationKind.Type
export const integrationKinds: ReadonlyArray<IntegrationKind> = ["webhook", "slack", "cloudevents"]

const Name = name(200, { examples: ["Trial users to the CRM"] })
const EventTypes = Schema.Array(EventTypePattern)
  .pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(100)))
  .annotate({
    component: "EventTypes",
    description: "Event types; one may be a prefix that ends in `*`",
    examples: [["com.application-manager.trial-user.*"]]
  })
const Status = Schema.Literals(["active", "disabled"]).annotate({ examples: ["active"] })

const integration = {
  id: TargetId,
  kind: IntegrationKind,
  name: Name,
  url: HttpUrl,
  eventTypes: EventTypes,
  tenantId: Schema.NullOr(TenantId).annotate({
    description: "null: the events of all tenants and of the installation"
  }),
  status: Status,
  createdAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }),
  updatedAt: Instant
}

/** Where events are sent, as people set it up. */
export const Integration = Schema.Struct(integration).annotate({ identifier: "Integration" })
export type Integration = typeof Integration.Type

const Secret = Schema.String.annotate({
  description: "Signs deliveries (Standard Webhooks); shown only here",
  examples: ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]
})

export const CreatedIntegration = Schema.Struct({ ...integration, secret: Secret }).annotate({
  identifier: "CreatedIntegration"
})
export type CreatedIntegration = typeof CreatedIntegration.Type

export const IntegrationCreation = Schema.Struct({
  kind: IntegrationKind,
  name: Name,
  url: HttpUrl,
  eventTypes: EventTypes,
  tenantId: Schema.optionalKey(TenantId)
}).annotate({
  identifier: "IntegrationCreation",
  examples: [
    {
      kind: "webhook",
      name: "Trial users to the CRM",
      url: "https://crm.example/hooks/events",
      eventTypes: ["com.application-manager.trial-user.*"]
    }
  ]
})
export type IntegrationCreation = typeof IntegrationCreation.Type

export const IntegrationPatch = Schema.Struct({
  name: Schema.optionalKey(Name),
  url: Schema.optionalKey(HttpUrl),
  eventTypes: Schema.optionalKey(EventTypes),
  status: Schema.optionalKey(Status),
  ...serverSet("id", "kind", "tenantId", "createdAt", "createdBy", "updatedAt")
}).annotate({ identifier: "IntegrationPatch", examples: [{ status: "disabled" }] })
export type IntegrationPatch = typeof IntegrationPatch.Type

const week = 604_800
export const SecretRotation = Schema.Struct({
  overlapSeconds: Schema.optionalKey(
    Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: week }))).annotate({
      description: "How long the secret in use signs too; a day by default",
      examples: [86_400]
    })
  )
}).annotate({ identifier: "SecretRotation" })
export type SecretRotation = typeof SecretRotation.Type
export const RotatedSecret = Schema.Struct({ secret: Secret }).annotate({ identifier: "RotatedSecret" })

export const ReplayRequest = Schema.Struct({ since: Instant }).annotate({
  identifier: "ReplayRequest"
})
export const Replayed = Schema.Struct({
  deliveries: Schema.Int.pipe(
    Schema.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))
  ).annotate({
    examples: [12]
  })
}).annotate({ identifier: "Replayed" })

export const TestResult = Schema.Struct({ ...DeliveryAttempt.fields, delivered: Schema.Boolean }).annotate({
  identifier: "IntegrationTestResult"
})
export type TestResult = typeof TestResult.Type

export const toIntegration = (target: Target): Integration => ({
  ...Struct.omit(target, ["config", "filters"]),
  kind: target.kind as IntegrationKind,
  status: target.status === "active" ? "active" : "disabled"
})
