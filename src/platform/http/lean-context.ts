import { Context, Effect, Layer, type Scope } from "effect"
import { HttpServer } from "effect/http"

// What serves at the start, or reaches handlers while they are built, and no request by itself.
const servesNoRequest =
  /^app\/|\/sql|^effect\/(?:FileSystem|Layer|Path|Terminal|crypto|process|http\/(?:Etag|HttpPlatform|HttpServer)\/?)\b|Stdio$/

/** Serves in a context of what requests need: HttpApi copies that for each of them, which costs in proportion to its size. */
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
              new Map([...context.mapUnsafe].filter(([key]) => !servesNoRequest.test(key)))
            )
        )
    })
  )
)
