import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { type UsageDimension, usageDimensions, type UsageFilter } from "../usage/domain.ts"
import { usageConditions } from "../usage/repository.ts"
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
const Keyed = Schema.Struct({ key: Schema.String, total: Schema.BigInt, ...sums })
const Placed = Schema.Struct({ key: Schema.String, place: Schema.Int, ...sums })
export type Placed = typeof Placed.Type
const Latencies = Schema.Struct({ key: Schema.String, place: Schema.Int, p50: Schema.Int, p95: Schema.Int })
export type Latencies = typeof Latencies.Type
const Labelled = Schema.Struct({ key: Schema.String, label: Schema.String })
const Day = Schema.Struct({ date: Schema.String, start: Schema.DateTimeUtcFromDate })

/** The tables that give keys a name. */
const named: Partial<Record<Grouping, readonly [table: string, type: string]>> = {
  agent: ["agents", "uuid"],
  application: ["applications", "integer"],
  plan: ["budget_plans", "uuid"],
  "api-key": ["api_keys", "uuid"],
  tenant: ["tenants", "uuid"]
}

const summed = `sum(c.cost)::bigint AS cost, sum(c.requests)::bigint AS requests, sum(c.errors)::bigint AS errors,
  sum(c.input_tokens)::bigint AS input_tokens, sum(c.output_tokens)::bigint AS output_tokens,
  sum(c.cached_input_tokens)::bigint AS cached_input_tokens, sum(c.saved)::bigint AS saved`
const measures = (of: string) =>
  `${of}.cost, ${of}.requests, ${of}.errors, ${of}.input_tokens, ${of}.output_tokens, ${of}.cached_input_tokens, ${of}.saved`

/** The dimension whose roll-ups answer a filter: none has no filter, one has its own, several need rows. */
const rolledUp = (filter: UsageFilter, grouping: Grouping) => {
  const filtered = (Object.keys(usageDimensions) as ReadonlyArray<UsageDimension>).filter(
    (dimension) => filter[usageDimensions[dimension].filter] !== undefined
  )
  const grouped = grouping === "tenant" || grouping === "total" ? [] : [grouping]
  const needed = [...new Set([...filtered, ...grouped])]
  if (needed.length > 1) return undefined
  const [dimension] = needed
  const value = dimension === undefined ? undefined : filter[usageDimensions[dimension].filter]
  return {
    code: dimension === undefined ? 0 : usageDimensions[dimension].code,
    key: value === undefined ? undefined : String(value)
  }
}

/** Whether sums over a filter have quarters of an hour: only those of all rows do. */
export const hasQuarters = (filter: UsageFilter, grouping: Grouping): boolean => rolledUp(filter, grouping)?.code === 0

const decode = <S extends Schema.Codec<unknown, unknown>>(row: S) => {
  const read = Schema.decodeUnknownEffect(Schema.Array(row))
  return (statement: Effect.Effect<unknown, unknown>) =>
    Effect.orDie(Effect.flatMap(statement, (rows) => read(rows))) as Effect.Effect<ReadonlyArray<S["Type"]>>
}

/** A moment in PostgreSQL's text, which has no sign before years of five digits. */
const momentAt = (at: number): string => new Date(at).toISOString().replace(/^\+0*/, "")
const moments = (some: ReadonlyArray<number>): string => `{${some.map((at) => `"${momentAt(at)}"`).join()}}`

