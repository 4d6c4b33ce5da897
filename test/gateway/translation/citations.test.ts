import { assert, describe, it } from "@effect/vitest"
import { Struct } from "effect"
import { anthropicMessages } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { citedTexts } from "../../../src/gateway/formats/common-form/citations.ts"
import { readCompletion, readChunk } from "../../../src/gateway/formats/common-form/domain.ts"
import { sealedIn } from "../../../src/gateway/formats/common-form/turn-state.ts"
import { noUsage } from "../../../src/gateway/formats/domain.ts"
import { EventReader } from "../../../src/gateway/formats/event-reader.ts"
import { type WireFormat } from "../../../src/gateway/formats/format.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { ChunksToResponse } from "../../../src/gateway/formats/openai-responses/chunks-to-events.ts"
import { GatheredStream } from "../../../src/gateway/pipeline/gathered-stream.ts"
import { parsedJson } from "../../../src/kernel/json/parsed-json.ts"
import { translated } from "../../support/translations.ts"
import { readableSeal } from "../../support/turn-seals.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- answers of every format
type Any = any

const head = { model: "m", id: "made", createdSeconds: 0 }
const names = { custom: new Set<string>(), namespaced: new Map(), mapped: new Map(), omitted: [] }

const makeResponse = () =>
  new ChunksToResponse({
    id: "resp_1",
    createdSeconds: 0,
    request: { model: "m" },
    tools: names,
    itemId: (prefix, place) => `${prefix}_${place}`
  })

/** A provider's stream as chunks of the common form. */
const chunksOf = (from: WireFormat, events: ReadonlyArray<Any>) => {
  const reader = from.translation!.streamToCommon!(head)
  const pushed = events.flatMap((event) => reader.push(event, { data: "", event: event.type ?? "message" } as Any))
  return [...pushed, ...reader.end()].map((chunk) => sealedIn(chunk, readableSeal))
}

const written = (to: WireFormat, chunks: ReadonlyArray<Any>): ReadonlyArray<Any> => {
  const writer = to.translation!.streamFromCommon!(head, true)
  const text = chunks.map((chunk) => writer.push(chunk)).join("") + writer.end(noUsage)
  return new EventReader()
    .push(new TextEncoder().encode(text))
    .flatMap(({ data }) => (data === "[DONE]" ? [] : [parsedJson(data)]))
}

const whole = (answer: Any, from: WireFormat, to: WireFormat): Any =>
  to.translation!.answerFromCommon!(
    sealedIn(from.translation!.answerToCommon!(answer, head), readableSeal),
    head,
    noUsage
  )

const responseOf = (chunks: ReadonlyArray<Any>) => {
  const response = makeResponse()
  const events = chunks.flatMap((chunk) => response.push(readChunk(chunk) ?? {}))
  return { events, output: response.end(noUsage).response.output as Any }
}

const page = {
  type: "web_search_result_location",
  url: "https://a.example",
  title: "A",
  cited_text: "said",
  encrypted_index: "E"
}
const own = { type: "search_result_location", source: "https://b.example", title: null, cited_text: "b" }
const inFile = { type: "char_location", document_title: "D", document_index: 0, cited_text: "c" }
const message = {
  type: "message",
  content: [
    { type: "text", text: "It says " },
    { type: "text", text: "rain", citations: [page, inFile] },
    { type: "text", text: " and wind.", citations: [own] }
  ],
  stop_reason: "end_turn",
  usage: { input_tokens: 1, output_tokens: 1 }
}
const annotations = [
  { type: "url_citation", url_citation: { url: page.url, title: "A", start_index: 8, end_index: 12, content: "said" } },
  { type: "url_citation", url_citation: { url: own.source, title: "", start_index: 12, end_index: 22, content: "b" } }
]
const text = "It says rain and wind."
const completion = {
  choices: [{ index: 0, message: { role: "assistant", content: text, annotations }, finish_reason: "stop" }]
}
const inResponse = annotations.map(({ type, url_citation: cited }) => ({ type, ...Struct.omit(cited, ["content"]) }))

