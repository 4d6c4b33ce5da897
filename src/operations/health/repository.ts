import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

export class HealthRepository extends Context.Service<
  HealthRepository,
  {
    /** The newest migration that the database has; fails with nothing said when the database cannot be asked. */
    readonly latestMigration: Effect.Effect<number, void>
  }
>()("app/health/HealthRepository") {
  static readonly layer = Layer.effect(
    HealthRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const select = SqlSchema.findOne({
        Request: Schema.Void,
        Result: Schema.Struct({ latest: Schema.Int }),
        execute: () => sql`SELECT coalesce(max(migration_id), 0) AS latest FROM effect_sql_migrations`
      })
      return HealthRepository.of({
        latestMigration: select(undefined).pipe(
          Effect.map(({ latest }) => latest),
          Effect.mapError(() => undefined)
        )
      })
    })
  )
}
