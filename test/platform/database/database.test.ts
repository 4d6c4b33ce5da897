import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TenantId } from "../../../src/kernel/identifier.ts"
import { Database, poolLayer } from "../../../src/platform/database/database.ts"
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

  it.live("a tenant that asks much delays itself, and no other one", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const sql = yield* SqlClient.SqlClient
      const [busy, other] = [1, 2].map((n) => TenantId.make(`00000000-0000-7000-8000-00000000000${n}`))
      const done: Array<string> = []
      const read = (tenant: TenantId, name: string) =>
        Effect.tap(database.transaction(tenant, sql`SELECT pg_sleep(0.02)`), () => Effect.sync(() => done.push(name)))
      const many = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: 60 }), () => read(busy!, "busy"), { concurrency: "unbounded" }),
        { startImmediately: true }
      )
      yield* read(other!, "other")
      yield* Fiber.join(many)
      assert.isBelow(done.indexOf("other"), 20)
    }).pipe(Effect.provide(pool), Effect.scoped)
  )

  it.live("a tenant whose reads wait leaves connections to others, and interrupted ones end", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const sql = yield* SqlClient.SqlClient
      const [busy, other] = [1, 2].map((n) => TenantId.make(`00000000-0000-7000-8000-00000000000${n}`))
      // A statement that needs a transaction, of the same tenant, in a read: neither waits for the other's connection.
      const nested = database.read(busy!, database.transaction(busy!, sql`SELECT pg_sleep(0.01)`))
      yield* Effect.forEach(Array.from({ length: 20 }), () => nested, { concurrency: "unbounded" })
      const waiting = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: 60 }), () => database.read(busy!, sql`SELECT pg_sleep(60)`), {
          concurrency: "unbounded"
        }),
        { startImmediately: true }
      )
      assert.lengthOf(yield* database.read(other!, sql`SELECT 1`), 1)
      yield* Fiber.interrupt(waiting)
      assert.lengthOf(yield* database.read(busy!, sql`SELECT 1`), 1)
    }).pipe(Effect.provide(pool), Effect.scoped)
  )

  it.live("a tenant that waits leaves connections to others", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const sql = yield* SqlClient.SqlClient
      const [busy, other] = [1, 2].map((n) => TenantId.make(`00000000-0000-7000-8000-00000000000${n}`))
      const wait = database.transaction(busy!, sql`SELECT pg_sleep(60)`)
      const waiting = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: 60 }), () => wait, { concurrency: "unbounded" }),
        { startImmediately: true }
      )
      assert.lengthOf(yield* database.transaction(other!, sql`SELECT 1`), 1)
      yield* Fiber.interrupt(waiting)
    }).pipe(Effect.provide(pool), Effect.scoped)
  )

  it.live("a snapshot reads what was there when it began, and writes nothing", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const sql = yield* SqlClient.SqlClient
      const name = (text: string) => database.transaction("all", sql`UPDATE tenants SET name = ${text}`)
      const names = Effect.map(sql`SELECT name FROM tenants`, (rows) => rows.map((row) => row.name))
      yield* name("before")
      const hasBegun = yield* Deferred.make<void>()
      // Forked outside of the snapshot, in which it would be a part of it.
      const later = yield* Effect.forkChild(Effect.andThen(Deferred.await(hasBegun), name("after")))
      const read = yield* database.snapshot(
        "all",
        Effect.gen(function* () {
          const first = yield* names
          yield* Deferred.succeed(hasBegun, undefined)
          yield* Fiber.join(later)
          return [first, yield* database.transaction("all", names)]
        })
      )
      assert.deepStrictEqual(read, [["before"], ["before"]])
      assert.deepStrictEqual(yield* database.transaction("all", names), ["after"])
      const written = yield* Effect.exit(database.snapshot("all", sql`UPDATE tenants SET name = 'never'`))
      assert.include(String(written), "read-only transaction")
    }).pipe(Effect.provide(pool), Effect.scoped)
  )
})
