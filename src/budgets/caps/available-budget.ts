import { Context, DateTime, Effect, Layer } from "effect"
import { Database } from "../../platform/database/database.ts"
import { type BudgetSubject } from "../attribution/service.ts"
import { CapIndexes } from "../ledger/cap-books.ts"
import { type AvailableBudget } from "../ledger/request.ts"
import { booksOf, applicableCaps } from "../ledger/reserve-batch.ts"
import { Ledger } from "../ledger/service.ts"
import { UtilizationRepository } from "./utilization-repository.ts"

/** What the caps that govern a spend have left now; a reserve decides by what they have then. */
export class AvailableBudgets extends Context.Service<
  AvailableBudgets,
  { of(spending: BudgetSubject): Effect.Effect<ReadonlyArray<AvailableBudget>> }
>()("app/budgets/AvailableBudgets") {
  static readonly layer = Layer.effect(
    AvailableBudgets,
    Effect.gen(function* () {
      const books = yield* CapIndexes
      const database = yield* Database
      const ledger = yield* Ledger
      const repository = yield* UtilizationRepository
      return AvailableBudgets.of({
        of: Effect.fn("AvailableBudgets.of")(function* (spending: BudgetSubject) {
          yield* ledger.flushSettlements(spending.tenantId)
          const at = yield* DateTime.now
          // No statement says here that a copy is old.
          yield* books.refresh([spending.tenantId])
          const governing = applicableCaps(yield* booksOf(books.get, [spending]), spending)
          const counters = yield* Effect.forEach(governing, ({ cap, counterKey }) =>
            database.transaction("all", repository.list({ capId: cap.id, counterKey }, at, undefined, 1))
          )
          const known = new Map(counters.flat().map((one) => [`${one.capId}${one.counterKey ?? ""}`, one]))
          return governing.map((one) => {
            const counter = known.get(`${one.cap.id}${one.counterKey}`)
            const limit = counter === undefined ? one.cap.limitAmount : counter.limitAmount + counter.grants
            const left = limit - (counter?.spent ?? 0n) - (counter?.reserved ?? 0n)
            const resetsAt = counter?.periodEnd?.epochMilliseconds ?? null
            return { cap: one.cap, counterKey: one.counterKey, headroom: left > 0n ? left : 0n, resetsAt }
          })
        })
      })
    })
  ).pipe(Layer.provide(UtilizationRepository.layer))
}
