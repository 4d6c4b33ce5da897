import { assert, describe, it } from "@effect/vitest"
import { readChunk } from "../../../../src/gateway/formats/common-form/domain.ts"
import { sealedIn } from "../../../../src/gateway/formats/common-form/turn-state.ts"
import { noUsage } from "../../../../src/gateway/formats/domain.ts"
import { answerToCompletion } from "../../../../src/gateway/formats/gemini/answers.ts"
import { readAnswer } from "../../../../src/gateway/formats/gemini/domain.ts"
import {
  AnswerReader,
  AnswersToChunks,
  AnswerWriter,
  ChunksToAnswers
} from "../../../../src/gateway/formats/gemini/stream.ts"
import { readableSeal } from "../../../support/turn-seals.ts"
import { type Any, calling, signedText, toChat, toGemini, usage } from "./forms.ts"

const head = { model: "m", id: "id", createdSeconds: 17, includesThoughts: true }

const element = (parts: ReadonlyArray<object>, rest: object = {}, index = 0) => ({
  candidates: [{ content: { parts, role: "model" }, index, ...rest }],
  usageMetadata: { promptTokenCount: 10, totalTokenCount: 10 },
  responseId: "r1"
})

/** An answer as a stream of one element for each part. */
const streamed = (answer: typeof calling | typeof signedText): ReadonlyArray<object> => {
  const { parts } = answer.candidates[0]!.content
  const last = { ...element([], { finishReason: "STOP" }), usageMetadata: usage }
  return [...parts.map((part) => element([part])), last]
}

const toChunks = (answers: ReadonlyArray<unknown>): ReadonlyArray<Any> => {
  const machine = new AnswersToChunks(head)
  const pushed = answers.flatMap((answer) => machine.push(readAnswer(answer) ?? {}))
  return JSON.parse(JSON.stringify([...pushed, ...machine.end()]))
}

const toAnswers = (chunks: ReadonlyArray<unknown>, given = head): ReadonlyArray<Any> => {
  const machine = new ChunksToAnswers(given)
  const pushed = chunks.flatMap((chunk) => machine.push(readChunk(chunk) ?? {}))
  return JSON.parse(JSON.stringify([...pushed, ...machine.end()]))
}

/** The message that the deltas of the first choice make. */
const messageOf = (chunks: ReadonlyArray<Any>): Any => {
  const message: Any = { role: "assistant", content: "", reasoning_content: "", tool_calls: [], turn_state: [] }
  for (const delta of chunks.flatMap(({ choices }) => choices.map((choice: Any) => choice.delta))) {
    message.content += delta.content ?? ""
    message.reasoning_content += delta.reasoning_content ?? ""
    for (const call of delta.tool_calls ?? []) message.tool_calls.push(call)
    for (const state of delta.turn_state ?? []) message.turn_state.push(state)
  }
  return message
}

const wholeOf = (answers: ReadonlyArray<Any>) => ({
  candidates: [
    {
      content: { parts: answers.flatMap(({ candidates }) => candidates[0].content.parts) },
      finishReason: answers.at(-1).candidates[0].finishReason
    }
  ]
})

