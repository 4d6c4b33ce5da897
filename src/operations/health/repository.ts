import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

const AppliedSchema = Schema.Struct({
  migration: Schema.Int,
  checksum: Schema.NullOr(Schema.String),
  version: Schema.NullOr(Schema.String),
  nowMillis: Schema.Finite
})
/** The number of the newest migration, which build's functions the database has, and its time. */
export type AppliedSchema = typeof AppliedSchema.Type

export class HealthRepository extends Context.Service<HealthRepository>()("app/operations/HealthRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const select = SqlSchema.findOne({
      Request: Schema.Void,
      Result: AppliedSchema,
      execute: () => sql`
          SELECT m.migration, f.checksum, f.version,
            floor(extract(epoch FROM clock_timestamp()) * 1000)::double precision AS now_millis
          FROM (SELECT coalesce(max(migration_id), 0) AS migration FROM effect_sql_migrations) m
          LEFT JOIN applied_functions f ON true`
    })
    return {
      /** What was applied to the database; fails without a cause when the database does not answer. */
      appliedSchema: Effect.mapError(select(undefined), () => undefined)
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
