import { Layer } from "effect"
import { AnomaliesHandlers } from "./anomalies/handlers.ts"
import { Anomalies } from "./anomalies/service.ts"
import { BillingHandlers } from "./billing/handlers.ts"
import { Billing } from "./billing/service.ts"
import { ReconciliationHandlers } from "./reconciliation/handlers.ts"
import { Reconciliations } from "./reconciliation/service.ts"
import { InsightsHandlers } from "./reports/handlers.ts"
import { Reports } from "./reports/service.ts"
import { Rollups } from "./rollups/service.ts"
import { SubscriptionsHandlers } from "./subscriptions/handlers.ts"
import { SubscriptionQuotasLayer } from "./subscriptions/quotas.ts"
import { Subscriptions } from "./subscriptions/service.ts"
import { UsageExport } from "./usage-export/service.ts"
import { UsageHandlers } from "./usage/handlers.ts"
import { Usage } from "./usage/service.ts"

/** Usage, its sums, and the reports on them. */
export const layer = Layer.mergeAll(
  Usage.layer,
  UsageExport.layer,
  Rollups.layer,
  Reports.layer,
  Subscriptions.layer,
  Billing.layer
).pipe(Layer.provideMerge(Reconciliations.layer), Layer.provideMerge(Anomalies.layer))

/** What is left of prepaid quotas, by which the gateway chooses its targets. */
export const layerQuotas = SubscriptionQuotasLayer

export const handlers = Layer.mergeAll(
  InsightsHandlers,
  UsageHandlers,
  SubscriptionsHandlers,
  BillingHandlers,
  AnomaliesHandlers,
  ReconciliationHandlers
)
