import { assert } from "@effect/vitest"
import { DateTime, Effect, Layer, Option } from "effect"
import { TestClock } from "effect/testing"
import * as crypto from "node:crypto"
import { type AgentId } from "../../../src/agents/agents/domain.ts"
import { BudgetCaps } from "../../../src/budgets/caps/service.ts"
import { type PlanId } from "../../../src/budgets/ledger/domain.ts"
import { auditEntryOf } from "../../../src/budgets/ledger/protocol-domain.ts"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { planActions } from "../../../src/budgets/plans/domain.ts"
import { PlansRepository } from "../../../src/budgets/plans/repository.ts"
import { PlanChanges } from "../../../src/budgets/plans/service.ts"
import { Database } from "../../../src/platform/database/database.ts"
import { type Dice } from "../../contract/dice.ts"
import { audit, closeItem, ledgerLayer, makeCap, makeTenant, reserveItem, utilizationOf } from "../../support/ledger.ts"
import { PlansModel } from "./model.ts"

const steps = 70
// A Sunday, some hours before the end of a day and of a week, which live plans then pass.
const begin = Date.UTC(2031, 4, 11, 20)
const quarter = 250_000_000n
const quarters = (count: number) => BigInt(count) * quarter

/** Plans and the ledger on a database of their own, on the clock of the test. */
export const plansLayer = PlanChanges.layer.pipe(
  Layer.provideMerge(PlansRepository.layer),
  Layer.provideMerge(ledgerLayer())
)

