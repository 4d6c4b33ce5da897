import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { InstantFromDate } from "../../kernel/instant.ts"

/** What is remembered of failed sign-ins under a key. */
export const Failures = Schema.Struct({
  key: Schema.String,
  failures: Schema.Int,
  lastFailedAt: InstantFromDate,
  blockedUntil: InstantFromDate
})
export type Failures = typeof Failures.Type

/** Failed sign-ins, shared by the replicas. They are no audit entries: the refusals themselves are. */
export class LoginThrottleRepository extends Context.Service<LoginThrottleRepository>()(
  "app/people/LoginThrottleRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const lock = SqlSchema.findAll({
        Request: Schema.Struct({ keys: Schema.Array(Schema.String), at: InstantFromDate }),
        Result: Failures,
        // In one order everywhere, so that two sign-ins never wait for each other.
        execute: ({ at, keys }) => sql`
          INSERT INTO sign_in_failures AS f (key, failures, last_failed_at, blocked_until)
          SELECT key, 0, ${at}, ${at} FROM unnest(${keys}::text[]) AS key ORDER BY key
          ON CONFLICT (key) DO UPDATE SET key = f.key RETURNING *`
      })
      const encode = Schema.encodeSync(Schema.fromJsonString(Schema.Array(Failures)))
      return {
        /** The rows of the keys, made where they are missing, and locked until the transaction ends. */
        lock: Effect.fn("LoginThrottleRepository.lock")((keys: ReadonlyArray<string>, at: DateTime.Utc) =>
          Effect.orDie(lock({ keys, at }))
        ),
        store: Effect.fn("LoginThrottleRepository.store")((rows: ReadonlyArray<Failures>) =>
          sql`
            UPDATE sign_in_failures f
            SET failures = r.failures, last_failed_at = r."lastFailedAt", blocked_until = r."blockedUntil"
            FROM json_to_recordset(${encode(rows)}::json)
              AS r(key text, failures integer, "lastFailedAt" timestamptz, "blockedUntil" timestamptz)
            WHERE f.key = r.key`.pipe(Effect.asVoid, Effect.orDie)
        ),
        /** Forgets keys for good. */
        forget: Effect.fn("LoginThrottleRepository.forget")((keys: ReadonlyArray<string>) =>
          Change.use(() =>
            sql`DELETE FROM sign_in_failures WHERE key = ANY(${keys}::text[])`.pipe(Effect.asVoid, Effect.orDie)
          )
        ),
        /** Takes one failure back. */
        forgive: Effect.fn("LoginThrottleRepository.forgive")((key: string, at: DateTime.Utc) =>
          Change.use(() =>
            sql`
              UPDATE sign_in_failures SET failures = greatest(failures - 1, 0), blocked_until = ${DateTime.toDateUtc(at)}
              WHERE key = ${key}`.pipe(Effect.asVoid, Effect.orDie)
          )
        ),
        purge: Effect.fn("LoginThrottleRepository.purge")((before: DateTime.Utc) =>
          sql`DELETE FROM sign_in_failures WHERE last_failed_at < ${DateTime.toDateUtc(before)}`.pipe(
            Effect.asVoid,
            Effect.orDie
          )
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