const claudeEvents = [
  { type: "message_start", message: { id: "msg_1" } },
  ...message.content.flatMap(({ citations = [], text: words }: Any, index) => [
    { type: "content_block_start", index, content_block: { type: "text", text: "", citations: [] } },
    // A citation may come before its text.
    ...citations
      .slice(0, 1)
      .map((citation: Any) => ({ type: "content_block_delta", index, delta: { type: "citations_delta", citation } })),
    { type: "content_block_delta", index, delta: { type: "text_delta", text: words } },
    ...citations
      .slice(1)
      .map((citation: Any) => ({ type: "content_block_delta", index, delta: { type: "citations_delta", citation } })),
    { type: "content_block_stop", index }
  ]),
  { type: "message_delta", delta: { stop_reason: "end_turn" } },
  { type: "message_stop" }
]
const chatChunks = [
  { choices: [{ index: 0, delta: { role: "assistant", content: "It says rain" } }] },
  { choices: [{ index: 0, delta: { content: " and wind." } }] },
  { choices: [{ index: 0, delta: { annotations: annotations.slice(0, 1) } }] },
  { choices: [{ index: 0, delta: { annotations: annotations.slice(1) }, finish_reason: "stop" }] }
]

const at = (start: number, end: number) => ({ url: "u", title: "", start, end, cited: "" })

describe("citations", () => {
  it("of Claude are annotations of a chat completion, whole and streamed", () => {
    assert.deepStrictEqual(whole(message, anthropicMessages, openAiChat).choices[0].message.annotations, annotations)
    const chunks = written(openAiChat, chunksOf(anthropicMessages, claudeEvents))
    assert.deepStrictEqual(
      chunks.flatMap(({ choices: [choice] }) => choice?.delta.annotations ?? []),
      annotations
    )
    const gathered = new GatheredStream(openAiChat)
    for (const chunk of chunks) gathered.push(new TextEncoder().encode(`data: ${JSON.stringify(chunk)}\n\n`))
    assert.deepStrictEqual((gathered.end() as Any).choices[0].message.annotations, annotations)
  })

  for (const [name, chunks] of Object.entries({
    Claude: chunksOf(anthropicMessages, claudeEvents),
    "a chat provider": chunksOf(openAiChat, chatChunks)
  })) {
    it(`of ${name} are annotations of a response, with an event each`, () => {
      const { events, output } = responseOf(chunks)
      assert.deepStrictEqual(output[0].content[0].annotations, inResponse)
      const added = events.filter(({ type }) => type === "response.output_text.annotation.added")
      assert.deepStrictEqual(
        added.map(({ annotation, annotation_index: index }) => [index, annotation]),
        inResponse.map((annotation, index) => [index, annotation])
      )
    })
  }

  it("of a whole answer are annotations of a response", () => {
    for (const [answer, from] of [
      [message, anthropicMessages],
      [completion, openAiChat]
    ] as const) {
      const response = makeResponse()
      response.pushWhole(readCompletion(sealedIn(from.translation!.answerToCommon!(answer, head), readableSeal)) ?? {})
      assert.deepStrictEqual((response.end(noUsage).response.output as Any)[0].content[0].annotations, inResponse)
    }
  })

  it("of a response are within their own item, also after it was done", () => {
    const late = {
      type: "url_citation",
      url_citation: { url: "https://c.example", title: "C", start_index: 6, end_index: 9 }
    }
    const { output } = responseOf([
      { choices: [{ delta: { content: "Hello " } }] },
      { choices: [{ delta: { reasoning_content: "Hm" } }] },
      { choices: [{ delta: { content: "you" } }] },
      { choices: [{ delta: { tool_calls: [{ index: 0, id: "x", function: { name: "f", arguments: "{}" } }] } }] },
      { choices: [{ delta: { annotations: [late] }, finish_reason: "tool_calls" }] }
    ])
    const { annotations: found } = output[2].content[0]
    assert.deepStrictEqual(found, [
      { type: "url_citation", url: "https://c.example", title: "C", start_index: 0, end_index: 3 }
    ])
  })

  it("of a chat provider are citations of a message, of the parts that they are of", () => {
    const { content } = whole(completion, openAiChat, anthropicMessages)
    assert.deepStrictEqual(content, [
      { type: "text", text: "It says " },
      { type: "text", text: "rain", citations: [{ ...page, encrypted_index: "" }] },
      {
        type: "text",
        text: " and wind.",
        citations: [{ ...page, url: own.source, title: null, cited_text: "b", encrypted_index: "" }]
      }
    ])
    const events = written(anthropicMessages, chunksOf(openAiChat, chatChunks))
    const cited = events.filter(({ delta }) => delta?.type === "citations_delta")
    assert.deepStrictEqual(
      cited.map(({ delta, index }) => [index, delta.citation.url]),
      [
        [0, page.url],
        [0, own.source]
      ]
    )
  })

  it("without a place, or with one that is none, lose no word of the text", () => {
    for (const citations of [
      [at(0, 0)],
      [at(0, 99)],
      [at(2, 5), at(3, 9)],
      [at(0, 3), at(4, 7)],
      [at(5, 9), at(0, 2)],
      []
    ]) {
      for (const given of ["one two three", "   one two", "one", ""]) {
        const parts = citedTexts(given, citations)
        assert.strictEqual(parts.map(({ text: part }) => part).join(""), given)
        if (given.trim() !== "") for (const { text: part } of parts) assert.notStrictEqual(part.trim(), "")
        if (given !== "")
          assert.lengthOf(
            parts.flatMap((part) => part.citations),
            citations.length
          )
      }
    }
  })

  it("that the gateway wrote do not come back to Anthropic, which gives each an index", () => {
    const { content } = whole(completion, openAiChat, anthropicMessages)
    const given = {
      model: "m",
      max_tokens: 9,
      messages: [
        { role: "user", content: "a" },
        { role: "assistant", content: [...content, { type: "text", text: "own", citations: [page] }] },
        { role: "user", content: "b" }
      ]
    }
    const { body } = translated(given, anthropicMessages, "anthropic")
    assert.deepStrictEqual(
      body.messages[1].content.map(({ citations }: Any) => citations),
      [undefined, undefined, undefined, [page]]
    )
  })
})

