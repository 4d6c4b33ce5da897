import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { EventSubscriptionNotFound, TargetId, targetListing, TooManyEventTargets } from "../deliveries/domain.ts"
import { EventSubscription, EventSubscriptionCreation, EventSubscriptionUpdate } from "./domain.ts"

const read = requires("events:read")
const write = requires("events:write")
/** What sends events to another place than before: a caller who may not read them must not have them sent. */
const send = requires("events:write", { and: ["events:read"] })
const params = { id: TargetId }
const subscriptions = crudEndpoints("an event subscription", {
  read,
  write,
  id: TargetId,
  view: EventSubscription,
  notFound: EventSubscriptionNotFound
})

export class EventSubscriptionsApi extends HttpApiGroup.make("eventSubscriptions")
  .add(
    subscriptions.list({
      description: "In order of creation.",
      query: targetListing.query({ tenantId: Schema.optionalKey(TenantId) }),
      success: page(EventSubscription, targetListing.position)
    }),
    subscriptions.get({ description: "One subscription by id." }),
    endpoint.post("create", "/", {
      summary: "Subscribe to events",
      description:
        "Asks the sink for its consent: OPTIONS with `WebHook-Request-Origin`, which it answers with 2xx and `WebHook-Allowed-Origin`. Without it the subscription is `refused`, and gets no events. Deliveries are CloudEvents in structured mode, unless `config` says binary; with a `secret` in it they are signed (Standard Webhooks).",
      access: send,
      payload: EventSubscriptionCreation,
      success: Created(EventSubscription),
      error: [TenantNotFound, TooManyEventTargets, ValidationFailed, Forbidden]
    }),
    endpoint.put("update", "/:id", {
      evaluation: "by-service",
      summary: "Change an event subscription",
      description: "Asks the sink again. Absent members become empty.",
      access: send,
      params,
      payload: EventSubscriptionUpdate,
      success: EventSubscription,
      error: [EventSubscriptionNotFound, ValidationFailed]
    }),
    subscriptions.delete({
      evaluation: "by-service",
      description: "Events that wait are not delivered."
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/cloudevents/subscriptions")
  .annotateMerge(
    OpenApi.annotations({ title: "Event subscriptions", description: "The CloudEvents Subscriptions API." })
  ) {}
