import { Effect } from "effect"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { ReconciliationApi } from "./api.ts"
import { Reconciliations } from "./service.ts"

export const ReconciliationHandlers = groupHandlers(
  ReconciliationApi,
  Effect.fn(function* (handlers) {
    const reconciliations = yield* Reconciliations
    return handlers.handleAll({
      list: ({ query: { cursor, limit, ...asked } }) => reconciliations.list(asked, cursor, limit ?? pageLimitDefault),
      refresh: ({ payload }) => reconciliations.refresh(payload.provider)
    })
  })
)
