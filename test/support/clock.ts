import { Clock, Context, DateTime, Effect, Layer } from "effect"
import { poolLayer } from "../../src/platform/database/database.ts"
import { makeDatabase, type TestDatabase } from "./database.ts"

/** The clock of the machine for what is built on it; a pool or a background job under a moving TestClock hangs. */
export const realClock = Layer.succeed(Clock.Clock, Effect.runSync(Clock.Clock))

/**
 * A clock whose time the test sets, for services that keep the clock they were built with: their jobs sleep by the
 * clock of the machine, and so do not run through all the time that a test skips.
 */
export class HandClock extends Context.Service<HandClock, { millis: number }>()("test/HandClock") {
  static readonly layer = Layer.effectContext(
    Effect.map(Clock.Clock, (real) => {
      const hand = { millis: real.currentTimeMillisUnsafe() }
      const nanos = () => BigInt(hand.millis) * 1_000_000n
      const clock: Clock.Clock = {
        currentTimeMillisUnsafe: () => hand.millis,
        currentTimeMillis: Effect.sync(() => hand.millis),
        currentTimeNanosUnsafe: nanos,
        currentTimeNanos: Effect.sync(nanos),
        monotonicTimeNanosUnsafe: nanos,
        monotonicTimeNanos: Effect.sync(nanos),
        sleep: (duration) => real.sleep(duration)
      }
      return Context.make(HandClock, hand).pipe(Context.add(Clock.Clock, clock))
    })
  )

  static readonly setTime = (text: string) =>
    HandClock.useSync((hand) => void (hand.millis = DateTime.makeUnsafe(text).epochMilliseconds))

  static readonly adjust = (millis: number) => HandClock.useSync((hand) => void (hand.millis += millis))
}

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
