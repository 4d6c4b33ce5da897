import { Context, DateTime, Effect, Layer, Option } from "effect"
import { Mac } from "effect/crypto"
import { repeatJob } from "../runtime/background-jobs.ts"
import { Sealing } from "../crypto/sealing.ts"
import { CallKeyRepository, type CallKeySlot } from "./call-key-repository.ts"

/** What is known of a key that a call comes with. */
export type CallKeyState =
  /** It is the caller's now. */
  | { readonly state: "claimed" }
  /** Another request has it. */
  | { readonly state: "reused" }
  /** The same request has it, and is on its way to its reservation. */
  | { readonly state: "unheld" }
  /** The same request has it, under this reservation. */
  | { readonly state: "held"; readonly reservationId: string }

const kept = { hours: 24 } as const
/** From a key to its reservation it takes a moment; who never gets there was lost on the way. */
const longestUnheld = { seconds: 60 } as const

/** Keys of calls that go elsewhere, and whose answers are not kept: which reservation each was made under. */
export class CallKeys extends Context.Service<
  CallKeys,
  {
    claim(slot: CallKeySlot, request: Uint8Array): Effect.Effect<CallKeyState>
    /** Takes the key over from a call that was given up at no cost; false when somebody else did. */
    takeOver(slot: CallKeySlot, from: string, request: Uint8Array): Effect.Effect<boolean>
    hold(slot: CallKeySlot, reservationId: string): Effect.Effect<void>
    free(slot: CallKeySlot): Effect.Effect<void>
  }
>()("app/idempotency/CallKeys") {
  static readonly layerNoDeps = Layer.effect(
    CallKeys,
    Effect.gen(function* () {
      const repository = yield* CallKeyRepository
      // Prompts may be guessed, which a plain digest would let whoever has the database try out.
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
        // It was freed between the two looks.
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
