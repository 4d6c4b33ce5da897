import { Context, DateTime, Effect, Layer } from "effect"
import { type UtilizationKey } from "../../budgets/caps/domain.ts"
import { CapUtilizations } from "../../budgets/caps/utilization.ts"
import { type CapId } from "../../budgets/ledger/domain.ts"
import { forecastOf } from "../../budgets/ledger/quantity-domain.ts"
import { CurrentPrincipal, type Principal } from "../../kernel/authority/principal.ts"
import { slice } from "../../kernel/http/page.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Database, scopeOf } from "../../platform/database/database.ts"
import { CurrentReading, onReplica, ReadReplica } from "../../platform/database/read-replica.ts"
import { dayMillis, type Range, type UsageFilter, type UsageRange } from "../usage/domain.ts"
import { UsageRepository } from "../usage/repository.ts"
import { droppedRows, filterOf, netUsd, requestedRange, visibleUsage } from "../usage/service.ts"
import {
  type Forecast,
  hourMillis,
  type Item,
  type ItemOrder,
  latencyOf,
  type ReportDimension,
  type Segment,
  type SeriesPoint,
  type Share,
  type SpendDimension,
  type Totals,
  weekMillis
} from "./domain.ts"
import {
  type Grouping,
  inOrder,
  placeOf,
  type Latencies,
  noSums,
  readsRows,
  ReportsRepository,
  source,
  type Sums
} from "./repository.ts"

const topMost = 10
const hourlyUpTo = 2 * dayMillis
const trailingDays = 28
/** Nine of ten values of a normal distribution are within so many deviations. */
const deviations = 1.645

/** A day of a zone, in epoch milliseconds. */
interface ZoneDay {
  readonly date: string
  readonly start: number
}

