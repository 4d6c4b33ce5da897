import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { created, linkedPage } from "../../kernel/http/location.ts"
import { Sessions } from "./service.ts"
import { SessionsApi } from "./api.ts"

export const SessionsHandlers = groupHandlers(
  SessionsApi,
  Effect.fn(function* (handlers) {
    const sessions = yield* Sessions
    return handlers.handleAll({
      list: ({ query: { active, userId, ...page }, request }) =>
        Effect.map(sessions.list({ userId, active }, page), linkedPage(request)),
      get: ({ params }) => sessions.get(params.id),
      create: ({ payload }) => Effect.map(sessions.create(payload), created("/api/sessions")),
      touch: ({ params }) => sessions.touch(params.id),
      end: ({ params }) => sessions.end(params.id)
    })
  })
)
