import { Context, Effect, Layer, Schema, Stream } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { readRows } from "../../platform/database/table.ts"
import { instantAt } from "../../kernel/instant.ts"
import { dayMillis, type UsageDimension, usageDimensions, type UsageFilter } from "../usage/domain.ts"
import { Histograms, Keys, Points, type Wanted } from "./cells.ts"
import { type ItemPlace, type Segment } from "./domain.ts"

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
const Sums = Schema.Struct(sums)
export type Sums = typeof Sums.Type
/** The buckets of the percentiles of latencies, which come with the sums where both are read from rows. */
const percentiles = {
  p50: Schema.optionalKey(Schema.NullOr(Schema.Int)),
  p95: Schema.optionalKey(Schema.NullOr(Schema.Int))
}
const Keyed = Schema.Struct({ key: Schema.String, total: Schema.BigInt, ...sums, ...percentiles })
const Placed = Schema.Struct({ key: Schema.String, place: Schema.Int, ...sums, ...percentiles })
/** Sums of rows, of the latencies in a bucket where there is one. */
const RowSums = Schema.Struct({
  key: Schema.String,
  place: Schema.Int,
  bucket: Schema.NullOr(Schema.Int),
  cost: sums.cost,
  requests: sums.requests
})
const part = {
  segment: Schema.Int,
  tenantId: Schema.String,
  day: Schema.Int,
  keys: Schema.Uint8Array,
  places: Schema.Uint8Array
}
const PointsPart = Schema.Struct({ ...part, cost: Schema.Uint8Array, requests: Schema.Uint8Array })
const LatenciesPart = Schema.Struct({
  ...part,
  latencyEnds: Schema.NullOr(Schema.Uint8Array),
  latencyBuckets: Schema.NullOr(Schema.Uint8Array),
  latencyCalls: Schema.NullOr(Schema.Uint8Array)
})
const Latencies = Schema.Struct({ key: Schema.String, place: Schema.Int, p50: Schema.Int, p95: Schema.Int })
export type Latencies = typeof Latencies.Type
const Labelled = Schema.Struct({ key: Schema.String, label: Schema.String })
const Day = Schema.Struct({ date: Schema.String, start: Schema.DateTimeUtcFromDate })

const dimensions = Object.keys(usageDimensions) as ReadonlyArray<UsageDimension>

