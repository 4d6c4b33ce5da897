import { Context, Effect, Layer } from "effect"

/** Whether the process is on its way out: then it is not ready, and serves only what it has begun. */
export class Shutdown extends Context.Service<
  Shutdown,
  {
    readonly isDraining: Effect.Effect<boolean>
    readonly begin: Effect.Effect<void>
  }
>()("app/platform/Shutdown") {
  static readonly layer = Layer.sync(Shutdown, () => {
    let draining = false
    return Shutdown.of({
      isDraining: Effect.sync(() => draining),
      begin: Effect.sync(() => {
        draining = true
      })
    })
  })
}
