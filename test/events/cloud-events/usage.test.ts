import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertNoDrift, makeSetting } from "../../support/plans.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

let made = 0
const usage = (data: object, more: object = {}) => ({
  specversion: "1.0",
  id: `u-${++made}`,
  source: "https://batch.example.com",
  type: "com.application-manager.usage.recorded",
  data,
  ...more
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: 60_000 })("recorded usage", (it) => {
  const setting = Effect.fnUntraced(function* (...given: ReadonlyArray<object>) {
    const service = yield* TestService
    const made = yield* makeSetting(service, given.length === 0 ? [{}] : given)
    const publish = (events: object, key = made.key) =>
      service.call("POST", "/api/cloudevents", {
        key,
        body: events,
        headers: {
          "content-type": `application/cloudevents${Array.isArray(events) ? "-batch" : ""}+json`
        }
      })
    const charges = asSuperuser(
      service.database,
      (sql) => sql<{ readonly amount: string; readonly late: boolean; readonly agent: string | null }>`
        SELECT e.amount::text, e.late, r.agent_id AS agent FROM budget_entries e
        JOIN budget_reservations r ON r.tenant_id = e.tenant_id AND r.id = e.reservation_id
        WHERE e.tenant_id = ${made.tenantId} ORDER BY e.amount, e.id`
    )
    return { service, publish, charges, ...made }
  })

  it.effect("is charged on full caps of every unit and mode, and nothing is admitted after it", () =>
    Effect.gen(function* () {
      const { call, capIds, charges, publish, service, utilization } = yield* setting(
        { unit: "requests", limit: 1 },
        { unit: "tokens", limit: 100 },
        { limit: 1, mode: "approval" },
        { unit: "usd", limit: 1, period: "rolling", windowSeconds: 3600 }
      )
      const data = { usage: { model: "loopback-1", inputTokens: 90, outputTokens: 20 } }
      for (let count = 1; count <= 3; count++) {
        const answer = yield* publish(usage(count === 2 ? data : { actualUsd: 0.75 }))
        assert.deepStrictEqual([answer.status, answer.body], [201, { accepted: 1, repeated: 0 }])
      }
      assert.deepStrictEqual(
        yield* Effect.forEach(capIds, (id) => Effect.map(utilization(id), ({ spent }) => spent)),
        [3, 110, 1.50013, 1.50013]
      )
      assert.deepStrictEqual(
        (yield* charges).map(({ late }) => late),
        [true, true, true]
      )
      assertProblem(yield* call("POST", "/api/spend/reserve", { amountUsd: 0.1 }), 402, "budget-denied")
      yield* assertNoDrift(service.database)
    })
  )

  it.effect("is charged to a plan that has ended, and to an agent that was retired", () =>
    Effect.gen(function* () {
      const { agentId, call, charges, figures, planCall, publish, service, start, utilization } = yield* setting()
      const plan = yield* start({ taskType: "extraction" })
      assert.strictEqual((yield* publish(usage({ planId: plan.id, actualUsd: 0.5 }))).status, 201)
      assert.deepInclude(yield* figures(plan.id), { status: "active", spentUsd: 0.5, remainingUsd: 4.5 })
      assert.deepInclude(yield* utilization(), { spent: 0.5, reserved: 4.5 })
      assert.strictEqual((yield* planCall(plan.id, "complete")).status, 200)
      assert.strictEqual((yield* publish(usage({ planId: plan.id, actualUsd: 7 }))).status, 201)
      assert.deepInclude(yield* figures(plan.id), { status: "completed", spentUsd: 7.5 })
      assert.strictEqual((yield* call("DELETE", `/api/agents/${agentId}`)).status, 204)
      assert.strictEqual((yield* publish(usage({ agentId, actualUsd: 9 }))).status, 201)
      assert.deepInclude(yield* utilization(), { spent: 16.5, reserved: 0 })
      assert.deepStrictEqual(
        (yield* charges).map(({ agent }) => agent),
        [agentId, agentId, agentId]
      )
      yield* assertNoDrift(service.database)
    })
  )

  it.effect("is taken with the other events of its batch, or nothing is", () =>
    Effect.gen(function* () {
      const { charges, key, publish, service, utilization } = yield* setting()
      const good = usage({ actualUsd: 1 })
      const other = { ...usage({}), type: "com.example.night.ended" }
      const unknown = usage({ actualUsd: 1, agentId: "0198a5b0-7c00-7000-8000-00000000002a" })
      const faulty = yield* publish([good, usage({ actualUsd: -1 }), other, usage({ model: "m" })])
      assertProblem(faulty, 400, "validation-failed")
      assert.sameMembers([...faultPaths(faulty)], ["payload.1.data.actualUsd", "payload.3.data.actualUsd"])
      assertProblem(yield* publish([good, other, unknown]), 404, "agent-not-found")
      assertProblem(
        yield* publish([good, usage({ usage: { model: "no-such-model", inputTokens: 1, outputTokens: 1 } })]),
        400,
        "price-unknown"
      )
      assert.isEmpty(yield* charges)
      const batch = yield* publish([other, good, usage({ actualUsd: 2 })])
      assert.deepStrictEqual([batch.status, batch.body], [201, { accepted: 3, repeated: 0 }])
      const again = yield* publish([good, other, unknown].slice(0, 2))
      assert.deepStrictEqual([again.status, again.body], [200, { accepted: 0, repeated: 2 }])
      assert.strictEqual((yield* utilization()).spent, 3)
      const entries = yield* service.call("GET", "/api/audit-logs?actionType=EventReceived", { key })
      const ids = entries.body.items.map(({ entityId }: { readonly entityId: string }) => entityId)
      assert.lengthOf(ids, 3)
      assert.includeMembers(ids, [good.id, other.id])
    })
  )

  it.effect(
    "is charged once, whoever sends it at the same time, and long after its idempotency key would have ended",
    () =>
      Effect.gen(function* () {
        const { charges, publish, service, utilization } = yield* setting()
        const events = Array.from({ length: 5 }, () => usage({ actualUsd: 0.5 }))
        const answers = yield* Effect.forEach(
          [events, events.toReversed(), events.slice(2), events],
          (batch) => publish(batch),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(
          answers.reduce((sum, { body }) => sum + body.accepted, 0),
          5,
          answers.map(({ text }) => text).join()
        )
        assert.strictEqual((yield* utilization()).spent, 2.5)
        yield* asSuperuser(service.database, (sql) => sql`DELETE FROM idempotency_keys`)
        assert.strictEqual((yield* publish(events)).status, 200)
        assert.lengthOf(yield* charges, 5)
        yield* assertNoDrift(service.database)
      })
  )

  it.effect("409: a counter that can hold no more, and the rest of the batch with it", () =>
    Effect.gen(function* () {
      const { capIds, charges, publish, service } = yield* setting()
      assert.strictEqual((yield* publish(usage({ actualUsd: 1 }))).status, 201)
      yield* asSuperuser(
        service.database,
        (sql) => sql`UPDATE budget_counters SET spent = 9223372036854775807 WHERE cap_id = ${capIds[0] ?? ""}`
      )
      assertProblem(yield* publish([usage({ actualUsd: 0 }), usage({ actualUsd: 1 })]), 409, "counter-full")
      assert.lengthOf(yield* charges, 1)
      yield* asSuperuser(
        service.database,
        (sql) => sql`UPDATE budget_counters SET spent = 1000000000 WHERE cap_id = ${capIds[0] ?? ""}`
      )
    })
  )
})
