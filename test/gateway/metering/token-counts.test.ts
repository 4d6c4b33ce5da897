import { assert, it, layer } from "@effect/vitest"
import { Effect, Option } from "effect"
import { textsOf } from "../../../src/gateway/metering/request-texts.ts"
import { TokenCounts } from "../../../src/gateway/metering/token-counts.ts"
import { ask, configure, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor, said } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

const encoding = "o200k_base"

layer(TokenCounts.layer, { excludeTestServices: true, timeout: "60 seconds" })("the token counter", (it) => {
  it.effect("counts what a model's tokenizer says, special tokens as text, once it is loaded", () =>
    Effect.gen(function* () {
      const counts = yield* TokenCounts
      const count = (texts: ReadonlyArray<string>) => counts.count("somebody", { encoding, texts })
      assert.isTrue(Option.isNone(yield* count(["Hello"])))
      yield* eventually(count(["Hello"]), Option.isSome)
      assert.deepStrictEqual(yield* count(["Hello world", "Hello world"]), Option.some(4))
      const special = Option.getOrThrow(yield* count(["<|endoftext|>"]))
      assert.isAbove(special, 1)
      assert.isTrue(Option.isNone(yield* count(["a".repeat(262_145)])))
    })
  )

  it.effect("gives up on a text that takes long, and counts on afterwards", () =>
    Effect.gen(function* () {
      const counts = yield* TokenCounts
      const count = (text: string) => counts.count("somebody", { encoding, texts: [text] })
      yield* eventually(count("Hello"), Option.isSome)
      const before = performance.now()
      assert.isTrue(Option.isNone(yield* count(" ".repeat(100_000))))
      assert.isBelow(performance.now() - before, 1500)
      yield* eventually(count("Hello"), Option.isSome)
    })
  )
})

it("takes what messages, inputs and tools say for texts, and nothing else", () => {
  const { bytes, texts, tokens } = textsOf({
    model: "gpt-4o",
    system: "Be brief.",
    messages: [
      { role: "user", content: "a\nb" },
      {
        role: "user",
        content: [
          { type: "text", text: "c" },
          { type: "image_url", image_url: { url: "data:" } }
        ]
      },
      { role: "assistant", content: null, tool_calls: [{ function: { name: "f", arguments: "{}" } }] },
      { role: "user", content: [{ type: "tool_result", content: [{ type: "text", text: "d" }] }] }
    ],
    tools: [{ type: "function", function: { name: "f", parameters: { enum: ["e", 1, null], required: ["g"] } } }]
  })
  const [heading, ...tools] = texts.slice(6)
  assert.include(heading, "functions")
  assert.deepStrictEqual(texts.slice(0, 6), ["Be brief.", "a\nb", "c", "f", "{}", "d"])
  assert.deepStrictEqual(tools, ["type = () => any; name f parameters enum e 1 required g"])
  assert.strictEqual(bytes, 11 + 6 + 3 + 3 + 4 + 3 + (4 + 1 + 10 + 4 + 1 + 1 + 8 + 1))
  assert.strictEqual(tokens, 0)
  assert.deepStrictEqual(textsOf({ input: ["x", [1, 2]] }), { texts: ["x"], tokens: 2, bytes: 5 })
  assert.deepStrictEqual(textsOf({ prompt: [1, 2, 3] }), { texts: [], tokens: 3, bytes: 3 })
  assert.deepStrictEqual(textsOf({ input: "x" }).texts, ["x"])
})

const says = (content: unknown, members: object = {}) => ({ messages: [{ role: "user", content, ...members }] })
const pdf = { type: "base64", media_type: "application/pdf", data: "words" }

it.each<[string, Readonly<Record<string, unknown>>]>([
  [
    "a document of text",
    says([{ type: "document", source: { type: "text", media_type: "text/plain", data: "words" } }])
  ],
  ["a document of parts", says([{ type: "document", source: { type: "content", content: [{ text: "words" }] } }])],
  ["a document of bytes that are no PDF", says([{ type: "document", source: { ...pdf, media_type: "text/html" } }])],
  ["a file that is text", says([{ type: "file", file: { file_data: "words", filename: "a" } }])],
  ["the result of a search", says([{ type: "search_result", content: [{ type: "text", text: "words" }] }])],
  ["the input of a tool", says([{ type: "tool_use", id: "i", input: { a: [{ words: true }] } }])],
  ["a thought", says([{ type: "thinking", thinking: "words", signature: "s" }])],
  ["a thought beside the content", says(null, { reasoning_content: "words" })],
  ["the arguments of a function of old", says(null, { function_call: { arguments: "words" } })],
  ["a function of old", { functions: [{ name: "f", description: "words" }] }],
  ["the schema of an answer", { response_format: { type: "json_schema", json_schema: { schema: { words: 1 } } } }],
  ["the schema of a response", { text: { format: { type: "json_schema", schema: { words: 1 } } } }],
  ["the schema of a message", { output_config: { format: { type: "json_schema", schema: { words: 1 } } } }],
  ["an item", { input: [{ type: "custom_tool_call", call_id: "c", input: "words" }] }],
  ["what a shell was asked", { input: [{ type: "local_shell_call", action: { command: ["words"] } }] }],
  ["what is of no known type", says([{ type: "of tomorrow", here: { there: ["words"] } }])]
])("finds the words of %s", (_, body) => {
  assert.include(textsOf(body).texts.join(" "), "words")
})

