import { Context, Deferred, Effect, Layer } from "effect"

/** Whether the process is on its way out: then it is not ready, and serves only what it has begun. */
export class Shutdown extends Context.Service<
  Shutdown,
  {
    readonly isDraining: Effect.Effect<boolean>
    /** Waits until it begins; answers that would never end by themselves end then. */
    readonly begun: Effect.Effect<void>
    readonly begin: Effect.Effect<void>
  }
>()("app/platform/Shutdown") {
  static readonly layer = Layer.effect(
    Shutdown,
    Effect.gen(function* () {
      const draining = yield* Deferred.make<void>()
      const begin = Effect.asVoid(Deferred.succeed(draining, undefined))
      return Shutdown.of({ isDraining: Deferred.isDone(draining), begun: Deferred.await(draining), begin })
    })
  )
}
