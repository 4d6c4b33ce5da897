import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api.ts"
import { DetailedHealth } from "./detailed-health.ts"
import { Dashboard } from "./service.ts"

export const DashboardHandlers = HttpApiBuilder.group(
  Api,
  "dashboard",
  Effect.fn(function* (handlers) {
    const dashboard = yield* Dashboard
    const health = yield* DetailedHealth
    return handlers.handleAll({ metrics: () => dashboard.metrics, health: () => health.report })
  })
)
