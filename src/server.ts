import { Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Access from "./access/layers.ts"
import * as Agents from "./agents/layers.ts"
import { Api } from "./api.ts"
import * as Applications from "./applications/layers.ts"
import * as Audit from "./audit/layers.ts"
import * as Budgets from "./budgets/layers.ts"
import * as Console from "./console/layers.ts"
import * as Events from "./events/layers.ts"
import * as Gateway from "./gateway/layers.ts"
import * as Insights from "./insights/layers.ts"
import * as Operations from "./operations/layers.ts"
import * as People from "./people/layers.ts"
import { type DatabaseConnection } from "./platform/database/connection.ts"
import { type poolLayer } from "./platform/database/database.ts"
import { routerConfig } from "./platform/http/allowed-methods.ts"
import { cors } from "./platform/http/cors.ts"
import { Shutdown } from "./platform/http/in-flight.ts"
import { LeanServerLayer } from "./platform/http/listener.ts"
import { ServedApi, untyped } from "./platform/http/served-api.ts"
import * as Platform from "./platform/layers.ts"
import { Settings } from "./platform/settings/settings.ts"
import * as Sandbox from "./sandbox/layers.ts"
import * as Tenants from "./tenants/layers.ts"
import * as Trials from "./trials/layers.ts"

/**
 * The floors from the top: a line needs those below it. Some areas have a second line, and the sandbox its only one, where a
 * higher area provides what a lower one declares as a port.
 */
const Services = Operations.layer.pipe(
  Layer.provideMerge(Events.layer),
  Layer.provideMerge(Insights.layer),
  // Calls reserve their cost in the ledger, and choose targets by what is left of prepaid quotas.
  Layer.provideMerge(Gateway.layer),
  Layer.provideMerge(Insights.layerQuotas),
  // The ledger knows prices and names of models from the gateway's catalogue.
  Layer.provideMerge(Budgets.layer),
  Layer.provideMerge(Gateway.layerCatalogue),
  // The provider within this process, for trying the service out.
  Layer.provideMerge(Sandbox.layer),
  // The checks of credentials belong to the areas that issue them.
  Layer.provideMerge(Access.layerAuthentication),
  Layer.provideMerge(Agents.layer),
  Layer.provideMerge(People.layer),
  Layer.provideMerge(Trials.layer),
  Layer.provideMerge(Applications.layer),
  Layer.provideMerge(Tenants.layer),
  // Access refuses credentials with an entry in the log, and invalidates its caches when a key of the log is revoked.
  Layer.provideMerge(Audit.layer),
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(Audit.layerLog),
  Layer.provideMerge(Platform.layer)
)

const Handlers = Layer.mergeAll(
  Operations.handlers,
  Events.handlers,
  Insights.handlers,
  Gateway.handlers,
  Budgets.handlers,
  Agents.handlers,
  People.handlers,
  Trials.handlers,
  Applications.handlers,
  Tenants.handlers,
  Audit.handlers
)

const Middleware = Layer.mergeAll(Platform.middleware, Access.middleware, Agents.middleware, Budgets.middleware)

const Routes = Layer.mergeAll(HttpApiBuilder.layer(Api), Console.routes, Gateway.routes, Platform.routes)

const Served = Layer.unwrap(
  Effect.map(Settings, ({ api }) =>
    HttpRouter.serve(Routes.pipe(Layer.provide(Handlers), Layer.provide(Layer.succeed(ServedApi, untyped(Api)))), {
      disableLogger: true,
      disableListenLog: true,
      routerConfig,
      ...cors(api)
    })
  )
)

// Built last and so closed first: the server is closed when the service has drained.
const Drain = Layer.effectDiscard(Effect.flatMap(Shutdown, ({ begin }) => Effect.addFinalizer(() => begin)))

type FromOutside =
  | Settings
  | DatabaseConnection
  | Layer.Success<ReturnType<typeof poolLayer>>
  | Layer.Success<typeof Platform.layerListener>

/** The whole service; settings, database and listener come from outside. */
export const ServerLayer = Drain.pipe(
  Layer.provideMerge(Served),
  Layer.provideMerge(LeanServerLayer),
  Layer.provide(Middleware),
  Layer.provideMerge(Services),
  Layer.provideMerge(Platform.layerRequests),
  // If a service has no layer, the compile error here says which one.
  Layer.satisfiesServicesType<FromOutside>()
)
