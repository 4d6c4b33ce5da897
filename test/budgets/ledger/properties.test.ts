import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as crypto from "node:crypto"
import { asSystem } from "../../../src/audit/log/service.ts"
import { Grants } from "../../../src/budgets/caps/grants.ts"
import { BudgetCaps } from "../../../src/budgets/caps/service.ts"
import { type CapId, ChargeId, type ReservationId } from "../../../src/budgets/ledger/domain.ts"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { type Dice, diceOf } from "../../contract/dice.ts"
import { audit, closeItem, ledgerLayer, makeCap, makeTenant, reserveItem, utilizationOf } from "../../support/ledger.ts"
import { LedgerModel, type ModelCap, type ModelRequest, windowSeconds } from "./model.ts"

const seed = process.env.LEDGER_SEED ?? "1"
const programs = Number(process.env.LEDGER_PROGRAMS ?? "20")
const steps = 60
const start = Date.UTC(2031, 4, 5, 10, 58)

const nano = 1_000_000_000n
const pickedModel = (dice: Dice) => (dice.chance(0.2) ? undefined : dice.pick(["small", "large"]))
const pickedTask = (dice: Dice) => (dice.chance(0.3) ? undefined : "draft")
const pickedUser = (dice: Dice) => (dice.chance(0.3) ? undefined : dice.pick(["ada", "grace"]))

const without = <A extends object>(members: A) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [Key in keyof A]: NonNullable<A[Key]>
  }

/** What a standing is of, as the model writes it. */
const keyOf = (scope: Readonly<Record<string, unknown>>, own: ModelCap["scope"]) =>
  (["model", "taskType", "userId"] as const)
    .filter((name) => own[name] === "each")
    .map((name) => scope[name])
    .join()

