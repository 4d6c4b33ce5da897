import { Context, Effect, Layer } from "effect"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { emptySlice, slice } from "../../kernel/http/page.ts"
import { scopeOf, Database } from "../../platform/database/database.ts"
import { seesCounted, withinTenant } from "../attribution/service.ts"
import { countedScope } from "../ledger/cap-index.ts"
import { allTenants } from "../ledger/domain.ts"
import { totalOf } from "../ledger/quantity-domain.ts"
import { type AlertId, type BudgetAlert } from "./domain.ts"
import { type AlertFilter, AlertsRepository, type StoredAlert } from "./repository.ts"

/** Thresholds of caps that were passed, each once in a period. */
export class BudgetAlerts extends Context.Service<BudgetAlerts>()("app/budgets/BudgetAlerts", {
  make: Effect.gen(function* () {
    const database = yield* Database
    const repository = yield* AlertsRepository
    return {
      list: Effect.fn("BudgetAlerts.list")(function* (filter: AlertFilter, after: AlertId | undefined, limit: number) {
        const principal = yield* CurrentPrincipal
        const own = withinTenant(principal, filter)
        if (own === undefined) return emptySlice
        const rows = yield* database.read(scopeOf(principal), repository.list(own, after, limit + 1))
        const { items, nextCursor } = slice(rows.map(toAlert), limit, ({ id }) => id)
        return { items: items.filter(({ scope }) => seesCounted(principal, scope)), nextCursor }
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(AlertsRepository.layer))
}

const toAlert = ({ counterKey, limitAmount, scope, tenantId, ...alert }: StoredAlert): BudgetAlert => ({
  ...alert,
  tenantId: tenantId === allTenants ? null : tenantId,
  scope: countedScope(scope, counterKey),
  limit: totalOf(alert.unit, limitAmount),
  spent: totalOf(alert.unit, alert.spent),
  reserved: totalOf(alert.unit, alert.reserved)
})
