import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { readChunk } from "../../../../src/gateway/formats/common-form/domain.ts"
import { Omissions } from "../../../../src/gateway/formats/omissions.ts"
import { openAiChat } from "../../../../src/gateway/formats/openai-chat/format.ts"
import { openAiResponses } from "../../../../src/gateway/formats/openai-responses/format.ts"
import { providerTranslation } from "../../../../src/gateway/formats/openai-responses/provider/format.ts"
import { type Json } from "../../../../src/kernel/json/parsed-json.ts"
import { knownModel } from "../../../support/formats.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- requests and answers of every shape
type Any = any

const hello = { role: "user", content: "Hello" }
const target = { ...knownModel("gpt-5-codex", "openai"), provider: { vendor: "openai" } }
const head = { model: "asked", id: "made", createdSeconds: 17 }

/** What a provider is sent for a chat completion. */
const translated = (chat: object, limit?: number, omissions = new Omissions()) => {
  const body = { model: "m", messages: [hello], ...chat } as Json
  const bytes = new TextEncoder().encode(JSON.stringify(body))
  const read = openAiChat.translation!.requestToCommon!({ body, bytes, model: "m", streams: false }, omissions)
  const limits = { limit, outputTokens: limit ?? 100, toolLimit: undefined }
  return Result.flatMap(read, (common) => providerTranslation.requestFromCommon(common, target, limits, omissions))
}
const sent = (chat: object, limit?: number): Any => Result.getOrThrow(translated(chat, limit))
const refused = (chat: object): ReadonlyArray<string> => {
  const made = translated(chat)
  return Result.isFailure(made) ? made.failure.map(({ path }) => path.join(".")) : []
}

const weather = { type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }
const tide = { type: "function", function: { name: "tide", description: "The tide", strict: true } }

const omittedOf = (seed: number | null) => {
  const omissions = new Omissions()
  translated({ seed }, undefined, omissions)
  return omissions.headers()
}

