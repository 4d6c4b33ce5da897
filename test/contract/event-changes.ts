import { Effect } from "effect"
import { make } from "../support/scenarios.ts"
import { type TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { type Change, type ExpectedEntry } from "./changes.ts"

type Service = TestService["Service"]

const url = "https://receiver.invalid/events"
const integration = { kind: "webhook", name: "a webhook", url, eventTypes: ["com.example.*"] }
const subscription = { sink: url, types: ["com.example.created"] }

const makeIntegration = (service: Service) => make(service, "/api/integrations", integration)
const makeSubscription = (service: Service) => make(service, "/api/cloudevents/subscriptions", subscription)

const makeDelivery = (service: Service, targetId: string) =>
  asSuperuser(
    service.database,
    (sql) => sql<{ readonly id: string }>`
      INSERT INTO event_deliveries (target_id, entry_id, occurred_at, sequence, type, status, due_at, created_at)
      SELECT ${targetId}, id, occurred_at, 1, 'com.example.created', 'failed', now(), now() FROM audit_entries LIMIT 1
      RETURNING id`
  ).pipe(Effect.map(([row]) => row?.id ?? ""))

const change = (
  entityType: string,
  actionType: string,
  id: string,
  kept: ExpectedEntry["kept"],
  body?: unknown
): Change => ({
  parameters: { id },
  ...(body === undefined ? {} : { body }),
  entries: () => [{ entityType, actionType, entityId: id, kept }]
})
const create = (entityType: string, actionType: string, body: unknown): Change => ({
  body,
  entries: (answer) => [{ entityType, actionType, entityId: answer.body.id, kept: "after" }]
})

let published = 0

/** How to call every operation of events that changes something, by its operationId. */
export const eventChanges: Readonly<Record<string, (service: Service) => Effect.Effect<Change>>> = {
  "cloudEvents.publish": () =>
    Effect.sync(() => {
      const id = `published-${++published}`
      return {
        contentType: "application/cloudevents+json",
        body: { specversion: "1.0", id, source: "https://shop.example/orders", type: "com.example.created" },
        entries: () => [{ entityType: "Event", actionType: "EventReceived", entityId: id, kept: "after" }]
      }
    }),
  "eventSubscriptions.create": () =>
    Effect.succeed(create("EventSubscription", "EventSubscriptionCreated", subscription)),
  "eventSubscriptions.update": (service) =>
    Effect.map(makeSubscription(service), ({ id }) =>
      change("EventSubscription", "EventSubscriptionUpdated", id, "both", { ...subscription, status: "disabled" })
    ),
  "eventSubscriptions.delete": (service) =>
    Effect.map(makeSubscription(service), ({ id }) =>
      change("EventSubscription", "EventSubscriptionDeleted", id, "before")
    ),
  "integrations.create": () => Effect.succeed(create("Integration", "IntegrationCreated", integration)),
  "integrations.update": (service) =>
    Effect.map(makeIntegration(service), ({ id }) =>
      change("Integration", "IntegrationUpdated", id, "both", { name: "renamed" })
    ),
  "integrations.delete": (service) =>
    Effect.map(makeIntegration(service), ({ id }) => change("Integration", "IntegrationDeleted", id, "before")),
  "integrations.test": (service) =>
    Effect.map(makeIntegration(service), ({ id }) => change("Integration", "IntegrationTested", id, "after")),
  "integrations.rotateSecret": (service) =>
    Effect.map(makeIntegration(service), ({ id }) =>
      change("Integration", "IntegrationSecretRotated", id, "after", {})
    ),
  "integrations.retry": Effect.fnUntraced(function* (service) {
    const { id } = yield* makeIntegration(service)
    const deliveryId = yield* makeDelivery(service, id)
    return {
      ...change("Integration", "IntegrationDeliveryRetried", id, "after"),
      parameters: { id, deliveryId }
    }
  }),
  "integrations.replay": (service) =>
    Effect.map(makeIntegration(service), ({ id }) =>
      change("Integration", "IntegrationReplayed", id, "after", { since: "2026-01-01T00:00:00Z" })
    )
}
