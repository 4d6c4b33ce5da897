import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

const mostMakers = 16

/** Who made a principal, and who made that, up to the first. */
export class CreatorChainRepository extends Context.Service<
  CreatorChainRepository,
  { of(principal: string): Effect.Effect<ReadonlyArray<string>> }
>()("app/budgets/CreatorChainRepository") {
  static readonly layer = Layer.effect(
    CreatorChainRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const madeBy = (table: string, kind: string) => sql`
        SELECT created_by FROM ${sql(table)}
        WHERE id = CASE WHEN split_part(m.name, ':', 1) = ${kind} THEN split_part(m.name, ':', 2)::uuid END`
      const select = SqlSchema.findAll({
        Request: Schema.String,
        Result: Schema.Struct({ name: Schema.String }),
        execute: (principal) => sql`
          WITH RECURSIVE makers (name, depth) AS (
            SELECT ${principal}::text, 0
            UNION
            SELECT made.created_by, m.depth + 1 FROM makers m CROSS JOIN LATERAL (
              ${madeBy("api_keys", "api-key")}
              UNION ALL ${madeBy("agents", "agent")}
              UNION ALL ${madeBy("accounts", "account")}
            ) made WHERE m.depth < ${mostMakers}
          )
          SELECT name FROM makers WHERE depth > 0`
      })
      return CreatorChainRepository.of({
        of: Effect.fn("CreatorChainRepository.of")((principal) =>
          Effect.map(Effect.orDie(select(principal)), (makers) => makers.map(({ name }) => name))
        )
      })
    })
  )
}
