import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { configure, model, provider, readAll, spender } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor } from "../../support/vendors.ts"

const question = { role: "user", content: "Hello" }
const searched = {
  role: "assistant",
  content: [
    { type: "server_tool_use", id: "s", name: "web_search", input: { query: "q" } },
    { type: "web_search_tool_result", tool_use_id: "s", content: [] },
    { type: "text", text: "Found." }
  ]
}
const messages = [question, searched, question]

/** The service with a chat provider, and one of Anthropic's dialect. */
const setUp = Effect.gen(function* () {
  const service = yield* TestService
  const openai = yield* startProvider(openAiVendor)
  const anthropic = yield* startProvider(anthropicVendor)
  yield* configure(
    service,
    [provider("oa", openai), provider("an", anthropic, { dialect: "anthropic", baseUrl: anthropic.url })],
    [model("gpt", ["oa"]), model("claude", ["an"]), model("both", ["oa", "an"])],
    { retries: 0 }
  )
  const { key } = yield* spender(service, [{ limit: 10 }])
  const ask = (path: string, body: object) =>
    Effect.map(readAll(service, key, path, body), ({ headers, status, text }) => ({
      status,
      text,
      items: headers.get("x-omitted-items"),
      members: headers.get("x-omitted-members")
    }))
  return { ask, openai, anthropic }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("what has no form", (it) => {
  it.effect("is named in a header of the answer, whole and streamed, and of an error", () =>
    Effect.gen(function* () {
      const { ask, openai } = yield* setUp
      const items = "server_tool_use, web_search_tool_result"
      for (const stream of [false, true]) {
        const answer = yield* ask("/v1/messages", { model: "gpt", max_tokens: 99, top_k: 3, stream, messages })
        assert.deepInclude(answer, { status: 200, items, members: "top_k" }, answer.text)
      }
      openai.answer = (_, response) => json(response, 400, { error: { message: "No." } })
      const refused = yield* ask("/v1/messages", { model: "gpt", max_tokens: 99, messages })
      assert.deepInclude(refused, { status: 400, items, members: null })
    }).pipe(Effect.scoped)
  )

  it.effect("is not named where the provider that answers has it", () =>
    Effect.gen(function* () {
      const { ask, openai } = yield* setUp
      const own = yield* ask("/v1/messages", {
        model: "claude",
        max_tokens: 99,
        service_tier: "auto",
        messages: [question]
      })
      assert.deepInclude(own, { status: 200, items: null, members: null })
      openai.answer = (_, response) => json(response, 500, { error: { message: "Down." } })
      const moved = yield* ask("/v1/messages", {
        model: "both",
        max_tokens: 99,
        service_tier: "auto",
        messages: [question]
      })
      assert.deepInclude(moved, { status: 200, items: null, members: null }, moved.text)
      const chat = yield* ask("/v1/chat/completions", { model: "claude", seed: 5, messages: [question] })
      assert.deepInclude(chat, { status: 200, items: null, members: "seed" })
    }).pipe(Effect.scoped)
  )
})