it("finds no words in images and documents", () => {
  const image = `data:image/png;base64,words`
  for (const body of [
    says([{ type: "image", source: { ...pdf, media_type: "image/png" } }]),
    says([{ type: "image_url", image_url: { url: image } }]),
    says([{ type: "document", source: pdf }]),
    says([{ type: "file", file: { file_data: "data:application/pdf;base64,words", filename: "words" } }]),
    { input: [{ role: "user", content: [{ type: "input_image", image_url: image }] }] },
    { input: [{ type: "computer_call_output", output: { type: "computer_screenshot", image_url: image } }] },
    { input: [{ type: "image_generation_call", result: "words" }] }
  ]) {
    assert.notInclude(textsOf(body).texts.join(" "), "words", JSON.stringify(body))
  }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("calls near the end of a cap", (it) => {
  // Two thousand bytes, of which a token is four and more.
  const content = "The quick brown fox jumps over the lazy dog. ".repeat(45)
  const messages = [{ role: "user", content }]

  it.effect("are let in by their tokens where their bytes do not fit, if the model's tokenizer is known", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      const models = [model("gpt-4o", ["openai"]), model("other", ["openai"])]
      yield* configure(service, [provider("openai", standIn)], models)
      // By bytes 2,000 × 2 + 30 × 10 millionths of a dollar, by tokens a quarter of it.
      const { key, tenantId } = yield* spender(service, [{ limit: 0.003 }])
      const call = (name: string) => ask(service, key, { model: name, messages, max_tokens: 30 })
      const answer = yield* eventually(call("gpt-4o"), ({ status }) => status === 200)
      assert.strictEqual(answer.status, 200)
      assert.strictEqual((yield* call("other")).status, 402)
      const [row] = yield* usageRows(service, tenantId)
      assert.strictEqual(row.method, "provider_usage")
    }).pipe(Effect.scoped)
  )

  it.effect("and charged by their tokens where the provider tells no usage", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((_, response) =>
        json(response, 200, { choices: [{ message: { content: said }, finish_reason: "stop" }] })
      )
      yield* configure(service, [provider("openai", standIn)], [model("gpt-4o", ["openai"])])
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
      const call = ask(service, key, {
        model: "gpt-4o",
        messages: [{ role: "user", content: "Hello world" }],
        max_tokens: 30
      })
      const rows = yield* eventually(
        Effect.andThen(call, usageRows(service, tenantId)),
        (all) => all.at(-1).inputTokens === 2
      )
      assert.deepInclude(rows.at(-1), { method: "estimated", inputTokens: 2, outputTokens: 6 })
    }).pipe(Effect.scoped)
  )

  it.effect("and what nobody can count, as it was kept free: images, with whatever the model is told of tools", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((_, response) =>
        json(response, 200, { choices: [{ message: { content: said }, finish_reason: "stop" }] })
      )
      yield* configure(
        service,
        [provider("openai", standIn)],
        [model("gpt-4o", ["openai"]), model("other", ["openai"])]
      )
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
      const url = `data:image/png;base64,${Buffer.alloc(300, 7).toString("base64")}`
      const words = { type: "text", text: "Hello world" }
      const image = { type: "image_url", image_url: { url } }
      const tool = { type: "function", function: { name: "weather", description: "Tells the weather. ".repeat(20) } }
      const asked = Effect.fnUntraced(function* (name: string, content: ReadonlyArray<object>, tools?: object) {
        const messages = [{ role: "user", content }]
        yield* ask(service, key, { model: name, messages, max_tokens: 30, ...tools })
        const row = (yield* usageRows(service, tenantId)).at(-1)
        assert.strictEqual(row.method, "estimated")
        const tokens: number = row.inputTokens
        return tokens
      })
      yield* eventually(asked("gpt-4o", [words]), (tokens) => tokens === 2)
      assert.strictEqual(yield* asked("gpt-4o", [words, image]), 12_002)
      const withTool = yield* asked("gpt-4o", [words], { tools: [tool] })
      assert.isTrue(withTool > 60 && withTool < 150, String(withTool))
      const byBytes = (yield* asked("other", [words, image])) - (yield* asked("other", [words]))
      assert.isTrue(byBytes >= 12_000 && byBytes < 12_100, String(byBytes))
    }).pipe(Effect.scoped)
  )

  it.effect("never cost more than was kept free, whatever the provider leaves out", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((_, response) =>
        json(response, 200, { choices: [{ message: { content: said.repeat(100) }, finish_reason: "stop" }] })
      )
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
      assert.strictEqual((yield* ask(service, key, { max_tokens: 3 })).status, 200)
      const [row] = yield* usageRows(service, tenantId)
      assert.deepInclude(row, { method: "estimated", outputTokens: 3 })
    }).pipe(Effect.scoped)
  )
})
