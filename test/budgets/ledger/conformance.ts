import { assert, layer } from "@effect/vitest"
import { Context, Effect, type Layer } from "effect"
import { TestClock } from "effect/testing"
import * as crypto from "node:crypto"
import { type CapCreation } from "../../../src/budgets/caps/domain.ts"
import { type CapId, ChargeId, type ReservationId } from "../../../src/budgets/ledger/domain.ts"
import { type ReserveItem } from "../../../src/budgets/ledger/protocol-domain.ts"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { type TenantId } from "../../../src/kernel/identifier.ts"
import { diceOf } from "../../contract/dice.ts"
import { audit, closeItem, reserveItem } from "../../support/ledger.ts"

/** What a ledger stands in, as an engine has it: tenants, caps, and how they stand. */
export class LedgerWorld extends Context.Service<
  LedgerWorld,
  {
    readonly makeTenant: Effect.Effect<TenantId>
    makeCap(tenantId: TenantId, members?: Partial<CapCreation>): Effect.Effect<CapId>
    changeCap(
      id: CapId,
      members: { readonly limit: number; readonly status?: "active" | "paused" }
    ): Effect.Effect<void>
    grant(id: CapId, amount: number): Effect.Effect<void>
    /** The sums of the counter of a cap whose period runs, in US dollars, tokens or requests. */
    utilization(id: CapId): Effect.Effect<{ readonly spent: number; readonly reserved: number }>
  }
>()("test/LedgerWorld") {}

const start = Date.UTC(2031, 4, 5, 10)
const nano = 1_000_000_000n
const principal = "service-account"

/** A tenant, with everything that is done to its reservations shortened to what differs. */
const setting = Effect.fnUntraced(function* (...caps: ReadonlyArray<Partial<CapCreation>>) {
  yield* TestClock.setTime(start)
  const ledger = yield* Ledger
  const world = yield* LedgerWorld
  const tenantId = yield* world.makeTenant
  const ids = yield* Effect.forEach(caps, (members) =>
    world.makeCap(tenantId, { limit: 1, period: "total", ...members })
  )
  const [capId] = ids as [CapId]
  const verdictsOf = (items: ReadonlyArray<ReserveItem>) =>
    Effect.map(ledger.reserveBatch(items), (results) => results.map(({ verdict }) => verdict))
  const item = (amount: bigint, members: Partial<ReserveItem> = {}) => reserveItem(tenantId, amount, members)
  const reserve = (amount: bigint, members: Partial<ReserveItem> = {}) => {
    const one = item(amount, members)
    return Effect.map(verdictsOf([one]), ([verdict]) => ({ id: one.id, verdict, item: one }))
  }
  const open = (amount: bigint, members: Partial<ReserveItem> = {}) =>
    Effect.map(reserve(amount, members), ({ id, verdict }) => {
      assert.strictEqual(verdict, "open")
      return id
    })
  const close = (kind: "settle" | "release", id: ReservationId, members: Parameters<typeof closeItem>[2] = {}) =>
    Effect.map(ledger.closeBatch([closeItem(kind, id, members)]), ([result]) => result?.verdict)
  const settle = (id: ReservationId, amount: bigint, members: Parameters<typeof closeItem>[2] = {}) =>
    close("settle", id, { amount, ...members })
  const release = (id: ReservationId) => close("release", id)
  const extend = (id: ReservationId, ttlSeconds = 100) =>
    Effect.map(
      ledger.extend({ principal, id, tenantId: null, origin: "api", canActForOthers: true, ttlSeconds }),
      ({ verdict }) => verdict
    )
  const decide = (kind: "approve" | "override", one: ReserveItem) =>
    Effect.map(verdictsOf([{ ...one, kind, audit }]), ([verdict]) => verdict)
  const deny = (id: ReservationId) =>
    Effect.map(ledger.deny({ principal, audit, id, tenantId: null, reason: "no" }), ({ verdict }) => verdict)
  const refund = (chargeId: ChargeId, amount: bigint, members: { by?: string; isSystem?: boolean } = {}) =>
    Effect.map(
      ledger.refund({
        principal: members.by ?? principal,
        audit,
        id: ChargeId.make(crypto.randomUUID()),
        chargeId,
        tenantId: null,
        amount,
        reason: "credited",
        isSystem: members.isSystem ?? true
      }),
      ({ verdict }) => verdict
    )
  const stands = Effect.fnUntraced(function* (spent: number, reserved: number, id: CapId = capId) {
    const utilization = yield* world.utilization(id)
    assert.deepStrictEqual({ spent: utilization.spent, reserved: utilization.reserved }, { spent, reserved })
    assert.deepStrictEqual(yield* ledger.drift, [])
  })
  return {
    ledger,
    world,
    tenantId,
    ids,
    capId,
    item,
    verdictsOf,
    reserve,
    open,
    settle,
    release,
    close,
    extend,
    decide,
    deny,
    refund,
    stands
  }
})