/** Runs one random program against the service and the model, step by step, and compares every answer. */
const runProgram = Effect.fnUntraced(function* (dice: Dice) {
  const ledger = yield* Ledger
  const caps = yield* BudgetCaps
  const grants = yield* Grants
  const tenantId = yield* makeTenant
  const model = new LedgerModel(start, 86_400)
  yield* TestClock.setTime(start)
  const charges = new Map<string, string>()
  const trail: Array<string> = []
  const agree = (what: string, actual: unknown, expected: unknown) => {
    trail.push(`${what}: ${String(actual)}`)
    assert.deepStrictEqual(actual, expected, `${trail.join("\n")}\nthe model says ${String(expected)}`)
  }

  const addCap = Effect.gen(function* () {
    const unit = dice.pick(["usd", "usd", "tokens", "requests"] as const)
    const period = dice.pick(["hour", "day", "total", "rolling"] as const)
    const mode = dice.pick(["hard", "hard", "soft", "approval"] as const)
    const limit = dice.below(unit === "tokens" ? 400 : unit === "usd" ? 12 : 8)
    const scope = without({
      model: dice.chance(0.3) ? dice.pick(["small", "each"]) : undefined,
      taskType: dice.chance(0.2) ? "draft" : undefined,
      userId: dice.chance(0.3) ? dice.pick(["ada", "each"]) : undefined
    })
    const cap = yield* makeCap(tenantId, {
      unit,
      period,
      mode,
      limit,
      scope,
      ...(period === "rolling" ? { windowSeconds } : {})
    })
    trail.push(`cap ${cap.id.slice(-4)} ${unit} ${limit} ${period} ${mode} ${JSON.stringify(scope)}`)
    const scaled = unit === "usd" ? BigInt(limit) * nano : BigInt(limit)
    const added: ModelCap = { id: cap.id, limit: scaled, unit, mode, period, scope, paused: false, grants: [] }
    model.caps.push(added)
  })

  const request = (): ModelRequest => ({
    id: reserveItem(tenantId, 0n).id,
    values: without({ model: pickedModel(dice), taskType: pickedTask(dice), userId: pickedUser(dice) }),
    amount: (BigInt(1 + dice.below(16)) * nano) / 4n,
    tokens: BigInt(dice.below(120)),
    ttlSeconds: dice.pick([5, 60, 300, 5000])
  })

  const known = () => [...model.reservations.keys()]
  const someId = () => (dice.pickOr(known(), crypto.randomUUID()) ?? "") as ReservationId

  const reserveSome = Effect.gen(function* () {
    const requests = Array.from({ length: 1 + dice.below(5) }, request)
    const results = yield* ledger.reserveBatch(
      requests.map(({ amount, id, tokens, ttlSeconds, values }) =>
        reserveItem(tenantId, amount, {
          id: id as ReservationId,
          tokens: Number(tokens),
          ttlSeconds,
          dimensions: values
        })
      )
    )
    for (const [index, one] of requests.entries()) {
      const expected = model.reserve(one)
      agree(
        `reserve ${one.id.slice(-4)} ${one.amount} ${one.tokens} ${JSON.stringify(one.values)}`,
        results[index]?.verdict,
        expected
      )
    }
  })

  const settleSome = Effect.gen(function* () {
    const ids = [...new Set(Array.from({ length: 1 + dice.below(3) }, someId))]
    const items = ids.map((id) =>
      closeItem(dice.chance(0.7) ? "settle" : "release", id, { amount: (BigInt(dice.below(16)) * nano) / 4n })
    )
    const results = yield* ledger.closeBatch(items)
    for (const [index, { amount, chargeId, id, kind }] of items.entries()) {
      const expected = kind === "settle" ? model.settle(id, amount) : model.release(id)
      agree(`${kind} ${id.slice(-4)} ${amount}`, results[index]?.verdict, expected)
      if (kind === "settle" && expected === "done") charges.set(id, chargeId)
    }
  })

  const stepsOf: ReadonlyArray<readonly [weight: number, step: Effect.Effect<void, never, never>]> = [
    [1, Effect.provideService(addCap, BudgetCaps, caps) as Effect.Effect<void>],
    [8, reserveSome],
    [5, settleSome],
    [
      2,
      Effect.gen(function* () {
        const id = someId()
        const ttl = dice.pick([5, 100])
        const item = { principal: "service-account", id, tenantId: null, origin: "api", canActForOthers: true } as const
        const { verdict } = yield* ledger.extend({ ...item, ttlSeconds: ttl })
        agree(`extend ${id.slice(-4)} ${ttl}`, verdict, model.extend(id, ttl))
      })
    ],
    [
      2,
      Effect.gen(function* () {
        const held = [...model.reservations.values()].filter((one) => one.state === "held")
        const id = (dice.pickOr(held, undefined)?.id ?? someId()) as ReservationId
        const one = model.reservations.get(id)
        const override = dice.chance(0.5)
        const [result] = yield* ledger.reserveBatch([
          reserveItem(tenantId, one?.amount ?? 1n, {
            id,
            kind: override ? "override" : "approve",
            tokens: Number(one?.tokens ?? 0n),
            ttlSeconds: one?.ttlSeconds ?? 60,
            dimensions: one?.values ?? {}
          })
        ])
        agree(`approve ${id.slice(-4)} ${override}`, result?.verdict, model.approve(id, override))
      })
    ],
    [
      1,
      Effect.gen(function* () {
        const id = someId()
        const { verdict } = yield* ledger.deny({
          principal: "service-account",
          audit,
          id,
          tenantId: null,
          reason: "no"
        })
        agree(`deny ${id.slice(-4)}`, verdict, model.deny(id))
      })
    ],
    [
      2,
      Effect.gen(function* () {
        const [id = "", charge = crypto.randomUUID()] = dice.pickOr([...charges], ["", undefined] as never)
        const amount = (BigInt(1 + dice.below(6)) * nano) / 4n
        const { verdict } = yield* ledger.refund({
          principal: "service-account",
          audit,
          id: ChargeId.make(crypto.randomUUID()),
          chargeId: ChargeId.make(charge),
          tenantId: null,
          amount,
          reason: "credited",
          isSystem: true
        })
        agree(`refund ${id.slice(-4)} ${amount}`, verdict, model.refund(id, amount))
      })
    ],
    [
      1,
      Effect.gen(function* () {
        const cap = dice.pickOr(model.caps, undefined)
        if (cap === undefined) return
        const limit = dice.below(cap.unit === "tokens" ? 400 : 10)
        cap.limit = cap.unit === "usd" ? BigInt(limit) * nano : BigInt(limit)
        cap.paused = dice.chance(0.2)
        trail.push(`edit ${cap.id.slice(-4)} to ${limit} ${cap.paused}`)
        const status = cap.paused ? ("paused" as const) : ("active" as const)
        yield* caps
          .update(cap.id as CapId, { name: "edited", limit, status })
          .pipe(Effect.orDie, asSystem, Effect.asVoid)
      })
    ],
    [
      1,
      Effect.gen(function* () {
        const cap = dice.pickOr(model.caps, undefined)
        if (cap === undefined) return
        const until = model.now + 600_000
        cap.grants.push({ amount: cap.unit === "usd" ? 2n * nano : 2n, until, key: null })
        trail.push(`grant ${cap.id.slice(-4)}`)
        yield* grants
          .create(cap.id as CapId, { amount: 2, reason: "more", expiresAt: DateTime.makeUnsafe(until) })
          .pipe(Effect.orDie, asSystem, Effect.asVoid)
      })
    ],
    [
      3,
      Effect.gen(function* () {
        const millis = dice.pick([1000, 7000, 65_000, 610_000, 3_600_000])
        model.now += millis
        trail.push(`${millis} ms later`)
        yield* TestClock.setTime(model.now)
      })
    ],
    [
      1,
      Effect.gen(function* () {
        agree("sweep", yield* ledger.sweep(tenantId), model.sweep())
      })
    ]
  ]
  const weighted = stepsOf.flatMap(([weight, step]) => Array.from({ length: weight }, () => step))

  for (let count = 1 + dice.below(4); count > 0; count--) yield* addCap
  for (let count = 0; count < steps; count++) {
    yield* dice.pickOr(weighted, Effect.void)
  }

  for (const expected of model.utilizations()) {
    const utilizations = yield* utilizationOf(expected.capId)
    const cap = model.caps.find(({ id }) => id === expected.capId)
    const utilization = utilizations.find(({ scope }) => keyOf(scope, cap?.scope ?? {}) === expected.key)
    const scale = cap?.unit === "usd" ? 1e9 : 1
    agree(
      `spent of ${expected.capId.slice(-4)} ${expected.key}`,
      Math.round((utilization?.spent ?? -1) * scale),
      Number(expected.spent)
    )
    agree(
      `reserved of ${expected.capId.slice(-4)}`,
      Math.round((utilization?.reserved ?? -1) * scale),
      Number(expected.reserved)
    )
  }
  agree(
    "drift",
    JSON.stringify(yield* ledger.drift, (_, value) => (typeof value === "bigint" ? String(value) : value)),
    "[]"
  )
})

layer(ledgerLayer(), { timeout: "60 seconds" })("the ledger does what its model does", (it) => {
  for (let program = 0; program < programs; program++) {
    // Invariants L1, L3
    it.effect(`program ${seed}/${program}`, () => runProgram(diceOf(`${seed}/${program}`)), 60_000)
  }
})
