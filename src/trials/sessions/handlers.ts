import { Effect } from "effect"
import { created, linkedPage } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { SessionsApi } from "./api.ts"
import { TrialSessions } from "./service.ts"

export const SessionsHandlers = groupHandlers(
  SessionsApi,
  Effect.fn(function* (handlers) {
    const sessions = yield* TrialSessions
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
