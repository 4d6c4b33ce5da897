import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { SubscriptionsApi } from "./api.ts"
import { Subscriptions } from "./service.ts"

export const SubscriptionsHandlers = groupHandlers(
  SubscriptionsApi,
  Effect.fn(function* (handlers) {
    const subscriptions = yield* Subscriptions
    return handlers.handleAll({
      list: ({ query: { tenantId, ...page } }) => subscriptions.list(tenantId, page),
      get: ({ params }) => subscriptions.get(params.id),
      create: ({ payload }) => Effect.map(subscriptions.create(payload), created("/api/subscriptions")),
      update: ({ params, payload }) => subscriptions.update(params.id, payload),
      delete: ({ params }) => subscriptions.delete(params.id),
      utilization: ({ params }) => subscriptions.utilization(params.id)
    })
  })
)
