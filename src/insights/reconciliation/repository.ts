import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { type BilledLine, BillFailureReason, BillMeter } from "../../gateway/bills/domain.ts"
import { ProviderId } from "../../gateway/configuration/domain.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { readRows } from "../../platform/database/table.ts"
import { chargeMeters } from "../usage/repository.ts"
import { estimatedItem, feesItem } from "./comparison-domain.ts"

const Line = Schema.Struct({
  provider: ProviderId,
  day: Schema.String,
  source: Schema.Literals(["provider", "gateway"]),
  projectId: Schema.String,
  keyId: Schema.String,
  model: Schema.String,
  tier: Schema.String,
  meter: BillMeter,
  item: Schema.String,
  cost: Schema.BigInt,
  listCost: Schema.NullOr(Schema.BigInt),
  quantity: Schema.NullOr(Schema.BigInt)
})
export type StoredLine = typeof Line.Type

const ReadDay = Schema.Struct({ provider: ProviderId, day: Schema.String, readAt: InstantFromDate })
export type ReadDay = typeof ReadDay.Type

const Reading = Schema.Struct({
  provider: ProviderId,
  readAt: Schema.NullOr(InstantFromDate),
  failedAt: Schema.NullOr(InstantFromDate),
  failure: Schema.NullOr(BillFailureReason),
  failureDetail: Schema.NullOr(Schema.String)
})
export type Reading = typeof Reading.Type

/** Days (UTC) from the first to before the last, as `2026-11-24`. */
export interface Days {
  readonly first: string
  readonly before: string
}

/** The gateway's own counts of tokens. */
const isEstimated = "u.method IN ('aborted', 'estimated', 'unanswered', 'expired')"

