import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, charges, configure, costNanoUsd, prices, provider, spender } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("models that nobody listed", (it) => {
  it.effect("are served by a provider that is configured to, at its ceiling prices", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("any", standIn, { unlisted: { prices } })], [])
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
      const answer = yield* ask(service, key, { model: "any/vendor/new-model", max_tokens: 30 })
      assert.strictEqual(answer.status, 200, answer.text)
      assert.strictEqual(standIn.requests.at(-1)?.body.model, "vendor/new-model")
      assert.deepStrictEqual(yield* charges(service, tenantId), [
        { amount: String(costNanoUsd), state: "settled", method: "provider_usage" }
      ])
    }).pipe(Effect.scoped)
  )

  it.effect("have names of their own in metrics once their provider answers for them", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((request, response) =>
        String(request.body.model).startsWith("real")
          ? openAiVendor(request, response)
          : json(response, 404, { error: { message: "no such model" } })
      )
      yield* configure(service, [provider("every", standIn, { unlisted: { prices } })], [])
      const { key } = yield* spender(service, [])
      for (const name of ["real-model", "invented-1", "invented-2"]) {
        yield* ask(service, key, { model: `every/${name}`, max_tokens: 30 })
      }
      const { text } = yield* service.call("GET", "/metrics")
      const lines = (text as string).split("\n").filter((line) => line.includes('app_provider_id="every"'))
      const names = new Set(lines.flatMap((line) => /gen_ai_request_model="([^"]*)"/.exec(line)?.[1] ?? []))
      assert.deepStrictEqual(names, new Set(["_OTHER", "real-model"]))
    }).pipe(Effect.scoped)
  )

  it.effect("are refused by any other, which says why", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("some", standIn)], [])
      const { key } = yield* spender(service, [])
      const answer = yield* ask(service, key, { model: "some/new-model" })
      assert.deepStrictEqual([answer.status, answer.body.error.code], [404, "model_not_found"])
      assert.include(answer.body.error.message, "`unlisted`")
      assert.isEmpty(standIn.requests)
    }).pipe(Effect.scoped)
  )
})
