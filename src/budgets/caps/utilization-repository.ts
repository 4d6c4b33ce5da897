import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { nilUuid, TenantId, Uuid } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { type Moment, momentText } from "../../platform/database/database.ts"
import { readRows } from "../../platform/database/table.ts"
import { AlertThreshold, CapId, CapScope, Sum } from "../ledger/domain.ts"
import { Unit } from "../ledger/quantity-domain.ts"
import { type UsePlace, UtilizationKey, type UtilizationSort } from "./domain.ts"

/** A counter of a cap with its current use. */
export const CounterUtilization = Schema.Struct({
  tenantId: TenantId,
  capId: CapId,
  /** Nil where the cap has none yet. */
  counterId: Uuid,
  name: Schema.String,
  scope: CapScope,
  unit: Unit,
  limitAmount: Schema.BigInt,
  alertThresholds: Schema.Array(AlertThreshold),
  createdAt: InstantFromDate,
  counterKey: Schema.NullOr(Schema.String),
  grants: Schema.BigInt,
  spent: Schema.BigInt,
  reserved: Schema.BigInt,
  /** A sum of many, which no counter bounds. */
  held: Sum,
  windowSeconds: Schema.NullOr(Schema.Int),
  periodStart: Schema.NullOr(InstantFromDate),
  periodEnd: Schema.NullOr(InstantFromDate),
  /** What is used of the limit, where the list is in that order. */
  share: Schema.optionalKey(Schema.String)
})
export type CounterUtilization = typeof CounterUtilization.Type

const Use = Schema.Struct({ capId: CapId, counterId: Uuid, share: Schema.String })

export interface UtilizationFilter {
  readonly tenantId?: TenantId
  readonly capId?: CapId
  /** These counters, and of a cap that has none yet the cap. */
  readonly counters?: ReadonlyArray<CounterOfCap>
}

/** A counter of a cap by what it counts. */
const CounterOfCap = Schema.Struct({ capId: CapId, counterKey: Schema.String })
type CounterOfCap = typeof CounterOfCap.Type

