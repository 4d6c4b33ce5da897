import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { DelegationsApi } from "./api.ts"
import { Delegations } from "./service.ts"

export const DelegationsHandlers = groupHandlers(
  DelegationsApi,
  Effect.fn(function* (handlers) {
    const delegations = yield* Delegations
    return handlers.handleAll({
      list: ({ params, query }) => delegations.list(params.id, query),
      create: ({ params, payload }) =>
        Effect.map(delegations.create(params.id, payload), created(`/api/agents/${params.id}/delegations`)),
      revoke: ({ params }) => delegations.revoke(params.id, params.grantId)
    })
  })
)
