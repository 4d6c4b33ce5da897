import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../audit/log/domain.ts"

const name = "service-account-key"

/** What the installation keeps of a service-account key that it made itself: the SHA-256, in hex. */
export class InstallationRepository extends Context.Service<InstallationRepository>()(
  "app/access/InstallationRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const select = SqlSchema.findOneOption({
        Request: Schema.String,
        Result: Schema.Struct({ value: Schema.String }),
        execute: (key) => sql`SELECT value #>> '{}' AS value FROM installation WHERE name = ${key}`
      })
      return {
        keyDigest: select(name).pipe(Effect.map(Option.map((row) => row.value)), Effect.orDie),
        /** Stores the digest unless another replica was first; false then. */
        storeKeyDigest: (digestHex: string, at: DateTime.Utc) =>
          Change.use(() =>
            sql`
              INSERT INTO installation (name, value, created_at)
              VALUES (${name}, to_jsonb(${digestHex}::text), ${DateTime.toDateUtc(at)})
              ON CONFLICT DO NOTHING RETURNING name`.values.pipe(
              Effect.map((rows) => rows.length > 0),
              Effect.orDie
            )
          )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
