import { Effect, Fiber } from "effect"
import { type TestDatabase } from "./database.ts"
import { type Answer } from "./service.ts"
import { asSuperuser } from "./statements.ts"
import { untilBlocked } from "./waiting.ts"

export type Sql = Parameters<Parameters<typeof asSuperuser>[1]>[0]

/** What the service answers to a request that came while a change was under way, which then holds. */
export const during = Effect.fnUntraced(function* (
  database: TestDatabase,
  change: (sql: Sql) => Effect.Effect<unknown, unknown>,
  request: Effect.Effect<Answer>
) {
  const asked = yield* asSuperuser(database, (sql) =>
    sql.withTransaction(
      Effect.gen(function* () {
        yield* change(sql)
        const fiber = yield* Effect.forkDetach(request)
        yield* untilBlocked(sql)
        return fiber
      })
    )
  )
  return yield* Fiber.join(asked)
})
