import { assert, layer } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { TestClock } from "effect/testing"
import * as crypto from "node:crypto"
import { ChargeId } from "../../../src/budgets/ledger/domain.ts"
import { sqlStateOf } from "../../../src/budgets/ledger/repository.ts"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { type TenantId } from "../../../src/kernel/identifier.ts"
import { diceOf } from "../../contract/dice.ts"
import { OwnDatabase } from "../../support/clock.ts"
import { audit, closeItem, ledgerLayer, makeCap, makeTenant, reserveItem } from "../../support/ledger.ts"
import { asSuperuser } from "../../support/statements.ts"

const start = Date.UTC(2031, 4, 5, 10)
const nano = 1_000_000_000n
const programs = Number(process.env.LEDGER_PROGRAMS ?? "8")

interface Counter {
  readonly unit: string
  readonly used: string
  readonly spent: string
  readonly limit: string
}

/** Every counter of a tenant that is above its limit. */
const above = (tenantId: TenantId, what: "spent" | "spent + reserved") =>
  Effect.flatMap(OwnDatabase, (database) =>
    asSuperuser(database, (sql) =>
      sql.unsafe<Counter>(
        `SELECT c.unit, (${what})::text AS used, k.spent::text, c.limit_amount::text AS "limit"
         FROM budget_counters k JOIN budget_caps c ON c.tenant_id = k.tenant_id AND c.id = k.cap_id
         WHERE k.tenant_id = $1 AND c.mode = 'hard' AND ${what} > c.limit_amount`,
        [tenantId]
      )
    )
  )

/** The statements of a function that set what a counter has reserved: up to their conditions, with what they return. */
const raising = (body: string) =>
  body
    .split("UPDATE budget_counters")
    .slice(1)
    .map((statement) => (statement.split(";")[0] ?? "").replace(/WHERE.*?(?=RETURNING|$)/s, ""))
    .filter((statement) => statement.includes("reserved = "))

