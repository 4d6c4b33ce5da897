import { assert, layer } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { type ReserveItem } from "../../../src/budgets/ledger/protocol-domain.ts"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { type TenantId } from "../../../src/kernel/identifier.ts"
import { OwnDatabase } from "../../support/clock.ts"
import { audit, closeItem, ledgerLayer, makeCap, makeTenant, reserveItem, utilizationOf } from "../../support/ledger.ts"
import { asSuperuser } from "../../support/statements.ts"

const nano = 1_000_000_000n
const most = 8_388_607_999_999_999n

const reserve = Effect.fnUntraced(function* (items: ReadonlyArray<ReserveItem>) {
  const ledger = yield* Ledger
  return (yield* ledger.reserveBatch(items)).map(({ verdict }) => verdict)
})

const assertNoDrift = Effect.gen(function* () {
  const ledger = yield* Ledger
  assert.deepStrictEqual(yield* ledger.drift, [])
})

const countersOf = Effect.fnUntraced(function* (capId: string) {
  const [row] = yield* asSuperuser(
    yield* OwnDatabase,
    (sql) => sql<{ readonly count: number }>`
      SELECT count(*)::integer AS count FROM budget_counters WHERE cap_id = ${capId}`
  )
  return row?.count
})

/** Brings a cap that refuses nothing to the most that its counter holds, less than one more of the largest requests. */
const fill = Effect.fnUntraced(function* (tenantId: TenantId) {
  const items = Array.from({ length: 1099 }, () => reserveItem(tenantId, most))
  for (let first = 0; first < items.length; first += 200) yield* reserve(items.slice(first, first + 200))
  return items
})

/** As long as a value may be, and none that an index could compress: it differs from others in its last character. */
const long = (last: string) => `${"\u{1f600}".repeat(19)}x${"\u{1f680}\u{10ffff}".repeat(89)}${last}`

