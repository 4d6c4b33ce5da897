import { Context, Effect, Layer, type Scope } from "effect"
import { HttpServer } from "effect/http"

// HttpApi merges two contexts into every request's: the one its handlers were built in and the one it is served in. That
// costs in proportion to their size; for the whole process' twice, as much as all the rest of a short request.

const only = <R>(context: Context.Context<R>, keep: (key: string) => boolean): Context.Context<R> =>
  Context.makeUnsafe<R>(new Map([...context.mapUnsafe].filter(([key]) => keep(key))))

const isOurs = (key: string) => key.startsWith("app/")

/** Builds handlers in a context of this application's services alone, without drivers, loggers and the like. */
export const lean = <A, E, R>(layer: Layer.Layer<A, E, R>): Layer.Layer<A, E, R> =>
  Layer.fromBuild((memoMap, scope) =>
    Effect.updateContext(Layer.buildWithMemoMap(layer, memoMap, scope), (context: Context.Context<R>) =>
      only(context, isOurs)
    )
  )

/** Serves in a context without this application's services, which handlers bring along, and without database drivers. */
export const LeanServerLayer = Layer.effect(
  HttpServer.HttpServer,
  Effect.map(HttpServer.HttpServer, (server) =>
    HttpServer.make({
      address: server.address,
      serve: (app, middleware) =>
        Effect.updateContext(
          (middleware === undefined ? server.serve(app) : server.serve(app, middleware)) as Effect.Effect<
            void,
            never,
            Scope.Scope
          >,
          (context: Context.Context<Scope.Scope>) => only(context, (key) => !isOurs(key) && !key.includes("/sql"))
        )
    })
  )
)
