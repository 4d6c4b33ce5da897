import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { TenantId } from "../../kernel/identifier.ts"
import { instantAt } from "../../kernel/instant.ts"
import { readRows } from "../../platform/database/table.ts"
import { dayMillis, noValue, type UsageDimension, usageDimensions, type UsageFilter } from "../usage/domain.ts"
import { CellSums, type Columns, Histograms, Keys, type Part, type Wanted } from "./cells-domain.ts"
import {
  type ItemOrder,
  type ItemPlace,
  type ItemSort,
  itemSorts,
  momentAt,
  moments,
  type Segment,
  segmentsOf
} from "./domain.ts"
import { PartsRepository } from "./parts-repository.ts"

/** What is summed: the rows that pass a filter, over the segments that cover a range. */
export interface Source {
  readonly filter: UsageFilter
  readonly segments: ReadonlyArray<Segment>
}

/** The dimension by which sums are grouped; `total` is one sum of all. */
export type Grouping = UsageDimension | "tenant" | "total"

const sums = {
  cost: Schema.BigInt,
  requests: Schema.BigInt,
  errors: Schema.BigInt,
  inputTokens: Schema.BigInt,
  outputTokens: Schema.BigInt,
  cachedInputTokens: Schema.BigInt,
  saved: Schema.BigInt
}
export type Sums = Schema.Struct<typeof sums>["Type"]
export const noSums: Sums = {
  cost: 0n,
  requests: 0n,
  errors: 0n,
  inputTokens: 0n,
  outputTokens: 0n,
  cachedInputTokens: 0n,
  saved: 0n
}
const sumNames = Object.keys(noSums) as ReadonlyArray<keyof Sums>
/** The sums that items have. */
const itemNames = sumNames

/** Sums with a key, and the place between cuts. */
interface PlacedSums extends Sums {
  readonly key: string
  readonly place: number
  /** The buckets of the percentiles of latencies, which come with the sums where both are read from rows. */
  readonly p50?: number | null
  readonly p95?: number | null
}
const placed = { key: Schema.String, place: Schema.Int, ...sums }
const RowsReport = Schema.Struct({ ...placed, p50: Schema.NullOr(Schema.Int), p95: Schema.NullOr(Schema.Int) })
const RowSums = Schema.Struct({ ...placed, bucket: Schema.NullOr(Schema.Int), calls: Schema.BigInt })
export interface Latencies {
  readonly key: string
  readonly place: number
  readonly p50: number
  readonly p95: number
}
const Labelled = Schema.Struct({
  key: Schema.String,
  label: Schema.String,
  tenantId: Schema.optionalKey(Schema.NullOr(TenantId))
})
const Day = Schema.Struct({ date: Schema.String, start: Schema.DateTimeUtcFromDate })

const dimensions = Object.keys(usageDimensions) as ReadonlyArray<UsageDimension>

/** The tables that give keys a name, and whether each of their rows is of a tenant. */
export const named: Partial<Record<Grouping, readonly [table: string, type: string, isOfTenant: boolean]>> = {
  agent: ["agents", "uuid", true],
  application: ["applications", "integer", false],
  plan: ["budget_plans", "uuid", true],
  "api-key": ["api_keys", "uuid", true],
  tenant: ["tenants", "uuid", false]
}

/** The number of the roll-ups that answer a filter: none has no filter, one has its own; undefined where several need rows. */
const rolledUp = (filter: UsageFilter, grouping: Grouping): number | undefined => {
  const filtered = dimensions.filter((dimension) => filter[usageDimensions[dimension].filter] !== undefined)
  const grouped = isByKey(grouping) ? [grouping] : []
  const [dimension, ...others] = new Set([...filtered, ...grouped])
  if (others.length > 0) return undefined
  return dimension === undefined ? 0 : usageDimensions[dimension].code
}

const isByKey = (grouping: Grouping): grouping is UsageDimension => grouping !== "tenant" && grouping !== "total"

/** The number of the dimension that sums are read of. */
const dimensionOf = ({ filter }: Source, grouping: Grouping): number =>
  rolledUp(filter, grouping) ?? (isByKey(grouping) ? usageDimensions[grouping].code : 0)

/** Whether a segment has parts: synthetic rows have none. */
const hasParts = ({ grain }: Segment): boolean => grain !== "s"

/** The key of sums that have none. */
const noKey = noValue

