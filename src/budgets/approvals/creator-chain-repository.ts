import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

const maxDepth = 16

/** The creators of a principal: its own, that one's, up to the first. */
export class CreatorChainRepository extends Context.Service<CreatorChainRepository>()(
  "app/budgets/CreatorChainRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const createdBy = (table: string, kind: string) => sql`
        SELECT created_by FROM ${sql(table)}
        WHERE id = CASE WHEN split_part(m.name, ':', 1) = ${kind} THEN split_part(m.name, ':', 2)::uuid END`
      const select = SqlSchema.findAll({
        Request: Schema.String,
        Result: Schema.Struct({ name: Schema.String }),
        execute: (principal) => sql`
          WITH RECURSIVE creators (name, depth) AS (
            SELECT ${principal}::text, 0
            UNION
            SELECT created.created_by, m.depth + 1 FROM creators m CROSS JOIN LATERAL (
              ${createdBy("api_keys", "api-key")}
              UNION ALL ${createdBy("agents", "agent")}
              UNION ALL ${createdBy("accounts", "account")}
            ) created WHERE m.depth < ${maxDepth}
          )
          SELECT name FROM creators WHERE depth > 0`
      })
      return {
        of: Effect.fn("CreatorChainRepository.of")((principal: string) =>
          Effect.map(Effect.orDie(select(principal)), (creators) => creators.map(({ name }) => name))
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
