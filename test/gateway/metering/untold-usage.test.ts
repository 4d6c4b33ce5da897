import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, configure, counters, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { type Answerer, json, sse, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const words = "It is noon in Oslo, and nobody says how many tokens that is."
const wordTokens = Math.ceil(words.length / 3)
const chunk = (content: string, members: object = {}) => ({
  choices: [{ index: 0, delta: { content }, finish_reason: null }],
  ...members
})
const usedSoFar = (tokens: number) => ({
  usage: { prompt_tokens: 40, completion_tokens: tokens, total_tokens: 40 + tokens }
})
const managedBy = (type: string) => ({ context_management: { edits: [{ type }] } })
const finish = { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }
const delta = (text: string) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })
const started = (usage: object) => ({ type: "message_start", message: { id: "msg_1", model: "m", usage } })
const stopped = (members: object = {}) => ({ type: "message_delta", delta: { stop_reason: "end_turn" }, ...members })

const calling = (call: object) => ({ choices: [{ index: 0, delta: { function_call: call }, finish_reason: null }] })

const streaming =
  (...events: ReadonlyArray<unknown>): Answerer =>
  (_, response) => {
    sse(response, events)
    response.end()
  }
const whole =
  (answer: object): Answerer =>
  (_, response) =>
    json(response, 200, answer)
