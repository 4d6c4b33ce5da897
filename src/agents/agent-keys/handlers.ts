import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { AgentKeysApi } from "./api.ts"
import { AgentKeys } from "./service.ts"

export const AgentKeysHandlers = groupHandlers(
  AgentKeysApi,
  Effect.fn(function* (handlers) {
    const keys = yield* AgentKeys
    return handlers.handleAll({
      list: ({ params, query }) => keys.list(params.id, query),
      register: ({ params, payload }) =>
        Effect.map(keys.register(params.id, payload), created(`/api/agents/${params.id}/keys`)),
      revoke: ({ params, query }) => keys.revoke(params.id, params.keyId, query.revokeCredentials === "true")
    })
  })
)
