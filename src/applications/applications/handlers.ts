import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { ApplicationsApi } from "./api.ts"
import { Applications } from "./service.ts"

export const ApplicationsHandlers = groupHandlers(
  ApplicationsApi,
  Effect.fn(function* (handlers) {
    const applications = yield* Applications
    return handlers.handleAll({
      list: ({ query: { status, ...page } }) => applications.list({ status }, page),
      get: ({ params }) => applications.get(params.id),
      create: ({ payload }) => Effect.map(applications.create(payload), created("/api/applications")),
      update: ({ params, payload }) => applications.update(params.id, payload),
      delete: ({ params }) => applications.delete(params.id)
    })
  })
)
