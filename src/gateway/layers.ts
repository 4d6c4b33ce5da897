import { Layer } from "effect"
import { Adoptions } from "../ledger/adoptions.ts"
import { Headrooms } from "../ledger/headrooms.ts"
import { Attempts } from "./attempts.ts"
import { Breakers } from "./breakers.ts"
import { Bulkheads } from "./bulkheads.ts"
import { Callers } from "./callers.ts"
import { Calls } from "./calls.ts"
import { Completions } from "./completions.ts"
import { GatewayCredentialsLayer } from "./credentials.ts"
import { GatewayConfiguration } from "./configuration.ts"
import { Holding } from "./holding.ts"
import { LiveHolds } from "./live-holds.ts"
import { MessageCounts } from "./message-counts.ts"
import { Metering } from "./metering.ts"
import { CataloguePricesLayer } from "./prices.ts"
import { Repeats } from "./repeats.ts"
import { ResponseCache } from "./response-cache.ts"
import { Gateway } from "./service.ts"
import { ProviderSightings } from "./sightings.ts"
import { TokenCounts } from "./token-counts.ts"

/** What the gateway's configuration names, how that fares, and what it costs: below the ledger. */
export const GatewayCatalogueLayer = CataloguePricesLayer.pipe(
  Layer.provideMerge(Layer.mergeAll(GatewayConfiguration.layer, Breakers.layer, ProviderSightings.layer))
)

/** The gateway's calls: above the ledger that they are metered by. */
const Metered = Holding.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(Metering.layer, TokenCounts.layer)),
  Layer.provide(Layer.merge(LiveHolds.layer, Adoptions.layer))
)
export const GatewayCallsLayer = Layer.mergeAll(Gateway.layer, Completions.layer, GatewayCredentialsLayer).pipe(
  Layer.provideMerge(
    Layer.mergeAll(Calls.layer.pipe(Layer.provide(Headrooms.layer)), Callers.layer, MessageCounts.layer)
  ),
  Layer.provideMerge(Layer.mergeAll(Attempts.layer, Metered, Repeats.layer, ResponseCache.layer)),
  Layer.provideMerge(Bulkheads.layer)
)
