import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { type Operation } from "../../../src/gateway/formats/domain.ts"
import { EventReader } from "../../../src/gateway/formats/event-reader.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { type Provider } from "../../../src/gateway/providers/provider.ts"
import { repeatableLoopback } from "../../support/loopback.ts"

const send = Effect.fnUntraced(function* (
  operation: Operation,
  body: object,
  loopback: Provider = repeatableLoopback()
) {
  const request = {
    format: { ...openAiChat, operation },
    model: "m",
    streams: false,
    body: JSON.stringify({ model: "loopback-1", ...body }),
    headers: {}
  }
  const { body: answer } = yield* Effect.scoped(loopback.send(request))
  if (answer instanceof Uint8Array) return JSON.parse(Buffer.from(answer).toString("utf8"))
  const reader = new EventReader()
  return answer.first.flatMap((bytes) => reader.push(bytes)).map(({ data }) => data)
})

const hello = [{ role: "user", content: "Hello, wide world!" }]
const tools = [
  {
    type: "function",
    function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } }
  }
]

describe("the loopback provider", () => {
  it.effect("echoes, and counts", () =>
    Effect.gen(function* () {
      const answer = yield* send("chat", { messages: hello })
      assert.strictEqual(answer.choices[0].message.content, "Hello, wide world!")
      assert.strictEqual(answer.choices[0].finish_reason, "stop")
      assert.deepStrictEqual(answer.usage, { prompt_tokens: 12, completion_tokens: 5, total_tokens: 17 })
      const again = yield* send("chat", { messages: hello })
      assert.deepStrictEqual(again, answer)
    })
  )

  it.effect("gives every answer and every call of a tool an id of its own", () =>
    Effect.gen(function* () {
      const loopback = repeatableLoopback()
      const ids: Array<string> = []
      const calls: Array<string> = []
      for (let times = 0; times < 2; times++) {
        const whole = yield* send("chat", { messages: hello, tools, tool_choice: "required" }, loopback)
        ids.push(whole.id)
        calls.push(whole.choices[0].message.tool_calls[0].id)
        const streamed: ReadonlyArray<string> = yield* send("chat", { messages: hello, stream: true }, loopback)
        const [id = "", ...others] = new Set(streamed.slice(0, -1).map((data): string => JSON.parse(data).id))
        assert.deepStrictEqual(others, [])
        ids.push(id)
      }
      assert.strictEqual(new Set(ids).size, 4)
      assert.strictEqual(new Set(calls).size, 2)
      for (const id of ids) assert.match(id, /^chatcmpl-[0-9a-f]{32}$/)
      for (const id of calls) assert.match(id, /^call_[0-9a-f]{32}$/)
    })
  )

  it.effect("keeps the output limit", () =>
    Effect.gen(function* () {
      const answer = yield* send("chat", { messages: hello, max_tokens: 2 })
      assert.strictEqual(answer.choices[0].message.content, "Hello,")
      assert.strictEqual(answer.choices[0].finish_reason, "length")
      assert.strictEqual(answer.usage.completion_tokens, 2)
    })
  )

  it.effect("streams the same, with usage for those who ask", () =>
    Effect.gen(function* () {
      const plain: ReadonlyArray<string> = yield* send("chat", { messages: hello, stream: true })
      assert.strictEqual(plain.at(-1), "[DONE]")
      const chunks = plain.slice(0, -1).map((data) => JSON.parse(data))
      assert.strictEqual(chunks.map(({ choices }) => choices[0].delta.content ?? "").join(""), "Hello, wide world!")
      assert.isTrue(chunks.every(({ usage }) => usage === undefined))
      const asked: ReadonlyArray<string> = yield* send("chat", {
        messages: hello,
        stream: true,
        stream_options: { include_usage: true }
      })
      assert.strictEqual(JSON.parse(asked.at(-2) ?? "").usage.total_tokens, 17)
    })
  )

  it.effect("calls the tool that is demanded, or named, with arguments that fit", () =>
    Effect.gen(function* () {
      const named = yield* send("chat", { messages: [{ role: "user", content: "Use weather." }], tools })
      const demanded = yield* send("chat", { messages: hello, tools, tool_choice: "required" })
      for (const [answer, city] of [
        [named, "Use weather."],
        [demanded, "Hello, wide world!"]
      ]) {
        const [call] = answer.choices[0].message.tool_calls
        assert.strictEqual(call.function.name, "weather")
        assert.deepStrictEqual(JSON.parse(call.function.arguments), { city })
        assert.strictEqual(answer.choices[0].finish_reason, "tool_calls")
      }
      const none = yield* send("chat", { messages: hello, tools })
      assert.isUndefined(none.choices[0].message.tool_calls)
    })
  )

  it.effect("answers by a schema where one is given", () =>
    Effect.gen(function* () {
      const schema = { type: "object", properties: { n: { type: "integer" }, word: { enum: ["a", "b"] } } }
      const response_format = { type: "json_schema", json_schema: { name: "x", schema } }
      const answer = yield* send("chat", { messages: hello, response_format })
      assert.deepStrictEqual(JSON.parse(answer.choices[0].message.content), { n: 1, word: "a" })
    })
  )

  it.effect("embeds, as numbers or in base64", () =>
    Effect.gen(function* () {
      const plain = yield* send("embed", { input: ["a", "b"] })
      const packed = yield* send("embed", { input: ["a", "b"], encoding_format: "base64" })
      for (const [index, { embedding }] of plain.data.entries()) {
        const read = new Float32Array(Uint8Array.from(Buffer.from(packed.data[index].embedding, "base64")).buffer)
        assert.deepStrictEqual([...read], embedding)
      }
      assert.notDeepEqual(plain.data[0].embedding, plain.data[1].embedding)
    })
  )

  it.effect("refuses what is no JSON object", () =>
    Effect.gen(function* () {
      for (const body of ["{", "[]", "null"]) {
        const failure = yield* Effect.flip(
          Effect.scoped(
            repeatableLoopback().send({ format: openAiChat, model: "m", streams: false, body, headers: {} })
          )
        )
        assert.strictEqual(failure.error.status, 400)
      }
    })
  )

  it.effect("refuses what would keep the service from its other requests", () =>
    Effect.gen(function* () {
      const failure = yield* Effect.flip(
        send("chat", { messages: [{ role: "user", content: "a b".repeat(1_000_000) }] })
      )
      assert.deepInclude(failure.error, { status: 400, code: "context_length_exceeded" })
    })
  )
})
