import { AnomaliesApi } from "./anomalies/api.ts"
import { BillingApi } from "./billing/api.ts"
import { ReconciliationApi } from "./reconciliation/api.ts"
import { InsightsApi } from "./reports/api.ts"
import { SubscriptionsApi } from "./subscriptions/api.ts"
import { UsageApi } from "./usage/api.ts"

export const groups = [InsightsApi, UsageApi, SubscriptionsApi, BillingApi, AnomaliesApi, ReconciliationApi] as const
