import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("/api/spend", (it) => {
  it.effect("201: reserves, settles what it did cost, and gives the rest back", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["spend:*", "budgets:*"], { tenantId })
      const cap = yield* service.call("POST", "/api/budgets/caps", {
        key,
        body: { name: "monthly", unit: "usd", limit: 1, period: "month" }
      })
      assert.strictEqual(cap.status, 201, cap.text)
      const reserved = yield* service.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 0.6 } })
      assert.strictEqual(reserved.status, 201, reserved.text)
      assert.deepInclude(reserved.body, { state: "open", amountUsd: 0.6, tokens: 0, remainingTtlSeconds: 300 })
      assert.deepStrictEqual(
        reserved.body.caps.map(({ headroom, name }: { headroom: number; name: string }) => [name, headroom]),
        [["monthly", 0.4]]
      )
      const denied = yield* service.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 0.5 } })
      assertProblem(denied, 402, "budget-denied")
      assert.deepInclude(denied.body, {
        reason: "in-flight",
        capId: cap.body.id,
        limit: 1,
        spent: 0,
        reserved: 0.6,
        headroom: 0.4
      })
      const body = { reservationId: reserved.body.id, actualUsd: 0.25 }
      const settled = yield* service.call("POST", "/api/spend/reconcile", { key, body })
      assert.strictEqual(settled.status, 200, settled.text)
      assert.deepInclude(settled.body.reservation, { state: "settled", actualUsd: 0.25 })
      assert.deepInclude(settled.body.charge, { amountUsd: 0.25, overrunUsd: 0, late: false })
      assert.deepStrictEqual((yield* service.call("POST", "/api/spend/reconcile", { key, body })).body, settled.body)
      const status = yield* service.call("GET", "/api/budgets/caps-status", { key })
      assert.deepInclude(status.body.items[0], {
        spent: 0.25,
        reserved: 0,
        headroom: 0.75,
        percentUsed: 25,
        state: "ok"
      })
    })
  )
})
