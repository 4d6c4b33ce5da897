import { type PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { asSystem } from "../../../src/audit/log/service.ts"
import { type CapUpdate } from "../../../src/budgets/caps/domain.ts"
import { BudgetCaps } from "../../../src/budgets/caps/service.ts"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { OwnDatabase } from "../../support/clock.ts"
import { closeItem, ledgerLayer, makeCap, makeTenant, reserveItem, utilizationOf } from "../../support/ledger.ts"
import { asSuperuser } from "../../support/statements.ts"
import { untilBlocked } from "../../support/waiting.ts"

layer(ledgerLayer(), { timeout: "60 seconds" })("the counters of a cap", (it) => {
  it.effect("are free while a charge is written that takes long, and are locked for its end alone", () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const tenantId = yield* makeTenant
      yield* makeCap(tenantId, { limit: 10 })
      const first = reserveItem(tenantId, 1_000_000_000n)
      yield* ledger.reserveBatch([first])
      const closing = yield* asSuperuser(yield* OwnDatabase, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`LOCK TABLE budget_entries IN SHARE MODE`
            const closing = yield* Effect.forkDetach(ledger.closeBatch([closeItem("settle", first.id, { amount: 1n })]))
            yield* TestClock.withLive(untilBlocked(sql))
            const [reserved] = yield* ledger.reserveBatch([reserveItem(tenantId, 1_000_000_000n)])
            assert.strictEqual(reserved?.verdict, "open")
            assert.isUndefined(closing.pollUnsafe())
            return closing
          })
        )
      )
      const [closed] = yield* Fiber.join(closing)
      assert.strictEqual(closed?.verdict, "done")
    })
  )

  /** Runs `meanwhile` while nobody can have the counters of a cap. */
  const whileLocked = Effect.fnUntraced(function* <A, E, R>(
    capId: string,
    meanwhile: (sql: PgClient.PgClient) => Effect.Effect<A, E, R>
  ) {
    return yield* asSuperuser(yield* OwnDatabase, (sql) =>
      sql.withTransaction(
        Effect.andThen(
          sql`SELECT FROM budget_counters WHERE cap_id = ${capId} FOR UPDATE`,
          Effect.suspend(() => meanwhile(sql))
        )
      )
    )
  })
  const nano = 1_000_000_000n

  for (const [what, before, after] of [
    ["a limit that is lowered", { limit: 100 }, { limit: 50 }],
    ["a soft cap that becomes hard", { limit: 50, mode: "soft" }, { mode: "hard" }],
    ["a paused cap that is active again", { limit: 50, status: "paused" }, { status: "active" }]
  ] as const) {
    // Invariant L18
    it.effect(`${what} binds whoever waited for another cap's while it was changed`, () =>
      Effect.gen(function* () {
        const caps = yield* BudgetCaps
        const ledger = yield* Ledger
        const tenantId = yield* makeTenant
        const { status, ...members } = { status: "active", ...before } as const
        // What is made first is locked first.
        const awaited = yield* makeCap(tenantId, { limit: 1000, scope: { model: "large" } })
        const changed = yield* makeCap(tenantId, members)
        const change = (to: Partial<CapUpdate>) =>
          Effect.orDie(asSystem(caps.update(changed.id, { name: "a cap", ...before, ...to })))
        if (status === "paused") yield* change({ status })
        const both = () => reserveItem(tenantId, 45n * nano, { dimensions: { model: "large" } })
        yield* ledger.reserveBatch([{ ...both(), amount: 1n }])
        const waiting = yield* whileLocked(awaited.id, (sql) =>
          Effect.gen(function* () {
            const waiting = yield* Effect.forkDetach(ledger.reserveBatch([both()]))
            yield* TestClock.withLive(untilBlocked(sql))
            yield* change(after)
            const [first, second] = yield* ledger.reserveBatch([
              reserveItem(tenantId, 45n * nano),
              reserveItem(tenantId, 45n * nano)
            ])
            assert.deepStrictEqual([first?.verdict, second?.verdict], ["open", "denied"])
            return waiting
          })
        )
        const [waited] = yield* Fiber.join(waiting)
        assert.strictEqual(waited?.verdict, "denied")
        assert.deepInclude((yield* utilizationOf(changed.id))[0], { reserved: 45.000000001 })
        assert.deepStrictEqual(yield* ledger.drift, [])
      })
    )
  }

  // Invariant L18
  it.effect("leave nothing behind of whoever waited for the one that governs it while it was changed", () =>
    Effect.gen(function* () {
      const caps = yield* BudgetCaps
      const ledger = yield* Ledger
      const tenantId = yield* makeTenant
      const cap = yield* makeCap(tenantId, { limit: 100 })
      yield* ledger.reserveBatch([reserveItem(tenantId, 1n)])
      const waiting = yield* whileLocked(cap.id, (sql) =>
        Effect.gen(function* () {
          const waiting = yield* Effect.forkDetach(ledger.reserveBatch([reserveItem(tenantId, 45n * nano)]))
          yield* TestClock.withLive(untilBlocked(sql))
          yield* Effect.orDie(asSystem(caps.update(cap.id, { name: "a cap", limit: 40 })))
          return waiting
        })
      )
      const [waited] = yield* Fiber.join(waiting)
      assert.strictEqual(waited?.verdict, "denied")
      assert.deepInclude((yield* utilizationOf(cap.id))[0], { reserved: 0.000000001 })
      assert.deepStrictEqual(yield* ledger.drift, [])
    })
  )

  // Invariant L16
  it.effect("are waited for by nobody in a circle at the end of a period", () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const tenantId = yield* makeTenant
      const other = yield* makeTenant
      yield* TestClock.setTime(Date.parse("2031-05-05T12:00:59.990Z"))
      // Counters of all tenants are locked first.
      yield* makeCap(null, { unit: "requests", limit: 1000, period: "minute" })
      const full = yield* makeCap(tenantId, { limit: 1 })
      const asked = () => Effect.forkDetach(ledger.reserveBatch([reserveItem(tenantId, nano)]))
      yield* ledger.reserveBatch([reserveItem(tenantId, nano)])
      // After a denial, the next batch looks for its counters.
      yield* ledger.reserveBatch([reserveItem(tenantId, nano)])
      const waiting = yield* whileLocked(full.id, (sql) =>
        Effect.gen(function* () {
          const before = yield* asked()
          yield* TestClock.withLive(untilBlocked(sql))
          yield* TestClock.adjust("20 millis")
          yield* ledger.reserveBatch([reserveItem(other, nano)])
          const after = yield* asked()
          yield* TestClock.withLive(untilBlocked(sql, 2))
          return [before, after] as const
        })
      )
      for (const fiber of waiting) assert.strictEqual((yield* Fiber.join(fiber))[0]?.verdict, "denied")
      const [row] = yield* asSuperuser(
        yield* OwnDatabase,
        (sql) => sql<{ readonly deadlocks: string }>`
          SELECT deadlocks::text AS deadlocks FROM pg_stat_database WHERE datname = current_database()`
      )
      assert.strictEqual(row?.deadlocks, "0")
    })
  )
})
