import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { registration } from "../../support/agents.ts"
import { makeKey } from "../../support/authority.ts"
import { charges, configure, model, provider, spender } from "../../support/gateway.ts"
import { type Answerer, json, type ProviderStandIn, sse, startProvider } from "../../support/provider.ts"
import { responseEvents } from "../../support/responses-vendor.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- answers of every shape
type Any = any

const usage = { input_tokens: 10, output_tokens: 5 }
const chatUsage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
const citation = { type: "container_file_citation", container_id: "cntr_1", file_id: "cfile_1" }

const response = {
  id: "resp_1",
  object: "response",
  status: "completed",
  output: [
    {
      id: "ci_1",
      type: "code_interpreter_call",
      code: "1",
      container_id: "cntr_1",
      outputs: [],
      content: [{ text: "" }]
    },
    {
      id: "msg_1",
      type: "message",
      role: "assistant",
      content: [{ type: "output_text", text: 'See "container_id":"cntr_1"', annotations: [citation] }]
    }
  ],
  tools: [{ type: "file_search", vector_store_ids: ["vs_shared"] }],
  metadata: { file_id: "mine" },
  usage
}

const container = { id: "container_1", expires_at: "2026-11-26T00:00:00Z", skills: [] }
const content = [
  { type: "server_tool_use", id: "srvtoolu_1", name: "bash_code_execution", input: { command: "ls", file_id: "said" } },
  {
    type: "bash_code_execution_tool_result",
    tool_use_id: "srvtoolu_1",
    content: {
      type: "bash_code_execution_result",
      content: [{ type: "bash_code_execution_output", file_id: "file_1" }]
    }
  },
  { type: "text", text: "Done" }
]
const message = { id: "msg_1", type: "message", role: "assistant", content, container, stop_reason: "end_turn", usage }

const completion = {
  id: "chatcmpl-1",
  object: "chat.completion",
  choices: [
    {
      index: 0,
      message: {
        role: "assistant",
        content: null,
        audio: { id: "audio_1", data: "", transcript: "Hi" },
        tool_calls: [{ id: "call_1", type: "function", function: { name: "f", arguments: '{"file_id":"mine"}' } }]
      },
      finish_reason: "stop"
    }
  ],
  usage: chatUsage
}

