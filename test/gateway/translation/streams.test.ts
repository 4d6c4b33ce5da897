import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { MessageEvent } from "../../../src/gateway/translation/anthropic-messages/domain.ts"
import { ChunksToEvents } from "../../../src/gateway/translation/anthropic-messages/chunks-to-events.ts"
import { EventsToChunks } from "../../../src/gateway/translation/anthropic-messages/events-to-chunks.ts"
import { ChatChunk } from "../../../src/gateway/translation/openai-chat/domain.ts"

const head = { model: "asked", id: "made" }

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into events of every shape
type Loose = any

const toEvents = (deltas: ReadonlyArray<object>, machine = new ChunksToEvents(head)): ReadonlyArray<Loose> => {
  const chunks = deltas.map((delta) => ("choices" in delta || "usage" in delta ? delta : { choices: [{ delta }] }))
  const pushed = chunks.flatMap((chunk) => machine.push(Schema.decodeUnknownSync(ChatChunk)(chunk)))
  return [...pushed, ...machine.end()]
}

const toChunks = (
  events: ReadonlyArray<object>,
  machine = new EventsToChunks(head, 17, true)
): ReadonlyArray<Loose> => {
  const pushed = events.flatMap((event) => machine.push(Schema.decodeUnknownSync(MessageEvent)(event)))
  return [...pushed, ...machine.end()]
}

/** A message as a client puts it together, which minds the rules: one start, blocks without gaps, each stopped once. */
const assemble = (events: ReadonlyArray<Loose>): Loose => {
  let message: Loose
  const open = new Set<number>()
  const json = new Map<number, string>()
  for (const event of events) {
    switch (event.type) {
      case "message_start":
        assert.isUndefined(message, "a second start")
        message = structuredClone(event.message)
        break
      case "content_block_start":
        assert.strictEqual(event.index, message.content.length, "a gap between blocks")
        message.content.push({ ...event.content_block })
        open.add(event.index)
        break
      case "content_block_delta": {
        assert.isTrue(open.has(event.index), "a delta of a block that is not open")
        const block = message.content[event.index]
        if (event.delta.type === "text_delta") block.text += event.delta.text
        if (event.delta.type === "thinking_delta") block.thinking += event.delta.thinking
        if (event.delta.type === "input_json_delta") {
          json.set(event.index, (json.get(event.index) ?? "") + event.delta.partial_json)
        }
        break
      }
      case "content_block_stop":
        assert.isTrue(open.delete(event.index), "a stop of a block that is not open")
        if (json.has(event.index)) message.content[event.index].input = JSON.parse(json.get(event.index) ?? "")
        break
      case "message_delta":
        assert.strictEqual(open.size, 0, "open blocks at the end")
        Object.assign(message, event.delta, { usage: event.usage })
        break
    }
  }
  assert.strictEqual(events.at(-1).type, "message_stop")
  return message
}

/** A completion as a client puts it together. */
const collect = (chunks: ReadonlyArray<Loose>): Loose => {
  const whole: Loose = { content: "", calls: [], roles: 0, reasons: [], usages: [] }
  for (const { choices, usage } of chunks) {
    if (usage !== undefined && usage !== null) whole.usages.push(usage)
    for (const { delta, finish_reason: reason } of choices) {
      if (delta.role !== undefined) whole.roles++
      whole.content += delta.content ?? ""
      if (reason !== null) whole.reasons.push(reason)
      for (const call of delta.tool_calls ?? []) {
        assert.isAtMost(call.index, whole.calls.length, "a gap between calls")
        const known = (whole.calls[call.index] ??= { id: "", name: "", arguments: "" })
        known.id += call.id ?? ""
        known.name += call.function.name ?? ""
        known.arguments += call.function.arguments
      }
    }
  }
  return whole
}

const finished = (reason: string) => ({ choices: [{ delta: {}, finish_reason: reason }] })
const call = (index: number, words: string, named: object = {}) => ({
  tool_calls: [{ index, ...named, function: { ...named, arguments: words } }]
})

const withIndex = (index: number | undefined, n: number, id: string) => ({
  tool_calls: [{ ...(index === undefined ? {} : { index }), id, function: { name: "f", arguments: `{"n":${n}}` } }]
})

const usageOf = (completion_tokens: number) => ({ choices: [], usage: { prompt_tokens: 5, completion_tokens } })

