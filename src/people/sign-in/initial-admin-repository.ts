import { Context, DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"

/** The claim links that create the first account; stored as the SHA-256 of the token. */
export class InitialAdminRepository extends Context.Service<InitialAdminRepository>()(
  "app/people/InitialAdminRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const live = (sha256: Uint8Array, at: DateTime.Utc) =>
        Effect.map(
          sql`
            SELECT 1 FROM operator_claims
            WHERE token_sha256 = ${sha256} AND expires_at > ${DateTime.toDateUtc(at)}`.values,
          (rows) => rows.length > 0
        )
      return {
        insert: Effect.fn("InitialAdminRepository.insert")((sha256: Uint8Array, expiresAt: DateTime.Utc) =>
          Change.use(() =>
            sql`
              INSERT INTO operator_claims (token_sha256, expires_at)
              VALUES (${sha256}, ${DateTime.toDateUtc(expiresAt)})`.pipe(Effect.asVoid, Effect.orDie)
          )
        ),
        isLive: Effect.fn("InitialAdminRepository.isLive")((sha256: Uint8Array, at: DateTime.Utc) =>
          Effect.orDie(live(sha256, at))
        ),
        /** Consumes every link, one transaction at a time; false when this one was no longer live. */
        use: Effect.fn("InitialAdminRepository.use")(function* (sha256: Uint8Array, at: DateTime.Utc) {
          yield* Change
          yield* sql`SELECT pg_advisory_xact_lock(hashtextextended('operator-claim', 7))`
          const isLive = yield* live(sha256, at)
          if (isLive) yield* sql`DELETE FROM operator_claims`
          return isLive
        }, Effect.orDie)
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
