import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a metered member", (it) => {
  it.effect("is read where its name is written with escapes, whatever was read before", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const { key } = yield* spender(service, [{ limit: 0.01 }])
      const send = (member: string) =>
        service.call("POST", "/v1/chat/completions", {
          key,
          body: `{"model":"gpt","messages":[{"role":"user","content":"Hi"}],"max_tokens":10,${member}}`,
          headers: { "content-type": "application/json" }
        })
      // An engine that knows the first name may take the second for it, and the provider would give a thousand answers.
      yield* send(String.raw`"\\":3`)
      const asked = standIn.requests.length
      const answer = yield* send(String.raw`"\u006e":1000`)
      assert.strictEqual(answer.status, 402, answer.text)
      assert.lengthOf(standIn.requests, asked)
    }).pipe(Effect.scoped)
  )
})
