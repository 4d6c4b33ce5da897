import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, charges, configure, model, provider, spender } from "../support/gateway.ts"
import { json, startProvider } from "../support/provider.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { openAiVendor } from "../support/vendors.ts"

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("an error of a provider", (it) => {
  it.effect("that says that the gateway's account is empty is asked once, and told as the gateway's own trouble", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const error = { message: "Check your plan.", type: "insufficient_quota", param: null, code: "insufficient_quota" }
      const empty = yield* startProvider((_, response) => json(response, 429, { error }, { "x-should-retry": "false" }))
      const good = yield* startProvider(openAiVendor)
      yield* configure(
        service,
        [provider("empty", empty), provider("good", good)],
        [model("gpt", ["empty", "good"]), model("alone", ["empty"])],
        { retries: 2 }
      )
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
      const answered = yield* ask(service, key, { max_tokens: 30 })
      assert.strictEqual(answered.status, 200, answered.text)
      assert.deepStrictEqual([empty.requests.length, good.requests.length], [1, 1])
      const refused = yield* ask(service, key, { model: "alone", max_tokens: 30 })
      assert.deepStrictEqual([refused.status, refused.body.error.code], [502, "provider-credentials"])
      assert.lengthOf(empty.requests, 2)
      const last = (yield* charges(service, tenantId)).at(-1)
      assert.deepInclude(last, { state: "released", amount: "0" })
    }).pipe(Effect.scoped)
  )
})