export class UtilizationRepository extends Context.Service<UtilizationRepository>()(
  "app/budgets/UtilizationRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const select = SqlSchema.findAll({
        Request: Schema.Struct({
          tenantId: Schema.UndefinedOr(TenantId),
          capId: Schema.UndefinedOr(CapId),
          counters: Schema.UndefinedOr(Schema.Array(CounterOfCap)),
          at: Schema.UndefinedOr(Schema.DateTimeUtcFromDate),
          after: Schema.UndefinedOr(UtilizationKey),
          among: Schema.UndefinedOr(Schema.Array(Use)),
          limit: Schema.Int
        }),
        Result: CounterUtilization,
        execute: ({ after, among, at, capId, counters, limit, tenantId }) => sql`
          WITH held AS (
            SELECT e.counter, sum(r.amount) AS usd, sum(r.tokens) AS tokens, count(*) AS requests
            FROM budget_reservations r CROSS JOIN LATERAL unnest(r.counter_ids) AS e(counter)
            WHERE ${sql.and([
              sql`r.state = 'held'`,
              sql`r.expires_at > budget_moment(${at ?? null}::timestamptz)`,
              ...(tenantId === undefined ? [] : [sql`r.tenant_id = ${tenantId}`])
            ])}
            GROUP BY e.counter
          )
          SELECT c.tenant_id, c.id AS cap_id, c.name, c.scope, c.unit, c.limit_amount, c.alert_thresholds, c.created_at,
            coalesce(b.id, ${nilUuid}::uuid) AS counter_id, b.counter_key, c.window_seconds,
            budget_limit(c.tenant_id, c.id, coalesce(b.counter_key, ''), budget_moment(${at ?? null}::timestamptz)) - c.limit_amount AS grants,
            coalesce(CASE WHEN b.ring IS NULL THEN b.spent ELSE budget_ring_sum(budget_ring_at(b.ring, b.ring_head,
              budget_bucket(budget_moment(${at ?? null}::timestamptz), b.bucket_seconds))) END, 0) AS spent,
            coalesce(b.reserved, 0) AS reserved,
            coalesce(CASE c.unit WHEN 'usd' THEN h.usd WHEN 'tokens' THEN h.tokens ELSE h.requests END, 0)::text AS held,
            CASE WHEN isfinite(coalesce(b.period_start, p.starts)) THEN coalesce(b.period_start, p.starts) END
              AS period_start,
            CASE WHEN isfinite(coalesce(b.period_end, p.ends)) THEN coalesce(b.period_end, p.ends) END AS period_end
          FROM budget_caps c
          CROSS JOIN LATERAL budget_period(c.period, c.time_zone, c.anchor, budget_moment(${at ?? null}::timestamptz)) p
          LEFT JOIN budget_counters b ON b.tenant_id = c.tenant_id AND b.cap_id = c.id
            AND b.period_end > budget_moment(${at ?? null}::timestamptz) AND b.period_start = (
              SELECT max(later.period_start) FROM budget_counters later
              WHERE later.tenant_id = b.tenant_id AND later.cap_id = b.cap_id AND later.counter_key = b.counter_key)
          LEFT JOIN held h ON h.counter = b.id
          WHERE ${sql.and([
            sql`c.deleted_at IS NULL`,
            sql`(b.id IS NOT NULL OR NOT c.scope @? '$.* ? (@ == "each")')`,
            ...(tenantId === undefined ? [] : [sql`c.tenant_id = ${tenantId}`]),
            ...(capId === undefined ? [] : [sql`c.id = ${capId}`]),
            ...(counters === undefined
              ? []
              : [
                  sql`c.id = ANY (${counters.map((one) => one.capId)}::uuid[])`,
                  sql`(b.id IS NULL OR (c.id, b.counter_key) IN (
                    SELECT * FROM unnest(${counters.map((one) => one.capId)}::uuid[], ${counters.map((one) => one.counterKey)}::text[])))`
                ]),
            ...(among === undefined
              ? []
              : [
                  sql`c.id = ANY (${among.map((use) => use.capId)}::uuid[])`,
                  sql`(c.id, coalesce(b.id, ${nilUuid}::uuid)) IN (
                    SELECT * FROM unnest(${among.map((use) => use.capId)}::uuid[], ${among.map((use) => use.counterId)}::uuid[]))`
                ]),
            ...(after === undefined
              ? []
              : [
                  sql`c.id >= ${after[0]}`,
                  sql`(c.id, coalesce(b.id, ${nilUuid}::uuid)) > (${after[0]}::uuid, ${after[1]}::uuid)`
                ])
          ])}
          ORDER BY c.id, coalesce(b.id, ${nilUuid}::uuid) LIMIT ${limit}`
      })

      const uses = readRows(Use)
      const followed = readRows(Schema.Struct({ counters: Schema.Int }))

      return {
        /** The same by the share of the limit that is used; a cap without a limit is used up by anything. */
        listByUse: Effect.fn("UtilizationRepository.listByUse")(function* (
          { capId, tenantId }: UtilizationFilter,
          moment: Moment,
          sort: UtilizationSort,
          after: UsePlace | undefined,
          limit: number
        ) {
          const at = momentText(moment) ?? null
          const found = yield* uses(sql`
            SELECT cap_id, counter_id, share::text AS share
            FROM budget_uses(budget_moment(${at}::timestamptz), ${tenantId ?? null}::uuid, ${capId ?? null}::uuid,
              ${sort === "-percentUsed"}, ${after?.[1] ?? null}::double precision, ${after?.[2] ?? null}::uuid,
              ${after?.[3] ?? null}::uuid, ${limit})`)
          const rows = yield* Effect.orDie(
            select({
              tenantId,
              capId: undefined,
              counters: undefined,
              at: moment,
              after: undefined,
              among: found,
              limit
            })
          )
          const byKey = new Map(rows.map((row) => [`${row.capId} ${row.counterId}`, row]))
          return found.flatMap(({ capId, counterId, share }) => {
            const row = byKey.get(`${capId} ${counterId}`)
            return row === undefined ? [] : [{ ...row, share }]
          })
        }),
        /** Brings current counters in line with changed limits of their caps; how many. */
        followLimits: Effect.fn("UtilizationRepository.followLimits")((moment: Moment, most: number) =>
          Effect.map(
            followed(sql`
              SELECT budgets_follow_limits(${momentText(moment) ?? null}::timestamptz, ${most}::integer) AS counters`),
            ([row]) => row?.counters ?? 0
          )
        ),
        /** Every cap with each of its current counters; a cap that counts each value has none before the first. */
        list: Effect.fn("UtilizationRepository.list")(
          (filter: UtilizationFilter, at: Moment, after: UtilizationKey | undefined, limit: number) =>
            Effect.orDie(
              select({
                tenantId: undefined,
                capId: undefined,
                counters: undefined,
                among: undefined,
                ...filter,
                at,
                after,
                limit
              })
            )
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
