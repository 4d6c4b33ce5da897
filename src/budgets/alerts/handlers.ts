import { Effect } from "effect"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { BudgetAlertsApi } from "./api.ts"
import { BudgetAlerts } from "./service.ts"

export const BudgetAlertsHandlers = groupHandlers(
  BudgetAlertsApi,
  Effect.fn(function* (handlers) {
    const alerts = yield* BudgetAlerts
    return handlers.handleAll({
      list: ({ query: { cursor, limit, ...filter } }) => alerts.list(filter, cursor, limit ?? pageLimitDefault)
    })
  })
)
