import { assert, layer } from "@effect/vitest"
import { BigDecimal, DateTime, Effect } from "effect"
import { TestClock } from "effect/testing"
import { type CapCreation } from "../../../src/budgets/caps/domain.ts"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { closeItem, ledgerLayer, makeCap, makeTenant, reserveItem, utilizationOf } from "../../support/ledger.ts"

const nano = 1_000_000_000n

layer(ledgerLayer(), { timeout: "60 seconds" })("how a cap stands", (it) => {
  const setting = Effect.fnUntraced(function* (start: string, members: Partial<CapCreation>) {
    yield* TestClock.setTime(Date.parse(start))
    const ledger = yield* Ledger
    const tenantId = yield* makeTenant
    const { id } = yield* makeCap(tenantId, members)
    const spend = Effect.fnUntraced(function* (amount: bigint) {
      const item = reserveItem(tenantId, amount)
      yield* ledger.reserveBatch([item])
      yield* ledger.closeBatch([closeItem("settle", item.id, { amount })])
    })
    const outlook = Effect.map(utilizationOf(id), ([utilization]) => ({
      projected:
        utilization?.projected === null
          ? null
          : Number(BigDecimal.format(utilization?.projected ?? BigDecimal.make(-1n, 0))),
      exhaustsAt: utilization?.exhaustsAt == null ? null : DateTime.formatIso(utilization.exhaustsAt)
    }))
    return { ledger, tenantId, id, spend, outlook }
  })

  it.effect("what a period will have spent at the rate so far, and when nothing is left at that", () =>
    Effect.gen(function* () {
      const { outlook, spend } = yield* setting("2031-05-05T10:00:00Z", { period: "hour", limit: 3 })
      assert.deepStrictEqual(yield* outlook, { projected: 0, exhaustsAt: null })
      yield* spend(nano)
      assert.deepStrictEqual(yield* outlook, { projected: null, exhaustsAt: null }, "the first moments tell nothing")
      yield* TestClock.adjust("15 minutes")
      assert.deepStrictEqual(yield* outlook, { projected: 4, exhaustsAt: "2031-05-05T10:45:00.000Z" })
      yield* TestClock.adjust("15 minutes")
      // Slower now: there is some left at the end.
      assert.deepStrictEqual(yield* outlook, { projected: 2, exhaustsAt: null })
    })
  )

  it.effect("a cap that was made within its period is measured from then", () =>
    Effect.gen(function* () {
      const { outlook, spend } = yield* setting("2031-05-05T10:30:00Z", { period: "hour", limit: 10 })
      yield* spend(nano)
      yield* TestClock.adjust("15 minutes")
      assert.strictEqual((yield* outlook).projected, 2)
    })
  )

  it.effect("a total has no end, but is exhausted some day; a rolling window tells neither", () =>
    Effect.gen(function* () {
      const total = yield* setting("2031-05-05T10:00:00Z", { period: "total", limit: 10 })
      yield* total.spend(nano)
      yield* TestClock.adjust("10 hours")
      assert.deepStrictEqual(yield* total.outlook, { projected: null, exhaustsAt: "2031-05-09T14:00:00.000Z" })
      const rolling = yield* setting("2031-05-05T10:00:00Z", { period: "rolling", windowSeconds: 86_400 })
      yield* rolling.spend(nano)
      yield* TestClock.adjust("10 hours")
      assert.deepStrictEqual(yield* rolling.outlook, { projected: null, exhaustsAt: null })
    })
  )

  it.effect("the bounds of its period are those that its counter has, whatever the clocks do", () =>
    Effect.gen(function* () {
      const members = { period: "day", timeZone: "Europe/Berlin" } as const
      const { id, spend } = yield* setting("2024-10-26T23:30:00Z", members)
      yield* spend(1n)
      const boundsOf = Effect.map(utilizationOf(id), ([utilization]) =>
        [utilization?.periodStart, utilization?.periodEnd].map((moment) =>
          moment == null ? null : DateTime.formatIso(moment)
        )
      )
      const longDay = ["2024-10-26T22:00:00.000Z", "2024-10-27T23:00:00.000Z"]
      assert.deepStrictEqual(yield* boundsOf, longDay)
      yield* TestClock.adjust("23 hours")
      assert.deepStrictEqual(yield* boundsOf, longDay)
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* boundsOf, ["2024-10-27T23:00:00.000Z", "2024-10-28T23:00:00.000Z"])
      assert.strictEqual((yield* utilizationOf(id))[0]?.spent, 0)
    })
  )

  it.effect("a cap that counts each value has an item for each that it has counted in this period", () =>
    Effect.gen(function* () {
      const { id, ledger, tenantId } = yield* setting("2031-05-05T10:00:00Z", {
        period: "hour",
        limit: 5,
        scope: { userId: "each", model: "m" }
      })
      const reserve = (userId: string | undefined, amount: bigint) =>
        ledger.reserveBatch([reserveItem(tenantId, amount, { dimensions: { userId, model: "m" } })])
      assert.deepStrictEqual(yield* utilizationOf(id), [])
      yield* reserve("ada", nano)
      yield* reserve("grace", 2n * nano)
      yield* reserve(undefined, 3n * nano)
      const shown = Effect.map(utilizationOf(id), (items) =>
        Object.fromEntries(items.map(({ reserved, scope }) => [scope.userId, reserved]))
      )
      assert.deepStrictEqual(yield* shown, { ada: 1, grace: 2, none: 3 })
      yield* TestClock.adjust("1 hour")
      yield* reserve("ada", nano / 2n)
      assert.deepStrictEqual(yield* shown, { ada: 0.5 })
    })
  )

  // Invariant L11
  it.effect("what is held is told, of each counter its own, and takes no headroom", () =>
    Effect.gen(function* () {
      const members = { limit: 1, mode: "approval", scope: { userId: "each" } } as const
      const { id, ledger, tenantId } = yield* setting("2031-05-05T10:00:00Z", members)
      for (const [userId, amount] of [
        ["ada", 2n * nano],
        ["ada", 3n * nano],
        ["grace", 4n * nano]
      ] as const) {
        const [result] = yield* ledger.reserveBatch([reserveItem(tenantId, amount, { dimensions: { userId } })])
        assert.strictEqual(result?.verdict, "held")
      }
      const shown = Effect.map(utilizationOf(id), (items) =>
        items.map(({ headroom, held, scope }) => [scope.userId, held, headroom])
      )
      assert.deepStrictEqual(yield* shown, [
        ["ada", 5, 1],
        ["grace", 4, 1]
      ])
      yield* TestClock.adjust("1 day")
      assert.deepStrictEqual(yield* shown, [
        ["ada", 0, 1],
        ["grace", 0, 1]
      ])
    })
  )
})