/** What providers billed, beside what was charged; it sees the usage of all tenants. */
export class ReconciliationRepository extends Context.Service<ReconciliationRepository>()(
  "app/insights/ReconciliationRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const claims = readRows(Schema.Struct({ attempt: Schema.BigInt }))
      const encodeLines = Schema.encodeSync(
        Schema.fromJsonString(
          Schema.Array(
            Schema.Struct({
              day: Schema.String,
              project_id: Schema.String,
              key_id: Schema.String,
              model: Schema.String,
              tier: Schema.String,
              meter: BillMeter,
              item: Schema.String,
              cost: Schema.BigIntFromString,
              list_cost: Schema.NullOr(Schema.BigIntFromString),
              quantity: Schema.NullOr(Schema.BigIntFromString)
            })
          )
        )
      )

      return {
        /** Makes the rows of providers that are new. */
        know: Effect.fn("ReconciliationRepository.know")((providers: ReadonlyArray<string>) =>
          Effect.asVoid(
            Effect.orDie(sql`
              INSERT INTO provider_bill_readings (provider) SELECT unnest(${providers}::text[])
              ON CONFLICT (provider) DO NOTHING`)
          )
        ),

        /** Claims a provider for so many seconds, if it is due or that does not matter; undefined while another reader has it. */
        claim: Effect.fn("ReconciliationRepository.claim")((provider: string, seconds: number, always: boolean) =>
          Effect.map(
            claims(sql`
              UPDATE provider_bill_readings SET attempt = attempt + 1,
                claimed_until = clock_timestamp() + make_interval(secs => ${seconds})
              WHERE provider = ${provider} AND claimed_until < clock_timestamp()
                AND (${always} OR due_at <= clock_timestamp())
              RETURNING attempt`),
            ([claimed]) => claimed?.attempt
          )
        ),

        /**
         * Ends a reading that succeeded, unless another one has begun since; whether it did. Locks the provider's row until the
         * transaction ends.
         */
        succeed: Effect.fn("ReconciliationRepository.succeed")(
          (provider: string, attempt: bigint, pauseSeconds: number) =>
            Effect.map(
              claims(sql`
                UPDATE provider_bill_readings SET claimed_until = '-infinity', read_at = now(), failed_at = NULL, failure = NULL,
                  failure_detail = NULL, due_at = now() + make_interval(secs => ${pauseSeconds})
                WHERE provider = ${provider} AND attempt = ${attempt} RETURNING attempt`),
              ({ length }) => length > 0
            )
        ),

        /** Gives a claim back whose reading was given up. */
        release: Effect.fn("ReconciliationRepository.release")((provider: string, attempt: bigint) =>
          Effect.asVoid(
            Effect.orDie(sql`
              UPDATE provider_bill_readings SET claimed_until = '-infinity'
              WHERE provider = ${provider} AND attempt = ${attempt}`)
          )
        ),

        /** Ends a reading that failed. */
        fail: Effect.fn("ReconciliationRepository.fail")(
          (
            provider: string,
            attempt: bigint,
            failure: { readonly reason: BillFailureReason; readonly detail: string },
            pauseSeconds: number
          ) =>
            Effect.asVoid(
              Effect.orDie(sql`
                UPDATE provider_bill_readings SET claimed_until = '-infinity', failed_at = now(), failure = ${failure.reason},
                  failure_detail = ${failure.detail}, due_at = now() + make_interval(secs => ${pauseSeconds})
                WHERE provider = ${provider} AND attempt = ${attempt}`)
            )
        ),

        /** Replaces what a provider said of some days, and with it what was charged for its calls. */
        replace: Effect.fn("ReconciliationRepository.replace")(function* (
          provider: string,
          { before, first }: Days,
          lines: ReadonlyArray<BilledLine>
        ) {
          const given = lines.map(({ keyId, listCost, projectId, ...line }) => ({
            ...line,
            key_id: keyId,
            project_id: projectId,
            list_cost: listCost
          }))
          yield* sql`SET LOCAL statement_timeout = '10min'`
          yield* sql`
            DELETE FROM provider_bill_lines
            WHERE provider = ${provider} AND day >= ${first}::date AND day < ${before}::date`
          yield* sql`
            INSERT INTO provider_bill_lines (provider, day, source, project_id, key_id, model, tier, meter, item, cost,
              list_cost, quantity)
            SELECT ${provider}, l.day, 'provider', l.project_id, l.key_id, l.model, l.tier, l.meter, l.item, l.cost,
              l.list_cost, l.quantity
            FROM json_to_recordset(${encodeLines(given)}::text::json) AS l(day date, project_id text, key_id text, model text,
              tier text, meter text, item text, cost bigint, list_cost bigint, quantity bigint)`
          // A batch has one row for all of its requests. Requests have no cost of their own; fees are what the classes of tokens of a call do not explain.
          yield* sql`
            INSERT INTO provider_bill_lines (provider, day, source, project_id, key_id, model, tier, meter, item, cost, quantity)
            SELECT ${provider}, c.day, 'gateway', '', '', c.model, c.tier, c.meter, c.item, sum(c.cost)::bigint,
              nullif(sum(c.quantity), 0)::bigint
            FROM (
              SELECT (u.occurred_at AT TIME ZONE 'UTC')::date AS day, coalesce(u.model_served, u.model, '') AS model,
                coalesce(u.price_terms->>'speed', u.price_terms->>'tier', '') AS tier,
                CASE WHEN ${sql.literal(isEstimated)} OR m.meter = 'spend' THEN 'other'
                  WHEN m.meter = 'reasoning' THEN 'output'
                  WHEN m.meter = ANY(${BillMeter.literals}::text[]) THEN m.meter ELSE 'other' END AS meter,
                CASE WHEN ${sql.literal(isEstimated)} THEN ${estimatedItem}
                  WHEN m.meter = 'spend' THEN ${feesItem} ELSE '' END AS item,
                m.billed AS cost,
                CASE WHEN ${sql.literal(isEstimated)} OR m.meter = 'spend' THEN 0 ELSE m.quantity END AS quantity
              FROM usage_rows u CROSS JOIN LATERAL ${sql.literal(chargeMeters)} m
              WHERE u.provider = ${provider} AND u.operation IS NOT NULL
                AND u.method IN ('provider_usage', 'aborted', 'estimated', 'unanswered', 'expired')
                AND u.occurred_at >= ${first}::timestamp AT TIME ZONE 'UTC'
                AND u.occurred_at < ${before}::timestamp AT TIME ZONE 'UTC'
              UNION ALL
              SELECT (u.occurred_at AT TIME ZONE 'UTC')::date, coalesce(u.model_served, u.model, ''),
                coalesce(u.price_terms->>'speed', u.price_terms->>'tier', ''), 'requests', '', 0,
                CASE WHEN u.operation = 'batch' AND u.metadata->>'completed' ~ '^[0-9]{1,9}$'
                  THEN (u.metadata->>'completed')::bigint ELSE 1 END
              FROM usage_rows u
              WHERE u.provider = ${provider} AND u.operation IS NOT NULL
                AND u.method IN ('provider_usage', 'aborted', 'estimated', 'unanswered', 'expired')
                AND u.occurred_at >= ${first}::timestamp AT TIME ZONE 'UTC'
                AND u.occurred_at < ${before}::timestamp AT TIME ZONE 'UTC'
            ) c GROUP BY c.day, c.model, c.tier, c.meter, c.item`
          yield* sql`
            INSERT INTO provider_bill_days (provider, day, read_at)
            SELECT ${provider}, d::date, now()
            FROM generate_series(${first}::timestamp, ${before}::timestamp - interval '1 day', interval '1 day') d
            ON CONFLICT (provider, day) DO UPDATE SET read_at = excluded.read_at`
        }, Effect.orDie),

        /** The last day of a row of days from the first on that are final; undefined if the first is not. */
        settledUntil: Effect.fn("ReconciliationRepository.settledUntil")(
          (provider: string, first: string, settleSeconds: number) =>
            Effect.map(
              readRows(Schema.Struct({ day: Schema.String }))(sql`
                SELECT to_char(d.day, 'YYYY-MM-DD') AS day FROM provider_bill_days d
                WHERE d.provider = ${provider} AND d.day >= ${first}::date
                  AND d.read_at >= ((d.day + 1)::timestamp AT TIME ZONE 'UTC') + make_interval(secs => ${settleSeconds})
                ORDER BY d.day`),
              (days) => days.map(({ day }) => day)
            )
        ),

        lines: Effect.fn("ReconciliationRepository.lines")(({ before, first }: Days, provider: string | undefined) =>
          readRows(Line)(sql`
            SELECT provider, to_char(day, 'YYYY-MM-DD') AS day, source, project_id, key_id, model, tier, meter, item, cost,
              list_cost, quantity
            FROM provider_bill_lines
            WHERE day >= ${first}::date AND day < ${before}::date
              AND ${provider === undefined ? sql`true` : sql`provider = ${provider}`}
            ORDER BY day DESC, provider`)
        ),

        days: Effect.fn("ReconciliationRepository.days")(({ before, first }: Days, provider: string | undefined) =>
          readRows(ReadDay)(sql`
            SELECT provider, to_char(day, 'YYYY-MM-DD') AS day, read_at FROM provider_bill_days
            WHERE day >= ${first}::date AND day < ${before}::date
              AND ${provider === undefined ? sql`true` : sql`provider = ${provider}`}
            ORDER BY day DESC, provider`)
        ),

        readings: readRows(Reading)(
          sql`SELECT provider, read_at, failed_at, failure, failure_detail FROM provider_bill_readings ORDER BY provider`
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
