import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { ApiKeysApi } from "./api.ts"
import { ApiKeys } from "./service.ts"

export const ApiKeysHandlers = groupHandlers(
  ApiKeysApi,
  Effect.fn(function* (handlers) {
    const keys = yield* ApiKeys
    return handlers.handleAll({
      list: ({ query: { applicationId, tenantId, ...page } }) => keys.list({ applicationId, tenantId }, page),
      get: ({ params }) => keys.get(params.id),
      create: ({ payload }) => Effect.map(keys.create(payload), created("/api/api-keys")),
      update: ({ params, payload }) => keys.update(params.id, payload),
      rotate: ({ params, payload }) => Effect.map(keys.rotate(params.id, payload), created("/api/api-keys")),
      revoke: ({ params }) => keys.revoke(params.id)
    })
  })
)
