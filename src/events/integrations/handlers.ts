import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { IntegrationsApi } from "./api.ts"
import { Integrations } from "./service.ts"

export const IntegrationsHandlers = groupHandlers(
  IntegrationsApi,
  Effect.fn(function* (handlers) {
    const integrations = yield* Integrations
    return handlers.handleAll({
      list: ({ query: { tenantId, ...page } }) => integrations.list(tenantId, page),
      get: ({ params }) => integrations.get(params.id),
      create: ({ payload }) => Effect.map(integrations.create(payload), created("/api/integrations")),
      update: ({ params, payload }) => integrations.update(params.id, payload),
      delete: ({ params }) => integrations.delete(params.id),
      test: ({ params }) => integrations.test(params.id),
      rotateSecret: ({ params, payload }) => integrations.rotateSecret(params.id, payload),
      deliveries: ({ params, query }) =>
        integrations.deliveries(params.id, query.status, query.cursor, query.limit ?? pageLimitDefault),
      retry: ({ params }) => integrations.retry(params.id, params.deliveryId),
      replay: ({ params, payload }) => integrations.replay(params.id, payload.since)
    })
  })
)
