import { assert, describe, it } from "@effect/vitest"
import { sealedIn, sealedPrefix } from "../../../../src/gateway/formats/common-form/turn-state.ts"
import {
  sealedStatesIn,
  StateReader,
  StateWriter,
  withoutSealedStates,
  withState,
  withStateGivenBack
} from "../../../../src/gateway/formats/openai-chat/turn-state.ts"
import { edited, editsAt } from "../../../../src/gateway/json/json-edits.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- messages of every shape
type Any = any

const sealed = (name: string) => `${sealedPrefix}${name}==`
const chunk = (delta: object, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason }]
})
const call = { index: 0, id: "c1", type: "function", function: { name: "f", arguments: "{}" } }

const stateOf = (chunks: ReadonlyArray<Any>): ReadonlyArray<Any> => {
  const reader = new StateReader()
  const read: ReadonlyArray<Any> = chunks.flatMap((one) => reader.push(one))
  return read.flatMap(({ choices }) => choices.flatMap(({ delta }: Any) => delta.turn_state ?? []))
}

describe("what providers of chat completions want back", () => {
  it("is gathered from a stream as from a whole answer, once the model goes on", () => {
    const details = [
      { type: "reasoning.text", text: "I ", index: 0 },
      { type: "reasoning.text", text: "look.", signature: "S", index: 0 },
      { type: "reasoning.encrypted", data: "D", index: 1 }
    ]
    const whole = [{ type: "reasoning.text", text: "I look.", signature: "S", index: 0 }, details[2]]
    const streamed = [
      ...details.map((one) => chunk({ content: "", reasoning: "r", reasoning_details: [one] })),
      chunk({ tool_calls: [call] }),
      chunk({}, "tool_calls")
    ]
    assert.deepStrictEqual(stateOf(streamed), [{ message: { reasoning_details: whole } }])
    const message = { content: null, reasoning: "rrr", reasoning_details: whole, tool_calls: [call] }
    const answered: Any = withState({ choices: [{ message }] })
    assert.deepStrictEqual(answered.choices[0].message.turn_state, [{ message: { reasoning_details: whole } }])
  })

  it("is one piece for each part of a turn that thinks twice, and comes at the end where nothing follows", () => {
    assert.deepStrictEqual(
      stateOf([
        chunk({ reasoning: "a" }),
        chunk({ reasoning: "b" }),
        chunk({ content: "x" }),
        chunk({ reasoning: "c" }),
        chunk({}, "stop")
      ]),
      [{ message: { reasoning: "ab" } }, { message: { reasoning: "c" } }]
    )
    assert.isEmpty(stateOf([chunk({ content: "x" }), chunk({}, "stop")]))
  })

  it("returns whole in the members that it came in, and nothing else does", () => {
    const extra = { google: { thought_signature: "G" } }
    const turn_state = [
      { message: { reasoning_content: "a" } },
      { call: "c1", extra_content: extra },
      { message: { reasoning_content: "b" } },
      { call: "gone", extra_content: extra },
      7,
      { message: 7 }
    ]
    assert.deepStrictEqual(withStateGivenBack({ role: "assistant", content: null, tool_calls: [call], turn_state }), {
      role: "assistant",
      content: null,
      reasoning_content: "ab",
      tool_calls: [{ ...call, extra_content: extra }]
    })
    assert.deepStrictEqual(withStateGivenBack({ role: "user", content: "x" }), { role: "user", content: "x" })
  })

  it("returns to one call, where a caller gives several the same id", () => {
    const turn_state = [{ call: "c1", extra_content: { google: { thought_signature: "G" } } }]
    const given: Any = withStateGivenBack({ role: "assistant", tool_calls: [call, call, call], turn_state })
    assert.deepStrictEqual(
      given.tool_calls.map((one: Any) => one.extra_content !== undefined),
      [true, false, false]
    )
  })

  it("has each encrypted thought, also where all have one index", () => {
    const details = ["D", "E"].map((data) => ({ type: "reasoning.encrypted", data, index: 0 }))
    const turn_state = stateOf([chunk({ reasoning_details: details }), chunk({ tool_calls: [call] })])
    const given: Any = withStateGivenBack({ role: "assistant", tool_calls: [call], turn_state })
    assert.deepStrictEqual(given.reasoning_details, details)
  })
})

const written = (chunks: ReadonlyArray<Any>): ReadonlyArray<Any> => {
  const writer = new StateWriter()
  return chunks.map((one) => (writer.write(one) as Any).choices[0].delta)
}

const neverSeals = () => assert.fail("nothing is to be sealed")

describe("sealed states in chat completions", () => {
  it("stand in the details of the message, and all on its first call that comes after them", () => {
    const [first, second, third] = written([
      chunk({ turn_state: sealed("a") }),
      chunk({ content: "x", turn_state: sealed("b") }),
      chunk({ tool_calls: [call] })
    ])
    assert.deepStrictEqual(
      [first, second].map(({ reasoning_details: [{ data, index }] }) => [data, index]),
      [
        [sealed("a"), 0],
        [sealed("b"), 1]
      ]
    )
    const both = [sealed("a"), sealed("b")]
    const reasoning_details = [...first.reasoning_details, ...second.reasoning_details]
    assert.deepStrictEqual(sealedStatesIn({ reasoning_details, tool_calls: third.tool_calls }), both)
    // Some clients keep the one, some the other.
    assert.deepStrictEqual(sealedStatesIn({ reasoning_details }), both)
    assert.deepStrictEqual(sealedStatesIn({ tool_calls: third.tool_calls }), both)
    const own = { reasoning_details: [{ type: "reasoning.text", text: sealed("a") }], tool_calls: [call] }
    assert.isEmpty(sealedStatesIn(own))
  })

  it("are cut from what a provider gets, with the thoughts that belong to them, and all else stays byte for byte", () => {
    const text = `{"n":1.10,"messages":[{"role":"assistant","content":null , "reasoning_content":"hm",
      "reasoning_details":[{"type":"reasoning.encrypted","data":"${sealed("a")}"},{"type":"reasoning.text","text":"t","at":1e2}],
      "tool_calls":[{"id":"1","extra_content":{"google":{"thought_signature":"${sealed("b")}.${sealed("c")}"}},"function":{}}]},
      {"role":"assistant","reasoning_content":"own","reasoning_details":[{"data":"x"}]}]}`
    const bytes = Buffer.from(text)
    const out = Buffer.from(edited(bytes, editsAt(bytes, withoutSealedStates(JSON.parse(text))))).toString("utf8")
    assert.notInclude(out, sealedPrefix)
    assert.include(out, '"n":1.10')
    assert.include(out, '{"type":"reasoning.text","text":"t","at":1e2}')
    const [{ tool_calls: calls, ...turn }, other] = JSON.parse(out).messages
    assert.deepStrictEqual(calls, [{ id: "1", function: {} }])
    assert.hasAllKeys(turn, ["role", "content", "reasoning_details"])
    assert.deepStrictEqual(other, JSON.parse(text).messages[1])
  })

  it("are made of what a provider attached alone: a caller's own text is none", () => {
    const answer = { choices: [{ message: { content: "x", turn_state: [] } }, { message: { content: "y" } }, 7] }
    assert.deepStrictEqual(sealedIn(answer, neverSeals).choices, [
      { message: { content: "x" } },
      { message: { content: "y" } },
      7
    ])
  })
})
