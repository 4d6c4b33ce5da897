import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup, HttpApiMiddleware } from "effect/http-api"
import { fastGroupHandlers } from "../../../src/platform/fast-path/group-handlers.ts"
import { groupHandlers, ServedApi, untyped } from "../../../src/platform/http/served-api.ts"

class Taken extends Context.Service<Taken, string>()("test/Taken") {}
class Unrelated extends Context.Service<Unrelated, string>()("test/Unrelated") {}
class Caller extends Context.Service<Caller, string>()("test/Caller") {}
class Identified extends HttpApiMiddleware.Service<Identified, { provides: Caller }>()("test/Identified") {}

const Seen = Schema.Struct({ taken: Schema.String, caller: Schema.String, unrelated: Schema.Boolean })
class Things extends HttpApiGroup.make("things")
  .add(HttpApiEndpoint.get("see", "/see", { success: Seen }))
  .middleware(Identified) {}
class Api extends HttpApi.make("application-manager").add(Things) {}

/** What a handler of the group sees in a request. */
const seenBy = (handlersOf: typeof groupHandlers) =>
  Effect.gen(function* () {
    const Handlers = handlersOf(
      Things as never,
      ((handlers: HttpApiBuilder.Handlers.FromGroup<typeof Things>) =>
        Effect.map(Taken, (taken) =>
          handlers.handle("see", () =>
            Effect.contextWith((context: Context.Context<Caller>) =>
              Effect.succeed({
                taken,
                caller: Context.get(context, Caller),
                unrelated: Context.getOrUndefined(context, Unrelated) !== undefined
              })
            )
          )
        )) as never
    ) as Layer.Layer<HttpApiGroup.Service<"application-manager", "things">, never, ServedApi>
    const routes = HttpApiBuilder.layer(Api).pipe(
      Layer.provide(Handlers),
      Layer.provide(Layer.succeed(Identified, (handled) => Effect.provideService(handled, Caller, "ada"))),
      Layer.provide(
        Layer.mergeAll(
          Layer.succeed(ServedApi, untyped(Api)),
          Layer.succeed(Taken, "taken"),
          Layer.succeed(Unrelated, "unrelated")
        )
      )
    )
    const { dispose, handler } = HttpRouter.toWebHandler(Layer.provideMerge(routes, HttpServer.layerServices), {
      disableLogger: true
    })
    yield* Effect.addFinalizer(() => Effect.promise(dispose))
    const answer = yield* Effect.promise(() => handler(new Request("http://127.0.0.1/see")))
    return yield* Effect.promise(() => answer.json())
  })

for (const [name, handlersOf] of Object.entries({ groupHandlers, fastGroupHandlers })) {
  it.effect(`${name}: a request has what its middleware provides, and no service of the process`, () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* seenBy(handlersOf), { taken: "taken", caller: "ada", unrelated: false })
    })
  )
}
