import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { LedgerStore } from "../../../src/budgets/ledger/repository.ts"
import { verifyCounters } from "../../../src/budgets/ledger/verification.ts"
import { poolLayer } from "../../../src/platform/database/database.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"
import { runCommand, urlOf } from "../../support/command.ts"
import { type TestDatabase } from "../../support/database.ts"
import { makeSetting } from "../../support/plans.ts"
import { make } from "../../support/scenarios.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

const verify = (url: string, words: ReadonlyArray<string> = []) =>
  runCommand("src/cli/ledger-verify.ts", { Database__Url: url }, words)

const byCommand = (database: TestDatabase) => verify(urlOf(database))

/** The same without the command around it, which takes a process of its own to start. */
const at = (database: TestDatabase) =>
  verifyCounters.pipe(
    Effect.map(({ code, text }) => ({ code, output: `${text}\n` })),
    Effect.provide(
      LedgerStore.layer.pipe(
        Layer.provide(poolLayer({ connection: database, maxConnections: 1, statementTimeoutSeconds: 0 })),
        Layer.provide(Settings.layerMemory({ environment: {} }))
      )
    ),
    Effect.orDie
  )

const drifts = [
  ["a counter that says more is spent", "UPDATE budget_counters SET spent = spent + 1"],
  ["a counter that says less is reserved", "UPDATE budget_counters SET reserved = reserved - 1"],
  ["an entry that is gone", "DELETE FROM budget_entries"],
  ["an entry of another amount", "UPDATE budget_entries SET amount = amount + 1"],
  ["an open reservation that is gone", "DELETE FROM budget_reservations WHERE state = 'open'"]
] as const

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("the command ledger:verify", (it) => {
  // Invariant L3
  it.effect("ends with 0 where every counter is what was written, of caps, rolling windows and plans", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, draw, settle, start } = yield* makeSetting(service, [
        {},
        { unit: "requests", limit: 100, period: "rolling", windowSeconds: 600 },
        { unit: "tokens", limit: 1000, scope: { model: "m" } }
      ])
      const { body } = yield* call("POST", "/api/spend/reserve", { amountUsd: 1, model: "m", tokens: 5 })
      yield* settle(body.id, 0.5)
      yield* call("POST", "/api/spend/reserve", { amountUsd: 1 })
      const plan = yield* start()
      yield* settle((yield* draw(plan.id, 1)).body.id, 2)
      yield* draw(plan.id, 1)
      const { code, output } = yield* byCommand(service.database)
      assert.deepStrictEqual(
        [code, output],
        [0, "Every counter is the sum of its entries and of its open reservations.\n"]
      )
    })
  )

  for (const [what, change] of drifts) {
    it.effect(`ends with 1 and names the cap: ${what}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { call, capIds, settle, tenantId } = yield* makeSetting(service)
        const { body } = yield* call("POST", "/api/spend/reserve", { amountUsd: 1 })
        yield* settle(body.id, 0.5)
        yield* call("POST", "/api/spend/reserve", { amountUsd: 1 })
        const restore = yield* asSuperuser(service.database, (sql) =>
          Effect.gen(function* () {
            const tables = ["budget_counters", "budget_entries", "budget_reservations"]
            const kept = yield* Effect.forEach(tables, (table) =>
              sql.unsafe<{ readonly row: string }>(
                `SELECT row_to_json(t)::text AS row FROM ${table} t WHERE tenant_id = '${tenantId}'`
              )
            )
            yield* sql.unsafe(`${change}${change.includes("WHERE") ? " AND" : " WHERE"} tenant_id = '${tenantId}'`)
            return Effect.forEach(tables, (table, index) =>
              asSuperuser(service.database, (again) =>
                Effect.andThen(
                  again.unsafe(`DELETE FROM ${table} WHERE tenant_id = '${tenantId}'`),
                  Effect.forEach(kept[index] ?? [], ({ row }) =>
                    again.unsafe(`INSERT INTO ${table} SELECT * FROM json_populate_record(NULL::${table}, $1::json)`, [
                      row
                    ])
                  )
                )
              )
            )
          })
        )
        const isFirst = what === drifts[0][0]
        const { code, output } = yield* (isFirst ? byCommand : at)(service.database)
        assert.strictEqual(code, 1, output)
        assert.match(output, /^1 counter is NOT what was written:/)
        assert.include(output, `cap ${capIds[0]}: spent `)
        yield* restore
        assert.strictEqual((yield* at(service.database)).code, 0)
      })
    )
  }

  it.effect("ends with 1 where a bucket of a rolling window is another's, though their sum is right", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const cap = { unit: "requests", limit: 100, period: "rolling", windowSeconds: 600 }
      const { call, capIds, settle } = yield* makeSetting(service, [cap])
      yield* settle((yield* call("POST", "/api/spend/reserve", { amountUsd: 1 })).body.id, 1)
      const turn = (by: string) =>
        asSuperuser(service.database, (sql) =>
          sql.unsafe(`UPDATE budget_counters SET ring = ${by} WHERE cap_id = '${capIds[0]}'`)
        )
      yield* turn("ring[cardinality(ring):] || ring[:cardinality(ring) - 1]")
      const { code, output } = yield* at(service.database)
      assert.deepStrictEqual([code, output.includes(capIds[0] ?? "")], [1, true], output)
      yield* turn("ring[2:] || ring[1]")
      assert.strictEqual((yield* at(service.database)).code, 0)
    })
  )

  it.effect("ends with 2 where it cannot tell: no database, none of the service's, or a setting that is none", () =>
    Effect.gen(function* () {
      const { database } = yield* TestService
      const unreachable = yield* verify("postgres://nobody:secret@127.0.0.1:1/nowhere")
      assert.strictEqual(unreachable.code, 2, unreachable.output)
      assert.include(unreachable.output, "The database cannot be reached (Database:Url)")
      assert.notInclude(unreachable.output, "secret")

      const name = `${database.database}_empty`
      yield* Effect.acquireUseRelease(
        asSuperuser(database, (sql) => sql`CREATE DATABASE ${sql(name)} TEMPLATE template0`),
        () =>
          Effect.gen(function* () {
            const empty = yield* byCommand({ ...database, database: name })
            assert.strictEqual(empty.code, 2, empty.output)
            const tables = yield* asSuperuser(
              { ...database, database: name },
              (sql) => sql`SELECT FROM pg_tables WHERE schemaname = 'public'`
            )
            assert.isEmpty(tables, "it has changed what it looked at")
          }),
        () => asSuperuser(database, (sql) => sql`DROP DATABASE ${sql(name)} WITH (FORCE)`)
      )

      const wrong = yield* verify(urlOf(database), ["--Budgets:HoldSeconds=soon"])
      assert.strictEqual(wrong.code, 2, wrong.output)
      assert.include(wrong.output, "Budgets:HoldSeconds")
    })
  )

  it.effect("ends with 0 beside those who reserve and release all the while", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* makeSetting(service)
      const use = Effect.gen(function* () {
        const { id } = yield* make(service, "/api/spend/reserve", { amountUsd: 0.01 }, key)
        yield* service.call("DELETE", `/api/spend/reservations/${id}`, { key })
      })
      const looked = Effect.map(Effect.all([at(service.database), at(service.database)]), (both) =>
        both.map(({ code }) => code)
      )
      const busy = Effect.all([Effect.forever(use), Effect.forever(use)], { concurrency: "unbounded" })
      const codes = yield* Effect.raceFirst(looked, busy)
      assert.deepStrictEqual(codes, [0, 0])
    })
  )
})