describe("a request for a model that has the Responses API alone", () => {
  it("stores nothing, and asks for the thoughts encrypted", () => {
    assert.deepStrictEqual(sent({}), {
      model: "gpt-5-codex",
      input: [{ type: "message", role: "user", content: "Hello" }],
      store: false,
      include: ["reasoning.encrypted_content"]
    })
    assert.strictEqual(sent({ store: true, stream: true }).store, false)
  })

  it("has instructions at its beginning apart, and others where they stand", () => {
    const system = { role: "system", content: "Be brief." }
    const developer = { role: "developer", content: [{ type: "text", text: "Be kind." }] }
    const { input, instructions } = sent({ messages: [system, developer, hello, { ...system, content: "Stop." }] })
    assert.strictEqual(instructions, "Be brief.\n\nBe kind.")
    assert.deepStrictEqual(
      input.map(({ content, role }: Any) => [role, content]),
      [
        ["user", "Hello"],
        ["system", "Stop."]
      ]
    )
    const alone = sent({ messages: [system] })
    assert.deepStrictEqual([alone.instructions, alone.input[0].role], [undefined, "system"])
  })

  it("has images, files and audio in messages and in results of tools", () => {
    const image = { type: "image_url", image_url: { url: "https://example.com/a.png", detail: "low" } }
    const file = { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AA==" } }
    const audio = { type: "input_audio", input_audio: { data: "AA==", format: "wav" } }
    const call = { id: "c1", type: "function", function: { name: "weather", arguments: '{"a":1}' } }
    const { input } = sent({
      messages: [
        {
          role: "user",
          content: [{ type: "text", text: "See" }, image, file, audio, { type: "file", file: { file_id: "f" } }]
        },
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "c1", content: [{ type: "text", text: "Rain" }, image] }
      ]
    })
    const shown = { type: "input_image", image_url: "https://example.com/a.png", detail: "low" }
    assert.deepStrictEqual(input[0].content, [
      { type: "input_text", text: "See" },
      shown,
      { type: "input_file", ...file.file },
      audio,
      { type: "input_file", file_id: "f" }
    ])
    assert.deepStrictEqual(input.slice(1), [
      { type: "function_call", call_id: "c1", name: "weather", arguments: '{"a":1}' },
      { type: "function_call_output", call_id: "c1", output: [{ type: "input_text", text: "Rain" }, shown] }
    ])
  })

  it("has the tools and the choice among them, never more than are allowed", () => {
    const tools = [weather, tide]
    const choices: ReadonlyArray<readonly [given: unknown, sent: unknown]> = [
      ["none", "none"],
      ["required", "required"],
      [
        { type: "function", function: { name: "tide" } },
        { type: "function", name: "tide" }
      ],
      [
        {
          type: "allowed_tools",
          allowed_tools: { mode: "required", tools: [{ type: "function", function: { name: "tide" } }] }
        },
        { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "tide" }] }
      ]
    ]
    for (const [given, expected] of choices) {
      const request = sent({ tools, tool_choice: given, parallel_tool_calls: false })
      assert.deepStrictEqual(request.tool_choice, expected)
      assert.strictEqual(request.parallel_tool_calls, false)
      // Strict is the default of this API, and not of the other.
      assert.deepStrictEqual(
        request.tools.map(({ name, strict }: Any) => [name, strict]),
        [
          ["weather", false],
          ["tide", true]
        ]
      )
    }
  })

  it("has the format of the answer, the effort, the limit and the labels", () => {
    const json_schema = { name: "place", description: "A place", schema: { type: "object" }, strict: true }
    const request = sent({
      response_format: { type: "json_schema", json_schema },
      verbosity: "low",
      reasoning_effort: "high",
      max_completion_tokens: 50,
      logprobs: true,
      top_logprobs: 2,
      user: "u",
      safety_identifier: "s",
      service_tier: "flex",
      prompt_cache_key: "k",
      metadata: { a: "b" },
      temperature: 0.5
    })
    // Tenants share an account.
    assert.notProperty(request, "prompt_cache_key")
    assert.deepInclude(request, {
      text: { format: { type: "json_schema", ...json_schema }, verbosity: "low" },
      reasoning: { effort: "high" },
      max_output_tokens: 50,
      include: ["reasoning.encrypted_content", "message.output_text.logprobs"],
      top_logprobs: 2,
      user: "u",
      safety_identifier: "s",
      service_tier: "flex",
      metadata: { a: "b" },
      temperature: 0.5
    })
    // Tenants share an account.
    assert.notProperty(request, "prompt_cache_key")
    assert.deepStrictEqual(sent({ response_format: { type: "json_object" } }).text, { format: { type: "json_object" } })
    assert.notProperty(sent({ response_format: { type: "text" }, logprobs: false }), "text")
    assert.strictEqual(sent({}, 77).max_output_tokens, 77)
    assert.strictEqual(sent({ max_tokens: 5 }, 77).max_output_tokens, 5)
  })

  it("is refused by the names of members that the API has nothing like, unless they are as usual", () => {
    const members: ReadonlyArray<readonly [name: string, usual: unknown, other: unknown]> = [
      ["n", 1, 2],
      ["stop", [], ["x"]],
      ["logit_bias", {}, { 5: 1 }],
      ["presence_penalty", 0, 0.5],
      ["frequency_penalty", 0, -1],
      ["prediction", null, { type: "content", content: "x" }],
      ["audio", null, { voice: "alloy", format: "wav" }],
      ["modalities", ["text"], ["text", "audio"]]
    ]
    for (const [name, usual, other] of members) {
      assert.deepStrictEqual(refused({ [name]: other }), [name])
      assert.notProperty(sent({ [name]: usual }), name)
    }
    assert.deepStrictEqual(refused({ n: 2, stop: "x" }), ["n", "stop"])
    assert.deepStrictEqual(refused({ tools: [{ type: "custom", custom: { name: "f" } }] }), ["tools.0.type"])
  })

  it("begins with something where a caller says nothing", () => {
    const { input } = sent({ messages: [{ role: "assistant", content: "" }] })
    assert.deepStrictEqual(input, [
      { type: "message", role: "user", content: [{ type: "input_text", text: "Begin." }] }
    ])
  })

  it("loses a seed, which is named", () => {
    assert.notProperty(sent({ seed: 7 }), "seed")
    assert.deepStrictEqual(omittedOf(7), { "x-omitted-members": "seed" })
    assert.deepStrictEqual(omittedOf(null), {})
  })

  it("has refusals, and the words of a turn whose state does not fit them", () => {
    const turn = {
      role: "assistant",
      content: "Short.",
      turn_state: [{ text: 99, phase: "commentary" }, { item: { type: "reasoning", encrypted_content: "E" } }]
    }
    const made = providerTranslation.requestFromCommon(
      { model: "m", messages: [hello, turn, hello, { role: "assistant", content: null, refusal: "No." }] },
      target,
      { limit: undefined, outputTokens: 1, toolLimit: undefined },
      new Omissions()
    )
    assert.deepStrictEqual((Result.getOrThrow(made).input as Any).slice(1), [
      { type: "reasoning", encrypted_content: "E" },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Short." }] },
      { type: "message", role: "user", content: "Hello" },
      { type: "message", role: "assistant", content: [{ type: "refusal", refusal: "No." }] }
    ])
  })
})

