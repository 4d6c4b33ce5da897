import { Layer } from "effect"
import { ReservationTransfers } from "../budgets/reservations/transfers.ts"
import { AvailableBudgets } from "../budgets/caps/available-budget.ts"
import { Attempts } from "./routing/attempts.ts"
import { Breakers } from "./routing/breakers.ts"
import { Bulkheads } from "./routing/bulkheads.ts"
import { Callers } from "./authentication/callers.ts"
import { Calls } from "./pipeline/calls.ts"
import { Completions } from "./wire/native/completions.ts"
import { GatewayCredentialsLayer } from "./authentication/credentials.ts"
import { GatewayConfiguration } from "./configuration/configuration.ts"
import { Holding } from "./metering/holding.ts"
import { LiveHolds } from "./metering/live-holds.ts"
import { MessageCounts } from "./pipeline/message-counts.ts"
import { Metering } from "./metering/metering.ts"
import { CataloguePricesLayer } from "./metering/prices.ts"
import { Repeats } from "./pipeline/repeats.ts"
import { ResponseCache } from "./pipeline/response-cache.ts"
import { Gateway } from "./wire/native/service.ts"
import { ProviderSightings } from "./routing/sightings.ts"
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
