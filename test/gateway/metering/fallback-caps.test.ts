import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { charges, configure, costNanoUsd, counters, model, provider, spender } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"

type Service = TestService["Service"]

const complete = (service: Service, key: string, fallbacks: ReadonlyArray<string>, dryRun = false) =>
  service.call("POST", "/api/llm/complete", {
    key,
    body: { model: "down", messages: [{ role: "user", content: "Hi" }], maxTokens: 30, fallbacks, dryRun }
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a fallback", (it) => {
  it.effect("is bound by the caps on its own model, at the same provider too, and counts on them", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((request, response) =>
        request.body.model === "down" ? json(response, 500, {}) : openAiVendor(request, response)
      )
      yield* configure(service, [provider("oa", standIn)], [model("down", ["oa"]), model("dear", ["oa"])])
      const none = yield* spender(service, [{ scope: { model: "dear" }, limit: 0 }])
      const refused = yield* complete(service, none.key, ["dear"])
      assert.strictEqual(refused.status, 402, refused.text)
      assert.deepStrictEqual(
        standIn.requests.map(({ body }) => body.model),
        ["down"]
      )
      assert.deepStrictEqual(
        (yield* charges(service, none.tenantId)).map(({ state }) => state),
        ["released"]
      )
      const some = yield* spender(service, [{ scope: { model: "dear" }, limit: 1 }])
      const dry = yield* complete(service, some.key, ["dear"], true)
      assert.lengthOf(dry.body.caps, 1, "a dry run tells of the fallback's cap")
      const served = yield* complete(service, some.key, ["dear"])
      assert.deepStrictEqual([served.status, served.body.model], [200, "dear"])
      assert.deepStrictEqual(yield* counters(service, some.tenantId), [{ spent: String(costNanoUsd), reserved: "0" }])
    }).pipe(Effect.scoped)
  )
})
