import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { chatToMessages } from "../../../src/gateway/formats/anthropic-messages/chat-to-messages.ts"
import { type ChatMessage } from "../../../src/gateway/formats/common-form/domain.ts"
import { turnsOf } from "../../../src/gateway/formats/common-form/turn-order.ts"
import { sealedPrefix } from "../../../src/gateway/formats/common-form/turn-state.ts"
import { chatToRequest } from "../../../src/gateway/formats/gemini/chat-to-request.ts"
import { responsesToChat } from "../../../src/gateway/formats/openai-responses/to-chat.ts"
import { knownModel } from "../../support/formats.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- requests of every format
type Any = any

/** As many as a request may have; what copies the turn for each of them does not end in the time of a test. */
const many = 100_000

describe("a turn of as many messages as a request may have", () => {
  it("is put together once", () => {
    const said = Array.from({ length: many }, (_, index): ChatMessage => ({ role: "assistant", content: `${index} ` }))
    const [turn, ...others] = turnsOf([{ role: "assistant", turn_state: [{ text: 2 }] }, ...said])
    assert.isEmpty(others)
    assert.lengthOf(turn?.message.content ?? [], many)
    assert.deepStrictEqual(turn?.message.turn_state, [{ text: 2 }])
    assert.lengthOf(turnsOf(said), many)
  })

  it("is one message with all that was signed in it, from items of the Responses API", () => {
    const items = Array.from({ length: many }, (_, index) => ({
      type: "reasoning",
      encrypted_content: `${sealedPrefix}${index}`
    }))
    const { body } = Result.getOrThrow(responsesToChat({ model: "m" }, items))
    const [message, ...others] = body.messages as ReadonlyArray<{ readonly turn_state: ReadonlyArray<string> }>
    assert.isEmpty(others)
    assert.lengthOf(message?.turn_state ?? [], many)
  })
})

const call = (id: string) => ({ id, type: "function", function: { name: "f", arguments: "{}" } })
const result = (tool_call_id: string): ChatMessage => ({ role: "tool", tool_call_id, content: "r" })

const turnOf = (ids: ReadonlyArray<string>): ReadonlyArray<ChatMessage> => [
  { role: "assistant", content: null, tool_calls: ids.map(call) },
  ...ids.map(result)
]

describe("a conversation of as many calls as a request may have", () => {
  const conversations: Readonly<Record<string, ReadonlyArray<ChatMessage>>> = {
    "in turns that all have the same id": Array.from({ length: many / 2 }, () => turnOf(["call"])).flat(),
    "in one turn": turnOf(Array.from({ length: many / 2 }, (_, index) => `${index}`)),
    "in one turn with the same id": turnOf(Array.from({ length: many / 2 }, () => "call"))
  }
  for (const [name, messages] of Object.entries(conversations)) {
    it(`has each result at its call, ${name}`, () => {
      const { messages: turns }: Any = Result.getOrThrow(
        chatToMessages({ model: "m", messages }, { maxOutputTokens: 9, ...knownModel("claude-sonnet-4-5") })
      )
      const idsOf = (type: string, member: string): ReadonlyArray<string> =>
        turns
          .flatMap(({ content }: Any) => content.filter((block: Any) => block.type === type))
          .map((block: Any) => block[member])
      const ids = idsOf("tool_use", "id")
      assert.strictEqual(new Set(ids).size, many / 2)
      assert.isTrue(ids.join() === idsOf("tool_result", "tool_use_id").join())
      const { contents }: Any = Result.getOrThrow(chatToRequest({ model: "m", messages }, knownModel("gemini-3-pro")))
      assert.isAtLeast(contents.length, 2)
    })
  }
})
