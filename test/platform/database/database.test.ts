import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { poolLayer } from "../../../src/platform/database/database.ts"
import { makeDatabase } from "../../support/database.ts"

/** As the replicas' own role, on a pool of its own. */
const pool = Layer.unwrap(
  Effect.map(makeDatabase, (connection) => poolLayer({ connection, maxConnections: 4, statementTimeoutSeconds: 30 }))
)

describe("the pool", () => {
  it.live("a slow statement does not delay others", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql.reserve.pipe(
        Effect.flatMap((own) => own.executeRaw("SELECT pg_advisory_lock(1)", [])),
        Effect.andThen(
          Effect.gen(function* () {
            const long = yield* Effect.forkChild(sql`SELECT pg_advisory_xact_lock(1)`, { startImmediately: true })
            assert.lengthOf(yield* sql`SELECT 1`, 1)
            assert.isUndefined(long.pollUnsafe())
            yield* Fiber.interrupt(long)
          })
        ),
        Effect.scoped
      )
    }).pipe(Effect.provide(pool), Effect.scoped)
  )
})
