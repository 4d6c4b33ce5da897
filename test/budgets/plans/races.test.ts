import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { replicas, settingOfTwo } from "../../support/plan-replicas.ts"
import { silence } from "../../support/plans.ts"
import { type Answer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

/** How many answers have each status. */
const tally = (answers: ReadonlyArray<Answer>) => {
  const counts: Record<number, number> = {}
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

layer(replicas, { excludeTestServices: true, timeout: "60 seconds" })("plans under two replicas", (it) => {
  // Invariants L1, L12
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

  // Invariant L4
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
})