const calling = (id: string) => ({ id, type: "function", function: { name: "weather", arguments: "{}" } })
const callingTurn = (...ids: ReadonlyArray<string>) => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map(calling)
})
const resultOf = (tool_call_id: string, content = "Rain") => ({ role: "tool", tool_call_id, content })
const itemsAfter = (...messages: ReadonlyArray<object>): ReadonlyArray<unknown> =>
  sent({ messages: [hello, ...messages] })
    .input.slice(1)
    .map(({ call_id, content, output, type }: Any) => [type, call_id ?? content, output].filter(Boolean))

describe("a conversation that goes on at a model that has the Responses API alone", () => {
  it("has a result for each call, and a call for each result", () => {
    assert.deepStrictEqual(itemsAfter(callingTurn("a", "b"), resultOf("b"), hello), [
      ["function_call", "a"],
      ["function_call", "b"],
      ["function_call_output", "a", "Interrupted: there is no result."],
      ["function_call_output", "b", "Rain"],
      ["message", "Hello"]
    ])
    assert.deepStrictEqual(
      itemsAfter(callingTurn("a", "a", "a_2"), resultOf("a", "1"), resultOf("a", "2"), resultOf("a_2", "3")),
      [
        ["function_call", "a"],
        ["function_call", "a_2"],
        ["function_call", "a_2_2"],
        ["function_call_output", "a", "1"],
        ["function_call_output", "a_2", "2"],
        ["function_call_output", "a_2_2", "3"]
      ]
    )
    assert.deepStrictEqual(itemsAfter(callingTurn("a"), callingTurn("a"), resultOf("a", "1"), resultOf("a", "2")), [
      ["function_call", "a"],
      ["function_call", "a_2"],
      ["function_call_output", "a", "1"],
      ["function_call_output", "a_2", "2"]
    ])
    assert.deepStrictEqual(
      itemsAfter(resultOf("lost")).map((item) => (item as ReadonlyArray<unknown>)[0]),
      ["message"]
    )
  })

  it("ends a turn that was cut in its thoughts before them", () => {
    const item = { type: "reasoning", summary: [], encrypted_content: "E" }
    const thinking = (content: string) => ({ role: "assistant", content, turn_state: [{ text: 4 }, { item }] })
    const inputOf = (content: string) => {
      const made = providerTranslation.requestFromCommon(
        { model: "m", messages: [hello, thinking(content), hello] },
        target,
        { limit: undefined, outputTokens: 1, toolLimit: undefined },
        new Omissions()
      )
      return (Result.getOrThrow(made).input as Any).map(({ type }: Any) => type)
    }
    assert.deepStrictEqual(inputOf(""), ["message", "message"])
    assert.deepStrictEqual(inputOf("Said"), ["message", "message", "message"])
    assert.deepStrictEqual(inputOf("Said, and more"), ["message", "message", "reasoning", "message", "message"])
  })

  it("names what is left out", () => {
    const omissions = new Omissions()
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } }
    const drawn = { role: "assistant", content: [image, { type: "text", text: "A cat" }] }
    const marked = { ...hello, cache_control: { type: "ephemeral" } }
    translated({ messages: [hello, drawn, marked] }, undefined, omissions)
    assert.deepStrictEqual(omissions.headers(), {
      "x-omitted-items": "image_url",
      "x-omitted-members": "cache_control"
    })
  })
})

