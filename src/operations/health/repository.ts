import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

const FoundSchema = Schema.Struct({
  migration: Schema.Int,
  revision: Schema.NullOr(Schema.Int),
  oldestMigration: Schema.NullOr(Schema.Int),
  oldestRevision: Schema.NullOr(Schema.Int),
  checksum: Schema.NullOr(Schema.String),
  nowMillis: Schema.Finite
})

export class HealthRepository extends Context.Service<HealthRepository>()("app/operations/HealthRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const select = SqlSchema.findOne({
      Request: Schema.Void,
      Result: FoundSchema,
      execute: () => sql`
          SELECT m.migration, f.revision, f.oldest_migration, f.oldest_revision, f.checksum,
            floor(extract(epoch FROM clock_timestamp()) * 1000)::double precision AS now_millis
          FROM (SELECT coalesce(max(id), 0) AS migration FROM applied_migrations WHERE applied_at IS NOT NULL) m
          LEFT JOIN applied_functions f ON true`
    })
    return {
      /** What was applied to the database, and its time; fails without a cause when the database does not answer. */
      appliedSchema: select(undefined).pipe(
        Effect.map(({ checksum, migration, nowMillis, oldestMigration, oldestRevision, revision }) => {
          const functions =
            revision === null || oldestMigration === null || oldestRevision === null || checksum === null
              ? undefined
              : { revision, oldestMigration, oldestRevision, checksum }
          return { applied: { migration, functions }, nowMillis }
        }),
        Effect.mapError(() => undefined)
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
