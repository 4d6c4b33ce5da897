import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { serviceLayer, startService, TestService } from "../../support/service.ts"

const environment = { Budgets__RequireCap: "true" }

layer(serviceLayer(environment), { excludeTestServices: true, timeout: "60 seconds" })("Budgets:RequireCap", (it) => {
  it.effect("refuses what no cap governs at that moment, whoever made or ended one on which replica", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const replica = yield* startService(service.database, environment)
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["*:*"], { tenantId })
      const reserve = (model: string) =>
        service.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 1, model } })
      const uncovered = yield* reserve("small")
      assertProblem(uncovered, 402, "budget-denied")
      assert.deepInclude(uncovered.body, { capId: null, caps: [] })
      const { body: log } = yield* service.call("GET", "/api/audit-logs?actionType=SpendRefused", { key })
      assert.deepInclude(log.items[0], { entityId: null, reason: uncovered.body.detail })
      const cap = { name: "some", unit: "usd", limit: 5, period: "total", scope: { model: "small" }, mode: "soft" }
      const { id } = yield* make(replica, "/api/budgets/caps", cap, key)
      assert.strictEqual((yield* reserve("small")).status, 201)
      assertProblem(yield* reserve("large"), 402, "budget-denied")
      assert.strictEqual((yield* replica.call("DELETE", `/api/budgets/caps/${id}`, { key })).status, 204)
      assertProblem(yield* reserve("small"), 402, "budget-denied")
      assert.lengthOf((yield* service.call("GET", "/api/spend/reservations", { key })).body.items, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("asks it of plans too", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["*:*"], { tenantId })
      const { id: agentId } = yield* make(service, "/api/agents", { name: "an agent" }, key)
      const start = service.call("POST", `/api/agents/${agentId}/plans`, { key, body: { budgetUsd: 1 } })
      assertProblem(yield* start, 402, "budget-denied")
      yield* make(service, "/api/budgets/caps", { name: "all", unit: "usd", limit: 5, period: "total" }, key)
      assert.strictEqual((yield* start).status, 201)
    })
  )
})