const message = (text: string, members: object = {}) => ({
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [] }],
  ...members
})
const reasoning = { type: "reasoning", id: "rs_1", status: "completed", encrypted_content: "E", summary: [] }
const called = {
  type: "function_call",
  id: "fc_1",
  call_id: "c1",
  name: "weather",
  arguments: "{}",
  status: "completed"
}
const response = (output: ReadonlyArray<object>, members: object = {}) => ({
  id: "resp_1",
  object: "response",
  status: "completed",
  output,
  usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
  ...members
})
const choiceOf = (answer: object): Any =>
  (providerTranslation.answerToCommon(answer as Json, head).choices as ReadonlyArray<unknown>)[0]

describe("an answer of the Responses API", () => {
  it("has its thoughts, words and calls in a completion, and its items in the state of the turn", () => {
    const summary = ["One.", "Two."].map((text) => ({ type: "summary_text", text }))
    const { finish_reason, message: said } = choiceOf(
      response([{ ...reasoning, summary }, message("Look: ", { phase: "commentary" }), called])
    )
    assert.strictEqual(finish_reason, "tool_calls")
    assert.deepInclude(said, { content: "Look: ", reasoning_content: "One.\n\nTwo." })
    assert.deepStrictEqual(said.tool_calls, [
      { id: "c1", type: "function", function: { name: "weather", arguments: "{}" } }
    ])
    assert.deepStrictEqual(said.turn_state, [
      { item: { type: "reasoning", id: "rs_1", encrypted_content: "E", summary } },
      { text: 6, phase: "commentary" }
    ])
  })

  it("keeps no thoughts that only the provider's store has", () => {
    const { message: said } = choiceOf(response([{ ...reasoning, encrypted_content: null }, message("Hi")]))
    assert.notProperty(said, "turn_state")
  })

  it("ends for the reason that the model gives", () => {
    const ends: ReadonlyArray<readonly [members: object, reason: string]> = [
      [{}, "stop"],
      [{ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }, "length"],
      [{ status: "incomplete", incomplete_details: { reason: "content_filter" } }, "content_filter"],
      [{ status: "incomplete", incomplete_details: null }, "length"]
    ]
    for (const [members, reason] of ends) {
      assert.strictEqual(choiceOf(response([message("Hi")], members)).finish_reason, reason)
    }
  })

  it("has refusals and log probabilities", () => {
    const logprobs = [{ token: "Hi", logprob: -0.1, bytes: [72, 105], top_logprobs: [] }]
    const refusal = { type: "refusal", refusal: "No." }
    const choice = choiceOf(
      response([message("", { content: [{ type: "output_text", text: "Hi", logprobs }, refusal] })])
    )
    assert.deepInclude(choice.message, { content: "Hi", refusal: "No." })
    assert.deepStrictEqual(choice.logprobs, { content: logprobs, refusal: null })
  })

  it("has the thoughts that open models show, without a summary", () => {
    const content = [{ type: "reasoning_text", text: "Hm." }]
    const { message: said } = choiceOf(
      response([{ ...reasoning, encrypted_content: undefined, content }, message("Hi")])
    )
    assert.strictEqual(said.reasoning_content, "Hm.")
    assert.deepInclude(said.turn_state[0].item, { content })
  })
})