const hm = { type: "thinking", thinking: [{ type: "text", text: "Hm" }] }

describe("thoughts that are parts of a content", () => {
  const four = { type: "text", text: "4" }
  const mistral = {
    choices: [{ index: 0, message: { role: "assistant", content: [hm, four] }, finish_reason: "stop" }]
  }
  const chunks = [
    {
      choices: [
        {
          index: 0,
          delta: { role: "assistant", content: [{ type: "thinking", thinking: [{ type: "text", text: "H" }] }] }
        }
      ]
    },
    { choices: [{ index: 0, delta: { content: [{ type: "thinking", thinking: [{ type: "text", text: "m" }] }] } }] },
    { choices: [{ index: 0, delta: { content: "4" } }] },
    { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }
  ]

  it("are a thinking block and a reasoning item, whole and streamed", () => {
    const { content } = whole(mistral, openAiChat, anthropicMessages)
    assert.deepStrictEqual(
      content.map(({ text: words, thinking }: Any) => thinking ?? words),
      ["Hm", "4"]
    )
    const events = written(anthropicMessages, chunksOf(openAiChat, chunks))
    assert.strictEqual(events.map(({ delta }) => delta?.thinking ?? "").join(""), "Hm")
    assert.lengthOf(
      events.filter(({ delta }) => delta?.type === "signature_delta"),
      1
    )
    const { output } = responseOf(chunksOf(openAiChat, chunks))
    assert.deepStrictEqual(
      output.map(({ content: parts, summary }: Any) => (summary ?? parts)[0].text),
      ["Hm", "4"]
    )
  })

  it("go back to their provider as they came", () => {
    const { content } = whole(mistral, openAiChat, anthropicMessages)
    const turn = { role: "assistant", content }
    const messages = [{ role: "user", content: "a" }, turn, { role: "user", content: "b" }]
    const given = { model: "m", max_tokens: 9, messages }
    const { body } = translated(given, anthropicMessages, "openai", { vendor: "mistral-ai" })
    assert.deepStrictEqual(body.messages[1].content, [hm, four])
  })

  it("are left out of a chat request for others, and named", () => {
    const messages = [
      { role: "user", content: "a" },
      { role: "assistant", content: [hm, four] },
      { role: "user", content: "b" }
    ]
    for (const to of ["anthropic", "gemini"] as const) {
      const { body, omitted } = translated({ model: "m", messages }, openAiChat, to)
      assert.notInclude(JSON.stringify(body), "Hm")
      assert.deepStrictEqual(omitted, { "x-omitted-items": "thinking" })
    }
  })
})

