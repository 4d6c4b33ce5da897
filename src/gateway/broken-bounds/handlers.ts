import { Effect } from "effect"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { BrokenBoundsApi } from "./api.ts"
import { BrokenBounds } from "./service.ts"

export const BrokenBoundsHandlers = groupHandlers(
  BrokenBoundsApi,
  Effect.fn(function* (handlers) {
    const bounds = yield* BrokenBounds
    return handlers.handleAll({
      list: ({ query: { cursor, limit, status } }) => bounds.list(status, cursor, limit ?? pageLimitDefault),
      get: ({ params }) => bounds.get(params.id),
      update: ({ params, payload }) => bounds.update(params.id, payload)
    })
  })
)
