import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { BudgetAlerts } from "./service.ts"
import { BudgetAlertsApi } from "./api.ts"

export const BudgetAlertsHandlers = groupHandlers(
  BudgetAlertsApi,
  Effect.fn(function* (handlers) {
    const alerts = yield* BudgetAlerts
    return handlers.handleAll({
      list: ({ query: { cursor, limit, ...filter } }) => alerts.list(filter, cursor, limit ?? pageLimitDefault)
    })
  })
)
