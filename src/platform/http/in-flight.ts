import { Clock, Context, Duration, Effect, type Fiber, Layer, Schedule } from "effect"

/** A request that is being served. */
export interface ActiveRequest {
  /** Removes it when the response is ready. */
  leave(): void
  /** Gives it this long from now on; undefined: as long as it takes. */
  limit(millis: number | undefined): void
}

/**
 * The active requests. One sweep a second stops those past their time limit, which costs a request two set operations
 * instead of a timer.
 */
export class InFlight extends Context.Service<
  InFlight,
  {
    /** Registers the request's fiber, with the time limit of requests. */
    enter(fiber: Fiber.Fiber<unknown, unknown>): ActiveRequest
    readonly count: Effect.Effect<number>
  }
>()("app/platform/InFlight") {
  static readonly layer = (options: { readonly timeout: Duration.Duration }) =>
    Layer.effect(
      InFlight,
      Effect.gen(function* () {
        const clock = yield* Clock.Clock
        const timeoutMillis = Duration.toMillis(options.timeout)
        const entries = new Set<{ readonly fiber: Fiber.Fiber<unknown, unknown>; until: number }>()

        yield* Effect.sync(() => {
          const now = clock.currentTimeMillisUnsafe()
          for (const entry of entries) {
            if (entry.until > now) continue
            entries.delete(entry)
            entry.fiber.interruptUnsafe()
          }
        }).pipe(Effect.repeat(Schedule.spaced("1 second")), Effect.forkScoped)

        return InFlight.of({
          enter: (fiber) => {
            const entry = { fiber, until: clock.currentTimeMillisUnsafe() + timeoutMillis }
            entries.add(entry)
            return {
              leave: () => void entries.delete(entry),
              limit: (millis) => {
                entry.until = millis === undefined ? Infinity : clock.currentTimeMillisUnsafe() + millis
              }
            }
          },
          count: Effect.sync(() => entries.size)
        })
      })
    )
}
