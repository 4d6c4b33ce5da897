import { assert, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { charges, configure, model, prices, provider, readAll, spender, usageRows } from "../../support/gateway.ts"
import { type Answerer, json, sse, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- answers of every shape
type Json = any

const cost = String(1000 * prices.inputUsdPerMTok * 1000 + 50 * prices.outputUsdPerMTok * 1000)
const messages = [{ role: "user", content: "Hi" }]

const wires = {
  chat: { path: "/v1/chat/completions", body: { messages } },
  messages: { path: "/v1/messages", body: { messages, max_tokens: 1000 } },
  responses: { path: "/v1/responses", body: { input: "Hi", store: false } },
  native: { path: "/api/llm/complete", body: { messages } },
  completions: { path: "/v1/completions", body: { prompt: "Hi" } }
}
type Wire = keyof typeof wires

const anthropicUsage = { input_tokens: 1000, output_tokens: 50 }
const chatUsage = { prompt_tokens: 1000, completion_tokens: 50, total_tokens: 1050 }
const responseUsage = { input_tokens: 1000, output_tokens: 50, total_tokens: 1050 }

/** What each kind of provider answers in full. */
const whole = {
  anthropic: {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [
      { type: "text", text: "Done" },
      { type: "tool_use", id: "t", name: "f", input: { a: 1 } }
    ],
    stop_reason: "tool_use",
    usage: anthropicUsage
  },
  chat: {
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: "Done",
          tool_calls: [{ id: "t", type: "function", function: { name: "f", arguments: "{}" } }]
        },
        finish_reason: "tool_calls"
      }
    ],
    usage: chatUsage
  },
  responses: {
    id: "resp_1",
    object: "response",
    status: "completed",
    model: "m",
    output: [
      { id: "rs_1", type: "reasoning", summary: [{ type: "summary_text", text: "Hm" }] },
      {
        id: "m_1",
        type: "message",
        role: "assistant",
        content: [{ type: "output_text", text: "Done", annotations: [] }]
      }
    ],
    usage: responseUsage
  },
  completions: {
    id: "c",
    object: "text_completion",
    choices: [{ index: 0, text: "Done", finish_reason: "stop" }],
    usage: chatUsage
  }
}
type Kind = keyof typeof whole

const wiresOf: Readonly<Record<Kind, ReadonlyArray<Wire>>> = {
  anthropic: ["messages", "chat", "responses", "native"],
  chat: ["chat", "messages", "responses", "native"],
  responses: ["responses"],
  completions: ["completions"]
}

