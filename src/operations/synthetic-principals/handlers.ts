import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { SyntheticPrincipalsApi } from "./api.ts"
import { SyntheticPrincipals } from "./service.ts"

export const SyntheticPrincipalsHandlers = groupHandlers(
  SyntheticPrincipalsApi,
  Effect.fn(function* (handlers) {
    const principals = yield* SyntheticPrincipals
    return handlers.handleAll({
      list: ({ query: { kind, tenantId, ...page } }) => principals.list({ kind, tenantId }, page),
      get: ({ params }) => principals.get(params.id),
      create: ({ payload }) => Effect.map(principals.create(payload), created("/api/synthetic-principals")),
      update: ({ params, payload }) => principals.update(params.id, payload),
      reset: ({ params }) => principals.reset(params.id),
      delete: ({ params }) => principals.delete(params.id)
    })
  })
)
