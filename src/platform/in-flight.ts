import { Clock, Context, Duration, Effect, type Fiber, Layer, Schedule } from "effect"

interface Entry {
  readonly fiber: Fiber.Fiber<unknown, unknown>
  readonly startedAt: number
}

/**
 * The requests being served. One sweep a second stops those that outlived their time, which costs a request two set
 * operations instead of a timer of its own.
 */
export class InFlight extends Context.Service<
  InFlight,
  {
    /** Registers the request's fiber; the answer takes it out again. */
    enter(fiber: Fiber.Fiber<unknown, unknown>, startedAt: number): () => void
    /** Exempts the fiber of a long-lived answer (a stream) from the time limit. */
    readonly count: Effect.Effect<number>
  }
>()("app/platform/InFlight") {
  static readonly layer = (options: { readonly timeout: Duration.Duration }) =>
    Layer.effect(
      InFlight,
      Effect.gen(function* () {
        const clock = yield* Clock.Clock
        const entries = new Set<Entry>()
        const timeoutMillis = Duration.toMillis(options.timeout)
        yield* Effect.sync(() => {
          const oldest = clock.currentTimeMillisUnsafe() - timeoutMillis
          for (const entry of entries) {
            if (entry.startedAt > oldest) break
            entries.delete(entry)
            entry.fiber.interruptUnsafe()
          }
        }).pipe(Effect.repeat(Schedule.spaced("1 second")), Effect.forkScoped)
        return InFlight.of({
          enter: (fiber, startedAt) => {
            const entry = { fiber, startedAt }
            entries.add(entry)
            return () => entries.delete(entry)
          },
          count: Effect.sync(() => entries.size)
        })
      })
    )
}