interface Named {
  readonly type: string
  readonly [member: string]: unknown
}

/** What a stream is in a completion: the deltas put together. */
const gathered = (events: ReadonlyArray<Named>) => {
  const reader = providerTranslation.streamToCommon(head)
  const chunks = [
    ...events.flatMap((event) => reader.push(event, { event: event.type, data: JSON.stringify(event) })),
    ...reader.end()
  ]
  const all: Any = { content: "", refusal: "", thoughts: "", calls: [], state: [], reasons: [], logprobs: [] }
  for (const chunk of chunks as ReadonlyArray<Any>) {
    const [{ delta, finish_reason, logprobs }] = chunk.choices
    const { content, refusal, reasoning_content: thought } = readChunk(chunk)?.choices?.[0]?.delta ?? {}
    all.content += content ?? ""
    all.refusal += refusal ?? ""
    all.thoughts += thought ?? ""
    all.state.push(...(delta.turn_state ?? []))
    if (logprobs) all.logprobs.push(...logprobs.content)
    if (finish_reason) all.reasons.push(finish_reason)
    for (const { function: part, id, index } of delta.tool_calls ?? []) {
      const call = (all.calls[index] ??= { id, name: part.name, arguments: "" })
      call.arguments += part.arguments
    }
  }
  return { ...all, first: chunks[0] }
}

const added = (output_index: number, item: object): Named => ({
  type: "response.output_item.added",
  output_index,
  item
})
const done = (output_index: number, item: object): Named => ({ type: "response.output_item.done", output_index, item })
const delta = (name: string, output_index: number, text: string, members: object = {}): Named => ({
  type: `response.${name}.delta`,
  output_index,
  delta: text,
  ...members
})
const created: Named = { type: "response.created", response: response([], { status: "in_progress", usage: null }) }
const ended = (status: string, output: ReadonlyArray<object> = [], members: object = {}): Named => ({
  type: `response.${status}`,
  response: response(output, { status, ...members })
})

