import { Layer } from "effect"
import { Adoptions } from "../ledger/adoptions.ts"
import { Attempts } from "./attempts.ts"
import { Breakers } from "./breakers.ts"
import { Bulkheads } from "./bulkheads.ts"
import { Callers } from "./callers.ts"
import { Calls } from "./calls.ts"
import { Completions } from "./completions.ts"
import { GatewayConfiguration } from "./configuration.ts"
import { LiveHolds } from "./live-holds.ts"
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
export const GatewayCallsLayer = Layer.mergeAll(Gateway.layer, Completions.layer).pipe(
  Layer.provideMerge(Layer.mergeAll(Calls.layer, Callers.layer, TokenCounts.layer)),
  Layer.provideMerge(
    Layer.mergeAll(
      Attempts.layer,
      Metering.layer.pipe(Layer.provide(Layer.merge(LiveHolds.layer, Adoptions.layer))),
      Repeats.layer,
      ResponseCache.layer
    )
  ),
  Layer.provideMerge(Bulkheads.layer)
)
