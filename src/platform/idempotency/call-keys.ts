import { Context, Effect, Fiber, Layer, Option, Schedule } from "effect"
import { Mac } from "effect/crypto"
import { Sealing } from "../crypto/sealing.ts"
import { repeatJob } from "../runtime/background-jobs.ts"
import { CallKeyRepository } from "./call-key-repository.ts"
import { type CallKeyClaim, type CallKeySlot } from "./domain.ts"

/** The state of the key of a call. */
export type CallKeyState =
  /** It belongs to this call now. */
  | { readonly state: "claimed" }
  /** It was used for another request. */
  | { readonly state: "reused" }
  /** It belongs to the same request, which has no reservation yet. */
  | { readonly state: "unheld" }
  /** It belongs to the same request, under this reservation. */
  | { readonly state: "held"; readonly reservationId: string }

/** How long a key is freed again and again while the database is away; a minute later it is free by itself. */
const whileAway = Schedule.spaced("1 second").pipe(Schedule.upTo({ duration: "10 minutes" }))
const longestWait = "1 second"

/** Idempotency keys of gateway calls, whose responses are not stored: the reservation of each. */
export class CallKeys extends Context.Service<
  CallKeys,
  {
    claim(slot: CallKeyClaim, request: Uint8Array): Effect.Effect<CallKeyState>
    /** Takes the key over from a call that was cancelled at no cost; false when another request did. */
    takeOver(slot: CallKeyClaim, from: string, request: Uint8Array): Effect.Effect<boolean>
    hold(slot: CallKeySlot, reservationId: string): Effect.Effect<void>
    /** Frees the key of a call that has ended, at the latest when the database is back; waits a second at most. */
    free(slot: CallKeyClaim): Effect.Effect<void>
  }
>()("app/platform/CallKeys") {
  static readonly layerNoDeps = Layer.effect(
    CallKeys,
    Effect.gen(function* () {
      const repository = yield* CallKeyRepository
      // A reader of the database could guess prompts against a plain digest.
      const { fingerprint } = yield* Sealing

      yield* repeatJob("remove old keys of gateway calls", "1 hour", repository.purge)

      const claim = Effect.fn("CallKeys.claim")(function* (slot: CallKeyClaim, request: Uint8Array) {
        const sha256 = yield* fingerprint(request)
        if (yield* repository.claim(slot, sha256)) return { state: "claimed" } as const
        const earlier = yield* repository.find(slot)
        // It was released between the two statements.
        if (Option.isNone(earlier)) return { state: "unheld" } as const
        const { requestSha256, reservationId } = earlier.value
        if (!Mac.timingSafeEqual(requestSha256, sha256)) return { state: "reused" } as const
        return reservationId === null ? ({ state: "unheld" } as const) : ({ state: "held", reservationId } as const)
      })

      return CallKeys.of({
        claim,
        takeOver: Effect.fn("CallKeys.takeOver")(function* (slot, from, request) {
          return yield* repository.takeOver(slot, from, yield* fingerprint(request))
        }),
        hold: repository.hold,
        free: (slot) => {
          const once = Effect.timeout(repository.free(slot), longestWait)
          const later = Effect.retry(Effect.sandbox(once), whileAway).pipe(
            Effect.catchCause((cause) => Effect.logWarning("The key of a call could not be freed", cause))
          )
          // In fibers of their own, since the caller may be uninterruptible, or interrupted already.
          const freed = Effect.catchCause(once, () => Effect.asVoid(Effect.forkDetach(later)))
          return Effect.flatMap(Effect.forkDetach(Effect.interruptible(freed), { startImmediately: true }), Fiber.join)
        }
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(CallKeyRepository.layer))
}
