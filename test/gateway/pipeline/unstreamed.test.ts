import Anthropic from "@anthropic-ai/sdk"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { charges, configure, costNanoUsd, model, provider, spender } from "../../support/gateway.ts"
import { type Answerer, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, calledWith, openAiVendor, said } from "../../support/vendors.ts"

/** A vendor whose answers are always whole. */
const unstreamed =
  (vendor: Answerer): Answerer =>
  (request, response) => {
    const { stream: _, stream_options: __, ...body } = request.body
    vendor({ ...request, body }, response)
  }

const messages = [{ role: "user" as const, content: "What time is it?" }]
const schema = { type: "object" as const, properties: { city: { type: "string" } } }

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a provider that streams nothing",
  (it) => {
    it.effect("is streamed to the SDKs that ask for it, tools and usage included", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const openai = yield* startProvider(unstreamed(openAiVendor))
        const anthropic = yield* startProvider(unstreamed(anthropicVendor))
        yield* configure(
          service,
          [provider("oa", openai), { id: "an", dialect: "anthropic", baseUrl: anthropic.url }],
          [model("gpt", ["oa"]), model("claude", ["an"])]
        )
        const { key, tenantId } = yield* spender(service, [])
        const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
        const claude = new Anthropic({ baseURL: service.url, apiKey: key, maxRetries: 0 })
        for (const name of ["gpt", "claude"]) {
          const chat = client.chat.completions.stream({
            model: name,
            messages,
            stream_options: { include_usage: true }
          })
          const completion = yield* Effect.promise(() => chat.finalChatCompletion())
          assert.strictEqual(completion.choices[0]?.message.content, said)
          assert.strictEqual(completion.usage?.prompt_tokens, 100)
          const tools = [{ type: "function" as const, function: { name: "weather", parameters: schema } }]
          const calling = client.chat.completions.stream({ model: name, messages, tools })
          const called = yield* Effect.promise(() => calling.finalChatCompletion())
          const [call] = called.choices[0]?.message.tool_calls ?? []
          assert.deepStrictEqual(JSON.parse(call?.type === "function" ? call.function.arguments : ""), calledWith)
          assert.strictEqual(called.choices[0]?.finish_reason, "tool_calls")

          const ask = { model: name, max_tokens: 100, messages }
          const message = yield* Effect.promise(() => claude.messages.stream(ask).finalMessage())
          assert.deepInclude(message.content[0], { type: "text", text: said })
          assert.strictEqual(message.usage.output_tokens, 20)
          const using = claude.messages.stream({ ...ask, tools: [{ name: "weather", input_schema: schema }] })
          const use = yield* Effect.promise(() => using.finalMessage())
          assert.deepInclude(use.content.at(-1), { type: "tool_use", name: "weather", input: calledWith })
          assert.strictEqual(use.stop_reason, "tool_use")
        }
        for (const { amount, method } of yield* charges(service, tenantId)) {
          assert.deepStrictEqual([amount, method], [String(costNanoUsd), "provider_usage"])
        }
        const native = yield* Effect.promise(async () => {
          const body = JSON.stringify({ model: "gpt", messages, stream: true })
          const headers = { "x-api-key": key, "content-type": "application/json" }
          const response = await fetch(`${service.url}/api/llm/complete`, { method: "POST", headers, body })
          return response.text()
        })
        assert.match(native, /^event: delta\n[^]*event: usage\n[^]*event: done\n/)
      }).pipe(Effect.scoped)
    )
  }
)
