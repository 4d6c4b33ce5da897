import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { configure, model, provider } from "../../support/gateway.ts"
import { assertProblem } from "../../support/problem.ts"
import { startProvider } from "../../support/provider.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the scope of a cap", (it) => {
  it.effect("that names a model by an alias, or at its provider, is the model's", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", standIn)], [{ ...model("large", ["oa"]), aliases: ["best"] }])
      for (const name of ["best", "oa/large", "large"]) {
        const { key } = yield* makeKey(service, ["llm:*", "budgets:*", "spend:*"], {
          tenantId: yield* makeTenant(service.database)
        })
        const cap = { name: "none", unit: "usd", limit: 0, period: "total", scope: { model: name } }
        const made = yield* make(service, "/api/budgets/caps", cap, key)
        assert.deepStrictEqual(made.scope, { model: "large" })
        const { limit, name: title, scope } = cap
        const again = yield* service.call("PUT", `/api/budgets/caps/${made.id}`, {
          key,
          body: { limit, name: title, scope }
        })
        assert.strictEqual(again.status, 200, again.text)
        for (const asked of ["best", "large"]) {
          const body = { model: asked, messages: [{ role: "user", content: "Hi" }] }
          assertProblem(yield* service.call("POST", "/api/llm/complete", { key, body }), 402, "budget-denied")
          const reserve = { amountUsd: 0.01, model: asked }
          assertProblem(yield* service.call("POST", "/api/spend/reserve", { key, body: reserve }), 402, "budget-denied")
        }
      }
      assert.isEmpty(standIn.requests)
    }).pipe(Effect.scoped)
  )

  it.effect("counts what a reservation used under an alias, which reports show as the model's", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", standIn)], [{ ...model("large", ["oa"]), aliases: ["best"] }])
      const { key } = yield* makeKey(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })
      const { id: reservationId } = yield* make(service, "/api/spend/reserve", { amountUsd: 1 }, key)
      const body = { reservationId, usage: { model: "best", inputTokens: 10, outputTokens: 10 } }
      const reconciled = yield* service.call("POST", "/api/spend/reconcile", { key, body })
      assert.strictEqual(reconciled.status, 200, reconciled.text)
      const [row] = (yield* service.call("GET", "/api/usage", { key })).body.items
      assert.strictEqual(row.model, "large")
    }).pipe(Effect.scoped)
  )

  it.effect("that names what the catalogue does not have stays as it is", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* makeKey(service, ["llm:*", "budgets:*", "spend:*"], {
        tenantId: yield* makeTenant(service.database)
      })
      const scope = { model: "a model of our own" }
      const cap = { name: "none", unit: "usd", limit: 0, period: "total", scope }
      assert.deepStrictEqual((yield* make(service, "/api/budgets/caps", cap, key)).scope, scope)
      const body = { amountUsd: 0.01, ...scope }
      assertProblem(yield* service.call("POST", "/api/spend/reserve", { key, body }), 402, "budget-denied")
    })
  )
})
