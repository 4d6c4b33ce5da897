import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { rowLock } from "../../platform/database/database.ts"
import { makeList } from "../../platform/database/list.ts"
import { readRows, violations } from "../../platform/database/table.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { usageDimensions } from "../usage/domain.ts"
import { StoredSubscription, SubscriptionId, subscriptionListing, SubscriptionNotFound } from "./domain.ts"

const columns =
  "id, tenant_id, provider, name, plan, price, quota, period, anchor, time_zone, starts_at, ends_at, overage, pending, created_at, updated_at"

const Period = Schema.Struct({ starts: Schema.DateTimeUtcFromDate, ends: Schema.DateTimeUtcFromDate })

/** A subscription with what was used of it in its current period. */
const Standing = Schema.Struct({
  ...StoredSubscription.fields,
  cost: Schema.BigInt,
  tokens: Schema.BigInt,
  requests: Schema.BigInt
})
export type Standing = typeof Standing.Type

const encodePending = Schema.encodeSync(StoredSubscription.fields.pending)
const pendingText = ({ pending }: StoredSubscription) =>
  pending === null ? null : JSON.stringify(encodePending(pending))
const date = (moment: DateTime.Utc | null) => (moment === null ? null : DateTime.toDateUtc(moment))

export class SubscriptionsRepository extends Context.Service<SubscriptionsRepository>()(
  "app/insights/SubscriptionsRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const all = sql.literal(columns)

      const page = makeList(sql, readRows(StoredSubscription), subscriptionListing, {
        from: "subscriptions",
        columns,
        hasTenant: true,
        text: "lower(t.name || ' ' || t.provider || ' ' || coalesce(t.plan, ''))"
      })
      const find = (locking: Effect.Effect<Statement.Fragment>) =>
        SqlSchema.findOneOption({
          Request: SubscriptionId,
          Result: StoredSubscription,
          execute: (id) =>
            Effect.flatMap(locking, (lock) => sql`SELECT ${all} FROM subscriptions WHERE id = ${id} ${lock}`)
        })
      const findOne = find(rowLock(sql))
      const findLocked = find(Effect.succeed(sql.literal("FOR UPDATE")))
      const insert = SqlSchema.findOne({
        Request: Schema.Struct({ text: Schema.Any, createdBy: Schema.String }),
        Result: StoredSubscription,
        execute: ({ createdBy, text }) => {
          const s = text as Omit<StoredSubscription, "id">
          return sql`
            INSERT INTO subscriptions (tenant_id, provider, name, plan, price, quota, period, anchor, time_zone, starts_at,
              ends_at, overage, pending, created_at, created_by, updated_at)
            VALUES (${s.tenantId}, ${s.provider}, ${s.name}, ${s.plan}, ${s.price}::bigint, ${JSON.stringify(s.quota)}::text::jsonb,
              ${s.period}, ${s.anchor}, ${s.timeZone}, ${date(s.startsAt)}, ${date(s.endsAt)}, ${s.overage}, NULL,
              ${date(s.createdAt)}, ${createdBy}, ${date(s.updatedAt)})
            RETURNING ${all}`
        }
      })
      const period = SqlSchema.findOneOption({
        Request: Schema.Struct({
          period: Schema.String,
          timeZone: Schema.String,
          anchor: Schema.NullOr(Schema.Int),
          now: Schema.Date
        }),
        Result: Period,
        execute: ({ anchor, now, period: name, timeZone }) => sql`
          SELECT p.starts, p.ends FROM (SELECT ${timeZone}::text AS zone WHERE ${timeZone} = 'UTC'
            OR EXISTS (SELECT FROM pg_timezone_names n WHERE n.name = ${timeZone})) z
          CROSS JOIN LATERAL budget_period(${name}, z.zone, ${anchor}::integer, ${now}::timestamptz) p`
      })
      const selectStandings = SqlSchema.findAll({
        Request: Schema.Date,
        Result: Standing,
        execute: (now) => sql`
          SELECT ${sql.literal(
            columns
              .split(", ")
              .map((column) => `s.${column}`)
              .join(", ")
          )}, u.cost, u.tokens, u.requests
          FROM subscriptions s
          CROSS JOIN LATERAL budget_period(s.period, s.time_zone, s.anchor, ${now}::timestamptz) p
          CROSS JOIN LATERAL (
            SELECT date_bin('1 hour', p.starts + interval '1 hour' - interval '1 microsecond', 'epoch') AS starts
          ) whole
          CROSS JOIN LATERAL (
            SELECT coalesce(sum(r.cost), 0)::bigint AS cost, coalesce(sum(r.requests), 0)::bigint AS requests,
              coalesce(sum(r.input_tokens + r.output_tokens), 0)::bigint AS tokens
            FROM usage_cells r WHERE r.tenant_id = s.tenant_id AND r.grain = 'h'
              AND r.dimension = ${usageDimensions.provider.code}::smallint AND r.key = s.provider
              AND r.day BETWEEN (p.starts AT TIME ZONE 'UTC')::date AND (p.ends AT TIME ZONE 'UTC')::date
              AND r.start >= whole.starts AND r.start < p.ends
          ) f
          -- Roll-ups have neither a part of an hour, where a period begins within one, nor synthetic calls, which a provider
          -- counts as any other.
          CROSS JOIN LATERAL (
            SELECT f.cost + coalesce(sum(y.cost), 0)::bigint AS cost, f.requests + coalesce(sum(y.requests), 0)::bigint AS requests,
              f.tokens + coalesce(sum(y.input_tokens + y.output_tokens), 0)::bigint AS tokens
            FROM (
              SELECT y.cost, y.requests, y.input_tokens, y.output_tokens FROM usage_counted y
              WHERE y.synthetic AND y.tenant_id = s.tenant_id AND y.provider = s.provider
                AND y.occurred_at >= p.starts AND y.occurred_at < p.ends
              UNION ALL SELECT y.cost, y.requests, y.input_tokens, y.output_tokens FROM usage_facts y
              WHERE y.tenant_id = s.tenant_id AND y.provider = s.provider
                AND y.occurred_at >= p.starts AND y.occurred_at < whole.starts
            ) y
          ) u
          WHERE s.starts_at <= ${now} AND (s.ends_at IS NULL OR s.ends_at > ${now})`
      })
      const found = Effect.flatMap(
        Option.match({
          onNone: () => Effect.fail(new SubscriptionNotFound({})),
          onSome: (one: StoredSubscription) => Effect.succeed(one)
        })
      )

      return {
        list: Effect.fn("SubscriptionsRepository.list")(
          (tenantId: TenantId | undefined, request: ListRequest<SubscriptionId>) =>
            page(tenantId === undefined ? [] : [sql`tenant_id = ${tenantId}`], request)
        ),
        get: Effect.fn("SubscriptionsRepository.get")((id: SubscriptionId) => found(Effect.orDie(findOne(id)))),
        lock: (id: SubscriptionId) => Effect.andThen(Change, found(Effect.orDie(findLocked(id)))),
        insert: (subscription: Omit<StoredSubscription, "id">, createdBy: string) =>
          Effect.andThen(
            Change,
            insert({ text: subscription, createdBy }).pipe(violations({ subscriptions_tenant_id_fkey: TenantNotFound }))
          ),
        update: (s: StoredSubscription) =>
          Effect.andThen(
            Change,
            sql`
              UPDATE subscriptions SET provider = ${s.provider}, name = ${s.name}, plan = ${s.plan},
                price = ${s.price}::bigint, quota = ${JSON.stringify(s.quota)}::text::jsonb, period = ${s.period},
                anchor = ${s.anchor}, time_zone = ${s.timeZone}, starts_at = ${date(s.startsAt)}, ends_at = ${date(s.endsAt)},
                overage = ${s.overage}, pending = ${pendingText(s)}::text::jsonb, updated_at = ${date(s.updatedAt)}
              WHERE id = ${s.id}`.pipe(Effect.asVoid, Effect.orDie)
          ),
        delete: (id: SubscriptionId) =>
          Effect.andThen(Change, Effect.orDie(Effect.asVoid(sql`DELETE FROM subscriptions WHERE id = ${id}`))),
        /** The period that a moment is in; none where the database does not know the zone. */
        periodAt: Effect.fn("SubscriptionsRepository.periodAt")(
          (
            { anchor, period: name, timeZone }: Pick<StoredSubscription, "anchor" | "period" | "timeZone">,
            now: DateTime.Utc
          ) => Effect.orDie(period({ period: name, timeZone, anchor, now: DateTime.toDateUtc(now) }))
        ),
        /** Every subscription that is active, with its use. */
        standings: Effect.fn("SubscriptionsRepository.standings")((now: DateTime.Utc) =>
          Effect.orDie(selectStandings(DateTime.toDateUtc(now)))
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
