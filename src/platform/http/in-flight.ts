import { Clock, Context, Effect, type Fiber, Latch, Layer, Schedule } from "effect"
import { Slots, type Slotted } from "../../kernel/slots.ts"
import { Settings } from "../settings/settings.ts"
import { tookTooLong } from "./request.ts"
import { Deadline } from "./time-limit.ts"

/** A request that is being served. */
export interface ActiveRequest extends Deadline {
  /** Removes it when the response is ready. */
  leave(): void
}

/**
 * The active requests. One sweep a second stops those past their time limit, which costs a request an object instead of a
 * timer.
 */
export class InFlight extends Context.Service<
  InFlight,
  {
    /** Registers the request's fiber, with the time limit of requests. */
    enter(fiber: Fiber.Fiber<unknown, unknown>): ActiveRequest
  }
>()("app/platform/InFlight") {
  static readonly layer = Layer.effect(
    InFlight,
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const { api } = yield* Settings
      const timeoutMillis = api.requestTimeoutSeconds * 1000
      const entries = new Slots<Active>()
      class Active extends Deadline implements ActiveRequest, Slotted {
        slot: number | undefined = undefined
        readonly fiber: Fiber.Fiber<unknown, unknown>

        constructor(fiber: Fiber.Fiber<unknown, unknown>) {
          super(clock)
          this.fiber = fiber
          this.begin(timeoutMillis, tookTooLong)
        }

        leave() {
          entries.delete(this)
        }
      }

      yield* Effect.sync(() => {
        const now = clock.currentTimeMillisUnsafe()
        for (const entry of entries) {
          if (!entry.isMissedAt(now)) continue
          entries.delete(entry)
          entry.fiber.interruptUnsafe()
        }
      }).pipe(Effect.repeat(Schedule.spaced("1 second")), Effect.forkScoped)

      return InFlight.of({
        enter: (fiber) => {
          const entry = new Active(fiber)
          entries.add(entry)
          return entry
        }
      })
    })
  )
}

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
