import { Context, DateTime, Effect, Layer } from "effect"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { emptySlice, slice } from "../../kernel/http/page.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Database, type Moment, scopeOf, statementMoment } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { seesCounted, withinTenant } from "../attribution/service.ts"
import { countedDimensions, countedScope } from "../ledger/cap-index.ts"
import { tenantIdOf } from "../ledger/domain.ts"
import { exhaustionOf, forecastOf, quantityOf, totalOf } from "../ledger/quantity-domain.ts"
import { type CapUtilization, type UsePlace, type UtilizationKey, type UtilizationSort } from "./domain.ts"
import { type CounterUtilization, type UtilizationFilter, UtilizationRepository } from "./utilization-repository.ts"

/** The use of each cap, read from the counters themselves: it includes every reservation that was answered. */
export class CapUtilizations extends Context.Service<CapUtilizations>()("app/budgets/CapUtilizations", {
  make: Effect.gen(function* () {
    const database = yield* Database
    const repository = yield* UtilizationRepository
    /** A page of what a read answers, of what the caller may see. */
    const page = Effect.fnUntraced(function* <Key>(
      filter: UtilizationFilter,
      limit: number,
      read: (own: UtilizationFilter, at: Moment) => Effect.Effect<ReadonlyArray<CounterUtilization>>,
      keyOf: (counter: CounterUtilization) => Key
    ) {
      const asOf = yield* DateTime.now
      const principal = yield* CurrentPrincipal
      const own = withinTenant(principal, filter)
      if (own === undefined) return { asOf, ...emptySlice }
      const found = read(own, yield* statementMoment)
      const { items, nextCursor } = slice(yield* database.read(scopeOf(principal), found), limit, keyOf)
      const counters = items.map((counter) => ({ use: utilizationOf(counter, asOf), counts: countsOf(counter) }))
      return { asOf, items: counters.filter(({ use }) => seesCounted(principal, use.scope)), nextCursor }
    })

    const listCounters = (filter: UtilizationFilter, after: UtilizationKey | undefined, limit: number) =>
      page(
        filter,
        limit,
        (own, at) => repository.list(own, at, after, limit + 1),
        ({ capId, counterId }): UtilizationKey => [capId, counterId]
      )

    const followLimits = Effect.gen(function* () {
      while ((yield* repository.followLimits(yield* statementMoment, mostAtOnce)) > 0);
    })
    yield* repeatJob("sort counters by changed limits", "10 seconds", followLimits)

    return {
      list: Effect.fn("CapUtilizations.list")(
        (filter: UtilizationFilter, after: UtilizationKey | undefined, limit: number) =>
          Effect.map(listCounters(filter, after, limit), usesOf)
      ),
      /** The same, each with what its counter counts. */
      listCounters,
      /** The same by the share of the limit that is used. */
      listByUse: Effect.fn("CapUtilizations.listByUse")(
        (filter: UtilizationFilter, sort: UtilizationSort, after: UsePlace | undefined, limit: number) =>
          Effect.map(
            page(
              filter,
              limit,
              (own, at) => repository.listByUse(own, at, sort, after, limit + 1),
              ({ capId, counterId, share }): UsePlace => [sort, share ?? "0", capId, counterId]
            ),
            usesOf
          )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(UtilizationRepository.layer))
}

/** The use of a cap's counter, and the charges that it counts. */
interface CountedUse {
  readonly use: CapUtilization
  readonly counts: CountedCharges
}

/** Charges by their tenant, where they are of one, and by their dimensions, of which those that are null have no value. */
export interface CountedCharges {
  readonly tenantId: TenantId | undefined
  readonly dimensions: Readonly<Record<string, string | number | null>>
}

const usesOf = <Page extends { readonly items: ReadonlyArray<CountedUse> }>({ items, ...page }: Page) => ({
  ...page,
  items: items.map(({ use }) => use)
})

const countsOf = ({ counterKey, scope, tenantId }: CounterUtilization): CountedCharges => ({
  tenantId: tenantIdOf({ tenantId }) ?? undefined,
  dimensions: countedDimensions(scope, counterKey ?? "")
})

/** The counters that are locked together. */
const mostAtOnce = 1000
const warningPercent = 80
const hundred = 100n

/** What a counter has used of its cap, and where that goes. */
export const utilizationOf = (counter: CounterUtilization, now: DateTime.Utc): CapUtilization => {
  const { grants, held, limitAmount, reserved, spent, unit } = counter
  const limit = limitAmount + grants
  const left = limit - spent - reserved
  const total = (amount: bigint) => totalOf(unit, amount)
  return {
    capId: counter.capId,
    tenantId: tenantIdOf(counter),
    name: counter.name,
    scope: countedScope(counter.scope, counter.counterKey ?? ""),
    unit,
    limit: quantityOf(unit, limitAmount),
    grants: total(grants),
    spent: total(spent),
    reserved: total(reserved),
    held: total(held),
    headroom: total(left > 0n ? left : 0n),
    percentUsed: limit === 0n ? (spent > 0n ? 100 : 0) : Number((spent * hundred * hundred) / limit) / 100,
    state: stateOf(counter, limit, left),
    periodStart: counter.periodStart,
    periodEnd: counter.periodEnd,
    ...outlookOf(counter, limit, now)
  }
}

const stateOf = (
  { alertThresholds, spent }: CounterUtilization,
  limit: bigint,
  left: bigint
): CapUtilization["state"] => {
  if (spent > limit) return "over"
  if (left <= 0n) return "exhausted"
  const percents = alertThresholds.filter(({ measure }) => measure === "spent").map(({ percent }) => percent)
  const warning = percents.length === 0 ? warningPercent : Math.min(...percents)
  return spent * hundred >= limit * BigInt(warning) ? "warning" : "ok"
}

/** The spending that the rate so far projects for the period, and when it exhausts the cap. */
const outlookOf = (
  { createdAt, periodEnd, periodStart, spent, unit, windowSeconds }: CounterUtilization,
  limit: bigint,
  now: DateTime.Utc
): Pick<CapUtilization, "projected" | "exhaustsAt"> => {
  const nowMillis = now.epochMilliseconds
  const start = Math.max(periodStart?.epochMilliseconds ?? 0, createdAt.epochMilliseconds)
  if (windowSeconds !== null || spent === 0n) {
    return { projected: windowSeconds === null && periodEnd !== null ? totalOf(unit, 0n) : null, exhaustsAt: null }
  }
  const end = periodEnd?.epochMilliseconds
  const enoughMillis = end === undefined ? hourMillis : (end - start) / 10
  if (nowMillis - start < enoughMillis) return { projected: null, exhaustsAt: null }
  const projected = end === undefined ? undefined : forecastOf(spent, start, end, nowMillis)
  const exhausts = exhaustionOf(spent, limit, start, nowMillis)
  const latest = end ?? latestInstant
  return {
    projected: projected === undefined ? null : totalOf(unit, projected),
    exhaustsAt: exhausts !== undefined && exhausts < BigInt(latest) ? DateTime.makeUnsafe(Number(exhausts)) : null
  }
}
const hourMillis = 3_600_000
const latestInstant = Date.UTC(9999, 11, 31)
