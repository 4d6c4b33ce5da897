import { Layer } from "effect"
import { DetailedHealth } from "./dashboard/detailed-health.ts"
import { DashboardHandlers } from "./dashboard/handlers.ts"
import { Dashboard } from "./dashboard/service.ts"
import { HealthHandlers } from "./health/handlers.ts"
import { HealthChecks } from "./health/service.ts"
import { SecurityHandlers } from "./security/handlers.ts"
import { Security } from "./security/service.ts"
import { SyntheticPrincipalsHandlers } from "./synthetic-principals/handlers.ts"
import { SyntheticPrincipals } from "./synthetic-principals/service.ts"

/** What operators look at: the state of the service, and its callers. */
export const layer = Layer.mergeAll(
  SyntheticPrincipals.layer,
  Dashboard.layer,
  DetailedHealth.layer,
  Security.layer
).pipe(Layer.provideMerge(HealthChecks.layer))

export const handlers = Layer.mergeAll(HealthHandlers, DashboardHandlers, SecurityHandlers, SyntheticPrincipalsHandlers)
