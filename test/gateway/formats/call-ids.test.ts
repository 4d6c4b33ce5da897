import { assert, describe, it } from "@effect/vitest"
import { anthropicMessages } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { translated } from "../../support/translations.ts"

const call = (id: string) => ({ id, type: "function", function: { name: "weather", arguments: "{}" } })
const use = (id: string) => ({ type: "tool_use", id, name: "weather", input: {} })
const result = (id: string) => ({ type: "tool_result", tool_use_id: id, content: "Sunny." })
const given = ["toolu_01A09q90qw90lq917835lq9", "call_0_0", "abcDEF123", "x".repeat(70), "y".repeat(70)]
const chat = {
  model: "m",
  messages: [
    { role: "user", content: "Hi" },
    { role: "assistant", content: null, tool_calls: given.map(call) },
    ...given.map((id) => ({ role: "tool", tool_call_id: id, content: "Sunny." }))
  ]
}
const messages = {
  model: "m",
  max_tokens: 9,
  messages: [
    { role: "user", content: "Hi" },
    { role: "assistant", content: given.map(use) },
    { role: "user", content: given.map(result) }
  ]
}

/** The ids of the calls, and of their results. */
// oxlint-disable-next-line typescript/no-explicit-any -- messages of any shape
const idsIn = ({ messages: sent }: { readonly messages: ReadonlyArray<Record<string, any>> }) => [
  sent.flatMap(({ tool_calls: calls }) => (calls ?? []).map(({ id }: { readonly id: string }) => id)),
  sent.flatMap(({ tool_call_id: id }) => id ?? [])
]

describe.each([
  ["a chat completion", chat, openAiChat],
  ["a message", messages, anthropicMessages]
] as const)("the calls of %s", (_, body, format) => {
  it("have ids that Mistral takes, the same for their results and in each turn", () => {
    const to = { vendor: "mistral-ai", model: "mistral-large-latest" }
    const [calls = [], results] = idsIn(translated(body, format, "openai", to).body)
    for (const id of calls) assert.match(id, /^[a-zA-Z0-9]{9}$/)
    assert.strictEqual(new Set(calls).size, given.length)
    assert.strictEqual(calls[2], "abcDEF123")
    assert.deepStrictEqual(results, calls)
    assert.deepStrictEqual(idsIn(translated(body, format, "openai", to).body), [calls, results])
  })

  it("have ids that are no longer than OpenAI takes", () => {
    const [calls = [], results] = idsIn(translated(body, format, "openai", { vendor: "openai" }).body)
    assert.deepStrictEqual(calls.slice(0, 3), given.slice(0, 3))
    assert.isTrue(calls.every((id: string) => id.length <= 40))
    assert.strictEqual(new Set(calls).size, given.length)
    assert.deepStrictEqual(results, calls)
  })

  it("keep their ids at vendors that take any", () => {
    assert.deepStrictEqual(idsIn(translated(body, format, "openai", { vendor: "deepseek" }).body)[0], given)
  })
})