const message = (members: object): Answerer =>
  whole({ type: "message", role: "assistant", content: [{ type: "text", text: words }], ...members })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "what a provider says of its usage",
  (it) => {
    const setUp = Effect.fnUntraced(function* (
      dialect: "openai" | "anthropic",
      answer: Answerer,
      cap: object = {},
      id = "p"
    ) {
      const service = yield* TestService
      const standIn = yield* startProvider(answer)
      // Nobody has a tokenizer for it.
      yield* configure(service, [provider(id, standIn, { dialect })], [model("own", [id])])
      const { key, tenantId } = yield* spender(service, [{ limit: 1, mode: "soft", ...cap }])
      const rows = usageRows(service, tenantId)
      return { service, key, tenantId, row: Effect.map(rows, (all) => all[0]), standIn }
    })
    const asked = { model: "own", max_tokens: 5000, messages: [{ role: "user", content: "?" }] }
    const embedding = { object: "list", data: [{ index: 0, embedding: Array(1536).fill(0.123456789) }] }

    it.effect("a vector is no output: an embedding without usage stays under its cap", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(whole(embedding))
        yield* configure(service, [provider("p", standIn)], [model("own", ["p"], { kind: "embedding" })])
        const { key, tenantId } = yield* spender(service, [{ unit: "tokens", limit: 300 }])
        const answer = yield* service.call("POST", "/v1/embeddings", { key, body: { model: "own", input: "hello" } })
        assert.strictEqual(answer.status, 200, answer.text)
        const [row] = yield* usageRows(service, tenantId)
        assert.deepInclude(row, { method: "estimated", outputTokens: 0 })
        const [counter] = yield* counters(service, tenantId)
        assert.deepStrictEqual(counter, { spent: String(row.inputTokens), reserved: "0" })
        assert.isAbove(row.inputTokens, 0)
        assert.isAtMost(row.inputTokens, 300)

        standIn.answer = whole({ ...embedding, usage: { total_tokens: 100 } })
        yield* service.call("POST", "/v1/embeddings", { key, body: { model: "own", input: "hello" } })
        const [, told] = yield* usageRows(service, tenantId)
        assert.deepInclude(told, { method: "provider_usage", inputTokens: 100, outputTokens: 0, reasoningTokens: 0 })
      }).pipe(Effect.scoped)
    )

    const usage = { input_tokens: 20, output_tokens: 10 }
    const iterations = [
      { type: "compaction", input_tokens: 1000, output_tokens: 300, cache_read_input_tokens: 500 },
      { type: "message", ...usage }
    ]
    for (const [what, stream, answer] of [
      ["whole", false, message({ stop_reason: "end_turn", usage: { ...usage, iterations } })],
      [
        "streamed",
        true,
        streaming(started(usage), delta(words), stopped({ usage: { output_tokens: 10, iterations } }), {
          type: "message_stop"
        })
      ]
    ] as const) {
      it.effect(`a compaction is charged beside the message that follows it, ${what}`, () =>
        Effect.gen(function* () {
          const { key, row, service } = yield* setUp("anthropic", answer)
          const made = yield* service.call("POST", "/v1/messages", { key, body: { ...asked, stream } })
          assert.strictEqual(made.status, 200, made.text)
          assert.deepInclude(yield* row, {
            method: "provider_usage",
            inputTokens: 1520,
            cachedInputTokens: 500,
            outputTokens: 310
          })
        }).pipe(Effect.scoped)
      )
    }

    it.effect("a compaction is held for as another answer, so a hard cap lets it in", () =>
      Effect.gen(function* () {
        const { key, service, standIn } = yield* setUp("anthropic", message({ usage }), { mode: "hard" })
        const compacting = yield* service.call("POST", "/v1/messages", {
          key,
          body: { ...asked, ...managedBy("compact_20260112") }
        })
        assert.strictEqual(compacting.status, 200, compacting.text)
        assert.lengthOf(standIn.requests, 1)
        const clearing = yield* service.call("POST", "/v1/messages", {
          key,
          body: { ...asked, ...managedBy("clear_tool_uses_20250919") }
        })
        assert.strictEqual(clearing.status, 200, clearing.text)
      }).pipe(Effect.scoped)
    )

    const completion = whole({
      id: "1",
      system_fingerprint: "f".repeat(600),
      choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: words } }]
    })
    for (const [what, dialect, path, stream, answer] of [
      ["of a completion", "openai", "/v1/chat/completions", false, completion],
      [
        "of a streamed completion",
        "openai",
        "/v1/chat/completions",
        true,
        streaming(chunk(words), finish, "data: [DONE]\n\n")
      ],
      ["of a message", "anthropic", "/v1/messages", false, message({ id: "m".repeat(600) })],
      ["of a completion told as a message", "openai", "/v1/messages", false, completion],
      [
        "of a message told as a completion",
        "anthropic",
        "/v1/chat/completions",
        false,
        message({ id: "m".repeat(600) })
      ]
    ] as const) {
      it.effect(`without one the words count, ${what}, and not what is around them`, () =>
        Effect.gen(function* () {
          const { key, row, service } = yield* setUp(dialect, answer)
          const made = yield* service.call("POST", path, { key, body: { ...asked, stream } })
          assert.strictEqual(made.status, 200, made.text)
          const { inputTokens, outputTokens, method } = yield* row
          assert.deepStrictEqual([method, outputTokens], ["estimated", wordTokens])
          if (path === "/v1/messages" && dialect === "openai") {
            assert.deepInclude(made.body.usage, { input_tokens: inputTokens, output_tokens: wordTokens })
          }
          if (path !== "/v1/messages" && dialect === "anthropic") {
            assert.deepInclude(made.body.usage, { prompt_tokens: inputTokens, completion_tokens: wordTokens })
          }
        }).pipe(Effect.scoped)
      )
    }

    const early = { prompt_tokens: 40, completion_tokens: 0, total_tokens: 40 }
    for (const [what, dialect, path, events] of [
      ["before the words", "openai", "/v1/chat/completions", [chunk("", { usage: early }), chunk(words), finish]],
      [
        "as if nothing was said",
        "openai",
        "/v1/chat/completions",
        [chunk(words), finish, { choices: [], usage: early }]
      ],
      [
        "of the first word alone",
        "anthropic",
        "/v1/messages",
        [started({ input_tokens: 40, output_tokens: 1 }), delta(words), stopped(), { type: "message_stop" }]
      ]
    ] as const) {
      it.effect(`one that is told ${what} is none of the output`, () =>
        Effect.gen(function* () {
          const { key, row, service } = yield* setUp(dialect, streaming(...events, "data: [DONE]\n\n"))
          const made = yield* service.call("POST", path, { key, body: { ...asked, stream: true } })
          assert.strictEqual(made.status, 200, made.text)
          assert.deepInclude(yield* row, { method: "estimated", inputTokens: 40, outputTokens: wordTokens })
        }).pipe(Effect.scoped)
      )
    }

    const reply = { role: "assistant", content: null, function_call: { name: "f", arguments: "{}" } }
    const called = { choices: [{ index: 0, finish_reason: "function_call", message: reply }] }
    const readApart = [
      ["a call of a function of old", false, whole({ id: "1", ...called }), "estimated", 1],
      [
        "a call of a function of old, streamed",
        true,
        streaming(calling({ name: "f" }), calling({ arguments: "{}" }), finish, "data: [DONE]\n\n"),
        "estimated",
        1
      ],
      [
        "a chunk whose id is no text",
        true,
        streaming({ ...chunk(words), id: 7 }, { ...finish, id: 7, ...usedSoFar(4) }, "data: [DONE]\n\n"),
        "provider_usage",
        4
      ],
      [
        "a chunk whose delta has a member of another type",
        true,
        streaming({ choices: [{ index: 0, delta: { content: words, refusal: 1 } }] }, finish, "data: [DONE]\n\n"),
        "estimated",
        wordTokens
      ]
    ] as const
    for (const [what, stream, answer, method, outputTokens] of readApart) {
      it.effect(`is read of ${what}`, () =>
        Effect.gen(function* () {
          const { key, row, service } = yield* setUp("openai", answer)
          const made = yield* ask(service, key, { ...asked, stream })
          assert.strictEqual(made.status, 200, made.text)
          assert.deepInclude(yield* row, { method, outputTokens, status: 200 })
        }).pipe(Effect.scoped)
      )
    }

    it.effect("keeps the input that a message began with where its last report has none", () =>
      Effect.gen(function* () {
        const none = { input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 5 }
        const { key, row, service } = yield* setUp(
          "anthropic",
          streaming(
            started({ input_tokens: 10, cache_read_input_tokens: 100, output_tokens: 1 }),
            delta(words),
            stopped({ usage: none }),
            { type: "message_stop" }
          )
        )
        const made = yield* service.call("POST", "/v1/messages", { key, body: { ...asked, stream: true } })
        assert.strictEqual(made.status, 200, made.text)
        assert.deepInclude(yield* row, {
          method: "provider_usage",
          inputTokens: 110,
          cachedInputTokens: 100,
          outputTokens: 5
        })
      }).pipe(Effect.scoped)
    )

    it.effect("of ids of tokens is their number", () =>
      Effect.gen(function* () {
        const { key, row, service } = yield* setUp(
          "openai",
          whole({ choices: [{ index: 0, text: words, finish_reason: "stop" }] })
        )
        const body = { model: "own", prompt: [[1, 2, 3], [4]], max_tokens: 50 }
        const made = yield* service.call("POST", "/v1/completions", { key, body })
        assert.strictEqual(made.status, 200, made.text)
        assert.deepInclude(yield* row, { method: "estimated", inputTokens: 4, outputTokens: wordTokens })
      }).pipe(Effect.scoped)
    )

    it.effect("that is told again with every word is the last of them", () =>
      Effect.gen(function* () {
        const { key, row, service } = yield* setUp(
          "openai",
          streaming(
            chunk("It is", usedSoFar(2)),
            chunk(" noon.", usedSoFar(4)),
            { ...finish, ...usedSoFar(4) },
            "data: [DONE]\n\n"
          )
        )
        assert.strictEqual((yield* ask(service, key, { ...asked, stream: true })).status, 200)
        assert.deepInclude(yield* row, { method: "provider_usage", inputTokens: 40, outputTokens: 4 })
      }).pipe(Effect.scoped)
    )

    for (const [dialect, path] of [
      ["openai", "/v1/chat/completions"],
      ["anthropic", "/v1/messages"]
    ] as const) {
      it.effect(`is charged where the answer is no JSON, and told to be none, at ${path}`, () =>
        Effect.gen(function* () {
          const { key, row, service } = yield* setUp(dialect, (_, response) =>
            response.writeHead(200, { "content-type": "application/json" }).end("<html>Sign in first</html>")
          )
          const made = yield* service.call("POST", path, { key, body: asked })
          assert.strictEqual(made.status, 502)
          assert.include(made.body.error.message, "cannot be read")
          assert.deepInclude(yield* row, { method: "estimated", outputTokens: 9 })
        }).pipe(Effect.scoped)
      )
    }

    it.effect("is asked for where no word is wanted: Anthropic fills its cache for that", () =>
      Effect.gen(function* () {
        const none = message({ content: [], stop_reason: "max_tokens", usage: { input_tokens: 20, output_tokens: 0 } })
        const { key, row, service, standIn } = yield* setUp("anthropic", none, { mode: "hard" }, "anthropic")
        const made = yield* service.call("POST", "/v1/messages", { key, body: { ...asked, max_tokens: 0 } })
        assert.strictEqual(made.status, 200, made.text)
        assert.strictEqual(standIn.requests[0]?.body.max_tokens, 0)
        assert.deepInclude(yield* row, { method: "provider_usage", inputTokens: 20, outputTokens: 0 })
      }).pipe(Effect.scoped)
    )
  }
)