/** What is wanted of the parts of roll-ups: the cells that pass the filter, by the keys that they are grouped by. */
const wantedOf = (
  { filter, segments }: Source,
  grouping: Grouping,
  cuts: ReadonlyArray<number>,
  keys: Keys,
  isGrowing: boolean
): Wanted => {
  const only = dimensions
    .map((dimension) => filter[usageDimensions[dimension].filter])
    .find((value) => value !== undefined)
  // Without a filter or a dimension, the cells of all rows are read, whose key is empty.
  const passing = only !== undefined ? String(only) : isByKey(grouping) ? undefined : noKey
  const placeOfKey = (key: string): number => (isGrowing ? keys.placeOf(key) : keys.find(key))
  return {
    segments: readsRows(filter, grouping) ? [] : segments.filter(hasParts),
    cuts,
    keyOf: ({ tenantId }, key) => {
      if (passing !== undefined && key !== passing) return -1
      if (grouping === "total") return 0
      return placeOfKey(grouping === "tenant" ? tenantId : key)
    }
  }
}

/** Whether sums over a filter have quarters of an hour: only those of all rows do. */
export const hasQuarters = (filter: UsageFilter, grouping: Grouping): boolean => rolledUp(filter, grouping) === 0

/** Whether sums over a filter are read from rows, since no roll-up has them. */
export const readsRows = (filter: UsageFilter, grouping: Grouping): boolean => rolledUp(filter, grouping) === undefined

/** The rows that pass a filter, over a range that is cut at these moments. */
export const source = (
  filter: UsageFilter,
  grouping: Grouping,
  cuts: ReadonlyArray<number>,
  quarters = hasQuarters(filter, grouping)
): Source => {
  const segments = segmentsOf(cuts, quarters)
  const [opens, closes] = [cuts[0], cuts.at(-1)]
  if (filter.includeSynthetic !== true || opens === undefined || closes === undefined) return { filter, segments }
  // The ends of the whole range are those of its first and its last segment.
  return { filter, segments: [{ grain: "s", opens, closes }, ...segments] }
}

/** Sums by cost, the highest first, and by key where it is equal; those behind a place alone. */
export const inOrder = <R extends SortedSums & { readonly key: string }>(
  rows: ReadonlyArray<R>,
  { after, sort }: ItemOrder
): ReadonlyArray<R> => {
  const [value, key] = after === undefined ? [] : [BigInt(after.at(-2) ?? 0), after.at(-1)]
  const name = sumName(sort)
  const isDown = sort?.startsWith("-") ?? true
  const comesFirst = (one: bigint, other: bigint) => (isDown ? one > other : one < other)
  const behind =
    value === undefined || key === undefined
      ? rows
      : rows.filter((row) => comesFirst(value, row[name]) || (row[name] === value && row.key > key))
  return behind.toSorted((one, other) =>
    one[name] === other[name] ? (one.key < other.key ? -1 : 1) : comesFirst(one[name], other[name]) ? -1 : 1
  )
}

type SortedSums = Readonly<Record<(typeof itemSorts)[keyof typeof itemSorts], bigint>>

/** The name of the sum that an order is by. */
const sumName = (sort: ItemSort = "-costUsd") => itemSorts[sort.replace("-", "") as keyof typeof itemSorts]

/** Where an item is in an order. */
export const placeOf = (row: SortedSums & { readonly key: string }, sort: ItemSort | undefined): ItemPlace => {
  const place = [String(row[sumName(sort)]), row.key] as const
  return sort === undefined ? place : [sort, ...place]
}

/** The days of UTC around a range, which take no query. */
const utcDays = (from: number, to: number): ReadonlyArray<typeof Day.Type> => {
  const first = Math.floor(from / dayMillis) - 1
  return Array.from({ length: Math.floor(to / dayMillis) + 2 - first }, (_, place) => {
    const start = (first + place) * dayMillis
    return { date: momentAt(start).slice(0, -"T00:00:00.000Z".length), start: instantAt(start) }
  })
}

const boundsOf = ({ segments }: Source): ReadonlyArray<number> => [
  segments[0]?.opens ?? 0,
  segments.at(-1)?.closes ?? 0
]