describe("chunks to events", () => {
  it("gives a message: text, then tools, then why it stopped and what it used", () => {
    const events = toEvents([
      { role: "assistant", content: "" },
      { content: "It is " },
      { content: "noon." },
      call(0, "", { id: "a", name: "now" }),
      call(0, '{"zone":"UTC"}'),
      finished("tool_calls"),
      { choices: [], usage: { prompt_tokens: 10, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 6 } } }
    ])
    const message = assemble(events)
    assert.deepStrictEqual(message.content, [
      { type: "text", text: "It is noon." },
      { type: "tool_use", id: "a", name: "now", input: { zone: "UTC" } }
    ])
    assert.strictEqual(message.stop_reason, "tool_use")
    assert.strictEqual(message.usage.input_tokens, 4)
    assert.strictEqual(message.usage.cache_read_input_tokens, 6)
    assert.strictEqual(message.usage.output_tokens, 4)
  })

  it("missing role chunk: a stream that begins with words has its start all the same", () => {
    assert.strictEqual(assemble(toEvents([{ content: "Hi" }, finished("stop")])).content[0].text, "Hi")
    assert.deepStrictEqual(assemble(toEvents([finished("stop")])).content, [])
  })

  it("repeated tool name: a name in every chunk makes one call with that name", () => {
    const named = { id: "a", name: "now" }
    const message = assemble(toEvents([call(0, "{", named), call(0, "}", named), finished("tool_calls")]))
    assert.deepStrictEqual(message.content, [{ type: "tool_use", ...named, input: {} }])
  })

  it("index gaps, none at all, and one index for two calls: blocks are numbered by themselves", () => {
    for (const chunks of [
      [withIndex(2, 1, "a"), withIndex(7, 2, "b"), finished("tool_calls")],
      [withIndex(undefined, 1, "a"), withIndex(undefined, 2, "b"), finished("tool_calls")],
      [withIndex(0, 1, "a"), withIndex(0, 2, "b"), finished("tool_calls")]
    ]) {
      assert.deepStrictEqual(
        assemble(toEvents(chunks)).content.map(({ id, input }: Loose) => [id, input.n]),
        [
          ["a", 1],
          ["b", 2]
        ]
      )
    }
  })

  it("parallel calls whose arguments come in turns", () => {
    const message = assemble(
      toEvents([
        call(0, "", { id: "a", name: "f" }),
        call(1, "", { id: "b", name: "g" }),
        call(0, '{"n":'),
        call(1, '{"n":'),
        call(0, "1}"),
        call(1, "2}"),
        finished("tool_calls")
      ])
    )
    assert.deepStrictEqual(
      message.content.map(({ input }: Loose) => input.n),
      [1, 2]
    )
  })

  it("arguments split inside an escape arrive as they were", () => {
    const text = JSON.stringify({ text: 'a"b\\c\u{1f30d}\n', more: "\u00e9" }).replace("é", "\\u00e9")
    const chunks = [call(0, "", { id: "a", name: "f" }), ...Array.from(text, (c) => call(0, c)), finished("tool_calls")]
    assert.deepStrictEqual(assemble(toEvents(chunks)).content[0].input, JSON.parse(text))
  })

  it("empty arguments become an empty object", () => {
    const message = assemble(toEvents([call(0, "", { id: "a", name: "now" }), finished("tool_calls")]))
    assert.deepStrictEqual(message.content[0].input, {})
  })

  it("a name that comes after the first arguments", () => {
    const chunks = [call(0, '{"n"'), call(0, ":1}", { id: "a", name: "f" }), finished("tool_calls")]
    assert.deepStrictEqual(assemble(toEvents(chunks)).content[0].input, { n: 1 })
  })

  it("cumulative usage in every chunk is overwritten, never added up", () => {
    const machine = new ChunksToEvents(head)
    assemble(toEvents([usageOf(1), usageOf(2), usageOf(3), finished("stop"), usageOf(3)], machine))
    assert.strictEqual(machine.usage?.outputTokens, 3)
    assert.strictEqual(machine.usage?.inputTokens, 5)
  })

  it("a provider that sends no usage: what stands in for it is told, and it is known to be missing", () => {
    const machine = new ChunksToEvents(head)
    machine.push({ choices: [{ delta: { content: "Hi" }, finish_reason: "stop" }] })
    assert.isUndefined(machine.usage)
    const [, delta] = machine.end({
      inputTokens: 9,
      outputTokens: 2,
      cachedInputTokens: 0,
      cacheWriteTokens: 0,
      cacheWrite1hTokens: 0,
      reasoningTokens: 0
    }) as ReadonlyArray<Loose>
    assert.strictEqual(delta.usage.input_tokens, 9)
  })

  it("a provider that never ends: whether the model was done is known, and the end is told once", () => {
    const machine = new ChunksToEvents(head)
    machine.push({ choices: [{ delta: { content: "Hi" } }] })
    assert.isFalse(machine.finished)
    machine.push({ choices: [{ delta: {}, finish_reason: "length" }] })
    assert.isTrue(machine.finished)
    assert.isNotEmpty(machine.end())
    assert.isEmpty(machine.end())
  })

  it("thinking comes in a block of its own", () => {
    const message = assemble(toEvents([{ reasoning_content: "hm" }, { content: "Yes." }, finished("stop")]))
    assert.deepStrictEqual(
      message.content.map(({ text, thinking }: Loose) => thinking ?? text),
      ["hm", "Yes."]
    )
  })
})

