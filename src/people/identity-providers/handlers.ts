import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { IdentityProvidersApi } from "./api.ts"
import { IdentityProviders } from "./service.ts"

export const IdentityProvidersHandlers = groupHandlers(
  IdentityProvidersApi,
  Effect.fn(function* (handlers) {
    const providers = yield* IdentityProviders
    return handlers.handleAll({
      list: ({ query: { kind, tenantId, ...page } }) => providers.list({ kind, tenantId }, page),
      get: ({ params }) => providers.get(params.id),
      create: ({ payload }) => Effect.map(providers.create(payload), created("/api/identity-providers")),
      update: ({ params, payload }) => providers.update(params.id, payload),
      delete: ({ params }) => providers.delete(params.id),
      test: ({ params }) => providers.test(params.id)
    })
  })
)
