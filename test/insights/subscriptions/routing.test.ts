import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, configure, model, provider, spender } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const answering = (name: string) =>
  startProvider((_, response) =>
    json(response, 200, {
      choices: [{ message: { content: name }, finish_reason: "stop" }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    })
  )

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("subscription-first", (it) => {
  it.effect("spends a prepaid quota before what is paid by use, and no more once it is exhausted", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [metered, prepaid] = [yield* answering("metered"), yield* answering("prepaid")]
      yield* configure(
        service,
        [provider("metered", metered), provider("prepaid", prepaid)],
        [model("gpt", ["metered", "prepaid"]), model("team", ["prepaid"])],
        { strategy: "subscription-first" }
      )
      const { key, tenantId } = yield* spender(service, [])
      const other = yield* spender(service, [])
      const served = (by: string) => Effect.map(ask(service, by), ({ body }) => body.choices[0].message.content)
      assert.strictEqual(yield* served(key), "metered")
      const body = {
        tenantId,
        provider: "prepaid",
        name: "Team",
        priceUsd: 20,
        quota: { unit: "requests", amount: 2 },
        overage: "deny",
        period: "month"
      }
      assert.strictEqual((yield* service.call("POST", "/api/subscriptions", { body })).status, 201)
      yield* eventually(served(key), (content) => content === "prepaid")
      assert.strictEqual(yield* served(other.key), "metered")
      yield* eventually(served(key), (content) => content === "metered")
      const refused = yield* ask(service, key, { model: "team" })
      assert.strictEqual(refused.status, 503)
      assert.include(refused.body.error.message, "quotas of the subscriptions at prepaid are used up")
    })
  )
})
