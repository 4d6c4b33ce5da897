import { Context, DateTime, Effect, Layer, Option } from "effect"
import { Mac } from "effect/crypto"
import { repeatJob } from "../runtime/background-jobs.ts"
import { Sealing } from "../crypto/sealing.ts"
import { CallKeyRepository, type CallKeySlot } from "./call-key-repository.ts"

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

const kept = { hours: 24 } as const
/** A call gets its reservation within moments of its key; one that has none after this has failed. */
const longestUnheld = { seconds: 60 } as const

/** Idempotency keys of gateway calls, whose responses are not stored: the reservation of each. */
export class CallKeys extends Context.Service<
  CallKeys,
  {
    claim(slot: CallKeySlot, request: Uint8Array): Effect.Effect<CallKeyState>
    /** Takes the key over from a call that was cancelled at no cost; false when another request did. */
    takeOver(slot: CallKeySlot, from: string, request: Uint8Array): Effect.Effect<boolean>
    hold(slot: CallKeySlot, reservationId: string): Effect.Effect<void>
    free(slot: CallKeySlot): Effect.Effect<void>
  }
>()("app/idempotency/CallKeys") {
  static readonly layerNoDeps = Layer.effect(
    CallKeys,
    Effect.gen(function* () {
      const repository = yield* CallKeyRepository
      // A reader of the database could guess prompts against a plain digest.
      const { fingerprint } = yield* Sealing

      yield* DateTime.now.pipe(
        Effect.flatMap((now) => repository.purge(DateTime.subtract(now, kept))),
        (purge) => repeatJob("remove old keys of gateway calls", "1 hour", purge)
      )

      const claim = Effect.fn("CallKeys.claim")(function* (slot: CallKeySlot, request: Uint8Array) {
        const sha256 = yield* fingerprint(request)
        const now = yield* DateTime.now
        const unheldBefore = DateTime.subtract(now, longestUnheld)
        if (yield* repository.claim(slot, sha256, now, unheldBefore, DateTime.subtract(now, kept))) {
          return { state: "claimed" } as const
        }
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
          return yield* repository.takeOver(slot, from, yield* fingerprint(request), yield* DateTime.now)
        }),
        hold: repository.hold,
        free: repository.free
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(CallKeyRepository.layer))
}
