import { Effect } from "effect"
import { created, linkedPage } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { RolesApi } from "./api.ts"
import { Roles } from "./service.ts"

export const RolesHandlers = groupHandlers(
  RolesApi,
  Effect.fn(function* (handlers) {
    const roles = yield* Roles
    return handlers.handleAll({
      list: ({ query: { applicationId, ...page }, request }) =>
        Effect.map(roles.list({ applicationId }, page), linkedPage(request)),
      get: ({ params }) => roles.get(params.id),
      create: ({ payload }) => Effect.map(roles.create(payload), created("/api/roles")),
      update: ({ params, payload }) => roles.update(params.id, payload),
      delete: ({ params }) => roles.delete(params.id)
    })
  })
)