/** Where the money went: sums over ranges, read from roll-ups. */
export class Reports extends Context.Service<Reports>()("app/insights/Reports", {
  make: Effect.gen(function* () {
    const database = yield* Database
    const replica = yield* ReadReplica
    const repository = yield* ReportsRepository
    const usage = yield* UsageRepository
    const utilizations = yield* CapUtilizations

    const within = <A, E, R>(principal: Principal, effect: Effect.Effect<A, E, R>) =>
      onReplica(replica, "reports")(database.snapshot(scopeOf(principal), effect))

    const readAsOf = Effect.gen(function* () {
      const { asOf } = (yield* CurrentReading) ?? { asOf: undefined }
      const moment = asOf ?? (yield* DateTime.now)
      const pending = yield* repository.pendingSince
      return pending === undefined ? moment : DateTime.min(pending, moment)
    })

    /** The days that a range touches: the first and the last are cut where the range is. */
    const daysOf = Effect.fnUntraced(function* ({ from, timeZone, to }: Range) {
      const found = yield* repository.days(timeZone, from, to)
      if (found.length === 0) {
        return yield* new ValidationFailed({
          errors: [{ path: ["query", "timeZone"], message: "Expected a time zone of the IANA database" }]
        })
      }
      const starts = found.map(({ date, start }): ZoneDay => ({ date, start: start.epochMilliseconds }))
      return starts.filter(({ start }, index) => {
        const end = starts[index + 1]?.start ?? Infinity
        // A zone that skips a day has one without length.
        return end > from && start < to && end > start
      })
    })

    /** Requires the rows of a range, where sums are read from rows. */
    const requireRows = Effect.fnUntraced(function* (filter: UsageFilter, grouping: Grouping, range: Range) {
      if (!readsRows(filter, grouping)) return
      const keptFrom = yield* usage.keptFrom(filter, range)
      if (keptFrom !== undefined) return yield* droppedRows("query", keptFrom)
    })

    const totalsOf = (filter: UsageFilter, from: number, to: number) =>
      repository.totals(source(filter, "total", [from, to]))

    const shares = Effect.fnUntraced(function* (
      filter: UsageFilter,
      grouping: Grouping,
      from: number,
      to: number,
      order: ItemOrder,
      limit: number
    ) {
      const rows = yield* repository.ranked(source(filter, grouping, [from, to]), grouping, order, limit)
      const labels = yield* repository.labels(
        grouping,
        rows.map(({ key }) => key).filter((key) => key !== "")
      )
      const named = new Map(labels.map(({ key, ...name }) => [key, name]))
      return rows.map((row) => ({
        row,
        share: {
          key: row.key === "" ? null : row.key,
          ...(named.get(row.key) ?? { label: row.key === "" ? null : row.key }),
          costUsd: netUsd(row.cost),
          sharePercent: percentOf(row.cost, row.total),
          requests: Number(row.requests)
        } satisfies Share
      }))
    })

    /** The calendar month of a zone that a moment is in. */
    const monthOf = Effect.fnUntraced(function* (timeZone: string, now: number) {
      const days = yield* repository.days(timeZone, now - 32 * dayMillis, now + 32 * dayMillis)
      const today = days.findLast(({ start }) => start.epochMilliseconds <= now)?.date.slice(0, 7) ?? ""
      const first = days.find(({ date }) => date.startsWith(today))
      const last = days.find(({ date }) => date.slice(0, 7) > today)
      return first === undefined || last === undefined
        ? undefined
        : { start: first.start.epochMilliseconds, end: last.start.epochMilliseconds }
    })

    const forecast = Effect.fnUntraced(function* (filter: UsageFilter, { timeZone, to }: Range, now: number) {
      if (to < now - hourMillis) return null
      const month = yield* monthOf(timeZone, now)
      if (month === undefined) return null
      const { cost } = yield* totalsOf(filter, month.start, ceil(now, weekMillis))
      const projected = forecastOf(cost, month.start, month.end, now)
      if (projected === undefined) return null
      const today = now - (now % dayMillis)
      const days = Array.from({ length: trailingDays + 1 }, (_, day) => today - (trailingDays - day) * dayMillis)
      const past = yield* repository.series(source(filter, "total", days), "total", days)
      const spread = deviationOf(
        days.slice(1).map((_, day) => Number(past.find(({ place }) => place === day)?.cost ?? 0n))
      )
      const remaining = (month.end - now) / dayMillis
      const margin = BigInt(Math.round(deviations * spread * Math.sqrt(remaining)))
      return {
        periodEnd: DateTime.makeUnsafe(month.end),
        costUsd: netUsd(projected),
        low: netUsd(projected - margin > cost ? projected - margin : cost),
        high: netUsd(projected + margin)
      } satisfies Forecast
    })

    const overview = Effect.fn("Reports.overview")(function* (given: UsageFilter, asked: UsageRange) {
      const principal = yield* CurrentPrincipal
      const filter = yield* visibleUsage(principal, given)
      const range = yield* requestedRange(asked)
      const { from, to } = range
      return yield* within(
        principal,
        Effect.gen(function* () {
          yield* requireRows(filter, "total", range)
          const now = yield* nowOf(asked, range)
          const asOf = yield* readAsOf
          const days = yield* daysOf(range)
          const cuts = cutsOf(range, days, now, dayMillis)
          const byDay = yield* repository.placed(source(filter, "total", cuts), cuts)
          const totals = byDay.reduce<Sums>(plus, noSums)
          const previous = yield* totalsOf(filter, from - (to - from), from)
          const agents = yield* shares(filter, "agent", from, openEnd(to, now, weekMillis), byCost, topMost)
          const models = yield* shares(filter, "model", from, openEnd(to, now, weekMillis), byCost, topMost)
          const caps = yield* utilizations.listByUse(
            filter.tenantId === undefined ? {} : { tenantId: filter.tenantId },
            "-percentUsed",
            undefined,
            // An agent sees only some of them.
            principal.kind === "agent" ? maxCaps : topMost
          )
          return {
            asOf,
            from: DateTime.makeUnsafe(from),
            to: DateTime.makeUnsafe(to),
            totals: totalsAnswer(totals),
            previous: totalsAnswer(previous),
            changePercent: previous.cost === 0n ? null : percentOf(totals.cost - previous.cost, previous.cost),
            forecast: yield* forecast(filter, range, now),
            byDay: days.map(({ date }, day) =>
              Object.assign({ date }, pointOf(byDay.find(({ place }) => place === day)))
            ),
            topAgents: agents.map(({ share }) => share),
            topModels: models.map(({ share }) => share),
            caps: caps.items.slice(0, topMost)
          }
        })
      )
    })

    /** Days or hours as items, by their cost. */
    const byTime = Effect.fnUntraced(function* (
      dimension: "day" | "hour",
      filter: UsageFilter,
      range: Range,
      now: number,
      order: ItemOrder,
      limit: number
    ) {
      const days = yield* daysOf(range)
      const cuts =
        dimension === "day" ? cutsOf(range, days, now, dayMillis) : hoursIn(days, cutsOf(range, days, now, hourMillis))
      const keys =
        dimension === "day"
          ? days.map(({ date }) => date)
          : cuts.map((start, index) => new Date(index === 0 ? hourOf(days, start) : start).toISOString())
      const rows = yield* repository.placed(source(filter, "total", cuts), cuts)
      const total = rows.reduce((sum, { cost }) => sum + cost, 0n)
      const ranked = inOrder(
        rows.map((row) => Object.assign({}, row, { key: keys[row.place] ?? "" })),
        order
      )
      const { items, nextCursor } = slice(ranked, limit, (row) => placeOf(row, order.sort))
      const segments = joined(
        items.flatMap(({ place }) => source(filter, "total", cuts.slice(place, place + 2), false).segments)
      )
      const latencies = readsRows(filter, "total")
        ? items.flatMap(latenciesIn)
        : yield* repository.latencies({ filter, segments }, "total", cuts)
      const latenciesOf = new Map(latencies.map((one) => [one.place, one]))
      return {
        nextCursor,
        items: items.map((row): Item =>
          Object.assign(itemOf(row, latenciesOf.get(row.place)), {
            key: row.key,
            label: row.key,
            sharePercent: percentOf(row.cost, total),
            series: [{ start: DateTime.makeUnsafe(cuts[row.place] ?? 0), ...pointOf(row) }]
          })
        )
      }
    })

    const by = Effect.fn("Reports.by")(function* (
      dimension: ReportDimension,
      given: UsageFilter,
      asked: UsageRange,
      order: ItemOrder,
      limit: number
    ) {
      const principal = yield* CurrentPrincipal
      const filter = yield* visibleUsage(principal, given)
      const range = yield* requestedRange(asked)
      return yield* within(
        principal,
        Effect.gen(function* () {
          const isOfTime = dimension === "day" || dimension === "hour"
          yield* requireRows(filter, isOfTime ? "total" : dimension, range)
          const now = yield* nowOf(asked, range)
          const asOf = yield* readAsOf
          if (isOfTime) {
            return { asOf, dimension, ...(yield* byTime(dimension, filter, range, now, order, limit)) }
          }
          const { from } = range
          const to = openEnd(range.to, now, weekMillis)
          const found = yield* shares(filter, dimension, from, to, order, limit + 1)
          const { items, nextCursor } = slice(found, limit, ({ row }) => placeOf(row, order.sort))
          const keys = items.map(({ row }) => row.key)
          const cuts = pointsOf(range, yield* daysOf(range), now)
          const starts = startsOf(cuts)
          const points = yield* repository.series(source(filter, dimension, cuts), dimension, cuts, keys)
          const pointsOfKey = Map.groupBy(points, ({ key }) => key)
          const whole = [from, to]
          // Quarters of an hour have no latencies.
          const latencies = readsRows(filter, dimension)
            ? items.flatMap(({ row }) => latenciesIn(row))
            : yield* repository.latencies(source(filter, dimension, whole, false), dimension, whole, keys)
          const latenciesOf = new Map(latencies.map((one) => [one.key, one]))
          return {
            asOf,
            dimension,
            nextCursor,
            items: items.map(({ row, share }): Item =>
              Object.assign(itemOf(row, latenciesOf.get(row.key)), share, {
                series: seriesOf(starts, pointsOfKey.get(row.key) ?? [])
              })
            )
          }
        })
      )
    })

    const spend = Effect.fn("Reports.spend")(function* (
      dimension: SpendDimension,
      given: UsageFilter,
      bounds: Omit<UsageRange, "timeZone">,
      keys: ReadonlyArray<string>
    ) {
      const principal = yield* CurrentPrincipal
      const filter = yield* visibleUsage(principal, given)
      const asked = { ...bounds, timeZone: undefined }
      const range = yield* requestedRange(asked)
      return yield* within(
        principal,
        Effect.gen(function* () {
          yield* requireRows(filter, dimension, range)
          const cuts = [range.from, openEnd(range.to, yield* nowOf(asked, range), weekMillis)]
          const asOf = yield* readAsOf
          const found = yield* repository.series(source(filter, dimension, cuts), dimension, cuts, keys)
          return { asOf, dimension, items: found.map((sums) => Object.assign({ key: sums.key }, pointOf(sums))) }
        })
      )
    })

    const capsStatus = Effect.fn("Reports.capsStatus")(function* (
      given: Pick<UsageFilter, "tenantId" | "includeSynthetic"> & { readonly capId?: CapId },
      asked: UsageRange,
      after: UtilizationKey | undefined,
      limit: number
    ) {
      const principal = yield* CurrentPrincipal
      const { capId, ...tenant } = given
      const visible = yield* visibleUsage(principal, tenant)
      const range = yield* requestedRange(asked)
      const { items, nextCursor } = yield* utilizations.listCounters(
        {
          ...(visible.tenantId === undefined ? {} : { tenantId: visible.tenantId }),
          ...(capId === undefined ? {} : { capId })
        },
        after,
        limit
      )
      return yield* within(
        principal,
        Effect.gen(function* () {
          const now = yield* nowOf(asked, range)
          const asOf = yield* readAsOf
          const cuts = pointsOf(range, yield* daysOf(range), now)
          const starts = startsOf(cuts)
          return {
            asOf,
            nextCursor,
            items: yield* Effect.forEach(items, ({ counts, use }) => {
              const filter = { ...visible, ...filterOf(counts) }
              return Effect.map(repository.series(source(filter, "total", cuts), "total", cuts), (points) =>
                Object.assign({}, use, { series: seriesOf(starts, points) })
              )
            })
          }
        })
      )
    })

    return { overview, by, spend, capsStatus }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(
    Layer.provide([ReportsRepository.layer, UsageRepository.layer])
  )
}

/** The order that lists of shares are in, from the beginning. */
const byCost: ItemOrder = { sort: undefined, after: undefined }
const maxCaps = 200

/** The segments in the order of their times; those that share a day are one, since its roll-ups are read as a whole. */
const joined = (segments: ReadonlyArray<Segment>): ReadonlyArray<Segment> => {
  const found: Array<Segment> = []
  for (const segment of segments.toSorted((one, other) => one.opens - other.opens)) {
    const last = found.at(-1)
    if (last !== undefined && last.grain === "h" && segment.grain === "h" && segment.opens - last.closes < dayMillis) {
      found[found.length - 1] = { ...last, closes: segment.closes }
    } else found.push(segment)
  }
  return found
}

const plus = (one: Sums, other: Sums): Sums => ({
  cost: one.cost + other.cost,
  requests: one.requests + other.requests,
  errors: one.errors + other.errors,
  inputTokens: one.inputTokens + other.inputTokens,
  outputTokens: one.outputTokens + other.outputTokens,
  cachedInputTokens: one.cachedInputTokens + other.cachedInputTokens,
  saved: one.saved + other.saved
})

const totalsAnswer = (sums: Sums): Totals => ({
  costUsd: netUsd(sums.cost),
  requests: Number(sums.requests),
  inputTokens: Number(sums.inputTokens),
  outputTokens: Number(sums.outputTokens),
  cachedInputTokens: Number(sums.cachedInputTokens),
  errors: Number(sums.errors),
  savingsUsd: netUsd(sums.saved)
})

const pointOf = (sums: Pick<Sums, "cost" | "requests"> = noSums) => ({
  costUsd: netUsd(sums.cost),
  requests: Number(sums.requests)
})

/** The starts of the points of a series, which the items of a page share. */
const startsOf = (cuts: ReadonlyArray<number>): ReadonlyArray<DateTime.Utc> =>
  cuts.slice(0, -1).map((start) => DateTime.makeUnsafe(start))

const seriesOf = (
  starts: ReadonlyArray<DateTime.Utc>,
  points: ReadonlyArray<Pick<Sums, "cost" | "requests"> & { readonly place: number }>
): ReadonlyArray<SeriesPoint> => {
  const placed = new Map(points.map((point) => [point.place, point]))
  return starts.map((start, place) => ({ start, ...pointOf(placed.get(place)) }))
}

const itemOf = (sums: Sums, latencies: Latencies | undefined) => ({
  costUsd: netUsd(sums.cost),
  requests: Number(sums.requests),
  inputTokens: Number(sums.inputTokens),
  outputTokens: Number(sums.outputTokens),
  cachedInputTokens: Number(sums.cachedInputTokens),
  cachedInputPercent: percentOf(sums.cachedInputTokens, sums.inputTokens),
  savingsUsd: netUsd(sums.saved),
  p50LatencyMs: latencies === undefined ? null : latencyOf(latencies.p50),
  p95LatencyMs: latencies === undefined ? null : latencyOf(latencies.p95),
  errorRate: sums.requests === 0n ? 0 : Number(sums.errors) / Number(sums.requests)
})

/** The latencies of a row that has them; none where it had no calls. */
const latenciesIn = <R extends { readonly key: string; readonly place: number }>({
  key,
  p50,
  p95,
  place
}: R & { readonly p50?: number | null; readonly p95?: number | null }): ReadonlyArray<Latencies> =>
  typeof p50 === "number" && typeof p95 === "number" ? [{ key, place, p50, p95 }] : []

/** In per cent, with two decimals. */
const percentOf = (part: bigint, whole: bigint): number => (whole === 0n ? 0 : Number((part * 10_000n) / whole) / 100)

/** The moment that a report is as of. A range that ends now ends at it, or its last hour would be read from rows. */
const nowOf = ({ to }: UsageRange, range: Range) =>
  to === undefined ? Effect.succeed(range.to) : Effect.map(DateTime.now, ({ epochMilliseconds }) => epochMilliseconds)

const ceil = (at: number, millis: number): number => Math.ceil(at / millis) * millis

/** The end of a range as roll-ups of a size may be read to: nothing has happened after now, so the last is taken whole. */
const openEnd = (to: number, now: number, millis: number): number => (to >= now ? ceil(to, millis) : to)

/** Where a range is cut: its start, the starts of its days, and its end, where roll-ups of a size end. */
const cutsOf = (
  { from, to }: Range,
  days: ReadonlyArray<ZoneDay>,
  now: number,
  millis: number
): ReadonlyArray<number> => {
  const inside = days.map(({ start }) => start).filter((start) => start > from)
  const last = inside.at(-1) ?? from
  return [from, ...inside, Math.max(openEnd(to, now, millis), last + 1)]
}

/** The hours between cuts by day: they begin with their day, since zones are off by half an hour and less. */
const hoursIn = (days: ReadonlyArray<ZoneDay>, cuts: ReadonlyArray<number>): ReadonlyArray<number> => {
  const hours: Array<number> = []
  for (const [index, cut] of cuts.entries()) {
    hours.push(cut)
    const end = cuts[index + 1] ?? cut
    for (let at = hourOf(days, cut) + hourMillis; at < end; at += hourMillis) hours.push(at)
  }
  return hours
}

/** Where a series has its points: hours up to two days, else days. */
const pointsOf = (range: Range, days: ReadonlyArray<ZoneDay>, now: number): ReadonlyArray<number> =>
  range.to - range.from <= hourlyUpTo
    ? hoursIn(days, cutsOf(range, days, now, hourMillis))
    : cutsOf(range, days, now, dayMillis)

/** The start of the hour that a moment is in. */
const hourOf = (days: ReadonlyArray<ZoneDay>, at: number): number => {
  const start = days.findLast((day) => day.start <= at)?.start ?? at
  return start + Math.floor((at - start) / hourMillis) * hourMillis
}

const deviationOf = (values: ReadonlyArray<number>): number => {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length)
}
