import { Context, Effect, Layer } from "effect"
import { Database, statementMoment } from "../../platform/database/database.ts"
import { applicableCaps, CapIndexes } from "../ledger/cap-index.ts"
import { type AvailableBudget, type BudgetSubject } from "../ledger/protocol-domain.ts"
import { Ledger } from "../ledger/service.ts"
import { UtilizationRepository } from "./utilization-repository.ts"

/** What the caps that apply to a call have left now. A reservation is decided by what they have left then. */
export class AvailableBudgets extends Context.Service<AvailableBudgets>()("app/budgets/AvailableBudgets", {
  make: Effect.gen(function* () {
    const capIndexes = yield* CapIndexes
    const database = yield* Database
    const ledger = yield* Ledger
    const repository = yield* UtilizationRepository
    return {
      of: Effect.fn("AvailableBudgets.of")(function* (subject: BudgetSubject) {
        yield* ledger.flushSettlements(subject.tenantId)
        const at = yield* statementMoment
        // Here no statement compares the revision of the copy.
        yield* capIndexes.refresh([subject.tenantId])
        const applicable = applicableCaps(yield* capIndexes.of([subject]), subject)
        const counters = yield* Effect.forEach(applicable, ({ cap, counterKey }) =>
          database.read("all", repository.list({ capId: cap.id, counterKey }, at, undefined, 1))
        )
        const known = new Map(counters.flat().map((one) => [`${one.capId}${one.counterKey ?? ""}`, one]))
        return applicable.map((one): AvailableBudget => {
          const counter = known.get(`${one.cap.id}${one.counterKey}`)
          const limit = counter === undefined ? one.cap.limitAmount : counter.limitAmount + counter.grants
          const left = limit - (counter?.spent ?? 0n) - (counter?.reserved ?? 0n)
          const resetsAt = counter?.periodEnd?.epochMilliseconds ?? null
          return { cap: one.cap, counterKey: one.counterKey, headroom: left > 0n ? left : 0n, resetsAt }
        })
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(UtilizationRepository.layer))
}
