import { Clock, Context, Duration, Effect, type Fiber, Layer, Schedule } from "effect"

/**
 * The active requests. One sweep a second stops those past their time limit, which costs a request two set operations
 * instead of a timer.
 */
export class InFlight extends Context.Service<
  InFlight,
  {
    /** Registers the request's fiber; the returned function removes it when the response is ready. */
    enter(fiber: Fiber.Fiber<unknown, unknown>): () => void
    readonly count: Effect.Effect<number>
  }
>()("app/platform/InFlight") {
  static readonly layer = (options: { readonly timeout: Duration.Duration }) =>
    Layer.effect(
      InFlight,
      Effect.gen(function* () {
        const clock = yield* Clock.Clock
        const timeoutMillis = Duration.toMillis(options.timeout)
        const entries = new Set<{ readonly fiber: Fiber.Fiber<unknown, unknown>; readonly startedAt: number }>()

        // Entries are in the order of their arrival, so the sweep stops at the first one with time left.
        yield* Effect.sync(() => {
          const latest = clock.currentTimeMillisUnsafe() - timeoutMillis
          for (const entry of entries) {
            if (entry.startedAt > latest) break
            entries.delete(entry)
            entry.fiber.interruptUnsafe()
          }
        }).pipe(Effect.repeat(Schedule.spaced("1 second")), Effect.forkScoped)

        return InFlight.of({
          enter: (fiber) => {
            const entry = { fiber, startedAt: clock.currentTimeMillisUnsafe() }
            entries.add(entry)
            return () => void entries.delete(entry)
          },
          count: Effect.sync(() => entries.size)
        })
      })
    )
}