const streamed = (events: ReadonlyArray<Any>) =>
  events.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`)

const chunk = (delta: object, finish_reason: string | null) => ({
  id: "chatcmpl-1",
  choices: [{ index: 0, delta, finish_reason }]
})

/** A provider of each API, whose answers have ids of what it keeps. */
const keeper: Answerer = ({ body, path }, answer) => {
  if (path.endsWith("/count_tokens")) return json(answer, 200, { input_tokens: 7 })
  if (path.includes("/responses")) {
    if (body?.stream !== true) return json(answer, 200, response)
    sse(answer, responseEvents({ ...response, output: [response.output[1]] }))
    return answer.end()
  }
  if (path.includes("/messages")) {
    if (body.stream !== true) return json(answer, 200, message)
    sse(
      answer,
      streamed([
        { type: "message_start", message: { ...message, content: [], container: null } },
        { type: "content_block_start", index: 0, content_block: content[1] },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason: "end_turn", container }, usage },
        { type: "message_stop" }
      ])
    )
    return answer.end()
  }
  if (body.stream !== true) return json(answer, 200, completion)
  sse(answer, [
    chunk({ audio: { id: "audio_1", data: "" } }, null),
    chunk({ tool_calls: [{ index: 0, id: "call_1", function: { name: "f", arguments: "{}" } }] }, "stop"),
    { id: "chatcmpl-1", choices: [], usage: chatUsage },
    "data: [DONE]\n\n"
  ])
  answer.end()
}

const setUp = Effect.gen(function* () {
  const service = yield* TestService
  const one = yield* startProvider(keeper)
  const two = yield* startProvider(keeper)
  const apis = ["chat", "responses"]
  yield* configure(
    service,
    [
      provider("k-oa", one, { apis, sharedIds: ["vs_shared", "file-shared"] }),
      provider("k-oa2", two, { apis }),
      provider("k-chat", two, { apis: ["chat"] }),
      { id: "k-an", dialect: "anthropic", baseUrl: one.url },
      { id: "k-an2", dialect: "anthropic", baseUrl: two.url }
    ],
    [
      model("gpt", ["k-oa"]),
      model("gpt-other", ["k-oa2"]),
      model("bridged", ["k-chat"]),
      model("gpt-both", ["k-oa2", "k-oa"]),
      model("claude", ["k-an"]),
      model("claude-both", ["k-an2", "k-an"])
    ]
  )
  const { key, tenantId } = yield* spender(service, [])
  const stranger = yield* spender(service, [])
  return { key, one, service, stranger: stranger.key, tenantId, two }
})

const question = [{ role: "user", content: "Hi" }]
const wires = {
  responses: ["/v1/responses", { model: "gpt", input: "Hi" }],
  messages: ["/v1/messages", { model: "claude", max_tokens: 50, messages: question }],
  chat: ["/v1/chat/completions", { model: "gpt", messages: question }]
} as const
type Wire = keyof typeof wires

const send = (service: TestService["Service"], key: string, wire: Wire, body: object = {}) =>
  service.call("POST", wires[wire][0], { key, body: { ...wires[wire][1], ...body } })

const sealed = (id: string) => new RegExp(`^${id}[0-9a-f]{36}$`)
const last = ({ requests }: ProviderStandIn): Any => requests.at(-1)?.body

/** The stream that a request is answered with. */
const streamOf = (service: TestService["Service"], key: string, wire: Wire, body: object) =>
  Effect.promise(async () => {
    const answer = await fetch(`${service.url}${wires[wire][0]}`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify({ ...wires[wire][1], ...body, stream: true })
    })
    return answer.text()
  })

/** The token of a new agent. */
const agentOf = Effect.fnUntraced(function* (service: TestService["Service"], tenantId: string) {
  const { id } = yield* make(service, "/api/agents", registration({ tenantId, scopeCeiling: ["llm:*"] }))
  return (yield* service.call("POST", `/api/agents/${id}/credentials`, { body: {} })).body.accessToken as string
})

/** The ids that a tenant got on each wire. */
const ownIds = Effect.fnUntraced(function* (service: TestService["Service"], key: string) {
  const { body: answered } = yield* send(service, key, "responses")
  const { body: told } = yield* send(service, key, "messages")
  const { body: said } = yield* send(service, key, "chat")
  return {
    container: answered.output[0].container_id as string,
    cited: answered.output[1].content[0].annotations[0].file_id as string,
    anthropicContainer: told.container.id as string,
    anthropicFile: told.content[1].content.content[0].file_id as string,
    audio: said.choices[0].message.audio.id as string
  }
})

type Ids = Effect.Success<ReturnType<typeof ownIds>>

const file = (id: string) => ({ role: "user", content: [{ type: "input_file", file_id: id }] })
const user = (part: object) => ({ messages: [{ role: "user", content: [{ type: "text", text: "Hi" }, part] }] })

/** Requests that refer to what a provider keeps, on each wire, and the provider's member that gets the id. */
const references = (
  ids: Ids
): ReadonlyArray<readonly [what: string, wire: Wire, body: object, at: string, id: string]> => {
  const { anthropicContainer, anthropicFile, audio, cited, container } = ids
  return [
    ["a container", "responses", { tools: [{ type: "code_interpreter", container }] }, "tools.0.container", container],
    [
      "files of a container",
      "responses",
      { tools: [{ type: "code_interpreter", container: { type: "auto", file_ids: [cited] } }] },
      "tools.0.container.file_ids.0",
      cited
    ],
    [
      "a shell's container",
      "responses",
      { tools: [{ type: "shell", environment: { type: "container_reference", container_id: container } }] },
      "tools.0.environment.container_id",
      container
    ],
    [
      "a store",
      "responses",
      { tools: [{ type: "file_search", vector_store_ids: ["vs_shared", cited] }] },
      "tools.0.vector_store_ids.1",
      cited
    ],
    ["a file", "responses", { input: [file(cited)] }, "input.0.content.0.file_id", cited],
    [
      "a file in the result of a tool",
      "responses",
      {
        input: [{ type: "function_call_output", call_id: "call_1", output: [{ type: "input_image", file_id: cited }] }]
      },
      "input.0.output.0.file_id",
      cited
    ],
    [
      "the code of an earlier turn",
      "responses",
      { input: [{ type: "code_interpreter_call", code: "1", container_id: container, outputs: [] }, file(cited)] },
      "input.0.container_id",
      container
    ],
    [
      "a citation of an earlier turn",
      "responses",
      {
        input: [
          {
            ...response.output[1],
            content: [{ annotations: [{ ...citation, container_id: container, file_id: cited }] }]
          }
        ]
      },
      "input.0.content.0.annotations.0.container_id",
      container
    ],
    ["a container", "messages", { container: anthropicContainer }, "container", anthropicContainer],
    [
      "a container by its id",
      "messages",
      { container: { id: anthropicContainer } },
      "container.id",
      anthropicContainer
    ],
    [
      "a skill",
      "messages",
      {
        container: {
          skills: [
            { type: "anthropic", skill_id: "pptx" },
            { type: "custom", skill_id: anthropicFile }
          ]
        }
      },
      "container.skills.1.skill_id",
      anthropicFile
    ],
    [
      "a document",
      "messages",
      user({ type: "document", source: { type: "file", file_id: anthropicFile } }),
      "messages.0.content.1.source.file_id",
      anthropicFile
    ],
    [
      "an upload",
      "messages",
      user({ type: "container_upload", file_id: anthropicFile }),
      "messages.0.content.1.file_id",
      anthropicFile
    ],
    [
      "what code wrote in an earlier turn",
      "messages",
      {
        messages: [
          ...question,
          {
            role: "assistant",
            content: [
              content[0],
              { ...content[1], content: { type: "bash_code_execution_result", content: [{ file_id: anthropicFile }] } }
            ]
          },
          ...question
        ]
      },
      "messages.1.content.1.content.content.0.file_id",
      anthropicFile
    ],
    [
      "an image in the result of a tool",
      "messages",
      user({
        type: "tool_result",
        tool_use_id: "toolu_1",
        content: [{ type: "image", source: { file_id: anthropicFile } }]
      }),
      "messages.0.content.1.content.0.source.file_id",
      anthropicFile
    ],
    [
      "audio",
      "chat",
      { messages: [...question, { role: "assistant", audio: { id: audio } }, ...question] },
      "messages.1.audio.id",
      audio
    ],
    ["a file", "chat", user({ type: "file", file: { file_id: audio } }), "messages.0.content.1.file.file_id", audio],
    ["what nobody has named yet", "chat", { notebook: { page_id: audio } }, "notebook.page_id", audio]
  ]
}

const memberAt = (body: Any, path: string): unknown => path.split(".").reduce((value, key) => value?.[key], body)

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("what a provider keeps", (it) => {
  it.effect("has sealed ids in whole answers, and nothing else of them changes", () =>
    Effect.gen(function* () {
      const { key, service } = yield* setUp
      const { body: answered } = yield* send(service, key, "responses")
      const [code, said] = answered.output
      assert.match(answered.id, sealed("resp_1"))
      assert.match(code.id, sealed("ci_1"))
      assert.match(code.container_id, sealed("cntr_1"))
      const [cited] = said.content[0].annotations
      assert.strictEqual(cited.container_id, code.container_id)
      assert.match(cited.file_id, sealed("cfile_1"))
      assert.strictEqual(said.content[0].text, response.output[1]?.content[0]?.text)
      assert.deepStrictEqual([answered.tools, answered.metadata], [response.tools, response.metadata])

      const { body: told } = yield* send(service, key, "messages")
      assert.match(told.container.id, sealed("container_1"))
      assert.match(told.content[1].content.content[0].file_id, sealed("file_1"))
      const again = structuredClone(told)
      again.container.id = "container_1"
      again.content[1].content.content[0].file_id = "file_1"
      assert.deepStrictEqual(again, message)

      const { body: spoken } = yield* send(service, key, "chat")
      assert.match(spoken.choices[0].message.audio.id, sealed("audio_1"))
      spoken.choices[0].message.audio.id = "audio_1"
      assert.deepStrictEqual(spoken, completion)
    }).pipe(Effect.scoped)
  )

  it.effect("has sealed ids in streams", () =>
    Effect.gen(function* () {
      const { key, service } = yield* setUp
      for (const [wire, body] of [
        ["responses", {}],
        ["messages", {}],
        ["chat", {}],
        ["chat", { stream_options: { include_usage: true } }]
      ] as const) {
        const text = yield* streamOf(service, key, wire, body)
        const values = text
          .split("\n")
          .flatMap((line) => (line.startsWith("data: {") ? [line.slice(6)] : []))
          .join("\n")
        const ids = values.match(/(?<!\\)"(?:container_1|file_1|cntr_1|cfile_1|audio_1|resp_1)[^"]*"/g) ?? []
        assert.isNotEmpty(ids, wire)
        for (const id of ids) assert.match(id, /^"[a-z]+_1[0-9a-f]{36}"$/)
        if (wire !== "responses") assert.match(values, /"(?:call_1|srvtoolu_1)"/)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is reached by its tenant alone, on each wire and wherever the id stands", () =>
    Effect.gen(function* () {
      const { key, one, service, stranger, tenantId } = yield* setUp
      const ids = yield* ownIds(service, key)
      const made = (yield* charges(service, tenantId)).length
      for (const [what, wire, body, at, id] of references(ids)) {
        const own = yield* send(service, key, wire, body)
        assert.strictEqual(own.status, 200, `${wire}, ${what}: ${own.text}`)
        assert.strictEqual(memberAt(last(one), at), id.slice(0, -36), `${wire}, ${what}`)
        const before = one.requests.length
        const raw = JSON.parse(JSON.stringify(body).replaceAll(id, id.slice(0, -36)))
        const forged = JSON.parse(JSON.stringify(body).replaceAll(id, `${id.slice(0, -36)}${"0".repeat(36)}`))
        for (const [holder, request] of [
          [stranger, body],
          [key, raw],
          [key, forged],
          [stranger, { ...body, stream: true }]
        ] as const) {
          const foreign = yield* send(service, holder, wire, request)
          assert.strictEqual(foreign.status, 404, `${wire}, ${what}: ${foreign.text}`)
          if (wire === "messages") assert.strictEqual(foreign.body.error.type, "not_found_error")
          else assert.match(foreign.body.error.code, /_not_found$/)
          if (wire !== "messages") assert.strictEqual(foreign.body.error.param, at)
        }
        assert.strictEqual(one.requests.length, before, `${wire}, ${what}`)
      }
      assert.lengthOf(yield* charges(service, tenantId), made + references(ids).length)
    }).pipe(Effect.scoped)
  )

  it.effect("is not counted either for another tenant", () =>
    Effect.gen(function* () {
      const { key, one, service, stranger } = yield* setUp
      const { anthropicFile, cited } = yield* ownIds(service, key)
      const document = { type: "document", source: { type: "file", file_id: anthropicFile } }
      const count = (holder: string) =>
        service.call("POST", "/v1/messages/count_tokens", {
          key: holder,
          body: { model: "claude-both", messages: [{ role: "user", content: [document] }] }
        })
      assert.strictEqual((yield* count(key)).body.input_tokens, 7)
      assert.strictEqual(last(one).messages[0].content[0].source.file_id, "file_1")
      const before = one.requests.length
      assert.strictEqual((yield* count(stranger)).status, 404)
      const other = yield* service.call("POST", "/v1/responses/input_tokens", {
        key: stranger,
        body: { model: "gpt", input: [{ role: "user", content: [{ type: "input_file", file_id: cited }] }] }
      })
      assert.strictEqual(other.status, 404)
      assert.strictEqual(one.requests.length, before)
    }).pipe(Effect.scoped)
  )

  it.effect("does not reach the provider of a translated request either", () =>
    Effect.gen(function* () {
      const { key, one, service, two } = yield* setUp
      const { cited } = yield* ownIds(service, key)
      const asked = [one.requests.length, two.requests.length]
      for (const model of ["bridged", "claude"]) {
        for (const file_id of [cited, "cfile_1"]) {
          const input = [{ role: "user", content: [{ type: "input_file", file_id }] }]
          const answer = yield* send(service, key, "responses", { model, input })
          assert.include([400, 404], answer.status, answer.text)
          const tools = [{ type: "code_interpreter", container: file_id }]
          yield* send(service, key, "responses", { model, input: "Hi", tools, tool_choice: tools[0] })
        }
      }
      for (const { body } of [one.requests.slice(asked[0]), two.requests.slice(asked[1])].flat()) {
        assert.notInclude(JSON.stringify(body), "cfile_1")
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is an agent's own, and decides which provider answers", () =>
    Effect.gen(function* () {
      const { key, one, service, tenantId, two } = yield* setUp
      const own = yield* agentOf(service, tenantId)
      const { container } = yield* ownIds(service, own)
      const { key: other } = yield* makeKey(service, ["llm:*"], { tenantId })
      const tools = { tools: [{ type: "code_interpreter", container }] }
      const agent = yield* agentOf(service, tenantId)
      assert.strictEqual((yield* send(service, own, "responses", tools)).status, 200)
      assert.strictEqual((yield* send(service, other, "responses", tools)).status, 200)
      assert.strictEqual((yield* send(service, agent, "responses", tools)).status, 404)
      const asked = two.requests.length
      // The other provider is the first of this model.
      assert.strictEqual((yield* send(service, key, "responses", { ...tools, model: "gpt-both" })).status, 200)
      assert.strictEqual(last(one).tools[0].container, "cntr_1")
      const elsewhere = yield* send(service, key, "responses", { ...tools, model: "gpt-other" })
      assert.deepStrictEqual([elsewhere.status, elsewhere.body.error.param], [400, "tools.0.container"])
      const ids = yield* ownIds(service, key)
      const claude = yield* send(service, key, "messages", { model: "claude-both", container: ids.anthropicContainer })
      assert.strictEqual(claude.status, 200)
      assert.strictEqual(last(one).container, "container_1")
      const gpt = yield* send(service, key, "chat", {
        model: "gpt-other",
        messages: [{ role: "assistant", audio: { id: ids.audio } }, ...question]
      })
      assert.strictEqual(gpt.status, 400)
      assert.strictEqual(two.requests.length, asked)
    }).pipe(Effect.scoped)
  )

  it.effect("may be shared by the operator, by its id", () =>
    Effect.gen(function* () {
      const { key, one, service, stranger } = yield* setUp
      const tools = { tools: [{ type: "file_search", vector_store_ids: ["vs_shared"] }], prompt: { id: "pmpt_1" } }
      for (const holder of [key, stranger]) {
        const answer = yield* send(service, holder, "responses", { ...tools, model: "gpt-both" })
        assert.strictEqual(answer.status, 200, answer.text)
        assert.deepStrictEqual(last(one).tools, tools.tools)
        assert.deepStrictEqual(answer.body.tools, response.tools)
      }
      const file = { type: "file", file: { file_id: "file-shared" } }
      const chat = yield* send(service, stranger, "chat", { messages: [{ role: "user", content: [file] }] })
      assert.strictEqual(chat.status, 200)
      assert.deepStrictEqual(last(one).messages[0].content, [file])
      // At the provider that shares it alone.
      assert.strictEqual((yield* send(service, key, "responses", { ...tools, model: "gpt-other" })).status, 400)
    }).pipe(Effect.scoped)
  )

  it.effect("is not what a caller's own JSON names alike, nor the id of a call", () =>
    Effect.gen(function* () {
      const { key, one, service } = yield* setUp
      const parameters = { type: "object", properties: { file_id: { type: "string" } }, required: ["file_id"] }
      const call = { id: "call_x", type: "function", function: { name: "f", arguments: '{"file_id":"file-mine"}' } }
      const chat = {
        messages: [
          { role: "user", content: '"container_id":"cntr_1"' },
          { role: "assistant", tool_calls: [call] },
          { role: "tool", tool_call_id: "call_x", content: '{"file_id":"file-mine"}' }
        ],
        tools: [{ type: "function", function: { name: "f", parameters } }],
        metadata: { file_id: "mine", container: "mine" },
        user: "u"
      }
      assert.strictEqual((yield* send(service, key, "chat", chat)).status, 200)
      assert.deepInclude(last(one), chat)
      const messages = {
        messages: [
          ...question,
          {
            role: "assistant",
            content: [{ type: "tool_use", id: "toolu_x", name: "f", input: { file_id: "mine", id: "1" } }]
          },
          { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_x", content: "container_id" }] }
        ],
        tools: [{ name: "f", input_schema: parameters }],
        metadata: { user_id: "u" }
      }
      assert.strictEqual((yield* send(service, key, "messages", messages)).status, 200)
      assert.deepInclude(last(one), messages)
    }).pipe(Effect.scoped)
  )

  it.effect("is not named by a query about a stored response", () =>
    Effect.gen(function* () {
      const { key, one, service, stranger } = yield* setUp
      const { body } = yield* send(service, key, "responses")
      const other = yield* send(service, stranger, "responses")
      const items = (query: string) => service.call("GET", `/v1/responses/${body.id}/input_items${query}`, { key })
      assert.strictEqual((yield* items(`?limit=2&after=${body.output[0].id}&project=p&include[]=x`)).status, 200)
      assert.strictEqual(
        one.requests.at(-1)?.path,
        "/v1/responses/resp_1/input_items?limit=2&after=ci_1&include%5B%5D=x"
      )
      const before = one.requests.length
      for (const after of ["ci_1", other.body.output[0].id])
        assert.strictEqual((yield* items(`?after=${after}`)).status, 404)
      assert.strictEqual(one.requests.length, before)
    }).pipe(Effect.scoped)
  )

  it.effect("is a message only for a caller who asks how its cache was used", () =>
    Effect.gen(function* () {
      const { key, one, service, stranger } = yield* setUp
      const asks = (holder: string, previous_message_id: string | null) =>
        send(service, holder, "messages", { diagnostics: { previous_message_id } })
      const first = yield* asks(key, null)
      assert.match(first.body.id, sealed("msg_1"))
      yield* asks(key, first.body.id)
      assert.strictEqual(last(one).diagnostics.previous_message_id, "msg_1")
      for (const [holder, id] of [
        [stranger, first.body.id],
        [key, "msg_1"]
      ] as const) {
        assert.strictEqual((yield* asks(holder, id)).status, 200)
        assert.isNull(last(one).diagnostics.previous_message_id)
      }
      const text = yield* streamOf(service, key, "messages", { diagnostics: {} })
      assert.match(text, /"message":\{"id":"msg_1[0-9a-f]{36}"/)
      assert.strictEqual((yield* send(service, key, "messages")).body.id, "msg_1")
    }).pipe(Effect.scoped)
  )
})
