import { Context, DateTime, Effect, Layer } from "effect"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Dimensions, type ApplicableCap } from "../ledger/cap-index.ts"
import { CapIndexes } from "../ledger/cap-books.ts"
import { allTenants, type Cap } from "../ledger/cap-domain.ts"
import { booksOf, applicableCaps } from "../ledger/reserve-batch.ts"
import { Ledger } from "../ledger/service.ts"
import { type PlanOutcome, PlansRepository } from "./repository.ts"

/** What a change of a plan came to, with the caps that it holds on, in their places. */
export interface HeldChange {
  readonly outcome: PlanOutcome | { readonly verdict: "uncovered" }
  readonly held: ReadonlyArray<ApplicableCap>
}

/** The caps on which plans hold their budgets ahead, so that their calls need not ask there. */
export class PlanHolds extends Context.Service<
  PlanHolds,
  {
    /** Changes a plan by what its caps are at that moment; nothing is refused for what is due to end. */
    change(tenantId: TenantId, dimensions: Dimensions, requiresCap: boolean, request: object): Effect.Effect<HeldChange>
  }
>()("app/budgets/PlanHolds") {
  static readonly layer = Layer.effect(
    PlanHolds,
    Effect.gen(function* () {
      const books = yield* CapIndexes
      const ledger = yield* Ledger
      const repository = yield* PlansRepository

      const change = Effect.fn("PlanHolds.change")(function* (
        tenantId: TenantId,
        dimensions: Dimensions,
        requiresCap: boolean,
        request: object
      ) {
        let isFresh = false
        for (;;) {
          const now = DateTime.formatIso(yield* DateTime.now)
          const known = yield* booksOf(books.get, [{ tenantId }])
          const governing = applicableCaps(known, { tenantId, dimensions })
          if (requiresCap && governing.length === 0) {
            if (isFresh) return { outcome: { verdict: "uncovered" as const }, held: [] }
            // What is refused never reaches the statement, which alone knows whether the copy is old.
            yield* books.refresh([...known.keys()])
            isFresh = true
            continue
          }
          const held = governing.filter(({ cap }) => isHeld(cap))
          yield* ledger.reclaim(held.some(({ cap }) => cap.tenantId === allTenants) ? null : tenantId)
          const outcome = yield* repository.change({
            ...request,
            now,
            tenant: tenantId,
            books: Array.from(known, ([tenant, { version }]) => ({ tenant, version: Number(version) })),
            counters: held.map(({ cap, counterKey }, index) => ({
              place: index + 1,
              tenant: cap.tenantId,
              cap: cap.id,
              key: counterKey
            }))
          })
          if (outcome.verdict !== "stale") return { outcome, held }
          yield* books.refresh([...known.keys()])
        }
      })
      return PlanHolds.of({ change })
    })
  )
}

const secondsOfWeek = 604_800
const longPeriods = new Set<Cap["period"]>(["week", "month", "quarter", "year", "total"])
const heldDimensions = new Set(["agentId", "applicationId", "taskType"])

/** Short periods and what single calls differ in are asked call by call. */
const isHeld = ({ period, scope, unit, windowSeconds }: Pick<Cap, "period" | "scope" | "unit" | "windowSeconds">) =>
  unit === "usd" &&
  (longPeriods.has(period) || (windowSeconds ?? 0) >= secondsOfWeek) &&
  Object.keys(scope).every((name) => heldDimensions.has(name))
