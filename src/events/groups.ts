import { CloudEventsApi } from "./cloud-events/api.ts"
import { IntegrationsApi } from "./integrations/api.ts"
import { EventSubscriptionsApi } from "./subscriptions/api.ts"

export const groups = [CloudEventsApi, EventSubscriptionsApi, IntegrationsApi] as const
