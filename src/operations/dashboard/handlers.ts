import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { DashboardApi } from "./api.ts"
import { DetailedHealth } from "./detailed-health.ts"
import { Dashboard } from "./service.ts"

export const DashboardHandlers = groupHandlers(
  DashboardApi,
  Effect.fn(function* (handlers) {
    const dashboard = yield* Dashboard
    const health = yield* DetailedHealth
    return handlers.handleAll({
      metrics: ({ query }) => dashboard.metrics(query.includeSynthetic ?? false),
      health: () => health.report,
      settings: () => Effect.succeed(dashboard.settings)
    })
  })
)
