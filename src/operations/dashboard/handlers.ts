import { Effect } from "effect"
import { Api } from "../../api.ts"
import { groupHandlers } from "../../platform/fast-path/group-handlers.ts"
import { DetailedHealth } from "./detailed-health.ts"
import { Dashboard } from "./service.ts"

export const DashboardHandlers = groupHandlers(
  Api,
  "dashboard",
  Effect.fn(function* (handlers) {
    const dashboard = yield* Dashboard
    const health = yield* DetailedHealth
    return handlers.handleAll({ metrics: () => dashboard.metrics, health: () => health.report })
  })
)
