import { Context, Metric } from "effect"
import { type AvailableBudget } from "../../budgets/ledger/protocol-domain.ts"

const nanoUsdPerUsd = 1e9
/** Caps beyond this many are counted together with none: their names are not bounded by the service. */
const mostCaps = 1000
const registry = Context.empty()

const reserved = Metric.counter("app.budget.reserved", {
  description: "US dollars that calls of this replica keep free now",
  attributes: { unit: "USD" }
})
const spent = Metric.counter("app.budget.spent", {
  description: "US dollars that calls of this replica did cost",
  attributes: { unit: "USD" },
  incremental: true
})

const headrooms = new Map<string, Metric.Gauge<number>>()

const headroomOf = ({ cap: { id, unit } }: AvailableBudget): Metric.Gauge<number> | undefined => {
  const known = headrooms.get(id)
  if (known !== undefined || headrooms.size >= mostCaps) return known
  const gauge = Metric.gauge("app.budget.headroom", {
    description: "What a cap had left when it last let a call in, in its own unit",
    attributes: { "app.cap.id": id, "app.cap.unit": unit }
  })
  headrooms.set(id, gauge)
  return gauge
}

/** Tells of money that is kept free from now on. */
export const budgetHeld = (amountNanoUsd: bigint): void =>
  reserved.updateUnsafe(Number(amountNanoUsd) / nanoUsdPerUsd, registry)

/** Tells what caps leave beside what is kept free. */
export const budgetLeft = (available: ReadonlyArray<AvailableBudget>): void => {
  for (const budget of available) {
    const left = Number(budget.headroom)
    headroomOf(budget)?.updateUnsafe(budget.cap.unit === "usd" ? left / nanoUsdPerUsd : left, registry)
  }
}

/** Tells of money that is kept free no more, and of what was spent of it. */
export const budgetClosed = (amountNanoUsd: bigint, costNanoUsd: bigint): void => {
  reserved.updateUnsafe(-Number(amountNanoUsd) / nanoUsdPerUsd, registry)
  spent.updateUnsafe(Number(costNanoUsd) / nanoUsdPerUsd, registry)
}
