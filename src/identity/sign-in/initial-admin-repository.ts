import { Context, DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"

/** The links that let somebody make the first account; of each the SHA-256 of its token. */
export class ClaimRepository extends Context.Service<
  ClaimRepository,
  {
    insert(sha256: Uint8Array, expiresAt: DateTime.Utc): Effect.Effect<void, never, Change>
    isLive(sha256: Uint8Array, at: DateTime.Utc): Effect.Effect<boolean>
    /** Waits for whoever else is at it, uses the link up and every other with it; false when it was no longer live. */
    use(sha256: Uint8Array, at: DateTime.Utc): Effect.Effect<boolean, never, Change>
  }
>()("app/sign-in/ClaimRepository") {
  static readonly layer = Layer.effect(
    ClaimRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const live = (sha256: Uint8Array, at: DateTime.Utc) =>
        Effect.map(
          sql`
            SELECT 1 FROM operator_claims
            WHERE token_sha256 = ${sha256} AND expires_at > ${DateTime.toDateUtc(at)}`.values,
          (rows) => rows.length > 0
        )
      return ClaimRepository.of({
        insert: Effect.fn("ClaimRepository.insert")((sha256, expiresAt) =>
          Change.use(() =>
            sql`
              INSERT INTO operator_claims (token_sha256, expires_at)
              VALUES (${sha256}, ${DateTime.toDateUtc(expiresAt)})`.pipe(Effect.asVoid, Effect.orDie)
          )
        ),
        isLive: Effect.fn("ClaimRepository.isLive")((sha256, at) => Effect.orDie(live(sha256, at))),
        use: Effect.fn("ClaimRepository.use")(function* (sha256, at) {
          yield* Change
          yield* sql`SELECT pg_advisory_xact_lock(hashtextextended('operator-claim', 7))`
          const isLive = yield* live(sha256, at)
          if (isLive) yield* sql`DELETE FROM operator_claims`
          return isLive
        }, Effect.orDie)
      })
    })
  )
}
