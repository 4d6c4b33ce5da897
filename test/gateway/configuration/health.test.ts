import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, configure, model, provider, spender } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the gateway's health", (it) => {
  it.effect("tells no tenant what another one said, which a provider's error may repeat", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(({ body }, response) =>
        json(response, 400, { error: { message: `No such tool: ${body.messages[0].content}` } })
      )
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const one = yield* spender(service, [])
      const other = yield* spender(service, [])
      const refused = yield* ask(service, one.key, { messages: [{ role: "user", content: "project-x" }] })
      assert.include(refused.body.error.message, "project-x")
      const health = yield* service.call("GET", "/api/llm/health", { key: other.key })
      assert.notInclude(health.text, "project-x")
      const seen = health.body.providers.find(({ id }: { readonly id: string }) => id === "oa")
      assert.deepInclude(seen, { reachable: true, lastError: "It answered with status 400." })
    }).pipe(Effect.scoped)
  )
})
