import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import * as crypto from "node:crypto"
import { type ReserveItem } from "../../src/budgets/ledger/protocol-domain.ts"
import { Ledger } from "../../src/budgets/ledger/service.ts"
import { Database } from "../../src/platform/database/database.ts"
import { diceOf } from "../contract/dice.ts"
import { OwnDatabase } from "./clock.ts"
import { closeItem, makeCap, makeTenant, reserveItem, utilizationOf } from "./ledger.ts"
import { asSuperuser } from "./statements.ts"

const nano = 1_000_000_000n

const verdictsOf = Effect.fnUntraced(function* (items: ReadonlyArray<ReserveItem>) {
  const ledger = yield* Ledger
  return (yield* ledger.reserveBatch(items)).map(({ verdict }) => verdict)
})

const assertNoDrift = Effect.gen(function* () {
  const ledger = yield* Ledger
  assert.deepStrictEqual(yield* ledger.drift, [], "counters that are not the fold of what was written")
})

const newKey = () => ({
  route: "POST /api/spend/reserve",
  key: crypto.randomUUID(),
  requestSha256: "00".repeat(32),
  markReplayed: () => {}
})

/** What must hold of every ledger, whatever it is made of; each is broken by one of the mutants that the suite must kill. */
export const guards = {
  // Invariants L1, L21
  "fills a cap to the last nano-dollar, and not beyond": Effect.gen(function* () {
    const tenantId = yield* makeTenant
    yield* makeCap(tenantId, { limit: 0.3 })
    assert.deepStrictEqual(
      yield* verdictsOf([100_000_000n, 200_000_000n, 1n].map((amount) => reserveItem(tenantId, amount))),
      ["open", "open", "denied"]
    )
    const large = yield* makeTenant
    yield* makeCap(large, { limit: 8_388_607.999999999 })
    assert.deepStrictEqual(
      yield* verdictsOf([8_388_607_999_999_998n, 2n, 1n, 1n].map((amount) => reserveItem(large, amount))),
      ["open", "denied", "open", "denied"]
    )
    yield* assertNoDrift
  }),

  // Invariant L4
  "settles once, whoever asks again": Effect.gen(function* () {
    const ledger = yield* Ledger
    const tenantId = yield* makeTenant
    const cap = yield* makeCap(tenantId, { limit: 10 })
    const item = reserveItem(tenantId, 2n * nano)
    yield* verdictsOf([item])
    const settle = () => ledger.closeBatch([closeItem("settle", item.id, { amount: nano })])
    const results = yield* Effect.all([settle(), settle(), settle(), settle()], { concurrency: 4 })
    assert.sameMembers(
      results.flat().map(({ verdict }) => verdict),
      ["done", "same", "same", "same"]
    )
    const [utilization] = yield* utilizationOf(cap.id)
    assert.deepInclude(utilization, { spent: 1, reserved: 0 })
    yield* assertNoDrift
  }),

  // Invariant L6
  "moves nothing for a request that comes again": Effect.gen(function* () {
    const tenantId = yield* makeTenant
    const cap = yield* makeCap(tenantId, { limit: 10 })
    const repeatable = newKey()
    const item = () => reserveItem(tenantId, nano, { repeatable })
    assert.deepStrictEqual(yield* verdictsOf([item()]), ["open"])
    assert.deepStrictEqual(yield* verdictsOf([item()]), ["replay"])
    const [utilization] = yield* utilizationOf(cap.id)
    assert.strictEqual(utilization?.reserved, 1)
    yield* assertNoDrift
  }),

  // Invariant L9
  "refuses nobody for what has expired": Effect.gen(function* () {
    const tenantId = yield* makeTenant
    yield* makeCap(tenantId, { limit: 1, period: "total" })
    yield* verdictsOf([reserveItem(tenantId, nano, { ttlSeconds: 5 })])
    assert.deepStrictEqual(yield* verdictsOf([reserveItem(tenantId, nano)]), ["denied"])
    yield* TestClock.adjust("5 seconds")
    assert.deepStrictEqual(yield* verdictsOf([reserveItem(tenantId, nano)]), ["open"])
    yield* assertNoDrift
  }),

  // Invariant L10
  "counts in the period that has begun": Effect.gen(function* () {
    const tenantId = yield* makeTenant
    const caps = [
      yield* makeCap(tenantId, { limit: 10, period: "minute" }),
      yield* makeCap(tenantId, { limit: 10, period: "minute", scope: { model: "large" } })
    ]
    for (const dimensions of [{}, { model: "large" }]) {
      const item = () => reserveItem(tenantId, nano, { dimensions })
      for (let before = 0; before < 3; before++) yield* verdictsOf([item()])
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* verdictsOf([item()]), ["open"])
      const [utilization] = yield* utilizationOf((dimensions.model === undefined ? caps[0] : caps[1])!.id)
      assert.strictEqual(utilization?.reserved, 1)
    }
    yield* assertNoDrift
  }),

  // Invariant L5
  "moves all caps or none": Effect.gen(function* () {
    const tenantId = yield* makeTenant
    const wide = yield* makeCap(tenantId, { limit: 10 })
    yield* makeCap(tenantId, { limit: 1, scope: { model: "large" } })
    const item = (amount: bigint) => reserveItem(tenantId, amount, { dimensions: { model: "large" } })
    assert.deepStrictEqual(yield* verdictsOf([item(2n * nano), item(nano)]), ["denied", "open"])
    const [utilization] = yield* utilizationOf(wide.id)
    assert.strictEqual(utilization?.reserved, 1)
    yield* assertNoDrift
  }),

  // Invariant L1
  "fills a cap that nobody has counted on yet, and not beyond": Effect.gen(function* () {
    const ledger = yield* Ledger
    const { transaction } = yield* Database
    const tenantId = yield* makeTenant
    yield* makeCap(tenantId, { limit: 2, scope: { userId: "each" } })
    for (let round = 0; round < 10; round++) {
      const dimensions = { userId: `user ${round}` }
      const one = Effect.suspend(() =>
        transaction("all", ledger.reserveBatch([reserveItem(tenantId, nano, { dimensions })]))
      )
      const results = yield* Effect.all(
        Array.from({ length: 8 }, () => one),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(
        results.flat().filter(({ verdict }) => verdict === "open"),
        2
      )
    }
    yield* assertNoDrift
  }),

  // Invariants L1, L3, L16
  "lets nobody wait in a circle, and nobody above a cap": Effect.gen(function* () {
    const database = yield* OwnDatabase
    const ledger = yield* Ledger
    // In a transaction of its own each statement has a connection to itself, as those of several replicas have.
    const { transaction } = yield* Database
    const tenantId = yield* makeTenant
    const users = Array.from({ length: 12 }, (_, index) => `user ${index}`)
    const caps = yield* Effect.forEach(users, (userId) => makeCap(tenantId, { limit: 2, scope: { userId } }))
    const all = yield* makeCap(tenantId, { limit: 15 })
    const dice = diceOf("storm")
    const batch = Effect.gen(function* () {
      // What comes with a key is decided in another way.
      const isKeyed = dice.chance(0.5)
      const items = Array.from({ length: 6 }, () =>
        reserveItem(tenantId, nano / 10n, {
          dimensions: { userId: dice.pickOr(users, "") },
          ...(isKeyed ? { repeatable: newKey() } : {})
        })
      )
      const results = yield* transaction("all", ledger.reserveBatch(items))
      const open = items.filter((_, index) => results[index]?.verdict === "open")
      const closing = open.filter(() => dice.chance(0.5))
      const settled = closing.map(({ id }) => closeItem("settle", id, { amount: nano / 20n }))
      yield* transaction("all", ledger.closeBatch(settled))
    })
    yield* ledger.reserveBatch([reserveItem(tenantId, 1n)])
    yield* Effect.all(
      Array.from({ length: 200 }, () => batch),
      { concurrency: 16, discard: true }
    )
    for (const { id, limit } of [...caps, all]) {
      const [utilization] = yield* utilizationOf(id)
      assert.isAtMost((utilization?.spent ?? 0) + (utilization?.reserved ?? 0), limit + 1e-9)
    }
    yield* assertNoDrift
    const [row] = yield* asSuperuser(
      database,
      (sql) => sql<{ readonly deadlocks: string }>`
        SELECT deadlocks::text AS deadlocks FROM pg_stat_database WHERE datname = current_database()`
    )
    assert.strictEqual(row?.deadlocks, "0")
  })
}