describe("a stream of the Responses API", () => {
  const summary = ["One.", "Two."].map((text) => ({ type: "summary_text", text }))
  const thoughts = { ...reasoning, summary }
  const logprobs = [{ token: "Look", logprob: -1, bytes: null, top_logprobs: [] }]
  const words = message("Look: rain.", { phase: "commentary" })
  const events = [
    created,
    added(0, { ...reasoning, encrypted_content: undefined }),
    delta("reasoning_summary_text", 0, "One.", { summary_index: 0 }),
    delta("reasoning_summary_text", 0, "Two.", { summary_index: 1 }),
    done(0, thoughts),
    added(1, { ...words, content: [] }),
    delta("output_text", 1, "Look", { logprobs }),
    delta("output_text", 1, ": rain.", { logprobs: [] }),
    done(1, words),
    added(2, { ...called, arguments: "" }),
    delta("function_call_arguments", 2, '{"a"'),
    added(3, { ...called, id: "fc_2", call_id: "c2", name: "tide", arguments: "" }),
    delta("function_call_arguments", 3, "{}"),
    delta("function_call_arguments", 2, ":1}"),
    done(2, { ...called, arguments: '{"a":1}' }),
    done(3, { ...called, id: "fc_2", call_id: "c2", name: "tide" }),
    ended("completed")
  ]

  it("has its thoughts, words and calls in chunks, and its items in the state of the turn", () => {
    const { calls, content, first, logprobs: tokens, reasons, state, thoughts: thought } = gathered(events)
    assert.strictEqual(thought, "One.\n\nTwo.")
    assert.strictEqual(content, "Look: rain.")
    assert.deepStrictEqual(calls, [
      { id: "c1", name: "weather", arguments: '{"a":1}' },
      { id: "c2", name: "tide", arguments: "{}" }
    ])
    assert.deepStrictEqual(reasons, ["tool_calls"])
    assert.deepStrictEqual(tokens, logprobs)
    assert.deepInclude(first, { id: "resp_1", model: "asked", object: "chat.completion.chunk" })
    const { status: _, ...kept } = thoughts
    assert.deepStrictEqual(state, [{ item: kept }, { text: 11, phase: "commentary" }])
  })

  it("is the same where servers leave events out", () => {
    const whole = gathered(events)
    const output = [
      thoughts,
      words,
      { ...called, arguments: '{"a":1}' },
      { ...called, id: "fc_2", call_id: "c2", name: "tide" }
    ]
    const leaving: Readonly<Record<string, ReadonlyArray<Named>>> = {
      deltas: events.filter(({ type }) => !type.endsWith(".delta")),
      beginnings: events.filter(({ type }) => type !== "response.output_item.added"),
      "all but the last one": [ended("completed", output)],
      "the ends of some": [
        ...events.slice(0, -1).filter(({ output_index: index, type }) => index !== 3 || !type.endsWith(".done")),
        ended("completed", output)
      ],
      "all of some but the last one": [
        ...events.slice(0, -1).filter(({ output_index: index }) => index !== 3),
        ended("completed", output)
      ],
      "indices and ends": [
        ...events.slice(0, -1).flatMap(({ item, output_index: index, ...event }) => {
          const id = `item_${String(index)}`
          if (event.type.endsWith(".done")) return []
          return [Object.assign({}, event, { item_id: id }, item ? { item: Object.assign({}, item, { id }) } : {})]
        }),
        ended(
          "completed",
          output.map((item, index) => Object.assign({}, item, { id: `item_${index}` }))
        )
      ],
      indices: events.map(({ item, output_index: index, ...event }) => {
        const id = `item_${String(index)}`
        return index === undefined ? event : { ...event, item_id: id, ...(item ? { item: { ...item, id } } : {}) }
      })
    }
    for (const [name, some] of Object.entries(leaving)) {
      const { calls, content, reasons, thoughts: thought } = gathered(some)
      assert.deepStrictEqual(
        [thought, content, calls, reasons],
        [whole.thoughts, whole.content, whole.calls, whole.reasons],
        name
      )
    }
  })

  it("says nothing twice that the last event repeats", () => {
    const { calls, content } = gathered([...events.slice(0, -1), ended("completed", [words, called, thoughts, words])])
    assert.strictEqual(content, "Look: rain.")
    assert.lengthOf(calls, 2)
  })

  it("has refusals, and ends for the reason that the model gives", () => {
    const refused = gathered([created, delta("refusal", 0, "No."), ended("completed")])
    assert.deepInclude(refused, { refusal: "No.", content: "" })
    assert.deepStrictEqual(refused.reasons, ["stop"])
    for (const [reason, expected] of [
      ["max_output_tokens", "length"],
      ["content_filter", "content_filter"]
    ]) {
      const { reasons } = gathered([created, ended("incomplete", [], { incomplete_details: { reason } })])
      assert.deepStrictEqual(reasons, [expected])
    }
  })

  it("has the thoughts that open models show, and one of them where both are sent", () => {
    const shown = [created, delta("reasoning_text", 0, "Hm.", { content_index: 0 })]
    assert.strictEqual(gathered([...shown, ended("completed")]).thoughts, "Hm.")
    const both = delta("reasoning_summary_text", 0, "Short", { summary_index: 0 })
    assert.strictEqual(gathered([...shown, both, ended("completed")]).thoughts, "Hm.")
  })

  it("has failed by its status, wherever it stands", () => {
    const error = { code: "server_error", message: "Late" }
    assert.deepInclude(openAiResponses.failureIn?.(ended("failed", [], { error })), { error })
    assert.deepInclude(openAiResponses.failureIn?.(response([], { status: "failed", error })), { error })
    assert.isUndefined(openAiResponses.failureIn?.(ended("completed")))
  })
})
