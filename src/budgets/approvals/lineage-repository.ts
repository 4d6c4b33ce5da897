import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

/** Whether the same party may be behind two principals. */
export class LineageRepository extends Context.Service<LineageRepository>()("app/budgets/LineageRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const select = SqlSchema.findAll({
      Request: Schema.Struct({ one: Schema.String, others: Schema.Array(Schema.String) }),
      Result: Schema.Struct({ other: Schema.String }),
      execute: ({ one, others }) => sql`
        SELECT other FROM unnest(${others}::text[]) AS other WHERE have_one_holder(${one}, other)`
    })
    return {
      /** Those of the others behind whom may be the same party as behind one. */
      ofOneHolder: Effect.fn("LineageRepository.ofOneHolder")((one: string, others: ReadonlySet<string>) =>
        others.size === 0
          ? Effect.succeed(new Set<string>())
          : Effect.map(
              Effect.orDie(select({ one, others: [...others] })),
              (found) => new Set(found.map(({ other }) => other))
            )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