/** The events that each kind of provider streams. */
const streamed: Readonly<Record<Kind, ReadonlyArray<Json>>> = {
  anthropic: [
    {
      type: "message_start",
      message: { ...whole.anthropic, content: [], usage: { ...anthropicUsage, output_tokens: 1 } }
    },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Done" } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 50 } },
    { type: "message_stop" }
  ],
  chat: [
    { id: "c", model: "m", choices: [{ index: 0, delta: { role: "assistant", content: "Do" }, finish_reason: null }] },
    { id: "c", model: "m", choices: [{ index: 0, delta: { content: "ne" }, finish_reason: null }] },
    { id: "c", model: "m", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
    { id: "c", model: "m", choices: [], usage: chatUsage }
  ],
  responses: [
    { type: "response.created", response: { ...whole.responses, status: "in_progress", output: [], usage: null } },
    { type: "response.output_item.added", output_index: 0, item: { id: "m_1", type: "message", content: [] } },
    { type: "response.output_text.delta", item_id: "m_1", output_index: 0, content_index: 0, delta: "Done" },
    { type: "response.completed", response: whole.responses }
  ],
  completions: [
    { id: "c", object: "text_completion", choices: [{ index: 0, text: "Done", finish_reason: null }] },
    { id: "c", object: "text_completion", choices: [{ index: 0, text: "", finish_reason: "stop" }], usage: chatUsage }
  ]
}

const asStream = (kind: Kind, events: ReadonlyArray<Json>): ReadonlyArray<string> => [
  ...events.map((event, place) => {
    const name = streamed[kind][place].type
    return `${name === undefined ? "" : `event: ${name}\n`}data: ${JSON.stringify(event)}\n\n`
  }),
  ...(kind === "anthropic" || kind === "responses" ? [] : ["data: [DONE]\n\n"])
]

/** The places of all values but the usage, and what it is in. */
const placesIn = (value: Json, at: ReadonlyArray<string> = []): ReadonlyArray<ReadonlyArray<string>> =>
  typeof value !== "object" || value === null
    ? []
    : Object.keys(value)
        .filter((name) => name !== "usage")
        .flatMap((name) => {
          const here = at.concat(name)
          const inner = placesIn(value[name], here)
          const own: Array<ReadonlyArray<string>> = JSON.stringify(value[name]).includes('"usage":{') ? [] : [here]
          return own.concat(inner)
        })

const others: ReadonlyArray<unknown> = [
  undefined,
  null,
  5,
  "text",
  "7",
  true,
  [],
  {},
  [null],
  { content: { text: "x" } },
  [["x"]]
]

/** A value with another one in one of its places. */
const mutated = (value: Json, place: number, other: number): Json => {
  const copy = structuredClone(value)
  const places = placesIn(copy)
  const at = places[place % places.length]!
  const parent = at.slice(0, -1).reduce((one, name) => one[name], copy)
  const replaced = others[other % others.length]
  if (replaced === undefined) delete parent[at.at(-1)!]
  else parent[at.at(-1)!] = replaced
  return copy
}

const setUp = Effect.fnUntraced(function* (answer: Answerer) {
  const service = yield* TestService
  const standIn = yield* startProvider(answer)
  const kinds = Object.keys(whole)
  yield* configure(
    service,
    kinds.map((kind) =>
      provider(kind, standIn, kind === "anthropic" ? { dialect: "anthropic", baseUrl: standIn.url } : { apis: [kind] })
    ),
    kinds.map((kind) => model(kind, [kind]))
  )
  const { key, tenantId } = yield* spender(service, [{ limit: 100 }])
  const call = (wire: Wire, kind: Kind, members: object = {}) =>
    readAll(service, key, wires[wire].path, { model: kind, ...wires[wire].body, ...members })
  return { call, key, service, standIn, tenantId }
})

/** Blocks of Anthropic's tools, whose content is no list. */
const objectBlocks: ReadonlyArray<Json> = [
  { type: "web_fetch_tool_result", content: { type: "web_fetch_result", url: "https://example.com" } },
  {
    type: "web_search_tool_result",
    content: { type: "web_search_tool_result_error", error_code: "max_uses_exceeded" }
  },
  { type: "bash_code_execution_tool_result", content: { type: "bash_code_execution_result", stdout: "1" } },
  { type: "tool_search_tool_result", content: { type: "tool_search_tool_search_result", tool_references: [] } },
  { type: "advisor_tool_result", content: { type: "advisor_result", text: "Wait" } }
].map((block) => Object.assign({ tool_use_id: "srvtoolu_1" }, block))

/** Content that no reader knows. */
const oddContents: Readonly<Record<Exclude<Kind, "responses" | "completions">, ReadonlyArray<Json>>> = {
  anthropic: [
    [
      { type: "hologram", content: { deep: [1] } },
      { type: "text", text: "Done" }
    ],
    [null, 5, "Done"],
    [{ text: "Done" }],
    [
      { type: "text", text: "Done", citations: {} },
      { type: "tool_use", id: 7, name: null, input: "x" }
    ],
    "Done"
  ],
  chat: [
    { content: [{ type: "hologram", data: {} }, "Done", null] },
    { content: "Done", tool_calls: { 0: {} }, refusal: 5 },
    { content: "Done", tool_calls: [null, { function: "f" }, { id: 5, function: { name: "f", arguments: { a: 1 } } }] },
    { role: null, content: { type: "text", text: "Done" }, reasoning_content: ["Hm"] },
    "Done"
  ]
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "120 seconds" })("an answer of any content", (it) => {
  for (const block of objectBlocks) {
    it.effect(`is charged its usage, and read beside a block ${block.type}`, () =>
      Effect.gen(function* () {
        const content = [block, { type: "text", text: "Done" }]
        let answer: Answerer = (_, response) =>
          json(response, 200, { ...whole.anthropic, content, stop_reason: "end_turn" })
        const { call, service, tenantId } = yield* setUp((request, response) => answer(request, response))
        for (const wire of wiresOf.anthropic) {
          const { status, text } = yield* call(wire, "anthropic")
          assert.strictEqual(status, 200, text)
          assert.include(text, '"Done"')
        }
        // The same where its provider streams, whatever was asked for.
        const start = { type: "content_block_start", index: 0, content_block: block }
        const [begin, , ...rest] = streamed.anthropic
        answer = (_, response) => {
          const text = { type: "content_block_start", index: 1, content_block: { type: "text", text: "" } }
          const events = [begin, start, { type: "content_block_stop", index: 0 }, text, ...rest]
          sse(
            response,
            events.map((event) => Object.assign({}, event, event.type === "content_block_delta" ? { index: 1 } : {}))
          )
          response.end()
        }
        for (const wire of wiresOf.anthropic) {
          for (const stream of [false, true]) {
            const { status, text } = yield* call(wire, "anthropic", { stream })
            assert.strictEqual(status, 200, text)
            assert.include(text, '"Done"')
          }
        }
        assert.deepStrictEqual(
          (yield* charges(service, tenantId)).map(({ amount, method }) => `${amount} ${method}`),
          Array(12).fill(`${cost} provider_usage`)
        )
      }).pipe(Effect.scoped)
    )
  }

  for (const kind of ["anthropic", "chat"] as const) {
    it.effect(`of ${kind} that no reader knows gives what is known of it, whole and as a stream`, () =>
      Effect.gen(function* () {
        let content: Json
        const { call, service, standIn, tenantId } = yield* setUp((_, response) =>
          json(
            response,
            200,
            kind === "anthropic"
              ? { ...whole.anthropic, content, stop_reason: "end_turn" }
              : { ...whole.chat, choices: [{ index: 0, message: content, finish_reason: "stop" }] }
          )
        )
        for (content of oddContents[kind]) {
          for (const wire of wiresOf[kind]) {
            for (const stream of [false, true]) {
              const { status, text } = yield* call(wire, kind, { stream })
              assert.strictEqual(status, 200, `${JSON.stringify(content)}: ${text}`)
              assert.include(text, "Done", `${JSON.stringify(content)} by ${wire}`)
              assert.match(text, stream ? /^(?:data|event): / : /^\{/)
            }
          }
        }
        const count = oddContents[kind].length * wiresOf[kind].length * 2
        assert.lengthOf(standIn.requests, count)
        assert.deepStrictEqual(
          (yield* charges(service, tenantId)).map(({ amount, method }) => `${amount} ${method}`),
          Array(count).fill(`${cost} provider_usage`)
        )
      }).pipe(Effect.scoped)
    )
  }

  it.effect("has its usage read member by member", () =>
    Effect.gen(function* () {
      let usage: Json
      const { call, service, tenantId } = yield* setUp((_, response) => json(response, 200, { ...whole.chat, usage }))
      const odd = [
        { prompt_tokens: "1000", completion_tokens: "50", total_tokens: {} },
        { prompt_tokens: null, completion_tokens: 50, total_tokens: 1050, prompt_tokens_details: 5 },
        { prompt_tokens: 1000, completion_tokens: [], total_tokens: 1050, completion_tokens_details: "x" }
      ]
      for (usage of odd) yield* call("chat", "chat")
      const rows = yield* usageRows(service, tenantId)
      assert.deepStrictEqual(
        rows.map(({ inputTokens, method, outputTokens }) => `${method} ${inputTokens} ${outputTokens}`),
        Array(odd.length).fill("provider_usage 1000 50")
      )
    }).pipe(Effect.scoped)
  )

  const Place = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 10_000 })))
  const Mutation = Schema.Struct({ place: Place, other: Place, isStream: Schema.Boolean, asksStream: Schema.Boolean })
  for (const kind of Object.keys(whole) as ReadonlyArray<Kind>) {
    it.effect.prop(
      `of ${kind} is charged its usage, whichever of its members is missing or of another type`,
      [Mutation],
      ([{ asksStream, isStream, other, place }]) =>
        Effect.gen(function* () {
          const events = mutated(streamed[kind], place, other)
          const answer = mutated(whole[kind], place, other)
          const { call, service, tenantId } = yield* setUp((_, response) => {
            if (!isStream) return json(response, 200, answer)
            sse(response, asStream(kind, events))
            response.end()
          })
          for (const wire of wiresOf[kind]) yield* call(wire, kind, { stream: asksStream })
          const made = yield* charges(service, tenantId)
          assert.deepStrictEqual(
            made.map(({ amount }) => amount),
            Array(wiresOf[kind].length).fill(cost),
            JSON.stringify(isStream ? events : answer)
          )
        }).pipe(Effect.scoped),
      { arbitrary: { runs: 20 } }
    )
  }
})
