import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { type AgentId } from "../../agents/agents/domain.ts"
import { Change } from "../../audit/log/domain.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { rowLock } from "../../platform/database/database.ts"
import { readRows } from "../../platform/database/table.ts"
import { usageDimensions, type UsageFilter } from "../usage/domain.ts"
import { AnomalyDimension, AnomalyId, AnomalyKind, AnomalyNotFound, AnomalyStatus, Contributor } from "./domain.ts"

export const StoredAnomaly = Schema.Struct({
  id: AnomalyId,
  tenantId: Schema.NullOr(TenantId),
  dimension: AnomalyDimension,
  key: Schema.String,
  kind: AnomalyKind,
  startsAt: InstantFromDate,
  endsAt: InstantFromDate,
  detectedAt: InstantFromDate,
  expected: Schema.BigInt,
  actual: Schema.BigInt,
  score: Schema.Number,
  contributors: Schema.Array(Contributor),
  status: AnomalyStatus,
  reason: Schema.NullOr(Schema.String)
})
export type StoredAnomaly = typeof StoredAnomaly.Type

/** A day of a provider whose bill nothing explains; the models of it are the contributors. */
export interface BillFinding {
  readonly provider: string
  readonly startsAt: number
  readonly endsAt: number
  readonly charged: bigint
  readonly billed: bigint
  readonly contributors: ReadonlyArray<Contributor>
}

/** An episode before it is stored; times are epoch milliseconds, amounts nano-dollars. */
export interface Finding {
  readonly tenantId: TenantId
  readonly dimension: Exclude<AnomalyDimension, "provider">
  readonly key: string
  readonly kind: AnomalyKind
  readonly startsAt: number
  readonly endsAt: number
  readonly expected: bigint
  readonly actual: bigint
  readonly score: number
}

export interface AnomalyFilter {
  readonly tenantId?: TenantId | undefined
  readonly status?: AnomalyStatus | undefined
  readonly kind?: AnomalyKind | undefined
  readonly dimension?: AnomalyDimension | undefined
  /** Those of one agent alone. */
  readonly agentId?: AgentId | undefined
}

const HourOfKey = Schema.Struct({
  dimension: Schema.Literals(["total", "agent", "model", "task-type"]),
  key: Schema.String,
  start: InstantFromDate,
  cost: Schema.BigInt
})
export type HourOfKey = typeof HourOfKey.Type

const PlanCost = Schema.Struct({
  key: Schema.String,
  first: InstantFromDate,
  last: InstantFromDate,
  cost: Schema.BigInt
})

const Progress = Schema.Struct({ through: Schema.NullOr(InstantFromDate) })

/** An episode goes on with what begins so soon behind it. */
const oneEpisode = "72 hours"
const contributors = 5
const columns = { agent: "agent_id", model: "model", "task-type": "task_type", plan: "plan_id" } as const

const encodeContributors = Schema.encodeSync(Schema.fromJsonString(Schema.Array(Contributor)))

/** A day in UTC as PostgreSQL takes it. */
const dayText = (at: number): string => new Date(at).toISOString().slice(0, 10)

