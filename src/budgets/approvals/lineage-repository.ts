import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

/** Whether the same party may be behind two principals. */
export class LineageRepository extends Context.Service<LineageRepository>()("app/budgets/LineageRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const select = SqlSchema.findOne({
      Request: Schema.Struct({ one: Schema.String, other: Schema.String }),
      Result: Schema.Struct({ haveOneHolder: Schema.Boolean }),
      execute: ({ one, other }) => sql`SELECT have_one_holder(${one}, ${other}) AS have_one_holder`
    })
    return {
      haveOneHolder: Effect.fn("LineageRepository.haveOneHolder")((one: string, other: string) =>
        Effect.map(Effect.orDie(select({ one, other })), ({ haveOneHolder }) => haveOneHolder)
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
