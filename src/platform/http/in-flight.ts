import { Clock, Context, Duration, Effect, type Fiber, Latch, Layer, Schedule } from "effect"
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

/**
 * How the process ends. First it drains: it is not ready and asks clients to close their connections, but serves all requests,
 * since load balancers take a while to notice. Then it completes only what it has begun.
 */
export class Shutdown extends Context.Service<
  Shutdown,
  {
    readonly isDraining: Effect.Effect<boolean>
    isDrainingUnsafe(): boolean
    /** Drains for `Api:DrainSeconds`; after that the server is to be closed. */
    readonly begin: Effect.Effect<void>
    /** Waits until the process has drained, when streams without an end stop. */
    readonly drained: Effect.Effect<void>
  }
>()("app/platform/Shutdown") {
  static readonly layer = Layer.effect(
    Shutdown,
    Effect.map(Settings, ({ api }) => {
      const draining = Latch.makeUnsafe()
      const drained = Latch.makeUnsafe()
      return Shutdown.of({
        isDraining: Effect.sync(() => Latch.isOpen(draining)),
        isDrainingUnsafe: () => Latch.isOpen(draining),
        begin: Effect.andThen(
          Latch.open(draining),
          Effect.andThen(Effect.sleep(Duration.seconds(api.drainSeconds)), Latch.open(drained))
        ),
        drained: drained.await
      })
    })
  )
}
