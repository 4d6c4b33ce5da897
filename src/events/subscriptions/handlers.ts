import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { EventSubscriptionsApi } from "./api.ts"
import { EventSubscriptions } from "./service.ts"

export const EventSubscriptionsHandlers = groupHandlers(
  EventSubscriptionsApi,
  Effect.fn(function* (handlers) {
    const subscriptions = yield* EventSubscriptions
    return handlers.handleAll({
      list: ({ query: { tenantId, ...page } }) => subscriptions.list(tenantId, page),
      get: ({ params }) => subscriptions.get(params.id),
      create: ({ payload }) => Effect.map(subscriptions.create(payload), created("/api/cloudevents/subscriptions")),
      update: ({ params, payload }) => subscriptions.update(params.id, payload),
      delete: ({ params }) => subscriptions.delete(params.id)
    })
  })
)
