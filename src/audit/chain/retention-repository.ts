import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change, RetiredRun } from "../log/domain.ts"

/** A month's retirement as it is stored. */
export interface StoredRetirement {
  readonly month: string
  readonly lastSequence: number
  readonly retiredAt: DateTime.Utc
  readonly keyId: string
  readonly jws: string
}

/** Months of the log, as partitions. */
export class RetentionRepository extends Context.Service<RetentionRepository>()("app/audit/RetentionRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const monthsOver = SqlSchema.findAll({
      Request: Schema.Struct({ days: Schema.Int, moment: Schema.Date }),
      Result: Schema.Struct({ month: Schema.String }),
      execute: ({ days, moment }) => sql`
          SELECT month FROM (
            SELECT replace(right(inhrelid::regclass::text, 7), '_', '-') AS month FROM pg_inherits
            WHERE inhparent = 'audit_entries'::regclass
          ) m WHERE CASE WHEN month ~ '^[0-9]{4}-[0-9]{2}$'
            THEN (to_date(month, 'YYYY-MM') + interval '1 month') AT TIME ZONE 'UTC'
              <= least(${moment}::timestamptz, now()) - ${days}::integer * interval '24 hours' END
          ORDER BY month`
    })
    const runsOf = SqlSchema.findAll({
      Request: Schema.String,
      Result: RetiredRun,
      execute: (month) => sql`
          WITH bounds AS (
            SELECT to_date(${month}, 'YYYY-MM')::timestamp AT TIME ZONE 'UTC' AS opens,
              (to_date(${month}, 'YYYY-MM') + interval '1 month') AT TIME ZONE 'UTC' AS closes
          ), islands AS (
            SELECT min(sequence) AS first, max(sequence) AS last FROM (
              SELECT l.sequence, l.sequence - row_number() OVER (ORDER BY l.sequence) AS island
              FROM audit_links l, bounds WHERE l.occurred_at >= bounds.opens AND l.occurred_at < bounds.closes
            ) l GROUP BY island
          )
          SELECT first::double precision AS first, last::double precision AS last,
            (SELECT encode(l.previous_hash, 'hex') FROM audit_links l WHERE l.sequence = first LIMIT 1) AS previous_hash,
            (SELECT encode(l.hash, 'hex') FROM audit_links l WHERE l.sequence = last LIMIT 1) AS hash
          FROM islands ORDER BY islands.first`
    })

    const present = SqlSchema.findOne({
      Request: Schema.String,
      Result: Schema.Struct({ isThere: Schema.Boolean }),
      execute: (month) => sql`
          SELECT to_regclass('public.audit_entries_' || replace(${month}, '-', '_')) IS NOT NULL AS is_there`
    })

    return {
      /**
       * The months (`2026-01`) that have partitions of their own and ended so many days before a moment, and before now by
       * the clock of the database, the oldest first.
       */
      monthsOver: Effect.fn("RetentionRepository.monthsOver")((days: number, moment: DateTime.Utc) =>
        monthsOver({ days, moment: DateTime.toDateUtc(moment) }).pipe(
          Effect.map((rows) => rows.map(({ month }) => month)),
          Effect.orDie
        )
      ),
      /** The runs of sequences that a month's links make, in order, with the hashes around them. */
      runsOf: Effect.fn("RetentionRepository.runsOf")((month: string) =>
        Effect.orDie(Effect.andThen(sql`SET LOCAL statement_timeout = '10min'`, runsOf(month)))
      ),
      /** Keeps every other replica from the same until the transaction ends; false when the month is gone by then. */
      claim: (month: string) =>
        Change.use(() =>
          sql`SET LOCAL statement_timeout = '10min'`.pipe(
            Effect.andThen(sql`SELECT pg_advisory_xact_lock(hashtext('audit-retention'))`),
            Effect.andThen(present(month)),
            Effect.map(({ isThere }) => isThere),
            Effect.orDie
          )
        ),
      insert: ({ jws, keyId, lastSequence, month, retiredAt }: StoredRetirement) =>
        Change.use(() =>
          sql`
              INSERT INTO audit_retirements (month, last_sequence, retired_at, key_id, jws)
              VALUES (${month}, ${lastSequence}::bigint, ${DateTime.toDateUtc(retiredAt)}, ${keyId}, ${jws})`.pipe(
            Effect.asVoid,
            Effect.orDie
          )
        ),
      // Other statements queue for the log's tables behind this one, so it gives up rather than block them; and sooner than
      // PostgreSQL looks for a circle of waits (deadlock_timeout: 1 s), in which it might end the reader.
      drop: (month: string) =>
        Change.use(() =>
          Effect.andThen(sql`SET LOCAL lock_timeout = '500ms'`, sql`SELECT audit_drop_month(${month})`).pipe(
            Effect.asVoid,
            Effect.orDie
          )
        )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
