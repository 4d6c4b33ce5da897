import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"

export class PreconditionsRepository extends Context.Service<PreconditionsRepository>()(
  "app/preconditions/PreconditionsRepository",
  {
    make: Effect.map(SqlClient.SqlClient, (sql) => ({
      /** Waits for the turn of a resource, which lasts until the transaction ends. */
      lock: Effect.fn("PreconditionsRepository.lock")((resource: string) =>
        Effect.orDie(Effect.asVoid(sql`SELECT pg_advisory_xact_lock(hashtextextended(${resource}, 8))`))
      )
    }))
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
