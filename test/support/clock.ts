import { Clock, Context, Effect, Layer } from "effect"
import { poolLayer } from "../../src/platform/database.ts"
import { makeDatabase, type TestDatabase } from "./database.ts"

/** The clock of the machine for what is built on it; a pool or a background job under a moving TestClock hangs. */
export const realClock = Layer.succeed(Clock.Clock, Effect.runSync(Clock.Clock))

/** The database that the services under test run on. */
export class OwnDatabase extends Context.Service<OwnDatabase, TestDatabase>()("test/OwnDatabase") {}

/** The pool of the service on a database of its own, on the real clock. */
export const poolOnOwnDatabase = Layer.unwrap(
  Effect.map(makeDatabase, (database) =>
    Layer.merge(
      poolLayer({ connection: database, maxConnections: 8, statementTimeoutSeconds: 30 }),
      Layer.succeed(OwnDatabase, database)
    )
  )
).pipe(Layer.provide(realClock))
