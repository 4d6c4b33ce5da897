import { Context, Effect, Latch, Layer } from "effect"

/** Whether the process is shutting down: then it is not ready, and completes only what it has begun. */
export class Shutdown extends Context.Service<
  Shutdown,
  {
    readonly isDraining: Effect.Effect<boolean>
    isDrainingUnsafe(): boolean
    readonly begin: Effect.Effect<void>
    /** Waits until the shutdown begins, when streams end. */
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
