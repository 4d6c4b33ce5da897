import { Context, Effect, Latch, Layer } from "effect"

/** Whether the process is on its way out: then it is not ready, and serves only what it has begun. */
export class Shutdown extends Context.Service<
  Shutdown,
  {
    readonly isDraining: Effect.Effect<boolean>
    isDrainingUnsafe(): boolean
    readonly begin: Effect.Effect<void>
    /** Waits until the process is on its way out: what would last for ever ends then. */
    readonly begun: Effect.Effect<void>
  }
>()("app/platform/Shutdown") {
  static readonly layer = Layer.sync(Shutdown, () => {
    const draining = Latch.makeUnsafe()
    return Shutdown.of({
      isDraining: Effect.sync(() => Latch.isOpen(draining)),
      isDrainingUnsafe: () => Latch.isOpen(draining),
      begin: Effect.asVoid(Latch.open(draining)),
      begun: draining.await
    })
  })
}
