import { Effect } from "effect"
import { Api } from "../../api.ts"
import { groupHandlers } from "../../platform/fast-path/group-handlers.ts"
import { pageLimitDefault } from "../../kernel/page.ts"
import { BudgetAlerts } from "./service.ts"

export const BudgetAlertsHandlers = groupHandlers(
  Api,
  "budgetAlerts",
  Effect.fn(function* (handlers) {
    const alerts = yield* BudgetAlerts
    return handlers.handleAll({
      list: ({ query: { cursor, limit, ...filter } }) => alerts.list(filter, cursor, limit ?? pageLimitDefault)
    })
  })
)
