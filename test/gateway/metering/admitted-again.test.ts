import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, configure, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a call that is admitted again",
  (it) => {
    it.effect("since another replica has just made a cap has one row of usage", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const usage = { prompt_tokens: 20, completion_tokens: 10, total_tokens: 30 }
        const choices = [{ index: 0, message: { role: "assistant", content: "Noon." }, finish_reason: "stop" }]
        const standIn = yield* startProvider((_, response) => json(response, 200, { choices, usage }))
        yield* configure(service, [provider("p", standIn)], [model("own", ["p"])])
        const { key, tenantId } = yield* spender(service, [])
        const replica = yield* service.replica
        for (const limit of [undefined, 100_000]) {
          // This replica does not know of it before it reserves.
          if (limit !== undefined) {
            const cap = { tenantId, name: "a cap", unit: "tokens", period: "total", limit }
            const made = yield* replica.call("POST", "/api/budgets/caps", { body: cap })
            assert.strictEqual(made.status, 201, made.text)
          }
          const answer = yield* ask(service, key, { model: "own", max_tokens: 50 })
          assert.strictEqual(answer.status, 200, answer.text)
        }
        const rows = yield* usageRows(service, tenantId)
        assert.deepStrictEqual(
          rows.map(({ method }) => method),
          ["provider_usage", "provider_usage"]
        )
      }).pipe(Effect.scoped)
    )
  }
)
