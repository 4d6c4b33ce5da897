import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { created, linkedPage } from "../../kernel/http/location.ts"
import { arrayLimitDefault } from "../../kernel/http/page.ts"
import { Sessions } from "./service.ts"
import { SessionsApi } from "./api.ts"

export const SessionsHandlers = groupHandlers(
  SessionsApi,
  Effect.fn(function* (handlers) {
    const sessions = yield* Sessions
    return handlers.handleAll({
      list: ({ query, request }) =>
        Effect.map(
          sessions.list({ userId: query.userId, active: query.active }, query.cursor, query.limit ?? arrayLimitDefault),
          linkedPage(request)
        ),
      get: ({ params }) => sessions.get(params.id),
      create: ({ payload }) => Effect.map(sessions.create(payload), created("/api/sessions")),
      touch: ({ params }) => sessions.touch(params.id),
      end: ({ params }) => sessions.end(params.id)
    })
  })
)
