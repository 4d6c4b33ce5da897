import { Context, Effect, Layer } from "effect"
import { type TenantId } from "../../kernel/identifier.ts"
import { type ReservationId } from "../../budgets/ledger/domain.ts"
import { Ledger } from "../../budgets/ledger/service.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"

/** A reservation may miss this many renewals, less one, before its call is considered dead. */
const renewalsPerHold = 3
const maxTogether = 1000

/**
 * Renews the reservations of this process's calls in one batch. After a crash they are no longer renewed, and the sweeper
 * settles them when they expire.
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