export class AnomaliesRepository extends Context.Service<AnomaliesRepository>()("app/insights/AnomaliesRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const stored = readRows(StoredAnomaly)
    const moved = (tenantId: TenantId, from: number, to: number) =>
      sql`u.tenant_id = ${tenantId} AND u.happened_at <> u.occurred_at AND NOT u.synthetic
        AND u.occurred_at >= ${new Date(from)} AND u.occurred_at < ${new Date(to)}`
    const one = (statement: Effect.Effect<unknown, unknown>) =>
      Effect.flatMap(stored(statement), ([row]) =>
        row === undefined ? Effect.fail(new AnomalyNotFound({})) : Effect.succeed(row)
      )

    return {
      list: Effect.fn("AnomaliesRepository.list")(
        ({ agentId, dimension, kind, status, tenantId }: AnomalyFilter, after: AnomalyId | undefined, limit: number) =>
          stored(sql`
            SELECT * FROM anomalies WHERE ${sql.and([
              sql`true`,
              ...(tenantId === undefined ? [] : [sql`tenant_id = ${tenantId}`]),
              ...(status === undefined ? [] : [sql`status = ${status}`]),
              ...(kind === undefined ? [] : [sql`kind = ${kind}`]),
              ...(dimension === undefined ? [] : [sql`dimension = ${dimension}`]),
              ...(agentId === undefined ? [] : [sql`dimension = 'agent' AND key = ${agentId}`]),
              ...(after === undefined ? [] : [sql`id < ${after}`])
            ])} ORDER BY id DESC LIMIT ${limit}`)
      ),

      get: Effect.fn("AnomaliesRepository.get")((id: AnomalyId) =>
        Effect.flatMap(rowLock(sql), (lock) => one(sql`SELECT * FROM anomalies WHERE id = ${id} ${lock}`))
      ),

      lock: Effect.fn("AnomaliesRepository.lock")((id: AnomalyId) =>
        Effect.andThen(Change, one(sql`SELECT * FROM anomalies WHERE id = ${id} FOR UPDATE`))
      ),

      decide: Effect.fn("AnomaliesRepository.decide")(({ id, reason, status }: StoredAnomaly) =>
        Effect.andThen(
          Change,
          one(sql`UPDATE anomalies SET status = ${status}, reason = ${reason} WHERE id = ${id} RETURNING *`)
        )
      ),

      /** The hour up to which anomalies were looked for, locked; none while another replica looks. */
      progress: Effect.map(
        readRows(Progress)(sql`
          SELECT CASE WHEN isfinite(through) THEN through END AS through FROM anomaly_progress FOR UPDATE SKIP LOCKED`),
        ([row]) => row
      ),

      advance: Effect.fn("AnomaliesRepository.advance")((through: number) =>
        Effect.andThen(Change, Effect.orDie(sql`UPDATE anomaly_progress SET through = ${new Date(through)}`))
      ),

      /** The tenants that were charged in a range. */
      tenants: Effect.fn("AnomaliesRepository.tenants")((from: number, to: number) =>
        Effect.map(
          readRows(Schema.Struct({ tenantId: TenantId }))(sql`
            SELECT t.id AS tenant_id FROM tenants t WHERE EXISTS (
              SELECT FROM usage_cells c WHERE c.tenant_id = t.id AND c.dimension = 0 AND c.grain = 'h'
                AND c.day BETWEEN ${dayText(from)}::date AND ${dayText(to)}::date
                AND c.start >= ${new Date(from)} AND c.start < ${new Date(to)}) ORDER BY t.id`),
          (found) => found.map(({ tenantId }) => tenantId)
        )
      ),

      /** The cost of each hour of each key, in order, without what was booked in another hour than it happened in. */
      hours: Effect.fn("AnomaliesRepository.hours")((tenantId: TenantId, from: number, to: number) =>
        readRows(HourOfKey)(sql`
          SELECT d.name AS dimension, h.key, h.start, sum(h.cost)::bigint AS cost
          FROM (VALUES (0::smallint, 'total'), (1::smallint, 'agent'), (2::smallint, 'model'), (4::smallint, 'task-type'))
            AS d(code, name)
          JOIN (
            SELECT c.dimension, c.key, c.start, c.cost FROM usage_cells c
            WHERE c.tenant_id = ${tenantId} AND c.grain = 'h' AND c.start >= ${new Date(from)} AND c.start < ${new Date(to)}
              AND c.day BETWEEN ${dayText(from)}::date AND ${dayText(to)}::date
            UNION ALL
            SELECT k.dimension, k.key, date_bin('1 hour', u.occurred_at, 'epoch'), -u.cost FROM usage_rows u
            CROSS JOIN LATERAL (VALUES (0::smallint, ''), (1::smallint, u.agent_id::text), (2::smallint, u.model),
              (4::smallint, u.task_type)) AS k(dimension, key)
            WHERE ${moved(tenantId, from, to)}
          ) h ON h.dimension = d.code
          WHERE h.key <> '' OR d.code = 0
          GROUP BY d.code, d.name, h.key, h.start ORDER BY d.code, h.key, h.start`)
      ),

      /** What charges that pass a filter cost that were booked in a range and happened at another time. */
      movedCost: Effect.fn("AnomaliesRepository.movedCost")(
        (filter: UsageFilter, tenantId: TenantId, from: number, to: number) =>
          Effect.map(
            readRows(Schema.Struct({ cost: Schema.BigInt }))(sql`
            SELECT coalesce(sum(u.cost), 0)::bigint AS cost FROM usage_rows u WHERE ${sql.and([
              moved(tenantId, from, to),
              ...Object.values(usageDimensions).flatMap(({ column, filter: name }) => {
                const value = filter[name]
                return value === undefined ? [] : [sql`coalesce(u.${sql.literal(column)}::text, '') = ${String(value)}`]
              })
            ])}`),
            ([row]) => row?.cost ?? 0n
          )
      ),

      /** Whether events report the usage of a key, which may come late: that there is less of it lately says nothing. */
      isReported: Effect.fn("AnomaliesRepository.isReported")(
        ({ dimension, key, tenantId }: Pick<Finding, "dimension" | "key" | "tenantId">, since: number) =>
          dimension === "cap"
            ? Effect.succeed(false)
            : Effect.map(
                readRows(Schema.Struct({ found: Schema.Boolean }))(sql`
                  SELECT true AS found FROM usage_rows u WHERE u.tenant_id = ${tenantId} AND u.occurred_at >= ${new Date(since)}
                    AND u.happened_at IS NOT NULL AND u.${sql.literal(columns[dimension])}::text = ${key} LIMIT 1`),
                ({ length }) => length > 0
              )
      ),

      /** What each plan cost, with its first and its last day. */
      plans: Effect.fn("AnomaliesRepository.plans")((tenantId: TenantId, from: number, to: number) =>
        readRows(PlanCost)(sql`
          SELECT key, min(start) AS first, max(start) AS last, sum(cost)::bigint AS cost FROM usage_cells
          WHERE tenant_id = ${tenantId} AND dimension = 6 AND grain = 'd' AND day BETWEEN ${dayText(from)}::date
            AND ${dayText(to)}::date AND start >= ${new Date(from)} AND start < ${new Date(to)} AND key <> ''
          GROUP BY key`)
      ),

      /** Updates the episode that a finding goes on with; answers whether there is one. */
      extend: Effect.fn("AnomaliesRepository.extend")((finding: Finding) =>
        Effect.andThen(
          Change,
          Effect.map(
            stored(sql`
              UPDATE anomalies SET ends_at = greatest(ends_at, ${new Date(finding.endsAt)}), kind = ${finding.kind},
                expected = ${finding.expected}, actual = ${finding.actual}, score = greatest(score, ${finding.score})
              WHERE id = (SELECT id FROM anomalies WHERE tenant_id = ${finding.tenantId}
                AND dimension = ${finding.dimension} AND key = ${finding.key}
                AND ends_at + ${oneEpisode}::interval >= ${new Date(finding.startsAt)}
                AND starts_at <= ${new Date(finding.endsAt)} ORDER BY id DESC LIMIT 1)
              RETURNING *`),
            (found) => found.length > 0
          )
        )
      ),

      /** Stores what a bill does not explain, or its new amounts; undefined where they are known. */
      noteBill: Effect.fn("AnomaliesRepository.noteBill")(
        ({ billed, charged, contributors, endsAt, provider, startsAt }: BillFinding, detectedAt: number) =>
          Effect.andThen(
            Change,
            Effect.gen(function* () {
              const moved = yield* stored(sql`
                UPDATE anomalies SET expected = ${charged}, actual = ${billed},
                  contributors = ${encodeContributors(contributors)}::text::jsonb
                WHERE dimension = 'provider' AND key = ${provider} AND starts_at = ${new Date(startsAt)} RETURNING *`)
              if (moved.length > 0) return undefined
              return yield* Effect.orDie(
                one(sql`
                  INSERT INTO anomalies (tenant_id, dimension, key, kind, starts_at, ends_at, detected_at, expected, actual, score,
                    contributors)
                  VALUES (NULL, 'provider', ${provider}, 'bill', ${new Date(startsAt)}, ${new Date(endsAt)},
                    ${new Date(detectedAt)}, ${charged}, ${billed}, 0, ${encodeContributors(contributors)}::text::jsonb)
                  RETURNING *`)
              )
            })
          )
      ),

      /** Stores a new episode, with those that it was charged to. */
      insert: Effect.fn("AnomaliesRepository.insert")((finding: Finding, detectedAt: number) => {
        const { dimension, endsAt, key, startsAt, tenantId } = finding
        const others = (["agent", "model", "task-type"] as const).filter((other) => other !== dimension)
        const parts =
          dimension === "cap"
            ? sql`SELECT NULL::text AS dimension, NULL::text AS key, NULL::bigint AS cost WHERE false`
            : sql`
              SELECT p.dimension, p.key, sum(u.cost)::bigint AS cost FROM usage_rows u CROSS JOIN LATERAL (VALUES
                ${sql.literal(others.map((other) => `('${other}', u.${columns[other]}::text)`).join(", "))}) p(dimension, key)
              WHERE u.tenant_id = ${tenantId} AND u.occurred_at >= ${new Date(startsAt)}
                AND u.occurred_at < ${new Date(endsAt)} AND p.key IS NOT NULL AND NOT u.synthetic
                AND u.${sql.literal(columns[dimension])}::text = ${key}
              GROUP BY p.dimension, p.key ORDER BY 3 DESC LIMIT ${contributors}`
        return Effect.andThen(
          Change,
          Effect.orDie(
            one(sql`
              INSERT INTO anomalies (tenant_id, dimension, key, kind, starts_at, ends_at, detected_at, expected, actual,
                score, contributors)
              SELECT ${tenantId}, ${dimension}, ${key}, ${finding.kind}, ${new Date(startsAt)}, ${new Date(endsAt)},
                ${new Date(detectedAt)}, ${finding.expected}, ${finding.actual}, ${finding.score},
                coalesce((SELECT jsonb_agg(jsonb_build_object('dimension', c.dimension, 'key', c.key,
                  'costUsd', c.cost::numeric / 1000000000) ORDER BY c.cost DESC) FROM (${parts}) c), '[]')
              RETURNING *`)
          )
        )
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
