import { DateTime, Effect, Layer } from "effect"
import { amountOf } from "../../budgets/ledger/quantity-domain.ts"
import { type PrepaidQuota, PrepaidQuotas } from "../../gateway/routing/prepaid-quotas.ts"
import { Database } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { asOf } from "./domain.ts"
import { type Standing, SubscriptionsRepository } from "./repository.ts"

/** What a subscription's quota is counted in, of what was used. */
export const usedOf = (unit: Standing["quota"]["unit"], used: Pick<Standing, "cost" | "tokens" | "requests">): bigint =>
  unit === "usd" ? used.cost : used[unit]

/** The quotas of all tenants, read every few seconds, since the gateway decides without asking the database. */
export const SubscriptionQuotasLayer = Layer.effect(
  PrepaidQuotas,
  Effect.gen(function* () {
    const database = yield* Database
    const repository = yield* SubscriptionsRepository
    let known: ReadonlyMap<string, PrepaidQuota> = new Map()

    const read = Effect.gen(function* () {
      const now = yield* DateTime.now
      const standings = yield* database.read("all", repository.standings(now))
      const found = new Map<string, PrepaidQuota>()
      for (const standing of standings) {
        const { quota } = asOf(standing, now)
        const slot = `${standing.tenantId} ${standing.provider}`
        const isLeft = usedOf(quota.unit, standing) < amountOf(quota.unit, quota.amount)
        // Of several subscriptions at a provider one with a rest is enough.
        const state = isLeft ? "prepaid" : standing.overage === "allow" ? "metered" : "exhausted"
        const other = found.get(slot)
        if (other === undefined || state === "prepaid" || (state === "metered" && other === "exhausted")) {
          found.set(slot, state)
        }
      }
      known = found
    })
    yield* repeatJob("read the quotas of subscriptions", "2 seconds", read)

    return (tenantId, provider) => known.get(`${tenantId} ${provider}`) ?? "metered"
  })
).pipe(Layer.provide(SubscriptionsRepository.layer))