describe("a turn that paused", () => {
  it("is not complete", () => {
    const paused = { ...message, stop_reason: "pause_turn" }
    const [choice] = whole(paused, anthropicMessages, openAiChat).choices
    assert.deepInclude(choice, { finish_reason: "length", native_finish_reason: "pause_turn" })
    const events = claudeEvents.map((event: Any) =>
      event.type === "message_delta" ? Object.assign({}, event, { delta: { stop_reason: "pause_turn" } }) : event
    )
    const chunks = chunksOf(anthropicMessages, events)
    assert.deepInclude(written(openAiChat, chunks).at(-2).choices[0], {
      finish_reason: "length",
      native_finish_reason: "pause_turn"
    })
    const response = makeResponse()
    for (const chunk of chunks) response.push(readChunk(chunk) ?? {})
    assert.deepInclude(response.end(noUsage).response, {
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" }
    })
  })
})

const call = (index: number, args: string, id?: string) => ({
  index,
  ...(id === undefined ? {} : { id }),
  function: { ...(id === undefined ? {} : { name: `f_${id}` }), arguments: args }
})
const delta = (members: object, reason: string | null = null) => ({
  choices: [{ delta: members, finish_reason: reason }]
})
const calls = (...tool_calls: ReadonlyArray<object>) => delta({ tool_calls })

/** What each block has, which stops before the next one starts. */
const blocksOf = (chunks: ReadonlyArray<object>) => {
  const blocks: Array<string> = []
  let open: number | undefined
  for (const { content_block: block, delta: part, index, type } of written(anthropicMessages, chunks)) {
    if (type === "content_block_start") {
      assert.isUndefined(open)
      assert.strictEqual(index, blocks.length)
      open = index
      blocks.push(`${block.id ?? block.type}:`)
    }
    if (type === "content_block_delta") {
      assert.strictEqual(index, open)
      blocks[index] += part.partial_json ?? part.text ?? part.thinking ?? ""
    }
    if (type === "content_block_stop") {
      assert.strictEqual(index, open)
      open = undefined
    }
  }
  assert.isUndefined(open)
  return blocks
}

describe("blocks of a message that is made of chunks", () => {
  const end = delta({}, "tool_calls")
  const cases: Readonly<Record<string, readonly [ReadonlyArray<object>, ReadonlyArray<string>]>> = {
    "calls one after the other": [
      [calls(call(0, "", "a")), calls(call(0, '{"x":1}')), calls(call(1, "{}", "b")), calls(call(2, "{}", "c")), end],
      ['a:{"x":1}', "b:{}", "c:{}"]
    ],
    "calls whose arguments come in turns": [
      [
        calls(call(0, '{"x":', "a"), call(1, '{"y":', "b")),
        calls(call(1, '"}"}'), call(0, "1}")),
        calls(call(2, "{}", "c")),
        end
      ],
      ['a:{"x":1}', 'b:{"y":"}"}', "c:{}"]
    ],
    "a call without arguments before others": [
      [calls(call(0, "", "a")), calls(call(1, "{}", "b")), end],
      ["a:{}", "b:{}"]
    ],
    "words between the pieces of a call": [
      [delta({ content: "1" }), calls(call(0, '{"x":', "a")), delta({ content: "2" }), calls(call(0, "1}")), end],
      ["text:1", 'a:{"x":1}', "text:2"]
    ],
    "thoughts and words in turns": [
      [delta({ reasoning: "a" }), delta({ content: "b" }), delta({ reasoning: "c" }), end],
      ["thinking:a", "text:b", "thinking:c"]
    ],
    "a call that was cut before another": [
      [calls(call(0, '{"x', "a")), calls(call(1, "{}", "b")), delta({}, "length")],
      ['a:{"x', "b:{}"]
    ]
  }
  for (const [name, [chunks, blocks]] of Object.entries(cases)) {
    it(`stop before the next one starts: ${name}`, () => {
      assert.deepStrictEqual(blocksOf(chunks), blocks)
    })
  }

  it("are sent as they come, as far as one is complete", () => {
    const writer = anthropicMessages.translation!.streamFromCommon!(head, true)
    writer.push(calls(call(0, '{"x":1}', "a")))
    assert.include(writer.push(calls(call(1, '{"y"', "b"))), "f_b")
  })
})
