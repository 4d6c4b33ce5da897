import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { type Answer, caller, startService, TestService } from "../../support/service.ts"
import { makeDatabase } from "../../support/database.ts"
import { assertNoDrift, makeSetting, silence } from "../../support/plans.ts"
import { asSuperuser } from "../../support/statements.ts"
import { diceOf } from "../../contract/dice.ts"

/** Another replica on the same database. */
class Replica extends Context.Service<Replica, TestService["Service"]>()("test/plans/Replica") {}

const replicas = Layer.effectContext(
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const [one, other] = yield* Effect.all([startService(database), startService(database)])
    return Context.make(TestService, one).pipe(Context.add(Replica, other))
  }).pipe(Effect.orDie)
)

/** How many answers have each status. */
const tally = (answers: ReadonlyArray<Answer>) => {
  const counts: Record<number, number> = {}
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

const deadlocks = Effect.gen(function* () {
  const { database } = yield* TestService
  const rows = yield* asSuperuser(
    database,
    (sql) => sql`SELECT deadlocks::integer FROM pg_stat_database WHERE datname = current_database()`
  )
  return rows[0]?.deadlocks as number
})

layer(replicas, { excludeTestServices: true, timeout: "60 seconds" })("plans under two replicas", (it) => {
  /** A setting, and its calls by turns at both replicas. */
  const settingOfTwo = Effect.fnUntraced(function* (caps?: ReadonlyArray<object>) {
    const service = yield* TestService
    const other = yield* Replica
    const setting = yield* makeSetting(service, caps)
    let turn = 0
    const post = (path: string, body?: unknown) =>
      Effect.suspend(() =>
        caller((turn++ % 2 === 0 ? service : other).url)("POST", path, {
          key: setting.key,
          ...(body === undefined ? {} : { body })
        })
      )
    return { ...setting, post }
  })

  it.effect("64 callers draw on the last cents: as many as fit win, and not one more", () =>
    Effect.gen(function* () {
      const { figures, post, utilization, start } = yield* settingOfTwo([{}, { period: "day" }])
      for (const cents of [1, 16]) {
        const { id } = yield* start({ budgetUsd: cents / 100 })
        const answers = yield* Effect.forEach(
          Array.from({ length: 64 }),
          () => post("/api/spend/reserve", { planId: id, amountUsd: 0.01 }),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(tally(answers), { 201: cents, 402: 64 - cents })
        assert.deepInclude(yield* figures(id), { reservedUsd: cents / 100, remainingUsd: 0 })
      }
      assert.strictEqual((yield* utilization()).reserved, 0.17)
    })
  )

  it.effect("64 starts of plans on one cap hold what fits", () =>
    Effect.gen(function* () {
      const { collection, post, utilization } = yield* settingOfTwo([{ limit: 1 }])
      const answers = yield* Effect.forEach(Array.from({ length: 64 }), () => post(collection, { budgetUsd: 0.1 }), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(tally(answers), { 201: 10, 402: 54 })
      assert.deepStrictEqual(yield* utilization(), { headroom: 0, reserved: 1, spent: 0 })
    })
  )

  it.effect("complete, abort, extend and heartbeat race: exactly one end wins, and nothing stays held", () =>
    Effect.gen(function* () {
      const { collection, figures, post, utilization, start } = yield* settingOfTwo()
      for (let round = 0; round < 12; round++) {
        const { id } = yield* start({ budgetUsd: 1 })
        const path = `${collection}/${id}`
        const [completed, aborted, ...others] = yield* Effect.all(
          [
            post(`${path}/complete`),
            post(`${path}/abort`),
            post(`${path}/extend`, { additionalUsd: 0.5 }),
            post(`${path}/heartbeat`),
            post(`${path}/extend`, { additionalUsd: 0.25 })
          ],
          { concurrency: "unbounded" }
        )
        assert.sameMembers([completed.status, aborted.status], [200, 409])
        for (const { status, text } of others) assert.include([200, 409], status, text)
        assert.strictEqual((yield* figures(id)).status, completed.status === 200 ? "completed" : "aborted")
        assert.deepStrictEqual(yield* utilization(), { headroom: 10, reserved: 0, spent: 0 })
      }
    })
  )

  it.effect("a plan that is over expires once, whoever sweeps", () =>
    Effect.gen(function* () {
      const { database } = yield* TestService
      const { collection, figures, post, utilization, start } = yield* settingOfTwo()
      const ids: Array<string> = []
      for (let index = 0; index < 10; index++) ids.push((yield* start({ budgetUsd: 1 })).id)
      yield* Effect.forEach(ids, (id) => silence(database, id, 300), { concurrency: 5 })
      const answers = yield* Effect.forEach(
        ids,
        (id) => Effect.all([post(`${collection}/${id}/complete`), post(`${collection}/${id}/heartbeat`)]),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(tally(answers.flat()), { 409: 20 })
      // A start asks for all that there is, and so for what the dead ones held.
      assert.strictEqual((yield* post(collection, { budgetUsd: 10 })).status, 201)
      assert.strictEqual((yield* utilization()).reserved, 10)
      for (const id of ids) assert.strictEqual((yield* figures(id)).status, "expired")
      const ended = yield* asSuperuser(
        database,
        (sql) => sql`
          SELECT entity_id AS id, count(*)::integer AS times FROM audit_entries
          WHERE action_type = 'PlanExpired' AND entity_id = ANY (${ids}) GROUP BY entity_id`
      )
      assert.sameDeepMembers(
        ended.map(({ id, times }) => [id, times]),
        ids.map((id) => [id, 1])
      )
    })
  )

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
