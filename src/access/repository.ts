import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../audit/log/domain.ts"

const name = "service-account-key"

/** What the installation keeps of a service-account key that it made itself: the SHA-256, in hex. */
export class InstallationRepository extends Context.Service<
  InstallationRepository,
  {
    readonly keyDigest: Effect.Effect<Option.Option<string>>
    /** Stores the digest unless another replica was first; false then. */
    storeKeyDigest(digestHex: string, at: DateTime.Utc): Effect.Effect<boolean, never, Change>
  }
>()("app/auth/InstallationRepository") {
  static readonly layer = Layer.effect(
    InstallationRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const select = SqlSchema.findOneOption({
        Request: Schema.String,
        Result: Schema.Struct({ value: Schema.String }),
        execute: (key) => sql`SELECT value #>> '{}' AS value FROM installation WHERE name = ${key}`
      })
      return InstallationRepository.of({
        keyDigest: select(name).pipe(Effect.map(Option.map((row) => row.value)), Effect.orDie),
        storeKeyDigest: (digestHex, at) =>
          Change.use(() =>
            sql`
              INSERT INTO installation (name, value, created_at)
              VALUES (${name}, to_jsonb(${digestHex}::text), ${DateTime.toDateUtc(at)})
              ON CONFLICT DO NOTHING RETURNING name`.values.pipe(
              Effect.map((rows) => rows.length > 0),
              Effect.orDie
            )
          )
      })
    })
  )
}
