import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { Database } from "../../../src/platform/database/database.ts"
import { OwnDatabase } from "../../support/clock.ts"
import { type TestDatabase } from "../../support/database.ts"
import {
  ledgerLayer,
  makeCap,
  makeDue,
  makeTenant,
  reserveItem,
  statesOf,
  utilizationOf
} from "../../support/ledger.ts"
import { assertNoDrift, makeSetting, silence } from "../../support/plans.ts"
import { sharedServiceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually, untilBlocked } from "../../support/waiting.ts"

const nano = 1_000_000_000n

/** How many ends the audit log tells of, over all its entries. */
const toldOf = (database: TestDatabase, tenantId: string) =>
  asSuperuser(database, (sql) =>
    Effect.map(
      sql<{ readonly expired: number; readonly charged: number }>`
        SELECT coalesce(sum((changes->'after'->>'expired')::integer), 0)::integer AS expired,
          coalesce(sum((changes->'after'->>'charged')::integer), 0)::integer AS charged
        FROM audit_entries WHERE action_type = 'SpendReservationsExpired' AND tenant_id = ${tenantId}`,
      ([row]) => row
    )
  )

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the sweeper", (it) => {
  // Invariant L8
  it.effect("ends what is due by itself, whatever it is, and returns what it kept free", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const caps = [{}, { mode: "approval", limit: 0, scope: { model: "held" } }]
      const { call, utilization, start, tenantId } = yield* makeSetting(service, caps)
      for (let made = 0; made < 3; made++) yield* call("POST", "/api/spend/reserve", { amountUsd: 1 })
      assert.strictEqual((yield* call("POST", "/api/spend/reserve", { amountUsd: 1, model: "held" })).status, 202)
      const gateway = yield* call("POST", "/api/spend/reserve", { amountUsd: 0.5, tokens: 7 })
      yield* asSuperuser(
        service.database,
        (sql) => sql`UPDATE budget_reservations SET origin = 'gateway' WHERE id = ${gateway.body.id}`
      )
      const plan = yield* start()
      assert.strictEqual((yield* utilization()).reserved, 8.5)
      yield* asSuperuser(
        service.database,
        (sql) => sql`
          UPDATE budget_reservations SET expires_at = now() - interval '1 second'
          WHERE tenant_id = ${tenantId} AND origin <> 'plan'`
      )
      yield* silence(service.database, plan.id, 100_000)
      yield* eventually(
        statesOf(service.database, tenantId),
        (states) => states.open === undefined && states.held === undefined
      )
      // The gateway's call may have been made: it is charged what it reserved.
      assert.deepStrictEqual(yield* statesOf(service.database, tenantId), { expired: 5, settled: 1 })
      assert.deepStrictEqual(yield* utilization(), { headroom: 9.5, reserved: 0, spent: 0.5 })
      const settled = yield* call("GET", `/api/spend/reservations/${gateway.body.id}`)
      assert.deepInclude(settled.body, { state: "settled", actualUsd: 0.5, actualTokens: 7, late: false })
      assert.deepStrictEqual(yield* toldOf(service.database, tenantId), { expired: 4, charged: 1 })
      yield* assertNoDrift(service.database)
    })
  )

  it.effect("runs on every replica, and what is due ends once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const replicas = [service, yield* service.replica, yield* startService(service.database)]
      const { call, utilization, tenantId } = yield* makeSetting(service, [{ limit: 100 }])
      const count = 150
      yield* Effect.forEach(
        Array.from({ length: count }),
        () => call("POST", "/api/spend/reserve", { amountUsd: 0.01, ttlSeconds: 86_400 }),
        { concurrency: 16, discard: true }
      )
      yield* makeDue(service.database, tenantId)
      yield* eventually(statesOf(service.database, tenantId), ({ open }) => open === undefined)
      assert.deepStrictEqual(yield* statesOf(service.database, tenantId), { expired: count })
      assert.deepStrictEqual(yield* toldOf(service.database, tenantId), { expired: count, charged: 0 })
      assert.strictEqual((yield* utilization()).reserved, 0)
      yield* assertNoDrift(service.database)
      for (const replica of replicas) {
        const { body } = yield* replica.call("GET", "/api/dashboard/health")
        const jobs = body.checks.find(({ name }: { readonly name: string }) => name.startsWith("background"))
        assert.strictEqual(jobs?.status, "Healthy", JSON.stringify(jobs))
      }
    }).pipe(Effect.scoped)
  )
})

layer(ledgerLayer(), { excludeTestServices: true, timeout: "60 seconds" })("a sweep", (it) => {
  const setting = Effect.fnUntraced(function* (count: number) {
    const ledger = yield* Ledger
    const database = yield* OwnDatabase
    const tenantId = yield* makeTenant
    const cap = yield* makeCap(tenantId, { limit: 100, period: "total" })
    const items = Array.from({ length: count }, () => reserveItem(tenantId, nano / 100n))
    yield* ledger.reserveBatch(items)
    yield* makeDue(database, tenantId)
    return { ledger, database, tenantId, cap, items }
  })

  it.effect("passes over what others are at work on, and waits for nobody", () =>
    Effect.gen(function* () {
      const { cap, database, items, ledger, tenantId } = yield* setting(10)
      yield* asSuperuser(database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`
              SELECT FROM budget_reservations WHERE tenant_id = ${tenantId} AND id IN ${sql.in(items.slice(0, 3).map(({ id }) => id))}
              FOR UPDATE`
            // Waiting would be for ever: the lock lasts until this transaction ends.
            assert.strictEqual(yield* ledger.sweep(tenantId), 7)
            assert.strictEqual(yield* ledger.sweep(tenantId), 0)
          })
        )
      )
      assert.strictEqual(yield* ledger.sweep(tenantId), 3)
      assert.strictEqual((yield* utilizationOf(cap.id))[0]?.reserved, 0)
      assert.lengthOf(yield* ledger.drift, 0)
    })
  )

  // Invariant L4
  it.effect("shares the work with others at once, and none does any of it twice", () =>
    Effect.gen(function* () {
      const { database, ledger, tenantId } = yield* setting(200)
      const { transaction } = yield* Database
      // In a transaction of its own each has a connection to itself, as replicas have.
      const swept = yield* Effect.all(
        Array.from({ length: 6 }, () => transaction("all", ledger.sweep(tenantId))),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(
        swept.reduce((sum, count) => sum + count, 0),
        200
      )
      assert.deepStrictEqual(yield* statesOf(database, tenantId), { expired: 200 })
      assert.deepStrictEqual(yield* toldOf(database, tenantId), { expired: 200, charged: 0 })
      assert.lengthOf(yield* ledger.drift, 0)
    })
  )

  it.effect("that waits ends after those who are at work, and sees what they did", () =>
    Effect.gen(function* () {
      const { database, items, ledger, tenantId } = yield* setting(4)
      const waiting = yield* asSuperuser(database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT FROM budget_reservations WHERE tenant_id = ${tenantId} FOR UPDATE`
            const fiber = yield* Effect.forkDetach(ledger.reclaim(tenantId))
            yield* untilBlocked(sql)
            yield* sql`
              UPDATE budget_reservations SET expires_at = now() + interval '1 hour' WHERE tenant_id = ${tenantId}
                AND id = ${items[0]?.id ?? ""}`
            return fiber
          })
        )
      )
      yield* Fiber.join(waiting)
      assert.deepStrictEqual(yield* statesOf(database, tenantId), { open: 1, expired: 3 })
    })
  )
})