/** Runs one random program against the service and the model, and compares every answer and every figure. */
export const runProgram = Effect.fnUntraced(function* (dice: Dice, isOfGateway: boolean) {
  const caps = yield* BudgetCaps
  const database = yield* Database
  const changes = yield* PlanChanges
  const ledger = yield* Ledger
  const repository = yield* PlansRepository
  yield* TestClock.setTime(begin)
  const tenantId = yield* makeTenant
  const agentId = crypto.randomUUID() as AgentId
  const dimensions = { agentId }
  const total = yield* makeCap(tenantId, { limit: 12 + dice.below(30), period: "total", scope: {} })
  const week = yield* makeCap(tenantId, { limit: 4 + dice.below(20), period: "week", scope: { agentId: "each" } })
  const today = yield* makeCap(tenantId, { limit: 2 + dice.below(12), period: "day", scope: {} })
  const large = yield* makeCap(tenantId, { limit: 2 + dice.below(8), period: "total", scope: { model: "large" } })
  const model = new PlansModel(begin, [
    { id: total.id, limit: quarters(total.limit * 4), period: "total" },
    { id: week.id, limit: quarters(week.limit * 4), period: "week" },
    { id: today.id, limit: quarters(today.limit * 4), period: "day" },
    { id: large.id, limit: quarters(large.limit * 4), period: "total", model: "large" }
  ])
  const trail: Array<string> = []
  const agree = (what: string, actual: unknown, expected: unknown) => {
    trail.push(`${what}: ${String(actual)}`)
    assert.deepStrictEqual(actual, expected, `${trail.join("\n")}\nthe model says ${String(expected)}`)
  }
  const somePlan = () => dice.pickOr([...model.plans.keys()], crypto.randomUUID()) as PlanId
  const someCall = () => dice.pickOr([...model.calls.keys()], crypto.randomUUID()) as Parameters<typeof closeItem>[1]

  const requestFor = (kind: string, id: string) => ({
    kind,
    id,
    agent: agentId,
    principal: "service-account",
    waiting: false,
    entries: [auditEntryOf(1, planActions.PlanStarted, id, audit, {})]
  })
  const change = (kind: string, id: string) =>
    repository.change({
      ...requestFor(kind, id),
      now: new Date(model.now).toISOString(),
      tenant: tenantId,
      books: []
    })

  const start = Effect.gen(function* () {
    const id = reserveItem(tenantId, 0n).id
    const budget = quarters(1 + dice.below(24))
    const heartbeat = dice.pick([60, 3600, 86_400])
    const expires = dice.pick([600, 100_000, 31_536_000])
    const { outcome } = yield* changes.underCaps({ tenantId, dimensions }, false, {
      ...requestFor("start", id),
      amount: Number(budget),
      heartbeat,
      expires
    })
    agree(`start ${id.slice(-4)} ${budget}`, outcome.verdict, model.start(id, budget, heartbeat, expires))
  })

  const extend = Effect.gen(function* () {
    const id = somePlan()
    const additional = quarters(1 + dice.below(8))
    const { outcome } = yield* changes.underCaps({ tenantId, dimensions }, false, {
      ...requestFor("extend", id),
      amount: Number(additional),
      most: Number.MAX_SAFE_INTEGER
    })
    agree(`extend ${id.slice(-4)} ${additional}`, outcome.verdict, model.extend(id, additional))
  })

  const draw = Effect.gen(function* () {
    const requests = Array.from({ length: 1 + dice.below(4) }, () => {
      const plan = dice.chance(0.85) ? somePlan() : undefined
      const named = dice.chance(0.3) ? "large" : undefined
      return reserveItem(tenantId, quarters(1 + dice.below(6)), {
        ttlSeconds: dice.pick([60, 5000, 80_000]),
        dimensions: named === undefined ? dimensions : { ...dimensions, model: named },
        ...(plan === undefined ? {} : { plan: { id: plan, name: null } })
      })
    })
    const results = yield* ledger.reserveBatch(requests)
    for (const [index, { amount, dimensions: named, id, plan, ttlSeconds }] of requests.entries()) {
      const expected = model.reserve(id, plan?.id, amount, ttlSeconds, named.model)
      agree(`draw ${id.slice(-4)} of ${plan?.id.slice(-4)} ${amount}`, results[index]?.verdict, expected)
    }
  })

  const close = Effect.gen(function* () {
    const id = someCall()
    const kind = dice.chance(0.7) ? "settle" : "release"
    const reserved = model.calls.get(id)?.amount ?? 0n
    const actual = quarters(dice.below(isOfGateway ? Number(reserved / quarter) + 1 : 8))
    const [result] = yield* ledger.closeBatch([closeItem(kind, id, { amount: actual })])
    agree(
      `${kind} ${id.slice(-4)} ${actual}`,
      result?.verdict,
      kind === "settle" ? model.settle(id, actual) : model.release(id)
    )
  })

  const finish = Effect.gen(function* () {
    const id = somePlan()
    const ending = dice.pick(["completed", "aborted"] as const)
    agree(`${ending} ${id.slice(-4)}`, (yield* change(ending, id)).verdict, model.finish(id, ending))
  })

  const heartbeat = Effect.gen(function* () {
    const id = somePlan()
    agree(`heartbeat ${id.slice(-4)}`, (yield* change("heartbeat", id)).verdict, model.heartbeat(id))
  })

  // Open calls and plans do not count on it; an extension asks it for all that the plan then has left.
  const addCap = Effect.gen(function* () {
    if (dice.chance(0.5)) return
    const limit = 1 + dice.below(8)
    const cap = yield* Effect.provideService(makeCap(tenantId, { limit, period: "total", scope: {} }), BudgetCaps, caps)
    model.caps.splice(-1, 0, { id: cap.id, limit: quarters(limit * 4), period: "total" })
    trail.push(`cap ${limit}`)
  })

  const wait = Effect.gen(function* () {
    const seconds = dice.pick([1, 30, 1000, 5000, 20_000, 90_000])
    model.now += seconds * 1000
    yield* TestClock.setTime(model.now)
    trail.push(`wait ${seconds}`)
  })

  const sweep = Effect.gen(function* () {
    yield* ledger.sweep(tenantId)
    model.reclaim()
    trail.push("sweep")
  })

  const check = Effect.gen(function* () {
    const at = DateTime.makeUnsafe(model.now)
    for (const [id, plan] of model.plans) {
      const stored = yield* database.transaction("all", repository.find(agentId, id as PlanId, at))
      const { budget, reserved, spent, status } = Option.getOrThrow(stored)
      agree(
        `plan ${id.slice(-4)}`,
        `${budget} ${spent} ${reserved} ${status}`,
        [plan.budget, plan.spent, plan.reserved, model.statusOf(plan)].join(" ")
      )
      // A call of the gateway costs at most what it holds; one that settles late may cost what others have drawn since.
      if (isOfGateway && !plan.hasLateCalls) {
        assert.isTrue(plan.spent + plan.reserved <= plan.budget, trail.join("\n"))
      }
    }
    for (const cap of model.caps) {
      const place = model.placeOf(cap)
      const [utilization] = yield* utilizationOf(cap.id)
      const shown = utilization === undefined ? [0, 0] : [utilization.spent, utilization.reserved]
      const expected = [model.spent.get(place) ?? 0n, model.reserved(place)].map((amount) => Number(amount) / 1e9)
      agree(`cap ${cap.period}`, shown.join(" "), expected.join(" "))
    }
  })

  const all: ReadonlyArray<readonly [weight: number, step: Effect.Effect<void>]> = [
    [4, start],
    [3, extend],
    [10, draw],
    [8, close],
    [2, finish],
    [4, heartbeat],
    [1, addCap],
    [4, wait],
    [1, sweep]
  ]
  const lots = all.flatMap(([weight, step]) => Array.from({ length: weight }, () => step))
  for (let index = 0; index < steps; index++) {
    yield* dice.pickOr(lots, start)
    if (index % 5 === 4) yield* check
  }
  assert.deepStrictEqual(yield* ledger.drift, [], trail.join("\n"))
  const opened = [...model.plans.values()]
  return {
    drawn: [...model.calls.values()].filter(({ plan }) => plan !== undefined).length,
    ended: opened.filter(({ ended }) => ended !== undefined).length
  }
})
