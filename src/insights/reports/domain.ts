import { Schema } from "effect"
import { CapUtilization, UtilizationKey } from "../../budgets/caps/domain.ts"
import { cursor, page } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { text } from "../../kernel/text.ts"
import { dayMillis, NetUsd, type UsageDimension, usageDimensions } from "../usage/domain.ts"

export const reportDimensions = [
  "agent",
  "model",
  "provider",
  "task-type",
  "application",
  "plan",
  "user",
  "api-key",
  "tenant",
  "day",
  "hour"
] as const
export const ReportDimension = Schema.Literals(reportDimensions)
export type ReportDimension = typeof ReportDimension.Type

const Count = Schema.Int.pipe(
  Schema.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))
).annotate({ component: "Count", examples: [1180] })
const Percent = Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: -1e21, maximum: 1e21 }))).annotate({
  examples: [42.5]
})
const Key = Schema.String.annotate({ examples: ["gpt-5"] })

const Savings = NetUsd.annotate({
  description: "What caches saved: input tokens at the difference of their prices, and whole responses"
})

export const Totals = Schema.Struct({
  costUsd: NetUsd.annotate({ description: "What was charged, without what was refunded" }),
  requests: Count,
  inputTokens: Count,
  outputTokens: Count,
  cachedInputTokens: Count,
  errors: Count.annotate({ description: "Requests without an answer, or with a status of 400 or above" }),
  savingsUsd: Savings
}).annotate({ identifier: "UsageTotals" })
export type Totals = typeof Totals.Type

const point = { costUsd: NetUsd, requests: Count }
const SeriesPoint = Schema.Struct({ start: Instant, ...point }).annotate({ identifier: "UsagePoint" })
export type SeriesPoint = typeof SeriesPoint.Type
const Day = Schema.Struct({ date: Schema.String.annotate({ examples: ["2026-01-31"] }), ...point }).annotate({
  identifier: "UsageDay"
})
const Share = Schema.Struct({
  key: Schema.NullOr(Key),
  label: Schema.NullOr(Schema.String).annotate({ description: "The name of what the key identifies" }),
  tenantId: Schema.optionalKey(Schema.NullOr(TenantId)).annotate({
    description: "Of which tenant an agent, an API key or a plan is, where names may repeat; null for none",
    examples: [null]
  }),
  costUsd: NetUsd,
  sharePercent: Percent,
  requests: Count
}).annotate({ identifier: "UsageShare" })
export type Share = typeof Share.Type

const Forecast = Schema.Struct({
  periodEnd: Instant,
  costUsd: NetUsd,
  low: NetUsd,
  high: NetUsd
}).annotate({
  identifier: "CostForecast",
  description: "The cost of the whole calendar month, with the bounds that nine of ten months stay within"
})
export type Forecast = typeof Forecast.Type

export const Overview = Schema.Struct({
  asOf: Instant.annotate({ description: "Everything that was charged before is counted" }),
  from: Instant,
  to: Instant,
  totals: Totals,
  previous: Totals,
  changePercent: Schema.NullOr(Percent).annotate({ description: "Of the cost, against `previous`" }),
  forecast: Schema.NullOr(Forecast),
  byDay: Schema.Array(Day),
  topAgents: Schema.Array(Share),
  topModels: Schema.Array(Share),
  caps: Schema.Array(CapUtilization).annotate({ description: "The caps that are used the most" })
}).annotate({ identifier: "UsageOverview" })
export type Overview = typeof Overview.Type

const Latency = Schema.NullOr(
  Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })))
).annotate({
  description: "Of the gateway's calls, within 5 %; null without any",
  examples: [820]
})
const Item = Schema.Struct({
  ...Share.fields,
  inputTokens: Count,
  outputTokens: Count,
  cachedInputTokens: Count,
  cachedInputPercent: Percent.annotate({ description: "Of `inputTokens`" }),
  savingsUsd: Savings,
  p50LatencyMs: Latency,
  p95LatencyMs: Latency,
  errorRate: Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 1 }))).annotate({
    examples: [0.01]
  }),
  series: Schema.Array(SeriesPoint).annotate({ description: "By hour up to two days, else by day" })
}).annotate({ identifier: "UsageItem" })
export type Item = typeof Item.Type

/** What items can be sorted by, with the sum that it is. */
export const itemSorts = {
  costUsd: "cost",
  requests: "requests",
  inputTokens: "inputTokens",
  outputTokens: "outputTokens"
} as const
type ItemMember = keyof typeof itemSorts
export type ItemSort = ItemMember | `-${ItemMember}`
export const ItemSort = Schema.Literals(
  Object.keys(itemSorts).flatMap((member) => [member, `-${member}`]) as ReadonlyArray<ItemSort>
).annotate({
  description:
    "The member to sort by, with `-` before it for descending; by default `-costUsd`; a cursor is of one order",
  examples: ["-requests"]
})

