import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { objectSchema } from "../../../src/gateway/formats/common-form/object-schema.ts"
import { geminiGenerate } from "../../../src/gateway/formats/gemini/format.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { openAiResponses } from "../../../src/gateway/formats/openai-responses/format.ts"
import { boundOf } from "../../support/formats.ts"
import { configure, counters, model, provider, spender } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { translated } from "../../support/translations.ts"

const user = (content: string) => ({ role: "user", content })
// oxlint-disable-next-line typescript/no-explicit-any -- blocks and requests of every format
type Any = any

const result = (tool_call_id: string) => ({ role: "tool", tool_call_id, content: "" })
const textOf = ({ content, text }: Any): string => text ?? (content ?? []).map((part: Any) => part.text ?? "").join("")
const sizeOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))

describe("a request to which a translation adds", () => {
  const ids = Array.from({ length: 100 }, (_, index) => `${index}`.padEnd(200, "x"))

  it("has a bound for the results of calls without one", () => {
    const tool_calls = ids.map((id) => ({ id, type: "function", function: { name: "f", arguments: "{}" } }))
    const chat = { model: "m", messages: [user("a"), { role: "assistant", content: null, tool_calls }, user("b")] }
    const answered = { ...chat, messages: [...chat.messages.slice(0, 2), ...ids.map((id) => result(id)), user("b")] }
    const { body } = translated(chat, openAiChat, "anthropic")
    const added = body.messages[2].content.map((block: Any) => `${block.tool_use_id ?? ""}${textOf(block)}`).join("")
    assert.include(added, ids[99])
    const grown = (request: object) => boundOf(openAiChat, request as Any).inputTokens - sizeOf(request)
    assert.isAtLeast(grown(chat), added.length)
    assert.isBelow(grown(answered), 3000, "nothing is added for calls with a result but what each message has")
    const input = [
      { role: "user", content: "a" },
      ...ids.map((call_id) => ({ type: "function_call", call_id, name: "f", arguments: "{}" }))
    ]
    const response = { model: "m", input }
    assert.isAtLeast(boundOf(openAiResponses, response).inputTokens, sizeOf(response) + 100 * 200)
  })

  it("has one for the ids that Gemini's calls get, and for what is escaped again", () => {
    const parts = Array.from({ length: 200 }, () => ({ functionCall: { name: "f" } }))
    const contents = [
      { role: "user", parts: [{ text: "a" }] },
      { role: "model", parts },
      { role: "user", parts: [{ text: "b" }] }
    ]
    const { body } = translated({ contents }, geminiGenerate, "openai")
    const ids: ReadonlyArray<string> = body.messages.flatMap(({ tool_call_id: answered, tool_calls: calls }: Any) =>
      calls === undefined ? (answered ?? []) : calls.map(({ id }: Any) => id)
    )
    assert.isAtLeast(boundOf(geminiGenerate, { contents }).inputTokens, sizeOf({ contents }) + ids.join("").length)
    const described = (description: string) => ({
      contents: contents.slice(0, 1),
      tools: [{ functionDeclarations: [{ name: "f", description }] }]
    })
    const [one, other] = ["‹", "abc"].map((text) => boundOf(geminiGenerate, described(text.repeat(1000))).inputTokens)
    assert.isAbove(one!, other! + 1000)
  })
})

describe("the schema of a tool", () => {
  it("that refers to itself is read once", () => {
    const references = Array.from({ length: 10 }, () => ({ $ref: "#/$defs/a" }))
    const schema = { $ref: "#/$defs/a", $defs: { a: { anyOf: references, properties: { x: { type: "string" } } } } }
    assert.deepInclude(objectSchema(schema), { type: "object", properties: { x: { type: "string" } }, required: [] })
  })

  it("with many alternatives has each of them once", () => {
    const anyOf = Array.from({ length: 5000 }, (_, index) => ({ properties: { a: { const: index % 2500 } } }))
    const { properties } = objectSchema({ anyOf }) as {
      readonly properties: { readonly a: { readonly anyOf: ReadonlyArray<unknown> } }
    }
    assert.lengthOf(properties.a.anyOf, 2500)
  })
})

describe("results of Gemini's callers", () => {
  it("find their calls however many there are, by id in any order, and by name in theirs", () => {
    const calls = Array.from({ length: 20_000 }, (_, index) => ({
      functionCall: { id: `c${index}`, name: "f", args: {} }
    }))
    const results = calls
      .toReversed()
      .map(({ functionCall: { id, name } }) => ({ functionResponse: { id, name, response: { output: id } } }))
    const contents = [
      { role: "user", parts: [{ text: "a" }] },
      { role: "model", parts: calls },
      { role: "user", parts: results }
    ]
    const { body } = translated({ contents }, geminiGenerate, "openai")
    assert.deepStrictEqual(body.messages[2], { role: "tool", tool_call_id: "c0", content: "c0" })
    assert.lengthOf(body.messages, 20_002)
    const nameless = [
      { role: "user", parts: [{ text: "a" }] },
      {
        role: "model",
        parts: [{ functionCall: { name: "f" } }, { functionCall: { name: "g" } }, { functionCall: { name: "f" } }]
      },
      {
        role: "user",
        parts: ["g", "f", "f"].map((name, index) => ({ functionResponse: { name, response: { output: `${index}` } } }))
      }
    ]
    const { messages } = translated({ contents: nameless }, geminiGenerate, "openai").body
    assert.deepStrictEqual(
      messages.slice(2).map(({ content }: { readonly content: string }) => content),
      ["1", "0", "2"]
    )
  })
})

const annotated = {
  id: "c",
  choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10, num_search_queries: 30 }
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a model that searches by itself",
  (it) => {
    const prices = { inputUsdPerMTok: 2, outputUsdPerMTok: 10, toolUses: { webSearch: 0.035 } }
    const asked = {
      "/v1/chat/completions": { messages: [user("Hi")], max_tokens: 50 },
      "/v1/messages": { messages: [user("Hi")], max_tokens: 50 },
      "/v1/responses": { input: "Hi", max_output_tokens: 50 }
    }
    const generate = { contents: [{ parts: [{ text: "Hi" }] }], generationConfig: { maxOutputTokens: 50 } }

    for (const [vendor, name] of [
      ["perplexity", "sonar"],
      ["openai", "gpt-4o-search-preview"]
    ] as const) {
      it.effect(`is held to a hard cap for callers of every format: ${name}`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const standIn = yield* startProvider((_, response) => json(response, 200, annotated))
          yield* configure(
            service,
            [provider(vendor, standIn)],
            [model("gpt", [], { prices, targets: [{ provider: vendor, model: name }], contextTokens: 1000 })]
          )
          const { key, tenantId } = yield* spender(service, [{ limit: 0.01 }])
          const calls = [...Object.entries(asked), ["/v1beta/models/gpt:generateContent", generate] as const]
          for (const [path, body] of calls) {
            const { status } = yield* service.call("POST", path, { key, body: { model: "gpt", ...body } })
            assert.include([402, 403], status, path)
          }
          assert.deepStrictEqual(standIn.requests, [])
          for (const { spent } of yield* counters(service, tenantId)) assert.strictEqual(spent, "0")
        }).pipe(Effect.scoped)
      )
    }
  }
)
