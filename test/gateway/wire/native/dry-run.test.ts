import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { configure, model, provider } from "../../../support/gateway.ts"
import { makeSetting } from "../../../support/plans.ts"
import { assertProblem } from "../../../support/problem.ts"
import { startProvider } from "../../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../../support/service.ts"
import { countOf } from "../../../support/statements.ts"
import { openAiVendor } from "../../../support/vendors.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a dry run", (it) => {
  it.effect("tells what a call may cost and what its caps have left; nothing is reserved, and nobody is called", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const { call, capIds, start } = yield* makeSetting(service, [
        { limit: 10 },
        { scope: { model: "each" }, limit: 2 },
        { scope: { model: "other" } }
      ])
      assert.strictEqual((yield* call("POST", "/api/spend/reserve", { amountUsd: 0.5, model: "gpt" })).status, 201)
      const before = yield* countOf(service.database, "budget_reservations")
      const body = { model: "gpt", messages: [{ role: "user", content: "Hi" }], maxTokens: 30, dryRun: true }
      const dry = yield* call("POST", "/api/llm/complete", body)
      assert.strictEqual(dry.status, 200, dry.text)
      const { caps, costUsd, inputTokens, outputTokens, totalTokens } = dry.body
      assert.deepInclude(dry.body, { dryRun: true, model: "gpt", outputTokens: 30, planId: null })
      assert.strictEqual(totalTokens, inputTokens + outputTokens)
      assert.isAbove(costUsd, 30 * 10e-6)
      assert.deepStrictEqual(
        caps.map(({ capId, headroom }: { readonly capId: string; readonly headroom: number }) => [capId, headroom]),
        [
          [capIds[0], 9.5],
          [capIds[1], 1.5]
        ]
      )
      const wet = yield* call("POST", "/api/llm/complete", { ...body, dryRun: false })
      assert.isAtMost(wet.body.costUsd, costUsd)
      assert.lengthOf(standIn.requests, 1)
      assert.strictEqual(yield* countOf(service.database, "budget_reservations"), before + 1)
      const { id } = yield* start()
      assert.strictEqual((yield* call("POST", "/api/llm/complete", { ...body, planId: id })).body.planId, id)
      assertProblem(yield* call("POST", "/api/llm/complete", { ...body, model: "none" }), 404, "model-not-found")
    }).pipe(Effect.scoped)
  )
})
