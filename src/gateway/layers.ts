import { Layer } from "effect"
import { ReservationTransfers } from "../budgets/reservations/transfers.ts"
import { AvailableBudgets } from "../budgets/caps/available-budget.ts"
import { Attempts } from "./routing/router.ts"
import { Breakers } from "./routing/breakers.ts"
import { Bulkheads } from "./routing/bulkheads.ts"
import { Callers } from "./authentication/gateway-authentication.ts"
import { Calls } from "./pipeline/call-pipeline.ts"
import { Completions } from "./wire/native/completions.ts"
import { GatewayCredentialsLayer } from "./authentication/credentials.ts"
import { GatewayConfiguration } from "./configuration/service.ts"
import { Holding } from "./metering/admission.ts"
import { LiveHolds } from "./metering/reservation-renewal.ts"
import { MessageCounts } from "./pipeline/message-counts.ts"
import { Metering } from "./metering/budget-reservations.ts"
import { CataloguePricesLayer } from "./metering/prices.ts"
import { Repeats } from "./pipeline/call-idempotency.ts"
import { ResponseCache } from "./pipeline/response-cache.ts"
import { Gateway } from "./wire/native/service.ts"
import { ProviderSightings } from "./routing/provider-health.ts"
import { TokenCounts } from "./metering/token-counts.ts"

/** What the gateway's configuration names, how that fares, and what it costs: below the ledger. */
export const GatewayCatalogueLayer = CataloguePricesLayer.pipe(
  Layer.provideMerge(Layer.mergeAll(GatewayConfiguration.layer, Breakers.layer, ProviderSightings.layer))
)

/** The gateway's calls: above the ledger that they are metered by. */
const Metered = Holding.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(Metering.layer, TokenCounts.layer)),
  Layer.provide(Layer.merge(LiveHolds.layer, ReservationTransfers.layer))
)
export const GatewayCallsLayer = Layer.mergeAll(Gateway.layer, Completions.layer, GatewayCredentialsLayer).pipe(
  Layer.provideMerge(
    Layer.mergeAll(Calls.layer.pipe(Layer.provide(AvailableBudgets.layer)), Callers.layer, MessageCounts.layer)
  ),
  Layer.provideMerge(Layer.mergeAll(Attempts.layer, Metered, Repeats.layer, ResponseCache.layer)),
  Layer.provideMerge(Bulkheads.layer)
)
