import { Context, Effect, Layer, Option } from "effect"
import { SecureRandom } from "effect/crypto"
import { CurrentPrincipal, Forbidden } from "../../kernel/principal.ts"
import { auditedRequester } from "../attribution/service.ts"
import { ChargeId, type Refund, type RefundRequest } from "../ledger/domain.ts"
import { ChargeNotFound, RefundExceedsCharge } from "../ledger/problem-domain.ts"
import { ReservationQueries } from "./queries.ts"
import { Ledger } from "../ledger/service.ts"
import { refundView } from "./views.ts"

/** What comes back of charges. */
export class Refunds extends Context.Service<
  Refunds,
  {
    /** Gives back a part of a charge, on the periods that it was charged on. */
    create(request: RefundRequest): Effect.Effect<Refund, ChargeNotFound | RefundExceedsCharge | Forbidden>
  }
>()("app/budgets/Refunds") {
  static readonly layer = Layer.effect(
    Refunds,
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const random = yield* SecureRandom.SecureRandom
      const reservations = yield* ReservationQueries

      const create = Effect.fn("Refunds.create")(function* ({ amountUsd, chargeId, reason }: RefundRequest) {
        const principal = yield* CurrentPrincipal
        if (principal.kind === "agent") {
          // What came back would be room for the agent itself; of others it knows nothing.
          const own = yield* reservations.charged(chargeId)
          if (Option.isNone(own)) return yield* new ChargeNotFound({})
          return yield* new Forbidden({ missing: [], detail: "An agent refunds nothing of what it spent." })
        }
        const { audit } = yield* auditedRequester
        const id = ChargeId.make(yield* random.uuidV7())
        const outcome = yield* ledger.refund({
          principal: principal.name,
          audit,
          id,
          chargeId,
          tenantId: principal.tenantId ?? null,
          amount: amountUsd,
          reason,
          isSystem: principal.tenantId === undefined
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
}
