import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { AgentsApi } from "./api.ts"
import { Agents } from "./service.ts"

export const AgentsHandlers = groupHandlers(
  AgentsApi,
  Effect.fn(function* (handlers) {
    const agents = yield* Agents
    return handlers.handleAll({
      list: ({ query: { ownerUserId, status, tenantId, ...page } }) =>
        agents.list({ ownerUserId, status, tenantId }, page),
      get: ({ params }) => agents.get(params.id),
      register: ({ payload }) => Effect.map(agents.register(payload), created("/api/agents")),
      update: ({ params, payload }) => agents.update(params.id, payload),
      retire: ({ params }) => agents.retire(params.id)
    })
  })
)
