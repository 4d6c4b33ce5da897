import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { diceOf } from "../contract/dice.ts"
import { replicas, settingOfTwo } from "../support/plan-replicas.ts"
import { assertNoDrift } from "../support/plans.ts"
import { TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"

const deadlocks = Effect.gen(function* () {
  const { database } = yield* TestService
  const rows = yield* asSuperuser(
    database,
    (sql) => sql`SELECT deadlocks::integer FROM pg_stat_database WHERE datname = current_database()`
  )
  return rows[0]?.deadlocks as number
})

layer(replicas, { excludeTestServices: true, timeout: "60 seconds" })("plans under two replicas", (it) => {
  it.effect("a storm of everything at once: no fault, no deadlock, no cap or plan above its limit", () =>
    Effect.gen(function* () {
      const caps = [{ limit: 30 }, { limit: 25, period: "total" }, { limit: 15, period: "day" }]
      const { call, capIds, collection, post, utilization, start } = yield* settingOfTwo(caps)
      const before = yield* deadlocks
      const dice = diceOf("plans")
      const plans: Array<string> = []
      for (let index = 0; index < 4; index++) plans.push((yield* start({ budgetUsd: 1 })).id)
      const open: Array<string> = []
      const faults: Array<string> = []
      const step = Effect.gen(function* () {
        const plan = `${collection}/${dice.pickOr(plans, "")}`
        const reservation = dice.pickOr(open, "")
        const roll = dice.below(20)
        const answer = yield* roll < 8
          ? post("/api/spend/reserve", {
              amountUsd: (1 + dice.below(20)) / 100,
              ...(dice.chance(0.8) ? { planId: dice.pickOr(plans, "") } : {})
            })
          : roll < 12 && reservation !== ""
            ? post("/api/spend/reconcile", { reservationId: reservation, actualUsd: dice.below(20) / 100 })
            : roll < 14 && reservation !== ""
              ? call("DELETE", `/api/spend/reservations/${reservation}`)
              : roll < 15
                ? post(`${plan}/extend`, { additionalUsd: 0.25 })
                : roll < 16
                  ? post(`${plan}/heartbeat`)
                  : roll < 17
                    ? post(`${plan}/abort`)
                    : roll < 18
                      ? post(`${plan}/complete`)
                      : post(collection, { budgetUsd: 0.5 })
        if (answer.status >= 500) faults.push(answer.text)
        if (answer.status !== 201) return
        if ("budgetUsd" in answer.body) plans.push(answer.body.id)
        else open.push(answer.body.id)
      })
      yield* Effect.forEach(Array.from({ length: 1200 }), () => step, { concurrency: 64, discard: true })
      assert.deepStrictEqual(faults, [])
      assert.strictEqual(yield* deadlocks, before)
      assert.isAbove(open.length, 100)
      yield* assertNoDrift((yield* TestService).database)
      for (const { budgetUsd, remainingUsd, reservedUsd } of (yield* call("GET", `${collection}?status=active`)).body
        .items) {
        assert.isAtMost(reservedUsd + remainingUsd, budgetUsd)
      }
      for (const id of plans) yield* post(`${collection}/${id}/abort`)
      for (const id of open) yield* call("DELETE", `/api/spend/reservations/${id}`)
      for (const capId of capIds) assert.strictEqual((yield* utilization(capId)).reserved, 0)
      yield* assertNoDrift((yield* TestService).database)
    })
  )
})