describe("answers to chunks", () => {
  it("say what the whole answer says, with the finish at the end", () => {
    for (const answer of [calling, signedText]) {
      const chunks = toChunks(streamed(answer))
      const whole: Any = answerToCompletion(readAnswer(answer) ?? {}, head)
      const message = messageOf(chunks)
      assert.strictEqual(message.content, whole.choices[0].message.content)
      assert.strictEqual(message.reasoning_content, whole.choices[0].message.reasoning_content)
      assert.deepStrictEqual(
        message.tool_calls.map(({ function: called }: Any) => called),
        (whole.choices[0].message.tool_calls ?? []).map(({ function: called }: Any) => called)
      )
      assert.strictEqual(chunks.at(-1).choices[0].finish_reason, whole.choices[0].finish_reason)
      assert.deepStrictEqual(chunks[0].choices[0].delta, { role: "assistant", content: "", refusal: null })
    }
  })

  it("carry what Gemini wants back, so that the next turn has each signature in its part", () => {
    for (const answer of [calling, signedText]) {
      const message = messageOf(toChunks(streamed(answer)))
      const { parts } = toGemini({ model: "m", messages: [{ role: "user", content: "?" }, message] }).contents[1]
      const signed = parts.filter(({ thoughtSignature }: Any) => thoughtSignature)
      const given = answer.candidates[0]!.content.parts.filter((part) => "thoughtSignature" in part)
      assert.deepStrictEqual(signed, given)
    }
  })

  it("a stream that breaks off, is cut, or ends without an answer is not finished, or not complete", () => {
    const machine = new AnswersToChunks(head)
    machine.push(readAnswer(element([{ text: "Hi" }])) ?? {})
    assert.isFalse(machine.finished)
    machine.push(readAnswer(element([{ text: "!" }], { finishReason: "FINISH_REASON_UNSPECIFIED" })) ?? {})
    assert.isFalse(machine.finished)
    machine.push(readAnswer(element([], { finishReason: "MALFORMED_FUNCTION_CALL" })) ?? {})
    assert.deepStrictEqual([machine.finished, machine.isIncomplete], [true, true])
    assert.strictEqual((machine.end()[0] as Any).choices[0].finish_reason, "length")
    assert.isEmpty(machine.end())
    const blocked = new AnswersToChunks(head)
    blocked.push(readAnswer({ promptFeedback: { blockReason: "SAFETY" } }) ?? {})
    assert.deepStrictEqual([blocked.finished, blocked.isIncomplete], [true, false])
    assert.isUndefined(blocked.usage)
    assert.isFalse(new AnswersToChunks(head).finished)
  })

  it("candidates are choices, each with calls of its own", () => {
    const chunks = toChunks([
      element([{ text: "A" }], {}, 0),
      element([{ functionCall: { name: "f" } }], { finishReason: "STOP" }, 1),
      element([{ functionCall: { name: "g" } }, { functionCall: { name: "h" } }], { finishReason: "STOP" }, 0)
    ])
    const calls = chunks.flatMap(({ choices }) =>
      choices.flatMap(({ delta, index }: Any) =>
        (delta.tool_calls ?? []).map((call: Any) => [index, call.index, call.id])
      )
    )
    assert.deepStrictEqual(calls, [
      [1, 0, "id_1_0"],
      [0, 0, "id_0"],
      [0, 1, "id_1"]
    ])
    const searched = toChunks([
      element([{ text: "A" }], { groundingMetadata: { webSearchQueries: ["x"] } }),
      element([], { groundingMetadata: { webSearchQueries: ["x", "y"] }, finishReason: "STOP" })
    ])
    assert.deepStrictEqual(
      searched.flatMap(({ choices }) => choices.flatMap(({ delta }: Any) => delta.web_searches ?? [])),
      [{ query: "x" }, { query: "y" }]
    )
  })
})

const piece = (index: number, args: string, more: object = {}) => ({
  choices: [{ index: 0, delta: { tool_calls: [{ index, function: { arguments: args }, ...more }] } }]
})

/** The parts of an answer, with those that are not signed and follow each other as one. */
const partsOf = (answer: typeof calling | typeof signedText): ReadonlyArray<Any> => {
  const parts: ReadonlyArray<Any> = answer.candidates[0]!.content.parts
  const all: Array<Any> = []
  for (const part of parts) {
    const last = all.at(-1)
    const continues = last?.text !== undefined && last.thought === part.thought && !part.thoughtSignature
    if (continues && part.text !== undefined) all.splice(-1, 1, { ...last, text: last.text + part.text })
    else all.push(part)
  }
  return all
}

describe("chunks to answers", () => {
  it("come back as they were, by way of chunks, with each signature in its part", () => {
    for (const answer of [calling, signedText]) {
      const again = toAnswers(toChunks(streamed(answer)).map((chunk) => sealedIn(chunk, readableSeal)))
      const whole = (given: unknown): Any => {
        const [{ message }] = answerToCompletion(readAnswer(given) ?? {}, head).choices as Any
        const { turn_state: _, ...said } = message
        return said
      }
      assert.deepStrictEqual(whole(wholeOf(again)), whole(answer))
      const history = [
        { role: "user", parts: [{ text: "?" }] },
        { ...wholeOf(again).candidates[0]?.content, role: "model" }
      ]
      assert.deepStrictEqual(toGemini(toChat({ contents: history })).contents[1].parts, partsOf(answer))
      assert.isTrue(again.slice(0, -1).every(({ candidates }) => candidates[0].finishReason === undefined))
    }
  })

  it("calls whose arguments come in pieces, and of which some are interleaved, are whole", () => {
    const answers = toAnswers([
      { id: "c", choices: [{ index: 0, delta: { role: "assistant", reasoning: "Hm." } }] },
      piece(0, '{"ci', { id: "x", function: { name: "weather", arguments: '{"ci' } }),
      piece(1, "", { id: "y", function: { name: "clock", arguments: "" } }),
      piece(0, 'ty":"A"}'),
      { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
      { choices: [], usage: { prompt_tokens: 3, completion_tokens: 4 } }
    ])
    assert.deepStrictEqual(answers, [
      {
        candidates: [{ content: { parts: [{ thought: true, text: "Hm." }], role: "model" }, index: 0 }],
        modelVersion: "m",
        responseId: "c"
      },
      {
        candidates: [
          {
            content: {
              parts: [
                { functionCall: { id: "x", name: "weather", args: { city: "A" } } },
                { functionCall: { id: "y", name: "clock", args: {} } }
              ],
              role: "model"
            },
            finishReason: "STOP",
            index: 0
          }
        ],
        modelVersion: "m",
        responseId: "c",
        usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 4, totalTokenCount: 7 }
      }
    ])
  })

  it("thoughts are written for those alone who asked, and what stands in for a missing usage is told", () => {
    const machine = new ChunksToAnswers({ ...head, includesThoughts: false })
    assert.isEmpty(machine.push(readChunk({ choices: [{ delta: { reasoning_content: "Hm." } }] }) ?? {}))
    assert.isFalse(machine.finished)
    machine.push(readChunk({ choices: [{ delta: { refusal: "No." }, finish_reason: "stop" }] }) ?? {})
    assert.isTrue(machine.finished)
    assert.isUndefined(machine.usage)
    const [last]: ReadonlyArray<Any> = machine.end({ ...noUsage, inputTokens: 9, outputTokens: 2 })
    assert.strictEqual(last.candidates[0].finishReason, "SAFETY")
    assert.strictEqual(last.usageMetadata.totalTokenCount, 11)
    assert.isEmpty(machine.end())
  })
})

