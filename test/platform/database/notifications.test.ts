import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Notifications } from "../../../src/platform/database/notifications.ts"
import { OwnDatabase, poolOnOwnDatabase, realClock } from "../../support/clock.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const ServicesLayer = Notifications.layer.pipe(Layer.provideMerge(poolOnOwnDatabase), Layer.provide(realClock))

/** What a subscriber of a topic hears. */
const listenTo = Effect.fnUntraced(function* (topic: string) {
  const heard: Array<string> = []
  let gaps = 0
  yield* (yield* Notifications).subscribe(topic, {
    onMessage: (payload) => Effect.sync(() => void heard.push(payload)),
    onGap: Effect.sync(() => void gaps++)
  })
  return {
    heard,
    until: (count: number) =>
      eventually(
        Effect.sync(() => heard.length),
        (length) => length >= count
      ),
    untilGap: eventually(
      Effect.sync(() => gaps),
      (count) => count > 0
    )
  }
})

/** Waits until the service listens: what was sent before reached nobody. */
const untilListening = Effect.gen(function* () {
  const notifications = yield* Notifications
  const { heard } = yield* listenTo("start")
  yield* eventually(
    Effect.map(notifications.send("start", ""), () => heard.length),
    (count) => count > 0
  )
}).pipe(Effect.scoped)

layer(ServicesLayer, { excludeTestServices: true, timeout: "60 seconds" })("notifications", (it) => {
  it.effect("reach the subscribers of their topic only, in order", () =>
    Effect.gen(function* () {
      const notifications = yield* Notifications
      yield* untilListening
      const [one, other] = [yield* listenTo("one"), yield* listenTo("other")]
      for (let index = 0; index < 300; index++) yield* notifications.send("one", `message ${index}`)
      yield* one.until(300)
      assert.deepStrictEqual(
        one.heard,
        Array.from({ length: 300 }, (_, index) => `message ${index}`)
      )
      assert.deepStrictEqual(other.heard, [])
    }).pipe(Effect.scoped)
  )

  it.effect("of a transaction are delivered when it commits, and not when it rolls back", () =>
    Effect.gen(function* () {
      const notifications = yield* Notifications
      const sql = yield* SqlClient.SqlClient
      yield* untilListening
      const { heard, until } = yield* listenTo("one")
      yield* Effect.exit(sql.withTransaction(Effect.andThen(notifications.notify("one", "never"), Effect.fail("no"))))
      yield* sql.withTransaction(notifications.notify("one", "committed"))
      yield* until(1)
      assert.deepStrictEqual(heard, ["committed"])
    }).pipe(Effect.scoped)
  )

  it.effect("continue after a subscriber fails, and stop with the scope", () =>
    Effect.gen(function* () {
      const notifications = yield* Notifications
      yield* untilListening
      const failing = { onMessage: () => Effect.die("broken"), onGap: Effect.die("broken") }
      yield* notifications.subscribe("one", failing)
      const ended: Array<string> = []
      const early = { onMessage: (text: string) => Effect.sync(() => void ended.push(text)), onGap: Effect.void }
      yield* Effect.scoped(notifications.subscribe("one", early))
      const { heard, until } = yield* listenTo("one")
      yield* notifications.send("one", "first")
      yield* until(1)
      yield* notifications.send("one", "second")
      yield* until(2)
      assert.deepStrictEqual(heard, ["first", "second"])
      assert.deepStrictEqual(ended, [])
    }).pipe(Effect.scoped)
  )

  it.effect("that may have been lost with a connection are reported as a gap", () =>
    Effect.gen(function* () {
      const notifications = yield* Notifications
      yield* untilListening
      const listener = yield* listenTo("one")
      yield* notifications.send("one", "before")
      yield* listener.until(1)
      yield* asSuperuser(
        yield* OwnDatabase,
        (sql) => sql`
          SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND query LIKE 'LISTEN%'`
      )
      yield* listener.untilGap
      yield* notifications.send("one", "after")
      yield* listener.until(2)
      assert.deepStrictEqual(listener.heard, ["before", "after"])
    }).pipe(Effect.scoped)
  )
})
