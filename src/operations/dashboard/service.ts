import { Context, DateTime, Effect, Layer } from "effect"
import { quantityOf } from "../../budgets/ledger/quantity-domain.ts"
import { Database } from "../../platform/database/database.ts"
import { serviceVersion } from "../../platform/runtime/version.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type CountTrend, type EffectiveSettings, type UsdTrend } from "./domain.ts"
import { type Arrivals, DashboardRepository } from "./repository.ts"

const days = 7

export class Dashboard extends Context.Service<Dashboard>()("app/operations/Dashboard", {
  make: Effect.gen(function* () {
    const database = yield* Database
    const repository = yield* DashboardRepository

    const metrics = Effect.fn("Dashboard.metrics")(function* (includeSynthetic: boolean) {
      const today = DateTime.startOf(yield* DateTime.now, "day")
      const first = DateTime.subtract(today, { days: 2 * days - 1 })
      const since = DateTime.toDateUtc(first)
      const [{ reserved, ...totals }, arrivals, spending] = yield* database.asCaller(
        Effect.all([
          repository.totals(includeSynthetic),
          repository.arrivalsSince(since),
          repository.spendingSince(since, includeSynthetic)
        ])
      )
      const dates = Array.from({ length: 2 * days }, (_, day) =>
        DateTime.formatIsoDateUtc(DateTime.add(first, { days: day }))
      )
      const trendOf = (kind: Arrivals["kind"]): CountTrend => {
        const byDate = new Map(arrivals.filter((one) => one.kind === kind).map(({ date, value }) => [date, value]))
        return trend(dates.map((date) => ({ date, value: byDate.get(date) ?? 0 })))
      }
      const costs = new Map(spending.map(({ cost, date }) => [date, cost]))
      const spendUsd = inUsd(trend(dates.map((date) => ({ date, value: Number(costs.get(date) ?? 0n) }))))
      return {
        ...totals,
        spendTodayUsd: spendUsd.series.at(-1)?.value ?? 0,
        openReservationsUsd: usd(Number(reserved)),
        trends: {
          period: "7d" as const,
          trialUsers: trendOf("trialUsers"),
          sessions: trendOf("sessions"),
          applications: trendOf("applications"),
          spendUsd
        }
      }
    })

    const { describe, environment } = yield* Settings
    const settings: EffectiveSettings = { version: serviceVersion, environment, settings: describe() }
    return { metrics, settings }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(DashboardRepository.layer))
}

interface Point {
  readonly date: string
  readonly value: number
}

const sum = (points: ReadonlyArray<Point>): number => points.reduce((total, { value }) => total + value, 0)

/** The later half of the days against the earlier one. */
const trend = (points: ReadonlyArray<Point>): CountTrend => {
  const previous = sum(points.slice(0, days))
  const series = points.slice(days)
  const current = sum(series)
  const changePercent = previous === 0 ? null : Math.round((100 * (current - previous)) / previous)
  return { current, previous, changePercent, series }
}

const usd = (nanoUsd: number): number => quantityOf("usd", BigInt(nanoUsd))

/** A trend of nano-dollars, which add up without rounding, in dollars. */
const inUsd = ({ changePercent, current, previous, series }: CountTrend): UsdTrend => ({
  current: usd(current),
  previous: usd(previous),
  changePercent,
  series: series.map(({ date, value }) => ({ date, value: usd(value) }))
})