/** The place of an item: what it is sorted by, in nano-dollars where that is its cost, and its key. */
const itemPlace = [Schema.String.pipe(Schema.check(Schema.isPattern(/^-?\d{1,19}$/u))), text(0, 500)] as const
export const ItemPlace = Schema.Union([Schema.Tuple(itemPlace), Schema.Tuple([ItemSort, ...itemPlace])])
export type ItemPlace = typeof ItemPlace.Type
export const itemPosition = cursor(ItemPlace)

/** The order of items, and the place behind which they are wanted. */
export interface ItemOrder {
  readonly sort: ItemSort | undefined
  readonly after: ItemPlace | undefined
}

export const cursorFitsSort = Schema.makeFilter(
  ({ cursor, sort }: { readonly cursor?: ItemPlace; readonly sort?: ItemSort }) =>
    cursor === undefined || (cursor.length === 2 ? undefined : cursor[0]) === sort
      ? undefined
      : { path: ["cursor"], issue: "The cursor is of another order: send it with the same sort" }
)

export const Breakdown = Schema.Struct({
  asOf: Instant,
  dimension: ReportDimension,
  ...page(Item, itemPosition).fields
}).annotate({ identifier: "UsageBreakdown" })

/** The dimensions whose keys can be asked for one by one. */
export const SpendDimension = Schema.Literals([
  ...(Object.keys(usageDimensions) as ReadonlyArray<UsageDimension>),
  "tenant"
])
export type SpendDimension = typeof SpendDimension.Type
export const maxSpendKeys = 100
export const SpendReport = Schema.Struct({
  asOf: Instant,
  dimension: SpendDimension,
  items: Schema.Array(Schema.Struct({ key: Key, ...point }).annotate({ identifier: "UsageSpend" }))
}).annotate({ identifier: "SpendReport" })

export const capPosition = cursor(UtilizationKey)
const CapSeries = Schema.Struct({ ...CapUtilization.fields, series: Schema.Array(SeriesPoint) }).annotate({
  identifier: "CapSeries"
})
export const CapsReport = Schema.Struct({ asOf: Instant, ...page(CapSeries, capPosition).fields }).annotate({
  identifier: "CapsReport"
})

/** A range of roll-ups of one grain (week, day, hour, quarter), of rows, or of synthetic rows, in epoch milliseconds. */
export interface Segment {
  readonly grain: "w" | "d" | "h" | "q" | "r" | "s"
  readonly opens: number
  readonly closes: number
}

export const hourMillis = 3_600_000
export const weekMillis = 7 * dayMillis
export const quarterMillis = 900_000
const grains = [
  ["w", weekMillis],
  ["d", dayMillis],
  ["h", hourMillis],
  ["q", quarterMillis]
] as const

/**
 * Covers the range between the first and the last of `cuts`, which ascend, with the largest roll-ups that no cut divides,
 * and with rows where even the smallest would be. Only sums of all rows have quarters of an hour.
 */
export const segmentsOf = (cuts: ReadonlyArray<number>, hasQuarters: boolean): ReadonlyArray<Segment> => {
  const sizes = hasQuarters ? grains : grains.slice(0, -1)
  const smallest = sizes.at(-1)![1]
  const segments: Array<{ grain: Segment["grain"]; opens: number; closes: number }> = []
  const add = (grain: Segment["grain"], opens: number, closes: number) => {
    const last = segments.at(-1)
    // Rows of one segment have one place between cuts.
    if (last?.grain === grain && last.closes === opens && grain !== "r") last.closes = closes
    else segments.push({ grain, opens, closes })
  }
  let at = cuts[0] ?? 0
  const end = cuts.at(-1) ?? at
  let next = 1
  while (at < end) {
    while ((cuts[next] ?? end) <= at) next++
    const cut = cuts[next] ?? end
    const found = sizes.find(([, size]) => at % size === 0 && at + size <= cut)
    if (found === undefined) {
      const closes = Math.min(cut, at - (at % smallest) + smallest)
      add("r", at, closes)
      at = closes
    } else {
      add(found[0], at, at + found[1])
      at += found[1]
    }
  }
  return segments
}

/** The growth of the bounds of the histogram's buckets, so that the middle of one is within 5 % of all in it. */
const growth = 1.1

/** The latency in the middle of a bucket of the histograms. */
export const latencyOf = (bucket: number): number =>
  bucket <= 0 ? bucket + 1 : Math.round(((2 * growth ** bucket) / (growth + 1)) * 10) / 10

/** A moment in PostgreSQL's text, which has no sign before years of five digits. */
export const momentAt = (at: number): string => new Date(at).toISOString().replace(/^\+0*/, "")
/** The same for an array of moments. */
export const moments = (some: ReadonlyArray<number>): string => `{${some.map((at) => `"${momentAt(at)}"`).join()}}`