/** Reads sums from the roll-ups, and from rows where a range or a filter divides them. */
export class ReportsRepository extends Context.Service<ReportsRepository>()("app/insights/ReportsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const tenants = ({ tenantId }: UsageFilter) =>
      tenantId === undefined ? sql`(SELECT array_agg(id) FROM tenants)::uuid[]` : sql`ARRAY[${tenantId}]::uuid[]`

    /**
     * What is to be summed, as rows `(at, key, …)`. Each segment is read by itself, by the index: OFFSET 0 keeps the planner
     * from joining another way.
     */
    const cells = (
      { filter, segments }: Source,
      grouping: Grouping,
      keys?: ReadonlyArray<string>,
      latencies = false
    ): Statement.Fragment => {
      const rolled = rolledUp(filter, grouping)
      const rollups = rolled === undefined ? [] : segments.filter(({ grain }) => grain !== "row")
      const ranges = rolled === undefined ? segments : segments.filter(({ grain }) => grain === "row")
      const hasKeys = grouping !== "total" && grouping !== "tenant"
      const histogram = latencies ? ", r.latencies" : ""
      const fromRollups = () => sql`
        SELECT r.start AS at, ${sql.literal(grouping === "tenant" ? "r.tenant_id::text" : hasKeys ? "r.key" : "''")} AS key,
          ${sql.literal(measures("r") + histogram)}
        FROM unnest(${rollups.map(({ grain }) => grain)}::text[], ${moments(rollups.map(({ opens }) => opens))}::timestamptz[],
          ${moments(rollups.map(({ closes }) => closes))}::timestamptz[]) AS s(grain, opens, closes)
        CROSS JOIN LATERAL (
          SELECT * FROM usage_rollups r WHERE ${sql.and([
            sql`r.tenant_id = ANY (${tenants(filter)})`,
            sql`r.dimension = ${rolled?.code ?? 0}::smallint`,
            sql`r.grain = s.grain::"char"`,
            sql`r.start >= s.opens AND r.start < s.closes`,
            ...(rolled?.key === undefined ? [] : [sql`r.key = ${rolled.key}`]),
            ...(keys === undefined || !hasKeys ? [] : [sql`r.key = ANY (${keys}::text[])`])
          ])} OFFSET 0
        ) r`
      const column = hasKeys ? `coalesce(u.${usageDimensions[grouping].column}::text, '')` : undefined
      const rowHistogram = latencies
        ? ", CASE WHEN u.bucket IS NULL THEN NULL ELSE ARRAY[(u.bucket::bigint << 32) + 1] END AS latencies"
        : ""
      const fromRows = () => sql`
        SELECT u.occurred_at AS at, ${sql.literal(grouping === "tenant" ? "u.tenant_id::text" : (column ?? "''"))} AS key,
          ${sql.literal(measures("u") + rowHistogram)}
        FROM unnest(${moments(ranges.map(({ opens }) => opens))}::timestamptz[],
          ${moments(ranges.map(({ closes }) => closes))}::timestamptz[]) AS s(opens, closes)
        CROSS JOIN LATERAL (
          SELECT * FROM usage_facts u WHERE ${sql.and([
            sql`u.tenant_id = ANY (${tenants(filter)})`,
            sql`u.occurred_at >= s.opens AND u.occurred_at < s.closes`,
            ...usageConditions(sql, filter),
            ...(keys === undefined || column === undefined ? [] : [sql`${sql.literal(column)} = ANY (${keys}::text[])`])
          ])} OFFSET 0
        ) u`
      if (ranges.length === 0) return fromRollups()
      return rollups.length === 0 ? fromRows() : sql`${fromRollups()} UNION ALL ${fromRows()}`
    }

    return {
      /** Up to when everything that was charged is counted, if that is not now. */
      pendingSince: Effect.map(
        decode(Schema.Struct({ at: Schema.NullOr(Schema.DateTimeUtcFromDate) }))(
          sql`SELECT min(occurred_at) AS at FROM usage_outbox`
        ),
        ([row]) => row?.at ?? undefined
      ),

      /** The days of a zone around a range, each with its start; none where the database does not know the zone. */
      days: Effect.fn("ReportsRepository.days")((timeZone: string, from: number, to: number) =>
        decode(Day)(sql`
          SELECT to_char(d, 'YYYY-MM-DD') AS date, budget_local_moment(d::date, z.name) AS start
          FROM (SELECT ${timeZone}::text AS name WHERE ${timeZone} = 'UTC'
              OR EXISTS (SELECT FROM pg_timezone_names n WHERE n.name = ${timeZone})) z,
            generate_series((${momentAt(from)}::timestamptz AT TIME ZONE z.name)::date - 1,
              (${momentAt(to)}::timestamptz AT TIME ZONE z.name)::date + 1, interval '1 day') d
          ORDER BY d`)
      ),

      /** The sums of all. */
      totals: Effect.fn("ReportsRepository.totals")((source: Source) =>
        decode(Sums)(sql`
          SELECT coalesce(sum(c.cost), 0)::bigint AS cost, coalesce(sum(c.requests), 0)::bigint AS requests,
            coalesce(sum(c.errors), 0)::bigint AS errors, coalesce(sum(c.input_tokens), 0)::bigint AS input_tokens,
            coalesce(sum(c.output_tokens), 0)::bigint AS output_tokens,
            coalesce(sum(c.cached_input_tokens), 0)::bigint AS cached_input_tokens, coalesce(sum(c.saved), 0)::bigint AS saved
          FROM (${cells(source, "total")}) c`)
      ),

      /** The sums of each key, by cost; with each the cost of all. */
      ranked: Effect.fn("ReportsRepository.ranked")(
        (source: Source, grouping: Grouping, after: ItemPlace | undefined, limit: number) =>
          decode(Keyed)(sql`
            SELECT * FROM (
              SELECT k.*, sum(k.cost) OVER ()::bigint AS total FROM (
                SELECT c.key, ${sql.literal(summed)} FROM (${cells(source, grouping)}) c GROUP BY c.key
              ) k
            ) k
            WHERE ${
              after === undefined
                ? sql`true`
                : sql`(k.cost < ${after[0]}::numeric OR (k.cost = ${after[0]}::numeric AND k.key COLLATE "C" > ${after[1]}))`
            }
            ORDER BY k.cost DESC, k.key COLLATE "C" LIMIT ${limit}`)
      ),

      /** The sums of each key between each two of `cuts`; `place` is that of the earlier cut. */
      series: Effect.fn("ReportsRepository.series")(
        (source: Source, grouping: Grouping, cuts: ReadonlyArray<number>, keys?: ReadonlyArray<string>) =>
          decode(Placed)(sql`
            SELECT c.key, width_bucket(c.at, ${moments(cuts)}::timestamptz[]) - 1 AS place, ${sql.literal(summed)}
            FROM (${cells(source, grouping, keys)}) c GROUP BY 1, 2 ORDER BY 1, 2`)
      ),

      /** The buckets of the percentiles of each key's latencies, or of those between each two of `cuts`. */
      latencies: Effect.fn("ReportsRepository.latencies")(
        (source: Source, grouping: Grouping, cuts: ReadonlyArray<number>, keys?: ReadonlyArray<string>) =>
          decode(Latencies)(sql`
            SELECT b.key, b.place, (min(b.bucket) FILTER (WHERE b.upto >= b.calls * 0.5))::integer AS p50,
              (min(b.bucket) FILTER (WHERE b.upto >= b.calls * 0.95))::integer AS p95
            FROM (
              SELECT h.key, h.place, h.bucket, sum(h.calls) OVER (PARTITION BY h.key, h.place ORDER BY h.bucket) AS upto,
                sum(h.calls) OVER (PARTITION BY h.key, h.place) AS calls
              FROM (
                SELECT c.key, width_bucket(c.at, ${moments(cuts)}::timestamptz[]) - 1 AS place, e >> 32 AS bucket,
                  sum(e & 4294967295) AS calls
                FROM (${cells(source, grouping, keys, true)}) c CROSS JOIN LATERAL unnest(c.latencies) e
                GROUP BY 1, 2, 3
              ) h
            ) b GROUP BY b.key, b.place`)
      ),

      /** The names of what some keys identify. */
      labels: Effect.fn("ReportsRepository.labels")((grouping: Grouping, keys: ReadonlyArray<string>) => {
        const known = named[grouping]
        if (known === undefined || keys.length === 0) return Effect.succeed([])
        const [table, type] = known
        return decode(Labelled)(sql`
          SELECT id::text AS key, name AS label FROM ${sql(table)}
          WHERE id = ANY (${keys}::text[]::${sql.literal(type)}[]) AND name IS NOT NULL`)
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