const start = { type: "message_start", message: { id: "msg_1", usage: { input_tokens: 10, output_tokens: 1 } } }
const block = (index: number, content_block: object) => ({ type: "content_block_start", index, content_block })
const delta = (index: number, delta: object) => ({ type: "content_block_delta", index, delta })
const stop = (index: number) => ({ type: "content_block_stop", index })
const tool = (name: string) => ({ type: "tool_use", id: `id_${name}`, name, input: {} })
const text = (words: string) => ({ type: "text_delta", text: words })
const json = (words: string) => ({ type: "input_json_delta", partial_json: words })
const ending = (stop_reason: string, usage: object = { output_tokens: 12 }) => [
  { type: "message_delta", delta: { stop_reason }, usage },
  { type: "message_stop" }
]

const report = (output_tokens: number) => ({ type: "message_delta", delta: {}, usage: { output_tokens } })

describe("events to chunks", () => {
  it("gives a completion, with pings read over", () => {
    const completion = collect(
      toChunks([
        start,
        { type: "ping" },
        block(0, { type: "text", text: "" }),
        delta(0, text("It is ")),
        delta(0, text("noon.")),
        stop(0),
        block(1, tool("now")),
        delta(1, json('{"zone":')),
        delta(1, json('"UTC"}')),
        stop(1),
        ...ending("tool_use")
      ])
    )
    assert.strictEqual(completion.content, "It is noon.")
    assert.deepStrictEqual(completion.calls, [{ id: "id_now", name: "now", arguments: '{"zone":"UTC"}' }])
    assert.deepStrictEqual(completion.reasons, ["tool_calls"])
    assert.strictEqual(completion.roles, 1)
    assert.strictEqual(completion.usages[0].total_tokens, 22)
  })

  it("two message_start: one role chunk, and the later usage", () => {
    const again = { type: "message_start", message: { id: "msg_2", usage: { input_tokens: 11, output_tokens: 1 } } }
    const chunks = toChunks([start, again, block(0, { type: "text", text: "Hi" }), stop(0), ...ending("end_turn")])
    const completion = collect(chunks)
    assert.strictEqual(completion.roles, 1)
    assert.strictEqual(completion.usages[0].prompt_tokens, 11)
    assert.deepStrictEqual([...new Set(chunks.map(({ id }) => id))], ["msg_1"])
  })

  it("block index gaps: calls are numbered by themselves", () => {
    const completion = collect(
      toChunks([start, block(1, tool("a")), stop(1), block(4, tool("b")), stop(4), ...ending("tool_use")])
    )
    assert.deepStrictEqual(
      completion.calls.map(({ name }: Loose) => name),
      ["a", "b"]
    )
  })

  it("empty arguments become an empty object, and input that came with its block stays", () => {
    const whole = { ...tool("whole"), input: { n: 1 } }
    const completion = collect(
      toChunks([start, block(0, tool("a")), stop(0), block(1, whole), stop(1), ...ending("tool_use")])
    )
    assert.deepStrictEqual(
      completion.calls.map((called: Loose) => called.arguments),
      ["{}", '{"n":1}']
    )
  })

  it("arguments split inside an escape arrive as they were", () => {
    const words = '{"text":"a\\"b\\u00e9\\\\"}'
    const events = [start, block(0, tool("a")), ...Array.from(words, (c) => delta(0, json(c))), stop(0)]
    assert.strictEqual(collect(toChunks([...events, ...ending("tool_use")])).calls[0].arguments, words)
  })

  it("cumulative usage is overwritten, never added up, and what a report leaves out stays", () => {
    const machine = new EventsToChunks(head, 17, true)
    toChunks([start, report(5), report(9), ...ending("end_turn", { output_tokens: 12, input_tokens: null })], machine)
    assert.strictEqual(machine.usage?.outputTokens, 12)
    assert.strictEqual(machine.usage?.inputTokens, 10)
  })

  it("usage is told to those alone who asked for it, and is missing where none was reported", () => {
    const quiet = new EventsToChunks(head, 17, false)
    const chunks = toChunks([start, ...ending("end_turn")], quiet)
    assert.isTrue(chunks.every((chunk) => !("usage" in chunk)))
    const silent = new EventsToChunks(head, 17, true)
    silent.push({ type: "message_start" })
    assert.isUndefined(silent.usage)
  })

  it("a provider that never ends: whether the model was done is known, and the end is told once", () => {
    const machine = new EventsToChunks(head, 17, true)
    machine.push(start)
    assert.isFalse(machine.finished)
    machine.push({ type: "message_delta", delta: { stop_reason: "max_tokens" } })
    assert.isTrue(machine.finished)
    assert.isNotEmpty(machine.end())
    assert.isEmpty(machine.end())
  })
})

describe("there and back", () => {
  const Words = Schema.Array(Schema.String)

  it.prop("any words and arguments arrive as they were, in any pieces", [Words, Words], ([words, pieces]) => {
    const argument = JSON.stringify({ pieces })
    const events = toEvents([
      ...words.map((content) => ({ content })),
      call(0, "", { id: "a", name: "f" }),
      ...Array.from(argument, (c) => call(0, c)),
      finished("tool_calls")
    ])
    const completion = collect(toChunks(events))
    assert.strictEqual(completion.content, words.join(""))
    assert.deepStrictEqual(JSON.parse(completion.calls[0].arguments), { pieces })
    assert.deepStrictEqual(completion.reasons, ["tool_calls"])
  })
})