const approval = { mode: "approval", limit: 0 } as const

/** How a reservation comes into each of its states. */
const ways = {
  held: () =>
    Effect.gen(function* () {
      const all = yield* setting(approval)
      const { item, verdict } = yield* all.reserve(nano)
      assert.strictEqual(verdict, "held")
      return { ...all, one: item }
    }),
  open: () =>
    Effect.gen(function* () {
      const all = yield* setting({})
      const { item, verdict } = yield* all.reserve(nano)
      assert.strictEqual(verdict, "open")
      return { ...all, one: item }
    }),
  denied: () =>
    Effect.gen(function* () {
      const all = yield* ways.held()
      assert.strictEqual(yield* all.deny(all.one.id), "done")
      return all
    }),
  expired: () =>
    Effect.gen(function* () {
      const all = yield* ways.open()
      yield* TestClock.adjust("300 seconds")
      assert.strictEqual(yield* all.ledger.sweep(all.tenantId), 1)
      return all
    }),
  released: () =>
    Effect.gen(function* () {
      const all = yield* ways.open()
      assert.strictEqual(yield* all.release(all.one.id), "done")
      return all
    }),
  settled: () =>
    Effect.gen(function* () {
      const all = yield* ways.open()
      assert.strictEqual(yield* all.settle(all.one.id, nano), "done")
      return all
    })
}

/** What becomes of each act on a reservation in each state: settle with the same and another actual, and so on. */
const transitions = {
  held: {
    settle: "unopened",
    release: "done",
    extend: "unopened",
    approve: "no-room",
    override: "approved",
    deny: "done"
  },
  open: { settle: "done", release: "done", extend: "done", approve: "gone", override: "gone", deny: "gone" },
  denied: { settle: "unopened", release: "same", extend: "unopened", approve: "gone", override: "gone", deny: "same" },
  expired: { settle: "done", release: "same", extend: "unopened", approve: "gone", override: "gone", deny: "gone" },
  released: { settle: "done", release: "same", extend: "unopened", approve: "gone", override: "gone", deny: "gone" },
  settled: { settle: "same", release: "conflict", extend: "unopened", approve: "gone", override: "gone", deny: "gone" }
} as const

