import { Context, Effect, Layer, type Scope } from "effect"
import { HttpServer } from "effect/http"

// Services that handlers get while they are built, and that no request looks up.
const isNotForRequests =
  /^app\/|\/sql|^effect\/(?:FileSystem|Layer|Path|Terminal|crypto|process|http\/(?:Etag|HttpPlatform|HttpServer)\/?)\b|Stdio$/

/** Serves requests with the services that they need: HttpApi copies the context for each request, in proportion to its size. */
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
          (context: Context.Context<Scope.Scope>) =>
            Context.makeUnsafe<Scope.Scope>(
              new Map([...context.mapUnsafe].filter(([key]) => !isNotForRequests.test(key)))
            )
        )
    })
  )
)
