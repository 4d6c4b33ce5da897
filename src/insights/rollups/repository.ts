import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

/** A sum that two of the ledger, the usage rows and their roll-ups give differently. */
export const Difference = Schema.Struct({
  what: Schema.String,
  tenantId: Schema.String,
  day: Schema.String,
  expected: Schema.String,
  found: Schema.String
})
export type Difference = typeof Difference.Type

/** How long rows wait under load: with the second between folds and the fold itself, reports are as of at most five seconds ago. */
const maxRest = "2.5 seconds"

export class RollupsRepository extends Context.Service<RollupsRepository>()("app/insights/RollupsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const fold = SqlSchema.findOne({
      Request: Schema.Int,
      Result: Schema.Struct({ folded: Schema.Int }),
      execute: (most) => sql`SELECT usage_fold(${most}, ${maxRest}::interval) AS folded`
    })
    const rebuild = SqlSchema.findOne({
      Request: Schema.String,
      Result: Schema.Struct({ written: Schema.Int }),
      execute: (day) => sql`SELECT usage_rebuild(${day}::date) AS written`
    })
    const claim = SqlSchema.findOne({
      Request: Schema.Void,
      Result: Schema.Struct({ isClaimed: Schema.Boolean }),
      execute: () => sql`SELECT usage_claim_verification() AS is_claimed`
    })
    const differences = SqlSchema.findAll({
      Request: Schema.Void,
      Result: Difference,
      execute: () => sql`SELECT * FROM usage_differences()`
    })
    const waiting = SqlSchema.findOne({
      Request: Schema.Void,
      Result: Schema.Struct({ seconds: Schema.Finite }),
      execute: () => sql`
        SELECT coalesce(extract(epoch FROM clock_timestamp() - (
          SELECT o.written_at FROM usage_outbox o ORDER BY o.batch, o.tenant_id LIMIT 1)), 0)::double precision AS seconds`
    })
    return {
      /** For how long the oldest batch has waited. */
      waitingSeconds: Effect.map(Effect.orDie(waiting(undefined)), ({ seconds }) => Math.max(0, seconds)),
      /** Adds at most `most` batches to the roll-ups; -1 while another replica does. */
      fold: Effect.fn("RollupsRepository.fold")((most: number) =>
        fold(most).pipe(
          Effect.map(({ folded }) => folded),
          Effect.orDie
        )
      ),
      /** Recomputes the roll-ups of a day (`2026-01-31`, UTC). */
      rebuild: Effect.fn("RollupsRepository.rebuild")((day: string) =>
        sql`SET LOCAL statement_timeout = '10min'`.pipe(
          Effect.andThen(rebuild(day)),
          sql.withTransaction,
          Effect.map(({ written }) => written),
          Effect.orDie
        )
      ),
      /** Whether the roll-ups are to be verified by this replica: none did within a day, and no other does. */
      claimVerification: Effect.map(Effect.orDie(claim(undefined)), ({ isClaimed }) => isClaimed),
      /** Where the ledger, the usage rows and the roll-ups differ. */
      differences: Effect.orDie(
        sql.withTransaction(Effect.andThen(sql`SET LOCAL statement_timeout = '30min'`, differences(undefined)))
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
