import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { turnsOf } from "../../../src/gateway/formats/common-form/turn-order.ts"
import { sealedPrefix } from "../../../src/gateway/formats/common-form/turn-state.ts"
import { type ChatMessage } from "../../../src/gateway/formats/common-form/domain.ts"
import { responsesToChat } from "../../../src/gateway/formats/openai-responses/to-chat.ts"

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