layer(ledgerLayer(), { timeout: "60 seconds" })("the invariants of the ledger", (it) => {
  for (let program = 0; program < programs; program++) {
    // Invariants L2, L8
    it.effect(`what the gateway spends is never above a hard cap, and in the end nothing is open: ${program}`, () =>
      Effect.gen(function* () {
        yield* TestClock.setTime(start)
        const dice = diceOf(`gateway ${program}`)
        const ledger = yield* Ledger
        const tenantId = yield* makeTenant
        yield* makeCap(tenantId, { limit: 5, period: "hour" })
        yield* makeCap(tenantId, { limit: 2, period: "day", scope: { model: "each" } })
        yield* makeCap(tenantId, { unit: "tokens", limit: 400, period: "rolling", windowSeconds: 600 })
        yield* makeCap(tenantId, { unit: "requests", limit: 9, period: "rolling", windowSeconds: 60 })
        const open: Array<ReturnType<typeof reserveItem>> = []
        for (let step = 0; step < 50; step++) {
          const items = Array.from({ length: 1 + dice.below(4) }, () =>
            reserveItem(tenantId, (BigInt(1 + dice.below(12)) * nano) / 8n, {
              origin: "gateway",
              tokens: dice.below(60),
              ttlSeconds: dice.pick([5, 60, 900]),
              dimensions: { model: dice.pick(["small", "large"]) }
            })
          )
          const results = yield* ledger.reserveBatch(items)
          open.push(...items.filter((_, index) => results[index]?.verdict === "open"))
          // A call costs at most what it reserved; some are never heard of again, and are charged all of it.
          const closing = open.splice(0, dice.below(4)).filter(() => dice.chance(0.8))
          yield* ledger.closeBatch(
            closing.map(({ amount, id, tokens }) => {
              const share = BigInt(dice.below(5))
              const part = { amount: (amount * share) / 4n, tokens: Math.floor((tokens * Number(share)) / 4) }
              return closeItem(dice.chance(0.8) ? "settle" : "release", id, { origin: "gateway", ...part })
            })
          )
          if (dice.chance(0.2)) yield* ledger.sweep(tenantId)
          if (dice.chance(0.3)) yield* TestClock.adjust(dice.pick([2000, 30_000, 610_000]))
          assert.deepStrictEqual(yield* above(tenantId, "spent + reserved"), [])
          assert.deepStrictEqual(yield* above(tenantId, "spent"), [])
        }
        yield* TestClock.adjust("1 hour")
        while ((yield* ledger.sweep(tenantId)) > 0);
        const left = yield* asSuperuser(
          yield* OwnDatabase,
          (sql) => sql`
            SELECT id FROM budget_reservations WHERE tenant_id = ${tenantId} AND state IN ('open', 'held')
            UNION ALL SELECT id FROM budget_counters WHERE tenant_id = ${tenantId} AND reserved <> 0`
        )
        assert.deepStrictEqual(left, [])
        assert.deepStrictEqual(yield* ledger.drift, [])
      })
    )
  }

  for (const [what, statement, state] of [
    ["a counter that would overflow", "UPDATE budget_counters SET spent = 9223372036854775807", "22003"],
    ["less than nothing spent", "UPDATE budget_counters SET spent = -1", "23514"],
    ["less than nothing reserved", "UPDATE budget_counters SET reserved = -1", "23514"],
    ["a period without time", "UPDATE budget_counters SET period_end = period_start", "23514"],
    ["buckets without a ring", "UPDATE budget_counters SET bucket_seconds = 1", "23514"],
    ["a ring without buckets", "UPDATE budget_counters SET ring = '{0}'", "23514"],
    [
      "a new counter that has no period",
      `INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at)
       SELECT tenant_id, new_id(), cap_id, 'other', period_end, period_end, unit, created_at FROM budget_counters LIMIT 1`,
      "23514"
    ],
    ["a settlement without a charge", "UPDATE budget_reservations SET state = 'settled'", "23514"],
    ["a charge of what is not settled", "UPDATE budget_reservations SET charge_id = id", "23514"],
    [
      "a new reservation that is settled without a charge",
      `INSERT INTO budget_reservations (tenant_id, id, state, origin, amount, tokens, ttl_seconds, expires_at, created_at,
         created_by, counter_ids)
       SELECT tenant_id, new_id(), 'settled', origin, 1, 1, 1, expires_at, created_at, created_by, counter_ids
       FROM budget_reservations LIMIT 1`,
      "23514"
    ]
  ] as const) {
    // Invariant L22
    it.effect(`the database refuses ${what}`, () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const tenantId = yield* makeTenant
        yield* makeCap(tenantId, { limit: 10 })
        yield* ledger.reserveBatch([reserveItem(tenantId, nano)])
        const refused = yield* asSuperuser(yield* OwnDatabase, (sql) =>
          Effect.exit(Effect.orDie(sql.unsafe(statement)))
        )
        assert.strictEqual(Exit.isFailure(refused) ? sqlStateOf(refused.cause) : "done", state)
      })
    )
  }

  // Invariant L1
  it.effect("every statement that raises what is reserved names what is spent, or returns the sum", () =>
    Effect.gen(function* () {
      const functions = yield* asSuperuser(
        yield* OwnDatabase,
        (sql) => sql<{ readonly name: string; readonly body: string }>`
          SELECT proname AS name, prosrc AS body FROM pg_proc WHERE prosrc LIKE '%UPDATE budget\\_counters%'`
      )
      const unguarded = functions.filter(({ body }) =>
        raising(body).some((statement) => !/\bspent = |spent \+ b\.reserved/.test(statement))
      )
      // It only takes back what was just reserved.
      assert.deepStrictEqual(
        unguarded.map(({ name }) => name),
        ["budget_return_needs"]
      )
      assert.isAtLeast(functions.length, 8)
    })
  )

  // Invariant L7
  it.effect("no bucket of a rolling window goes below nothing, whenever what it counted comes back", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(start)
      const dice = diceOf("buckets")
      const ledger = yield* Ledger
      const database = yield* OwnDatabase
      const tenantId = yield* makeTenant
      yield* makeCap(tenantId, { limit: 100, period: "rolling", windowSeconds: 600 })
      const charges: Array<{ readonly chargeId: ChargeId; left: bigint }> = []
      for (let step = 0; step < 120; step++) {
        const item = reserveItem(tenantId, nano)
        yield* ledger.reserveBatch([item])
        const close = closeItem("settle", item.id, { amount: BigInt(dice.below(9)) * (nano / 8n) })
        yield* ledger.closeBatch([close])
        charges.push({ chargeId: close.chargeId, left: close.amount })
        yield* TestClock.adjust(dice.pick([0, 1000, 9000, 45_000, 400_000]))
        const refunded = dice.pickOr(charges, undefined)
        if (refunded === undefined || refunded.left === 0n || dice.chance(0.3)) continue
        const amount = dice.chance(0.5) ? refunded.left : 1n
        const { verdict } = yield* ledger.refund({
          principal: "system",
          audit,
          id: ChargeId.make(crypto.randomUUID()),
          chargeId: refunded.chargeId,
          tenantId,
          amount,
          reason: "credited",
          isSystem: true
        })
        assert.strictEqual(verdict, "done")
        refunded.left -= amount
        const [ring] = yield* asSuperuser(
          database,
          (sql) => sql<{ readonly lowest: string; readonly sums: boolean }>`
            SELECT (SELECT min(b) FROM unnest(ring) b)::text AS lowest, spent = budget_ring_sum(ring) AS sums
            FROM budget_counters WHERE tenant_id = ${tenantId}`
        )
        assert.isTrue(ring?.sums)
        assert.isAtLeast(Number(ring?.lowest), 0)
      }
      assert.deepStrictEqual(yield* ledger.drift, [])
    })
  )

  // Invariant L14
  it.effect("nobody settles, releases, extends, approves, denies, refunds or sweeps what is another tenant's", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(start)
      const ledger = yield* Ledger
      const database = yield* OwnDatabase
      const tenantId = yield* makeTenant
      const stranger = yield* makeTenant
      yield* makeCap(tenantId, { limit: 2, period: "total" })
      yield* makeCap(tenantId, { limit: 0, mode: "approval", period: "total", scope: { model: "held" } })
      const [settled, open, held] = [
        reserveItem(tenantId, nano / 2n),
        reserveItem(tenantId, nano / 2n),
        reserveItem(tenantId, nano / 2n, { dimensions: { model: "held" } })
      ]
      const verdicts = (yield* ledger.reserveBatch([settled, open, held])).map(({ verdict }) => verdict)
      assert.deepStrictEqual(verdicts, ["open", "open", "held"])
      const charge = closeItem("settle", settled.id, { amount: nano / 4n })
      yield* ledger.closeBatch([charge])
      const rows = asSuperuser(
        database,
        (sql) => sql`
          SELECT to_json(r)::text AS row FROM budget_reservations r WHERE tenant_id = ${tenantId}
          UNION ALL SELECT to_json(e)::text FROM budget_entries e WHERE tenant_id = ${tenantId}
          UNION ALL SELECT to_json(k)::text FROM budget_counters k WHERE tenant_id = ${tenantId} ORDER BY 1`
      )
      const before = yield* rows
      const by = { principal: "service-account", audit, tenantId: stranger }
      yield* TestClock.adjust("2 days")
      const outcomes = [
        ...(yield* ledger.closeBatch([closeItem("settle", open.id, { ...by, amount: 1n })])),
        ...(yield* ledger.closeBatch([closeItem("release", open.id, by)])),
        yield* ledger.extend({ ...by, id: open.id, origin: "api", canActForOthers: true, ttlSeconds: 60 }),
        yield* ledger.deny({ ...by, id: held.id, reason: "no" }),
        yield* ledger.refund({
          ...by,
          id: ChargeId.make(crypto.randomUUID()),
          chargeId: charge.chargeId,
          amount: 1n,
          reason: "mine",
          isSystem: true
        })
      ].map(({ verdict }) => verdict)
      assert.deepStrictEqual(outcomes, ["missing", "missing", "missing", "missing", "missing"])
      const approved = yield* ledger.reserveBatch([{ ...held, tenantId: stranger, kind: "override", audit }])
      assert.strictEqual(approved[0]?.verdict, "gone")
      assert.strictEqual(yield* ledger.sweep(stranger), 0)
      yield* ledger.reclaim(stranger)
      assert.deepStrictEqual(yield* rows, before)
    })
  )
})
