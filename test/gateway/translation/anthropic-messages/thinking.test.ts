import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { chatToMessages } from "../../../../src/gateway/formats/anthropic-messages/chat-to-messages.ts"
import { ChatRequest } from "../../../../src/gateway/formats/common-form/domain.ts"
import { knownModel } from "../../../support/formats.ts"

const hello = [{ role: "user", content: "Hello" }]
const tools = [{ type: "function", function: { name: "weather" } }]
const midway = [
  ...hello,
  { role: "assistant", tool_calls: [{ id: "a", type: "function", function: { name: "weather", arguments: "{}" } }] },
  { role: "tool", tool_call_id: "a", content: "cold" }
]

const translated = (request: object, model: string) =>
  Result.getOrThrow(
    chatToMessages(Schema.decodeUnknownSync(ChatRequest)({ model: "m", messages: hello, ...request }), {
      ...knownModel(model),
      maxOutputTokens: 4096
    })
  )

const sonnet = (request: object) => translated(request, "claude-sonnet-4-5")
const opus = (request: object) => translated({ temperature: 0.2, top_p: 0.9, ...request }, "claude-opus-4-8")

describe("an effort of reasoning, before Anthropic", () => {
  it("is a budget within the limit for older models", () => {
    const reasoning = sonnet({ reasoning_effort: "high", max_tokens: 2000, temperature: 0 })
    assert.deepStrictEqual(reasoning.thinking, { type: "enabled", budget_tokens: 1600 })
    assert.isUndefined(reasoning.temperature)
    assert.isUndefined(sonnet({ reasoning_effort: "high", max_tokens: 1000 }).thinking)
    assert.strictEqual(sonnet({ temperature: 1.7 }).temperature, 1)
    const most = sonnet({ reasoning_effort: "max", max_tokens: 100_000 })
    assert.deepStrictEqual(most.thinking, { type: "enabled", budget_tokens: 65_536 })
    assert.notProperty(sonnet({ messages: midway, reasoning_effort: "high", tools }), "thinking")
  })

  it("is told to those that think adaptively, and samples nothing", () => {
    const adaptive = { type: "adaptive", display: "summarized" }
    for (const effort of ["low", "medium", "high", "xhigh", "max"]) {
      const asked = opus({ reasoning_effort: effort, max_tokens: 100 })
      assert.deepStrictEqual([asked.thinking, asked.output_config], [adaptive, { effort }])
      assert.notProperty(asked, "temperature")
      assert.notProperty(asked, "top_p")
    }
    const silent = opus({})
    for (const name of ["thinking", "output_config", "temperature", "top_p"]) assert.notProperty(silent, name)
    const little = opus({ reasoning_effort: "minimal", tool_choice: null })
    assert.deepStrictEqual([little.thinking, little.output_config], [adaptive, { effort: "low" }])
    const forced = opus({ reasoning_effort: "high", tools, tool_choice: "required" })
    const none = opus({ reasoning_effort: "none" })
    assert.deepStrictEqual([forced.thinking, forced.output_config], [undefined, { effort: "high" }])
    assert.deepStrictEqual([none.thinking, none.output_config], [undefined, { effort: "low" }])
    const schema = { type: "object" }
    const format = { type: "json_schema", json_schema: { name: "x", schema } }
    assert.deepStrictEqual(opus({ reasoning_effort: "high", response_format: format }).output_config, {
      format: { type: "json_schema", schema },
      effort: "high"
    })
    assert.deepStrictEqual(opus({ messages: midway, reasoning_effort: "high", tools }).thinking, adaptive)
  })
})
