import { Layer } from "effect"
import { Anomalies } from "./anomalies/service.ts"
import { Billing } from "./billing/service.ts"
import { Reports } from "./reports/service.ts"
import { Rollups } from "./rollups/service.ts"
import { Subscriptions } from "./subscriptions/service.ts"
import { Usage } from "./usage/service.ts"

/** Usage, its sums, and the reports on them. */
export const InsightsLayer = Layer.mergeAll(
  Usage.layer,
  Rollups.layer,
  Reports.layer,
  Subscriptions.layer,
  Billing.layer,
  Anomalies.layer
)