/** Everything that any engine of the ledger must do, asked of the one service that callers see. */
export const conforms = (engine: string, layerOf: Layer.Layer<Ledger | LedgerWorld, unknown>) => {
  layer(layerOf, { timeout: "60 seconds" })(`${engine} as a ledger`, (it) => {
    // Invariant L4
    for (const state of ["held", "open", "denied", "expired", "released", "settled"] as const) {
      for (const act of ["settle", "release", "extend", "approve", "override", "deny"] as const) {
        const expected = transitions[state][act]
        it.effect(`${act} of one that is ${state}: ${expected}`, () =>
          Effect.gen(function* () {
            const { deny, decide, extend, ledger, one, release, settle } = yield* ways[state]()
            const acts: Readonly<Record<keyof typeof transitions.open, Effect.Effect<string | undefined>>> = {
              settle: settle(one.id, nano),
              release: release(one.id),
              extend: extend(one.id),
              approve: decide("approve", one),
              override: decide("override", one),
              deny: deny(one.id)
            }
            assert.strictEqual(yield* acts[act], expected)
            assert.deepStrictEqual(yield* ledger.drift, [])
          })
        )
      }
    }

    it.effect("nothing is known of what was never reserved", () =>
      Effect.gen(function* () {
        const { deny, extend, item, refund, release, settle } = yield* setting({})
        const { id } = item(nano)
        const charge = ChargeId.make(crypto.randomUUID())
        const acts = [settle(id, nano), release(id), extend(id), deny(id), refund(charge, 1n)]
        for (const act of acts) assert.strictEqual(yield* act, "missing")
      })
    )

    // Invariant L1
    it.effect("a cap is filled to the last nano-dollar, and not beyond", () =>
      Effect.gen(function* () {
        const { item, stands, verdictsOf } = yield* setting({ limit: 0.3 })
        const verdicts = yield* verdictsOf([item(nano / 10n), item(nano / 5n), item(1n)])
        assert.deepStrictEqual(verdicts, ["open", "open", "denied"])
        yield* stands(0, 0.3)
      })
    )

    it.effect("tokens and requests are counted as such", () =>
      Effect.gen(function* () {
        const caps = [
          { unit: "tokens", limit: 10 },
          { unit: "requests", limit: 2 }
        ] as const
        const { ids, reserve, settle, stands } = yield* setting(...caps)
        const first = yield* reserve(nano, { tokens: 8 })
        assert.strictEqual((yield* reserve(nano, { tokens: 3 })).verdict, "denied")
        assert.strictEqual((yield* reserve(nano, { tokens: 2 })).verdict, "open")
        assert.strictEqual((yield* reserve(nano, { tokens: 0 })).verdict, "denied")
        yield* settle(first.id, nano, { tokens: 5 })
        yield* stands(5, 2, ids[0])
        yield* stands(1, 1, ids[1])
      })
    )

    // Invariant L5
    it.effect("all caps move or none", () =>
      Effect.gen(function* () {
        const { ids, item, stands, verdictsOf } = yield* setting({ limit: 10 }, { limit: 1, scope: { model: "large" } })
        const dimensions = { model: "large" }
        const verdicts = yield* verdictsOf([item(2n * nano, { dimensions }), item(nano, { dimensions })])
        assert.deepStrictEqual(verdicts, ["denied", "open"])
        yield* stands(0, 1, ids[0])
        yield* stands(0, 1, ids[1])
      })
    )

    it.effect("a scope takes what it names, and `each` counts every value by itself", () =>
      Effect.gen(function* () {
        const { reserve } = yield* setting({ scope: { userId: "each", model: "large" } })
        const of = (userId: string | undefined, model: string) =>
          Effect.map(reserve(nano, { dimensions: { userId, model } }), ({ verdict }) => verdict)
        assert.deepStrictEqual(
          [
            yield* of("ada", "large"),
            yield* of("ada", "large"),
            yield* of("ada", "small"),
            yield* of("grace", "large")
          ],
          ["open", "denied", "open", "open"]
        )
        assert.deepStrictEqual([yield* of(undefined, "large"), yield* of(undefined, "large")], ["open", "denied"])
      })
    )

    // Invariant L9
    it.effect("nobody is refused for what has expired", () =>
      Effect.gen(function* () {
        const { open, reserve, stands } = yield* setting({})
        yield* open(nano, { ttlSeconds: 5 })
        assert.strictEqual((yield* reserve(nano)).verdict, "denied")
        yield* TestClock.adjust("5 seconds")
        assert.strictEqual((yield* reserve(nano)).verdict, "open")
        yield* stands(0, 1)
      })
    )

    it.effect("an extension counts from now, and keeps the headroom", () =>
      Effect.gen(function* () {
        const { extend, open, reserve, stands } = yield* setting({})
        const id = yield* open(nano, { ttlSeconds: 60 })
        yield* TestClock.adjust("59 seconds")
        assert.strictEqual(yield* extend(id, 60), "done")
        yield* TestClock.adjust("59 seconds")
        assert.strictEqual((yield* reserve(nano)).verdict, "denied")
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* extend(id, 60), "unopened")
        assert.strictEqual((yield* reserve(nano)).verdict, "open")
        yield* stands(0, 1)
      })
    )

    // Invariant L11
    it.effect("what is held takes no headroom, and expires by itself", () =>
      Effect.gen(function* () {
        const { decide, ledger, open, reserve, stands, tenantId } = yield* setting({ mode: "approval" })
        const held = yield* reserve(2n * nano)
        assert.strictEqual(held.verdict, "held")
        yield* stands(0, 0)
        yield* open(nano)
        yield* stands(0, 1)
        yield* TestClock.adjust("1 day")
        assert.strictEqual(yield* decide("override", held.item), "gone")
        assert.strictEqual(yield* ledger.sweep(tenantId), 2)
        yield* stands(0, 0)
      })
    )

    it.effect("a hard cap without room denies what another would hold, and no override lifts it", () =>
      Effect.gen(function* () {
        const { decide, ids, reserve, stands, world } = yield* setting({ limit: 2 }, { mode: "approval", limit: 1 })
        const held = yield* reserve(2n * nano)
        assert.strictEqual(held.verdict, "held")
        assert.strictEqual((yield* reserve(3n * nano)).verdict, "denied")
        yield* world.changeCap(ids[0] as CapId, { limit: 1 })
        assert.strictEqual(yield* decide("override", held.item), "no-room")
        yield* world.changeCap(ids[0] as CapId, { limit: 2 })
        assert.strictEqual(yield* decide("approve", held.item), "no-room")
        assert.strictEqual(yield* decide("override", held.item), "approved")
        yield* stands(0, 2, ids[1])
        // The grant was of what was short, and of no more.
        assert.strictEqual((yield* reserve(1n)).verdict, "denied")
        yield* world.changeCap(ids[0] as CapId, { limit: 10 })
        assert.strictEqual((yield* reserve(1n)).verdict, "held")
      })
    )

    it.effect("what may not wait is denied, and leaves nothing", () =>
      Effect.gen(function* () {
        const { decide, ids, item, reserve, stands, verdictsOf, world } = yield* setting(
          { limit: 2 },
          { mode: "approval" }
        )
        const held = yield* reserve(2n * nano)
        const trying = { kind: "reserve", mayWait: false } as const
        const tried = yield* reserve(2n * nano, trying)
        assert.strictEqual(tried.verdict, "no-room")
        assert.strictEqual(yield* decide("override", tried.item), "gone")
        assert.strictEqual((yield* reserve(3n * nano, trying)).verdict, "denied")
        yield* world.changeCap(ids[0] as CapId, { limit: 10 })
        // Together with an approval.
        const approval = { ...held.item, kind: "override" as const, audit }
        assert.deepStrictEqual(yield* verdictsOf([item(nano, trying), approval]), ["open", "approved"])
        yield* stands(0, 3, ids[1])
      })
    )

    it.effect("an approval finds room that has come back", () =>
      Effect.gen(function* () {
        const { decide, open, release, reserve, stands } = yield* setting({ mode: "approval" })
        const id = yield* open(nano)
        const held = yield* reserve(nano)
        assert.strictEqual(yield* decide("approve", held.item), "no-room")
        yield* release(id)
        assert.strictEqual(yield* decide("approve", held.item), "approved")
        yield* stands(0, 1)
      })
    )

    // Invariant L20
    it.effect("what is reported is charged in full: more than was reserved, late, above the limit", () =>
      Effect.gen(function* () {
        const { open, release, reserve, settle, stands } = yield* setting({ limit: 2 })
        const [more, late] = [yield* open(nano), yield* open(nano)]
        assert.strictEqual(yield* settle(more, 2n * nano), "done")
        yield* release(late)
        assert.strictEqual(yield* settle(late, 5n * nano), "done")
        yield* stands(7, 0)
        assert.strictEqual((yield* reserve(1n)).verdict, "denied")
      })
    )

    // Invariant L10
    it.effect("a late charge and its refund are the period's that was reserved in", () =>
      Effect.gen(function* () {
        const { ledger, open, refund, stands, world, capId } = yield* setting({ limit: 2, period: "hour" })
        const id = yield* open(nano, { ttlSeconds: 5 })
        yield* TestClock.adjust("1 hour")
        yield* open(2n * nano)
        yield* stands(0, 2)
        const item = closeItem("settle", id, { amount: nano })
        assert.strictEqual((yield* ledger.closeBatch([item]))[0]?.verdict, "done")
        yield* stands(0, 2)
        assert.strictEqual(yield* refund(item.chargeId, nano), "done")
        assert.deepInclude(yield* world.utilization(capId), { spent: 0, reserved: 2 })
        assert.deepStrictEqual(yield* ledger.drift, [])
      })
    )

    it.effect("refunds come to no more than the charge, and nobody's to its own", () =>
      Effect.gen(function* () {
        const { ledger, open, refund, stands } = yield* setting({})
        const item = closeItem("settle", yield* open(nano), { amount: nano, principal: "api-key:one" })
        yield* ledger.closeBatch([item])
        assert.strictEqual(yield* refund(item.chargeId, 1n, { by: "api-key:one", isSystem: false }), "own")
        assert.strictEqual(yield* refund(item.chargeId, nano / 2n, { by: "api-key:two", isSystem: false }), "done")
        yield* stands(0.5, 0)
        assert.strictEqual(yield* refund(item.chargeId, nano / 2n + 1n), "exceeds")
        assert.strictEqual(yield* refund(item.chargeId, nano / 2n), "done")
        assert.strictEqual(yield* refund(item.chargeId, 1n), "exceeds")
        yield* stands(0, 0)
      })
    )

    it.effect("a lower limit refuses what is new and cancels nothing; a paused cap counts and refuses nothing", () =>
      Effect.gen(function* () {
        const { capId, open, reserve, settle, stands, world } = yield* setting({ limit: 2 })
        const id = yield* open(2n * nano)
        yield* world.changeCap(capId, { limit: 1 })
        assert.strictEqual((yield* reserve(1n)).verdict, "denied")
        assert.strictEqual(yield* settle(id, 2n * nano), "done")
        yield* world.changeCap(capId, { limit: 1, status: "paused" })
        yield* open(nano)
        yield* stands(2, 1)
        yield* world.changeCap(capId, { limit: 4, status: "active" })
        assert.deepStrictEqual([(yield* reserve(nano)).verdict, (yield* reserve(1n)).verdict], ["open", "denied"])
        yield* world.grant(capId, 1)
        assert.strictEqual((yield* reserve(nano)).verdict, "open")
      })
    )

    it.effect("a new cap counts from its making, and a new period begins with nothing", () =>
      Effect.gen(function* () {
        const { open, reserve, stands, tenantId, world } = yield* setting({ limit: 3, period: "hour" })
        yield* open(2n * nano, { ttlSeconds: 86_400 })
        const later = yield* world.makeCap(tenantId, { limit: 1, period: "total" })
        yield* open(nano)
        yield* stands(0, 1, later)
        assert.strictEqual((yield* reserve(1n)).verdict, "denied")
        yield* TestClock.adjust("1 hour")
        yield* stands(0, 0)
      })
    )

    it.effect("a rolling window lets go of what it has passed, and of nothing sooner", () =>
      Effect.gen(function* () {
        const { open, reserve, settle } = yield* setting({ period: "rolling", windowSeconds: 600 })
        yield* settle(yield* open(nano), nano)
        yield* TestClock.adjust("599 seconds")
        assert.strictEqual((yield* reserve(nano)).verdict, "denied")
        yield* TestClock.adjust("11 seconds")
        assert.strictEqual((yield* reserve(nano)).verdict, "open")
      })
    )

    // Invariant L6
    it.effect("a key is good for one reservation", () =>
      Effect.gen(function* () {
        const { reserve, stands } = yield* setting({})
        const key = { route: "POST /api/spend/reserve", key: crypto.randomUUID(), requestSha256: "00".repeat(32) }
        const repeatable = { ...key, markReplayed: () => {} }
        const again = reserve(nano / 2n, { repeatable })
        assert.deepStrictEqual([(yield* again).verdict, (yield* again).verdict], ["open", "replay"])
        yield* stands(0, 0.5)
      })
    )

    it.effect("a reservation is its principal's, of its tenant and of its origin", () =>
      Effect.gen(function* () {
        const { close, open, stands, tenantId, world } = yield* setting({ limit: 9 })
        const id = yield* open(nano, { principal: "api-key:one" })
        const other = { principal: "api-key:two", canActForOthers: false }
        assert.strictEqual(yield* close("settle", id, other), "foreign")
        assert.strictEqual(yield* close("release", id, { ...other, tenantId }), "foreign")
        assert.strictEqual(yield* close("release", id, { tenantId: yield* world.makeTenant }), "missing")
        assert.strictEqual(yield* close("release", id, { origin: "gateway" }), "managed")
        yield* stands(0, 1)
        assert.strictEqual(
          yield* close("release", id, { principal: "api-key:one", canActForOthers: false, tenantId }),
          "done"
        )
        yield* stands(0, 0)
      })
    )

    // Invariant L14
    it.effect("tenants stand in nobody's way", () =>
      Effect.gen(function* () {
        const one = yield* setting({})
        const two = yield* setting({})
        yield* one.open(nano)
        assert.strictEqual((yield* one.reserve(1n)).verdict, "denied")
        yield* two.open(nano)
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(yield* two.ledger.sweep(two.tenantId), 1)
        yield* one.stands(0, 1)
        yield* two.stands(0, 0)
      })
    )

    // Invariant L4
    it.effect("a race has one winner", () =>
      Effect.gen(function* () {
        const { ledger, open, release, settle, stands } = yield* setting({ limit: 8 })
        for (let round = 0; round < 8; round++) {
          const id = yield* open(nano)
          const closing = Effect.map(ledger.close(closeItem("settle", id, { amount: 0n })), ({ verdict }) => verdict)
          const verdicts = yield* Effect.all([settle(id, 0n), release(id), closing, settle(id, 0n)], {
            concurrency: "unbounded"
          })
          // A settle may come after a release, late; then both are done, in that order.
          const done = verdicts.filter((verdict) => verdict === "done").length
          assert.isTrue(done === 1 || (done === 2 && verdicts[1] === "done"), verdicts.join())
        }
        yield* stands(0, 0)
      })
    )

    for (const seed of ["a", "b", "c"]) {
      // Invariant L13
      it.effect(`a batch decides as its requests would one by one: ${seed}`, () =>
        Effect.gen(function* () {
          const dice = diceOf(`batch ${seed}`)
          const caps = [
            { limit: 12 },
            { limit: 1, scope: { model: "each" } },
            { unit: "requests", limit: 4, mode: "approval" },
            { unit: "tokens", limit: 200, scope: { taskType: "draft" } }
          ] as const
          const together = yield* setting(...caps)
          const alone = yield* setting(...caps)
          const asked = Array.from({ length: 30 }, () => ({
            amount: (BigInt(1 + dice.below(8)) * nano) / 8n,
            tokens: dice.below(60),
            dimensions: {
              model: dice.pick(["small", "large", undefined] as const),
              taskType: dice.pick(["draft", undefined] as const)
            }
          }))
          const items = (of: typeof alone) => asked.map(({ amount, ...members }) => of.item(amount, members))
          const [first, second] = [items(together), items(alone)]
          const single = yield* Effect.forEach(second, (one) =>
            Effect.map(alone.verdictsOf([one]), ([verdict]) => verdict)
          )
          assert.deepStrictEqual(yield* together.verdictsOf(first), single)
          assert.isAbove(new Set(single).size, 1)

          const closes = first.map((_, index) => ({
            kind: dice.chance(0.6) ? ("settle" as const) : ("release" as const),
            amount: (BigInt(dice.below(12)) * nano) / 8n,
            index
          }))
          const closed = (from: ReadonlyArray<ReserveItem>) =>
            closes.map(({ amount, index, kind }) => closeItem(kind, (from[index] as ReserveItem).id, { amount }))
          const whole = yield* together.ledger.closeBatch(closed(first))
          const parts = yield* Effect.forEach(closed(second), (one) => alone.ledger.closeBatch([one]))
          assert.deepStrictEqual(
            whole.map(({ verdict }) => verdict),
            parts.flat().map(({ verdict }) => verdict)
          )
          for (const [index, id] of together.ids.entries()) {
            const other = alone.ids[index]
            if (other === undefined || index === 1) continue
            assert.deepStrictEqual(yield* together.world.utilization(id), yield* alone.world.utilization(other))
          }
          assert.deepStrictEqual(yield* together.ledger.drift, [])
        })
      )
    }
  })
}