/** The tables that give keys a name. */
const named: Partial<Record<Grouping, readonly [table: string, type: string]>> = {
  agent: ["agents", "uuid"],
  application: ["applications", "integer"],
  plan: ["budget_plans", "uuid"],
  "api-key": ["api_keys", "uuid"],
  tenant: ["tenants", "uuid"]
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

/** Whether a segment is read from rows. */
const isOfRows = ({ grain }: Segment): boolean => grain === "r" || grain === "s"

/** The key of sums that have none. */
const allKeys = [""]

/** What is wanted of the parts of roll-ups: the places of the keys that they are grouped by, where they pass the filter. */
const wantedOf = (
  { filter, segments }: Source,
  grouping: Grouping,
  cuts: ReadonlyArray<number>,
  keys: ReadonlyArray<string>
): Wanted => {
  const rolled = readsRows(filter, grouping) ? [] : segments.filter((segment) => !isOfRows(segment))
  const only = dimensions
    .map((dimension) => filter[usageDimensions[dimension].filter])
    .find((value) => value !== undefined)
  const known = new Keys(isByKey(grouping) ? keys : [only === undefined ? "" : String(only)])
  const passing = only === undefined || !isByKey(grouping) ? undefined : keys.indexOf(String(only))
  const ofTenant = new Map(keys.map((key, place) => [key, place]))
  return {
    segments: rolled,
    cuts,
    keyOf: ({ tenantId }, bytes, start, length) => {
      const place = known.find(bytes, start, length)
      if (grouping === "tenant") return place < 0 ? -1 : (ofTenant.get(tenantId) ?? -1)
      return passing === undefined || place === passing ? place : -1
    }
  }
}

/** Whether sums over a filter have quarters of an hour: only those of all rows do. */
export const hasQuarters = (filter: UsageFilter, grouping: Grouping): boolean => rolledUp(filter, grouping) === 0

/** Whether sums over a filter are read from rows, since no roll-up has them. */
export const readsRows = (filter: UsageFilter, grouping: Grouping): boolean => rolledUp(filter, grouping) === undefined

/** A moment in PostgreSQL's text, which has no sign before years of five digits. */
const momentAt = (at: number): string => new Date(at).toISOString().replace(/^\+0*/, "")
const moments = (some: ReadonlyArray<number>): string => `{${some.map((at) => `"${momentAt(at)}"`).join()}}`

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
    // PostgreSQL reads all files of zones to list them.
    const zones = yield* Effect.cached(
      Effect.map(
        readRows(Schema.Struct({ name: Schema.String }))(sql`SELECT name FROM pg_timezone_names`),
        (found) => new Set(found.map(({ name }) => name))
      )
    )
    const isZone = (name: string) => Effect.map(zones, (known) => known.has(name))

    /** One read of rows answers what takes two of roll-ups. */
    const reader = ({ filter }: Source, grouping: Grouping): Statement.Fragment =>
      sql.literal(readsRows(filter, grouping) ? "usage_rows_report" : "usage_report")

    const tenantsOf = ({ filter: { tenantId } }: Source): Statement.Fragment =>
      tenantId === undefined ? sql`(SELECT array_agg(id) FROM tenants)` : sql`ARRAY[${tenantId}]::uuid[]`

    /** The arguments of usage_report, usage_rows_sums and usage_rows_report. */
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

    /** Reads the parts of roll-ups that a source names, each while the next are on their way. */
    const parts = <P>(
      source: Source,
      grouping: Grouping,
      columns: ReadonlyArray<string>,
      row: Schema.Codec<P, unknown>,
      { segments }: Wanted,
      add: (part: P) => void
    ): Effect.Effect<void> => {
      if (segments.length === 0) return Effect.void
      const decode = Schema.decodeUnknownEffect(row)
      const days = (at: (segment: Segment) => number) =>
        moments(segments.map((segment) => Math.floor(at(segment) / dayMillis) * dayMillis))
      return sql`
        SELECT segment, tenant_id, day - '1970-01-01'::date AS day, array_send(keys) AS keys, array_send(places) AS places,
          ${sql.csv(columns.map((column) => sql`array_send(${sql(column)}) AS ${sql(column)}`))}
        FROM usage_parts_between(${tenantsOf(source)}, ${dimensionOf(source, grouping)}::integer,
          ${segments.map(({ grain }) => grain)}::text[], ${days(({ opens }) => opens)}::timestamptz[]::date[],
          ${days(({ closes }) => closes - 1)}::timestamptz[]::date[])`.stream.pipe(
        Stream.runForEach((found) => Effect.map(decode(found), add)),
        Effect.orDie
      )
    }

    /** The sums of the rows that a source names, where it names any. */
    const rows = (
      { filter, segments }: Source,
      grouping: Grouping,
      cuts: ReadonlyArray<number>,
      keys: ReadonlyArray<string>,
      byBucket: boolean
    ): Effect.Effect<ReadonlyArray<typeof RowSums.Type>> => {
      const ofRows = readsRows(filter, grouping) ? segments : segments.filter(isOfRows)
      return ofRows.length === 0
        ? Effect.succeed([])
        : readRows(RowSums)(sql`
            SELECT * FROM usage_rows_sums(${report({ filter, segments: ofRows }, grouping, cuts, keys)}, ${byBucket})`)
    }

    return {
      /** Up to when everything that was charged is counted, if that is not now. */
      pendingSince: Effect.map(
        readRows(Schema.Struct({ at: Schema.NullOr(Schema.DateTimeUtcFromDate) }))(
          sql`SELECT min(occurred_at) AS at FROM usage_outbox`
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

      /** The sums of all; none where there is nothing to sum. */
      totals: Effect.fn("ReportsRepository.totals")((source: Source) =>
        readRows(Sums)(sql`SELECT * FROM usage_report(${report(source, "total", boundsOf(source))})`)
      ),

      /** The sums of each key, by cost; with each the cost of all. */
      ranked: Effect.fn("ReportsRepository.ranked")(
        (source: Source, grouping: Grouping, after: ItemPlace | undefined, limit: number) =>
          readRows(Keyed)(sql`
            SELECT * FROM (
              SELECT r.*, sum(r.cost) OVER ()::bigint AS total
              FROM ${reader(source, grouping)}(${report(source, grouping, boundsOf(source))}) r
            ) k
            WHERE ${
              after === undefined
                ? sql`true`
                : sql`(k.cost < ${after[0]}::numeric OR (k.cost = ${after[0]}::numeric AND k.key COLLATE "C" > ${after[1]}))`
            }
            ORDER BY k.cost DESC, k.key COLLATE "C" LIMIT ${limit}`)
      ),

      /** The sums between each two of `cuts`; `place` is that of the earlier cut. */
      placed: Effect.fn("ReportsRepository.placed")((source: Source, cuts: ReadonlyArray<number>) =>
        readRows(Placed)(sql`SELECT * FROM ${reader(source, "total")}(${report(source, "total", cuts)}) ORDER BY place`)
      ),

      /** The cost and the requests of each of `keys` between each two of `cuts`. */
      series: Effect.fn("ReportsRepository.series")(function* (
        source: Source,
        grouping: Grouping,
        cuts: ReadonlyArray<number>,
        keys: ReadonlyArray<string> = allKeys
      ) {
        const wanted = wantedOf(source, grouping, cuts, keys)
        const points = new Points(keys.length, cuts.length - 1)
        yield* parts(source, grouping, ["cost", "requests"], PointsPart, wanted, (part) => points.addPart(wanted, part))
        for (const { cost, key, place, requests } of yield* rows(source, grouping, cuts, keys, false)) {
          points.add(keys.indexOf(key), place, cost, requests)
        }
        return keys.map((_, place) => points.of(place))
      }),

      /** The buckets of the percentiles of each key's latencies, or of those between each two of `cuts`. */
      latencies: Effect.fn("ReportsRepository.latencies")(function* (
        source: Source,
        grouping: Grouping,
        cuts: ReadonlyArray<number>,
        keys: ReadonlyArray<string> = allKeys
      ) {
        const wanted = wantedOf(source, grouping, cuts, keys)
        const histograms = new Histograms(cuts.length)
        const columns = ["latency_ends", "latency_buckets", "latency_calls"]
        yield* parts(source, grouping, columns, LatenciesPart, wanted, (part) => histograms.addPart(wanted, part))
        for (const { bucket, key, place, requests } of yield* rows(source, grouping, cuts, keys, true)) {
          if (bucket !== null) histograms.add(keys.indexOf(key), place, bucket, Number(requests))
        }
        return histograms
          .percentiles()
          .map(({ key, p50, p95, place }): Latencies => ({ key: keys[key] ?? "", place, p50, p95 }))
      }),

      /** The names of what some keys identify. */
      labels: Effect.fn("ReportsRepository.labels")((grouping: Grouping, keys: ReadonlyArray<string>) => {
        const known = named[grouping]
        if (known === undefined || keys.length === 0) return Effect.succeed([])
        const [table, type] = known
        return readRows(Labelled)(sql`
          SELECT id::text AS key, name AS label FROM ${sql(table)}
          WHERE id = ANY (${keys}::text[]::${sql.literal(type)}[]) AND name IS NOT NULL`)
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
