import { Effect } from "effect"
import { created } from "../kernel/http/location.ts"
import { groupHandlers } from "../platform/http/served-api.ts"
import { TenantsApi } from "./api.ts"
import { Tenants } from "./service.ts"

export const TenantsHandlers = groupHandlers(
  TenantsApi,
  Effect.fn(function* (handlers) {
    const tenants = yield* Tenants
    return handlers.handleAll({
      list: ({ query: { status, ...page } }) => tenants.list({ status }, page),
      get: ({ params }) => tenants.get(params.id),
      create: ({ payload }) => Effect.map(tenants.create(payload), created("/api/tenants")),
      update: ({ params, payload }) => tenants.update(params.id, payload)
    })
  })
)
