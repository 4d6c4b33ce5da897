import { Layer } from "effect"
import { OutboundHttp } from "../platform/outbound/outbound-http.ts"
import { CloudEventsHandlers } from "./cloud-events/handlers.ts"
import { EventIngestion } from "./cloud-events/ingestion.ts"
import { CloudEvents } from "./cloud-events/service.ts"
import { DeliveryRepository } from "./deliveries/repository.ts"
import { Deliveries } from "./deliveries/service.ts"
import { TargetRepository } from "./deliveries/target-repository.ts"
import { IntegrationsHandlers } from "./integrations/handlers.ts"
import { Integrations } from "./integrations/service.ts"
import { EventSubscriptionsHandlers } from "./subscriptions/handlers.ts"
import { EventSubscriptions } from "./subscriptions/service.ts"

const Queue = Deliveries.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(DeliveryRepository.layer, TargetRepository.layer, OutboundHttp.layer))
)

/** Events of the audit log, and their ways out of the service. */
export const layer = Layer.mergeAll(
  CloudEvents.layer,
  EventIngestion.layer,
  EventSubscriptions.layer,
  Integrations.layer
).pipe(Layer.provideMerge(Queue))

export const handlers = Layer.mergeAll(CloudEventsHandlers, EventSubscriptionsHandlers, IntegrationsHandlers)
