import { Context, DateTime, Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { CurrentPrincipal, Forbidden } from "../auth/domain.ts"
import { recordedAsker } from "./askers.ts"
import { ChargeId, type Refund, type RefundRequest, spendActions } from "./domain.ts"
import { ChargeNotFound, RefundExceedsCharge } from "./problem-domain.ts"
import { quantityOf } from "./quantity-domain.ts"
import { LedgerRepository } from "./repository.ts"
import { entryOf } from "./request.ts"
import { refundView } from "./views.ts"

/** What comes back of charges. */
export class Refunds extends Context.Service<
  Refunds,
  {
    /** Gives back a part of a charge, on the periods that it was charged on. */
    create(request: RefundRequest): Effect.Effect<Refund, ChargeNotFound | RefundExceedsCharge | Forbidden>
  }
>()("app/ledger/Refunds") {
  static readonly layerNoDeps = Layer.effect(
    Refunds,
    Effect.gen(function* () {
      const random = yield* SecureRandom.SecureRandom
      const repository = yield* LedgerRepository

      const create = Effect.fn("Refunds.create")(function* ({ amountUsd, chargeId, reason }: RefundRequest) {
        const principal = yield* CurrentPrincipal
        const { audit: origin } = yield* recordedAsker
        const id = ChargeId.make(yield* random.uuidV7())
        const outcome = yield* repository.refund({
          now: DateTime.formatIso(yield* DateTime.now),
          id,
          charge: chargeId,
          tenant: principal.tenantId ?? null,
          amount: Number(amountUsd),
          reason,
          principal: principal.name,
          system: principal.tenantId === undefined,
          entries: [
            entryOf(1, spendActions.SpendRefunded, chargeId, origin, {
              amountUsd: quantityOf("usd", amountUsd),
              reason
            })
          ]
        })
        switch (outcome.verdict) {
          case "own":
            return yield* new Forbidden({ missing: [], detail: "Who made a charge refunds nothing of it." })
          case "exceeds":
            return yield* new RefundExceedsCharge({ refundableUsd: outcome.refundable ?? 0n })
          case "done":
            if (outcome.refund !== undefined) return refundView(outcome.refund)
        }
        return yield* new ChargeNotFound({})
      })

      return Refunds.of({ create })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(LedgerRepository.layer))
}
