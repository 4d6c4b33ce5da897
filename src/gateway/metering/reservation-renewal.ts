import { Context, Effect, Layer } from "effect"
import { type TenantId } from "../../kernel/identifier.ts"
import { type ReservationId } from "../../budgets/ledger/domain.ts"
import { Ledger } from "../../budgets/ledger/service.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"

/** A hold may miss so many renewals, less one, before somebody takes its call for dead. */
const renewalsPerHold = 3
const maxTogether = 1000

/**
 * The holds of the calls that run in this process. They are renewed together while it lives; what a crash leaves behind is
 * renewed by nobody, and settled by the sweeper once its time is over.
 */
export class ReservationRenewal extends Context.Service<
  ReservationRenewal,
  {
    add(id: ReservationId, tenantId: TenantId): void
    remove(id: ReservationId): void
  }
>()("app/gateway/LiveHolds") {
  static readonly layer = Layer.effect(
    ReservationRenewal,
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const { holdSeconds } = (yield* Settings).llm.gateway
      const live = new Map<ReservationId, { readonly tenantId: TenantId; readonly id: ReservationId }>()
      const renew = Effect.suspend(() => {
        const calls = [...live.values()]
        const batches = Array.from({ length: Math.ceil(calls.length / maxTogether) }, (_, index) =>
          calls.slice(index * maxTogether, (index + 1) * maxTogether)
        )
        return Effect.forEach(batches, (batch) => ledger.renew(batch, holdSeconds), { discard: true })
      })
      yield* repeatJob("renew what running calls hold", `${(holdSeconds * 1000) / renewalsPerHold} millis`, renew)
      return ReservationRenewal.of({
        add: (id, tenantId) => {
          live.set(id, { tenantId, id })
        },
        remove: (id) => {
          live.delete(id)
        }
      })
    })
  )
}
