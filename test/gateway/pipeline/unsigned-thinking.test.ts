import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor, said, thought } from "../../support/vendors.ts"

const prices = { inputUsdPerMTok: 2, outputUsdPerMTok: 10 }
const hello = { role: "user", content: "Hello" }

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "thoughts of another vendor's model",
  (it) => {
    it.effect("do not stop a conversation that falls back to Anthropic", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        let isDown = false
        const openai = yield* startProvider((request, response) =>
          isDown ? json(response, 500, { error: { message: "Out of order." } }) : openAiVendor(request, response)
        )
        const anthropic = yield* startProvider(anthropicVendor)
        const written = yield* service.call("PUT", "/api/llm/admin/config", {
          body: {
            providers: [
              { id: "oa", dialect: "openai", baseUrl: `${openai.url}/v1` },
              { id: "an", dialect: "anthropic", baseUrl: anthropic.url }
            ],
            models: [
              {
                id: "both",
                kind: "chat",
                prices,
                targets: [
                  { provider: "oa", model: "gpt-5", priority: 0 },
                  { provider: "an", model: "claude-opus-4-8", priority: 1 }
                ]
              }
            ],
            routing: { retries: 0, breaker: { failures: 1000 } }
          }
        })
        assert.strictEqual(written.status, 200, written.text)
        const ask = (messages: ReadonlyArray<object>) =>
          service.call("POST", "/v1/messages", {
            body: { model: "both", max_tokens: 100, messages, thinking: { type: "adaptive" } }
          })
        const first = yield* ask([hello])
        assert.deepInclude(first.body.content[0], { type: "thinking", thinking: thought })
        isDown = true
        const second = yield* ask([hello, { role: "assistant", content: first.body.content }, hello])
        assert.strictEqual(second.status, 200, second.text)
        assert.strictEqual(second.body.content.at(-1).text, said)
        const turn = anthropic.requests.at(-1)?.body.messages[1]
        assert.deepStrictEqual(
          turn.content.map(({ type }: { readonly type: string }) => type),
          ["text"]
        )
      }).pipe(Effect.scoped)
    )
  }
)
