import { Effect } from "effect"
import { created, linkedPage } from "../../kernel/http/location.ts"
import { fastGroupHandlers } from "../../platform/fast-path/group-handlers.ts"
import { TrialUsersApi } from "./api.ts"
import { TrialUsers } from "./service.ts"

export const TrialUsersHandlers = fastGroupHandlers(
  TrialUsersApi,
  Effect.fn(function* (handlers) {
    const users = yield* TrialUsers
    return handlers.handleAll({
      list: ({ query: { active, ...page }, request }) =>
        Effect.map(users.list({ isActive: active }, page), linkedPage(request)),
      get: ({ params }) => users.get(params.id),
      getByEmail: ({ params }) => users.getByEmail(params.email),
      create: ({ payload }) => Effect.map(users.create(payload), created("/api/trial-users")),
      update: ({ params, payload }) => users.update(params.id, payload),
      delete: ({ params }) => users.delete(params.id)
    })
  })
)