/** Reads sums from the roll-ups, and from rows where a range or a filter divides them. */
export class ReportsRepository extends Context.Service<ReportsRepository>()("app/insights/ReportsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const partsRepository = yield* PartsRepository
    // PostgreSQL reads all files of zones to list them.
    const zones = yield* Effect.cached(
      Effect.map(
        readRows(Schema.Struct({ name: Schema.String }))(sql`SELECT name FROM pg_timezone_names`),
        (found) => new Set(found.map(({ name }) => name))
      )
    )
    const isZone = (name: string) => Effect.map(zones, (known) => known.has(name))

    const tenantsOf = ({ filter: { tenantId } }: Source): Statement.Fragment =>
      tenantId === undefined ? sql`(SELECT array_agg(id) FROM tenants)` : sql`ARRAY[${tenantId}]::uuid[]`

    /** The arguments of usage_rows_sums and usage_rows_report. */
    const report = (
      { filter, segments }: Source,
      grouping: Grouping,
      cuts: ReadonlyArray<number>,
      keys?: ReadonlyArray<string>
    ): Statement.Fragment => {
      const rollups = rolledUp(filter, grouping)
      const values = dimensions.map((dimension) => filter[usageDimensions[dimension].filter])
      return sql`${tenantsOf({ filter, segments })},
        ${dimensionOf({ filter, segments }, grouping)}::integer, ${isByKey(grouping) ? "key" : grouping}::text,
        ARRAY[${sql.csv(values.map((value) => (value === undefined ? sql`NULL` : sql`${String(value)}`)))}]::text[], ${keys ?? null}::text[],
        ${segments.map(({ grain }) => (rollups === undefined && grain !== "s" ? "r" : grain))}::text[],
        ${moments(segments.map(({ opens }) => opens))}::timestamptz[],
        ${moments(segments.map(({ closes }) => closes))}::timestamptz[], ${moments(cuts)}::timestamptz[]`
    }

    const parts = (
      source: Source,
      grouping: Grouping,
      names: ReadonlyArray<keyof Columns>,
      { segments }: Wanted,
      add: (part: Part) => void
    ): Effect.Effect<void> =>
      segments.length === 0
        ? Effect.void
        : partsRepository.read(
            source.filter.tenantId,
            tenantsOf(source),
            dimensionOf(source, grouping),
            segments,
            names,
            add
          )

    /** The sums of the rows of a source that no parts have. */
    const rows = (
      { filter, segments }: Source,
      grouping: Grouping,
      cuts: ReadonlyArray<number>,
      keys: ReadonlyArray<string> | undefined,
      byBucket: boolean
    ): Effect.Effect<ReadonlyArray<typeof RowSums.Type>> => {
      const ofRows = readsRows(filter, grouping) ? segments : segments.filter((segment) => !hasParts(segment))
      return ofRows.length === 0
        ? Effect.succeed([])
        : readRows(RowSums)(sql`
            SELECT * FROM usage_rows_sums(${report({ filter, segments: ofRows }, grouping, cuts, keys)}, ${byBucket})`)
    }

    /** Some of the sums of each key, or of those that are given, between each two of `cuts`. */
    const sumsOf = Effect.fnUntraced(function* (
      source: Source,
      grouping: Grouping,
      cuts: ReadonlyArray<number>,
      names: ReadonlyArray<keyof Sums>,
      given?: ReadonlyArray<string>
    ) {
      const keys = new Keys(grouping === "total" ? [noKey] : (given ?? []))
      const wanted = wantedOf(source, grouping, cuts, keys, given === undefined)
      const found = new CellSums(cuts.length, names)
      yield* parts(source, grouping, names, wanted, (part) => found.addPart(wanted, part))
      for (const row of yield* rows(source, grouping, cuts, given, false)) {
        found.add(
          keys.placeOf(row.key),
          row.place,
          names.map((name) => row[name])
        )
      }
      return keys.texts.flatMap((key, at) =>
        cuts.flatMap((_, place): ReadonlyArray<PlacedSums> => {
          const sums = { ...noSums, key, place }
          return found.read(at, place, (column, sum) => (sums[names[column]!] = sum)) ? [sums] : []
        })
      )
    })

    /** The same, with the percentiles of latencies where no roll-up answers. */
    const reportOf = (
      source: Source,
      grouping: Grouping,
      cuts: ReadonlyArray<number>,
      names: ReadonlyArray<keyof Sums>
    ): Effect.Effect<ReadonlyArray<PlacedSums>> =>
      readsRows(source.filter, grouping)
        ? readRows(RowsReport)(sql`SELECT * FROM usage_rows_report(${report(source, grouping, cuts)})`)
        : sumsOf(source, grouping, cuts, names)

    return {
      /** Up to when everything that was charged is counted, if that is not now. */
      pendingSince: Effect.map(
        readRows(Schema.Struct({ at: Schema.NullOr(Schema.DateTimeUtcFromDate) }))(
          sql`SELECT min(written_at) AS at FROM usage_outbox`
        ),
        ([row]) => row?.at ?? undefined
      ),

      /** The days of a zone around a range, each with its start; none where the database does not know the zone. */
      days: Effect.fn("ReportsRepository.days")((timeZone: string, from: number, to: number) =>
        timeZone === "UTC"
          ? Effect.succeed(utcDays(from, to))
          : Effect.flatMap(isZone(timeZone), (exists) =>
              exists
                ? readRows(Day)(sql`
          SELECT to_char(d, 'YYYY-MM-DD') AS date, budget_local_moment(d::date, z.name) AS start
          FROM (SELECT ${timeZone}::text AS name) z,
            generate_series((${momentAt(from)}::timestamptz AT TIME ZONE z.name)::date - 1,
              (${momentAt(to)}::timestamptz AT TIME ZONE z.name)::date + 1, interval '1 day') d
          ORDER BY d`)
                : Effect.succeed([])
            )
      ),

      /** The sums of all. */
      totals: Effect.fn("ReportsRepository.totals")((source: Source) =>
        Effect.map(sumsOf(source, "total", boundsOf(source), sumNames), ([found = noSums]): Sums => found)
      ),

      /** The sums of each key, by cost; with each the cost of all. */
      ranked: Effect.fn("ReportsRepository.ranked")(
        (source: Source, grouping: Grouping, order: ItemOrder, limit: number) =>
          Effect.map(reportOf(source, grouping, boundsOf(source), itemNames), (found) => {
            const total = found.reduce((sum, { cost }) => sum + cost, 0n)
            return inOrder(found, order)
              .slice(0, limit)
              .map((row) => Object.assign({ total }, row))
          })
      ),

      /** The sums between each two of `cuts`; `place` is that of the earlier cut. */
      placed: Effect.fn("ReportsRepository.placed")((source: Source, cuts: ReadonlyArray<number>) =>
        reportOf(source, "total", cuts, sumNames)
      ),

      /** The cost and the requests of each of `keys` between each two of `cuts` that has any. */
      series: Effect.fn("ReportsRepository.series")(
        (source: Source, grouping: Grouping, cuts: ReadonlyArray<number>, keys: ReadonlyArray<string> = [noKey]) =>
          sumsOf(source, grouping, cuts, ["cost", "requests"], keys)
      ),

      /** The buckets of the percentiles of each key's latencies, or of those between each two of `cuts`. */
      latencies: Effect.fn("ReportsRepository.latencies")(function* (
        source: Source,
        grouping: Grouping,
        cuts: ReadonlyArray<number>,
        given: ReadonlyArray<string> = [noKey]
      ) {
        const keys = new Keys(given)
        const wanted = wantedOf(source, grouping, cuts, keys, false)
        const histograms = new Histograms(cuts.length)
        yield* parts(source, grouping, Histograms.columns, wanted, (part) => histograms.addPart(wanted, part))
        for (const { bucket, calls, key, place } of yield* rows(source, grouping, cuts, given, true)) {
          if (bucket !== null) histograms.add(keys.placeOf(key), place, bucket, Number(calls))
        }
        return histograms
          .percentiles()
          .map(({ key, p50, p95, place }): Latencies => ({ key: given[key] ?? noKey, place, p50, p95 }))
      }),

      /** The names of what some keys identify, with its tenant where it is of one. */
      labels: Effect.fn("ReportsRepository.labels")((grouping: Grouping, keys: ReadonlyArray<string>) => {
        const known = named[grouping]
        if (known === undefined || keys.length === 0) return Effect.succeed([])
        const [table, type, isOfTenant] = known
        return readRows(Labelled)(sql`
          SELECT id::text AS key, name AS label ${sql.literal(isOfTenant ? ", tenant_id" : "")} FROM ${sql(table)}
          WHERE id = ANY (${keys}::text[]::${sql.literal(type)}[]) AND name IS NOT NULL`)
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(PartsRepository.layer))
}
