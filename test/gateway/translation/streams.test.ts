import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { ChunksToEvents } from "../../../src/gateway/formats/anthropic-messages/chunks-to-events.ts"
import { readEvent } from "../../../src/gateway/formats/anthropic-messages/domain.ts"
import { EventsToChunks } from "../../../src/gateway/formats/anthropic-messages/events-to-chunks.ts"
import { readChunk, readCompletion } from "../../../src/gateway/formats/common-form/domain.ts"
import { noUsage } from "../../../src/gateway/formats/domain.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { chatTranslation } from "../../../src/gateway/formats/openai-chat/translation.ts"
import { GatheredStream } from "../../../src/gateway/pipeline/gathered-stream.ts"

const head = { model: "asked", id: "made", createdSeconds: 17 }

const toEvents = (chunks: ReadonlyArray<object>) => {
  const machine = new ChunksToEvents(head)
  const pushed = chunks.flatMap((chunk) => machine.push(readChunk(chunk) ?? {}))
  return [...pushed, ...machine.end()]
}

const toChunks = (events: ReadonlyArray<object>) => {
  const machine = new EventsToChunks(head)
  const pushed = events.flatMap((event) => machine.push(readEvent(event) ?? {}))
  return [...pushed, ...machine.end()]
}

/** A completion as a client puts it together. */
const collect = (chunks: ReadonlyArray<object>) => {
  const whole = new GatheredStream(openAiChat)
  for (const chunk of chunks) whole.push(new TextEncoder().encode(`data: ${JSON.stringify(chunk)}\n\n`))
  const [choice] = readCompletion(whole.end())?.choices ?? []
  return choice
}

const start = { type: "message_start", message: { id: "msg_1", usage: { input_tokens: 10, output_tokens: 1 } } }

describe("chunks to events", () => {
  it("a provider that sends no usage: what stands in for it is told, and it is known to be missing", () => {
    const machine = new ChunksToEvents(head)
    machine.push({ choices: [{ delta: { content: "Hi" }, finish_reason: "stop" }] })
    assert.isUndefined(machine.usage)
    const [, delta] = machine.end({ ...noUsage, inputTokens: 9, outputTokens: 2 })
    assert.nestedPropertyVal(delta, "usage.input_tokens", 9)
  })

  it("the end is told once", () => {
    const machine = new ChunksToEvents(head)
    machine.push({ choices: [{ delta: { content: "Hi" } }] })
    machine.push({ choices: [{ delta: {}, finish_reason: "length" }] })
    assert.isNotEmpty(machine.end())
    assert.isEmpty(machine.end())
  })
})

describe("events to chunks", () => {
  it("usage is told to those alone who asked for it", () => {
    const chunks = toChunks([start, { type: "message_delta", delta: { stop_reason: "end_turn" } }])
    for (const includesUsage of [false, true]) {
      const writer = chatTranslation.streamFromCommon(head, includesUsage)
      const written = chunks.map((chunk) => writer.push(chunk)).join("") + writer.end(noUsage)
      assert.strictEqual(written.includes('"usage"'), includesUsage)
    }
  })

  it("the end is told once", () => {
    const machine = new EventsToChunks(head)
    machine.push(start)
    machine.push({ type: "message_delta", delta: { stop_reason: "max_tokens" } })
    assert.isNotEmpty(machine.end())
    assert.isEmpty(machine.end())
  })
})

const argued = (text: string) => ({ tool_calls: [{ index: 0, function: { arguments: text } }] })

describe("there and back", () => {
  const Words = Schema.Array(Schema.String)

  it.prop("any words and arguments arrive as they were, in any pieces", [Words, Words], ([words, pieces]) => {
    const deltas = [
      ...words.map((content) => ({ content })),
      { tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: "" } }] },
      ...Array.from(JSON.stringify({ pieces }), argued)
    ]
    const chunks = [
      ...deltas.map((delta) => ({ choices: [{ delta }] })),
      { choices: [{ delta: {}, finish_reason: "tool_calls" }] }
    ]
    const completion = collect(toChunks(toEvents(chunks)))
    assert.strictEqual(completion?.message?.content ?? "", words.join(""))
    assert.deepStrictEqual(JSON.parse(completion?.message?.tool_calls?.[0]?.function?.arguments ?? ""), { pieces })
    assert.strictEqual(completion?.finish_reason, "tool_calls")
  })
})
