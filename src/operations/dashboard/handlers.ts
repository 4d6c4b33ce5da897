import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { serviceVersion } from "../../platform/runtime/version.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { DetailedHealth } from "./detailed-health.ts"
import { type EffectiveSettings } from "./domain.ts"
import { Dashboard } from "./service.ts"
import { DashboardApi } from "./api.ts"

export const DashboardHandlers = groupHandlers(
  DashboardApi,
  Effect.fn(function* (handlers) {
    const dashboard = yield* Dashboard
    const health = yield* DetailedHealth
    const { describe, environment } = yield* Settings
    const settings: EffectiveSettings = { version: serviceVersion, environment, settings: describe() }
    return handlers.handleAll({
      metrics: ({ query }) => dashboard.metrics(query.includeSynthetic ?? false),
      health: () => health.report,
      settings: () => Effect.succeed(settings)
    })
  })
)