const bytes = (text: string) => new TextEncoder().encode(text)

const readCut = (given: Uint8Array, ...cuts: ReadonlyArray<number>) => {
  const reader = new AnswerReader()
  const places = [0, ...cuts, given.length]
  const values = places.slice(1).flatMap((end, index) => reader.push(given.subarray(places[index], end)))
  return { reader, values: [...values, ...reader.end()] }
}

describe("frames", () => {
  const answers = [
    element([{ text: 'Grüße, "quoted" \\ {[}] 🌍\n' }]),
    element([{ functionCall: { name: "f", args: { list: [[1], { a: "]" }] } } }]),
    element([], { finishReason: "STOP" })
  ]
  const failure = { error: { code: 503, message: "Overloaded\n", status: "UNAVAILABLE" } }
  const written = (framing: "sse" | "array", ends: (writer: AnswerWriter) => string) => {
    const writer = new AnswerWriter(framing)
    return answers.map((answer) => writer.write([answer])).join("") + ends(writer)
  }

  it("are read wherever they are cut: at every byte, and into single bytes", () => {
    const pretty = `\uFEFF ${JSON.stringify(answers, null, 2).replaceAll("\n", "\r\n")}\n`
    const commented = `: hi\n\n${answers.map((answer) => `event: x\ndata: ${JSON.stringify(answer)}\n\n`).join(":\n\n")}`
    for (const text of [
      written("sse", (writer) => writer.end()),
      written("array", (writer) => writer.end()),
      pretty,
      commented
    ]) {
      const given = bytes(text)
      for (let cut = 0; cut <= given.length; cut++) {
        assert.deepStrictEqual(readCut(given, cut).values, answers, `${text.slice(0, 10)} cut at ${cut}`)
      }
      assert.deepStrictEqual(readCut(given, ...given.keys()).values, answers)
    }
  })

  it("with an error end with it: as JSON between events, however it is written, or as an element of the array", () => {
    const bare = JSON.stringify(failure)
    const texts = [
      written("sse", (writer) => writer.fail(bare)),
      written("array", (writer) => writer.fail(bare)),
      `${written("sse", (writer) => writer.end())}${JSON.stringify(failure, null, 2)}\n\n`,
      `${written("sse", (writer) => writer.end())}data: ${bare}`
    ]
    for (const text of texts) {
      const given = bytes(text)
      for (let cut = 0; cut <= given.length; cut++) {
        assert.deepStrictEqual(readCut(given, cut).values, [...answers, failure], `${text.slice(-30)} cut at ${cut}`)
      }
    }
    assert.deepStrictEqual(readCut(bytes(JSON.stringify([failure]))).values, [failure])
    assert.isFalse(texts[0]?.endsWith("\n"))
  })

  it("of an array are JSON as a whole, with any number of elements", () => {
    assert.deepStrictEqual(JSON.parse(written("array", (writer) => writer.end())), answers)
    assert.deepStrictEqual(JSON.parse(new AnswerWriter("array").end()), [])
    assert.deepStrictEqual(JSON.parse(new AnswerWriter("array").fail("{}")), [{}])
  })

  it("that are cut, malformed or without end give what was whole, and say that no more can be read", () => {
    assert.deepStrictEqual(readCut(bytes(`[${JSON.stringify(answers[0])},{"a":`)).values, [answers[0]])
    assert.deepStrictEqual(readCut(bytes(`data: ${JSON.stringify(answers[0])}\n\ndata: {"a":`)).values, [answers[0]])
    assert.isEmpty(readCut(bytes("<html>{}</html>\n{ no JSON }\n\n")).values)
    const [first] = answers
    const long = readCut(bytes(`{${"x".repeat(70_000)}\n\ndata: ${JSON.stringify(first)}\n\n`))
    assert.deepStrictEqual([long.values, long.reader.isUnreadable], [[first], false])
    assert.isFalse(readCut(bytes(`data: ${"x".repeat(70_000)}`)).reader.isUnreadable)
  })
})