layer(ledgerLayer(), { timeout: "60 seconds" })("batches of the ledger", (it) => {
  // Invariant L4
  it.effect("approve a reservation once that stands in them twice", () =>
    Effect.gen(function* () {
      const tenantId = yield* makeTenant
      const cap = yield* makeCap(tenantId, { limit: 1, mode: "approval" })
      const held = reserveItem(tenantId, 3n * nano)
      assert.deepStrictEqual(yield* reserve([held]), ["held"])
      const approval = { ...held, kind: "override" as const, audit }
      assert.deepStrictEqual(yield* reserve([approval, { ...approval }, { ...approval }]), ["approved", "gone", "gone"])
      assert.deepInclude((yield* utilizationOf(cap.id))[0], { reserved: 3, grants: 2, headroom: 0 })
      yield* assertNoDrift
    })
  )

  it.effect("close a reservation once that stands in them twice", () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const tenantId = yield* makeTenant
      const cap = yield* makeCap(tenantId, { limit: 10 })
      const [settled, released] = [reserveItem(tenantId, 2n * nano), reserveItem(tenantId, 3n * nano)]
      yield* reserve([settled, released])
      const settle = (amount: bigint) => closeItem("settle", settled.id, { amount })
      const release = () => closeItem("release", released.id)
      const results = yield* ledger.closeBatch([
        settle(nano),
        release(),
        settle(nano),
        settle(2n * nano),
        closeItem("release", settled.id),
        release()
      ])
      assert.deepStrictEqual(
        results.map(({ verdict }) => verdict),
        ["done", "done", "same", "conflict", "conflict", "same"]
      )
      assert.deepInclude((yield* utilizationOf(cap.id))[0], { spent: 1, reserved: 0 })
      yield* assertNoDrift
    })
  )

  // Invariant L23
  it.effect("fail nobody but the request that breaks their statement", () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const tenantId = yield* makeTenant
      yield* makeCap(tenantId, { limit: 100 })
      const breaking = reserveItem(tenantId, nano, { dimensions: { applicationId: 2 ** 40 } })
      const items = [
        ...Array.from({ length: 4 }, () => reserveItem(tenantId, nano)),
        breaking,
        reserveItem(tenantId, nano)
      ]
      const exits = yield* Effect.forEach(items, (item) => Effect.exit(ledger.reserve(item)), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(
        exits.map((exit) => (Exit.isSuccess(exit) ? exit.value.verdict : "failed")),
        ["open", "open", "open", "open", "failed", "open"]
      )
      yield* assertNoDrift
    })
  )

  // Invariant L20
  it.effect("count no further where a cap that refuses nothing is full, and charge what was reserved", () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const tenantId = yield* makeTenant
      const cap = yield* makeCap(tenantId, { limit: 1, mode: "soft", period: "total" })
      const [one] = yield* fill(tenantId)
      const beyond = reserveItem(tenantId, most)
      const small = reserveItem(tenantId, nano)
      assert.deepStrictEqual(yield* reserve([beyond, small]), ["open", "open"])
      const results = yield* Effect.forEach(
        [
          closeItem("settle", one!.id, { amount: most }),
          closeItem("settle", beyond.id, { amount: most }),
          closeItem("settle", small.id, { amount: most })
        ],
        (item) => ledger.close(item),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(
        results.map(({ verdict }) => verdict),
        ["done", "done", "full"]
      )
      assert.strictEqual((yield* ledger.close(closeItem("settle", small.id, { amount: nano }))).verdict, "done")
      assert.strictEqual((yield* utilizationOf(cap.id))[0]?.spent, Number(most + nano) / 1e9)
      yield* assertNoDrift
    })
  )

  it.effect("leave no counters behind for those who are refused", () =>
    Effect.gen(function* () {
      const tenantId = yield* makeTenant
      const each = yield* makeCap(tenantId, { limit: 5, scope: { userId: "each" } })
      const item = (userId: string, amount: bigint) => reserveItem(tenantId, amount, { dimensions: { userId } })
      assert.deepStrictEqual(
        yield* reserve([
          item("a", 6n * nano),
          item("b", nano),
          item("c", 6n * nano),
          item("d", 0n),
          item("a", 6n * nano)
        ]),
        ["denied", "open", "denied", "open", "denied"]
      )
      assert.strictEqual(yield* countersOf(each.id), 2)
      assert.deepStrictEqual(yield* reserve([item("a", nano), item("b", 5n * nano)]), ["open", "denied"])
      assert.strictEqual(yield* countersOf(each.id), 3)
      yield* makeCap(tenantId, { limit: 1, mode: "approval", scope: { userId: "e" } })
      assert.deepStrictEqual(yield* reserve([item("e", 2n * nano), item("f", 6n * nano)]), ["held", "denied"])
      assert.strictEqual(yield* countersOf(each.id), 4)
      yield* assertNoDrift
    })
  )

  it.effect("tell values apart that are too long for an index", () =>
    Effect.gen(function* () {
      const tenantId = yield* makeTenant
      const scope = { model: "each", provider: "each", taskType: "each", userId: "each" }
      const cap = yield* makeCap(tenantId, { limit: 1, scope })
      const item = (last: string) =>
        reserveItem(tenantId, nano, {
          dimensions: { model: long("a"), provider: long("b"), taskType: long("c"), userId: long(last) }
        })
      assert.deepStrictEqual(yield* reserve([item("d"), item("e"), item("d")]), ["open", "open", "denied"])
      const utilizations = yield* utilizationOf(cap.id)
      assert.deepStrictEqual(
        utilizations.map(({ reserved }) => reserved),
        [1, 1]
      )
      assert.notStrictEqual(utilizations[0]?.scope["userId"], utilizations[1]?.scope["userId"])
      assert.match(String(utilizations[0]?.scope["model"]), /^\u{1f600}{19}x… \(SHA-256 [0-9a-f]{64}\)$/u)
      yield* assertNoDrift
    })
  )
})
