import { assert, layer } from "@effect/vitest"
import { Effect, Struct } from "effect"
import OpenAI from "openai"
import { configure, model, provider, readAll, spender } from "../../support/gateway.ts"
import { type Answerer, json, sse, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { chatFault, messageFault } from "../../support/vendor-rules.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- conversations of every format
type Any = any

const usage = { input_tokens: 10, output_tokens: 5 }

/** A provider of messages that answers with these blocks, and counts what it reads. */
const claude =
  (content: ReadonlyArray<object>, stop_reason = "tool_use"): Answerer =>
  ({ body, path }, response) => {
    const input_tokens = Math.ceil(JSON.stringify(body.messages).length / 4)
    if (path.endsWith("/count_tokens")) return json(response, 200, { input_tokens })
    json(response, 200, {
      id: "msg_1",
      type: "message",
      role: "assistant",
      content,
      stop_reason,
      usage: { input_tokens, output_tokens: 5 }
    })
  }

const thinking = (text: string) => ({ type: "thinking", thinking: text, signature: `S${text.length}` })
const call = { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Oslo" } }
const question = { role: "user", content: "The weather?" }
const more = { role: "user", content: "Go on." }
const functions = [{ type: "function", function: { name: "weather", parameters: { type: "object" } } }]

const chatVendor: Answerer = ({ body }, response) => {
  const message = { role: "assistant", content: "Rain." }
  if (body.stream === true) {
    sse(response, [{ id: "c", choices: [{ index: 0, delta: message, finish_reason: "stop" }] }, "data: [DONE]\n\n"])
    return response.end()
  }
  json(response, 200, {
    id: "c",
    choices: [{ index: 0, message, finish_reason: "stop" }],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
  })
}

const responsesVendor: Answerer = ({ path }, response) =>
  path.endsWith("input_tokens")
    ? json(response, 200, { input_tokens: 10 })
    : json(response, 200, {
        id: "resp_1",
        object: "response",
        status: "completed",
        output: [
          { type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "Rain." }] }
        ],
        usage
      })

/** The service with a provider of each kind; the models have their names. */
const setUp = Effect.fnUntraced(function* (content: ReadonlyArray<object>, stopReason?: string) {
  const service = yield* TestService
  const vendors = {
    claude: yield* startProvider(claude(content, stopReason)),
    openai: yield* startProvider(chatVendor),
    deepseek: yield* startProvider(chatVendor),
    responses: yield* startProvider(responsesVendor)
  }
  const { claude: anthropic, deepseek, openai, responses } = vendors
  yield* configure(
    service,
    [
      provider("claude", anthropic, { dialect: "anthropic", baseUrl: anthropic.url }),
      provider("openai", openai),
      provider("deepseek", deepseek),
      provider("responses", responses, { apis: ["responses"] })
    ],
    Object.keys(vendors).map((name) => model(name, [name]))
  )
  const { key } = yield* spender(service, [{ limit: 10 }])
  const post = Effect.fnUntraced(function* (path: string, body: object) {
    const { status, text } = yield* readAll(service, key, path, body)
    assert.strictEqual(status, 200, text)
    return JSON.parse(text) as Any
  })
  const chat = (to: string, messages: ReadonlyArray<object>, members: object = {}) =>
    post("/v1/chat/completions", { model: to, messages, tools: functions, reasoning_effort: "high", ...members })
  return { vendors, chat, post, key, service }
})

const limit = { max_tokens: 30_000 }

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a conversation that moves", (it) => {
  for (const [name, blocks] of Object.entries({
    "a thought": [thinking("I must look it up.")],
    "a redacted thought": [{ type: "redacted_thinking", data: "D" }],
    "words and a thought": [thinking("a"), { type: "text", text: "One moment." }, thinking("bc")]
  })) {
    it.effect(`goes on where ${name} was cut, at its provider and at others`, () =>
      Effect.gen(function* () {
        const { chat, post, vendors } = yield* setUp(blocks, "max_tokens")
        const { choices } = yield* chat("claude", [question], limit)
        for (const to of ["claude", "openai", "deepseek"])
          yield* chat(to, [question, choices[0].message, more], { max_completion_tokens: 30_000 })
        const [sent] = vendors.claude.requests.slice(-1)
        assert.isUndefined(sent && messageFault(sent))
        const [first] = sent?.body.messages ?? []
        assert.deepStrictEqual(first.content[0], { type: "text", text: question.content })
        for (const { body } of [...vendors.openai.requests, ...vendors.deepseek.requests]) {
          assert.notInclude(JSON.stringify(body), "gatewayState")
          for (const message of body.messages) assert.isTrue(Boolean(message.content), JSON.stringify(message))
        }
        const input = [{ type: "message", ...question }]
        const asked = { model: "claude", max_output_tokens: 30_000, reasoning: { effort: "high" } }
        const stored = yield* post("/v1/responses", { ...asked, input })
        yield* post("/v1/responses", { ...asked, previous_response_id: stored.id, input: "Go on." })
        yield* post("/v1/responses", { ...asked, input: [...input, ...stored.output, more] })
        for (const request of vendors.claude.requests) assert.isUndefined(messageFault(request))
      }).pipe(Effect.scoped)
    )
  }

  it.effect("keeps each thought in its place, however often it goes on elsewhere in between", () =>
    Effect.gen(function* () {
      const turn = [thinking("one"), { type: "text", text: "Well…" }, thinking("three"), call]
      const { chat, vendors } = yield* setUp(turn)
      const { choices } = yield* chat("claude", [question], limit)
      const result = { role: "tool", tool_call_id: call.id, content: "Rain" }
      const messages: Array<object> = [question, choices[0].message, result]
      for (const to of ["openai", "deepseek", "openai"]) {
        const { choices: next } = yield* chat(to, messages)
        messages.push(next[0].message, more)
      }
      yield* chat("claude", messages, limit)
      const [sent] = vendors.claude.requests.slice(-1)
      assert.deepStrictEqual(sent?.body.messages[1].content, turn)
      assert.isUndefined(sent && messageFault(sent))
    }).pipe(Effect.scoped)
  )

  it.effect("keeps them where it is stored, and where an answer comes from the cache", () =>
    Effect.gen(function* () {
      const turn = [thinking("one"), { type: "text", text: "Well…" }, thinking("three"), call]
      const { chat, key, post, service, vendors } = yield* setUp(turn)
      const asked = { max_output_tokens: 30_000, reasoning: { effort: "high" } }
      const respond = (to: string, input: unknown, before?: string) =>
        post("/v1/responses", { model: to, input, previous_response_id: before, ...asked })
      const first = yield* respond("claude", "The weather?")
      const output = { type: "function_call_output", call_id: call.id, output: "Rain" }
      const second = yield* respond("deepseek", [output], first.id)
      const third = yield* respond("openai", "Go on.", second.id)
      assert.notInclude(JSON.stringify(vendors.openai.requests.at(-1)?.body), "gatewayState")
      yield* respond("claude", "Go on.", third.id)
      assert.deepStrictEqual(vendors.claude.requests.at(-1)?.body.messages[1].content, turn)
      const request = { model: "claude", messages: [question], tools: functions, reasoning_effort: "high", ...limit }
      const result = { role: "tool", tool_call_id: call.id, content: "Rain" }
      for (const expected of ["miss", "hit"]) {
        const cached = yield* readAll(service, key, "/v1/chat/completions", request, { "x-cache": "true" })
        assert.strictEqual(cached.headers.get("x-cache"), expected)
        yield* chat("claude", [question, JSON.parse(cached.text).choices[0].message, result], limit)
        assert.deepStrictEqual(vendors.claude.requests.at(-1)?.body.messages[1].content, turn)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("returns no thoughts that stood behind a block that is not carried", () =>
    Effect.gen(function* () {
      const searched = [
        thinking("one"),
        { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "Oslo" } },
        { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] },
        thinking("three"),
        { type: "text", text: "Rain." }
      ]
      const { chat, vendors } = yield* setUp(searched, "end_turn")
      const { choices } = yield* chat("claude", [question], limit)
      yield* chat("claude", [question, choices[0].message, more], limit)
      const [sent] = vendors.claude.requests.slice(-1)
      assert.deepStrictEqual(sent?.body.messages[1].content, [{ type: "text", text: "Rain." }])
    }).pipe(Effect.scoped)
  )

  it.effect("has each call with its result where a provider signed several calls of one turn", () =>
    Effect.gen(function* () {
      const { key, post, service, vendors } = yield* setUp([])
      const signed = ["a", "b"].map((id, index) => ({
        index,
        id,
        type: "function",
        function: { name: "weather", arguments: "{}" },
        extra_content: { google: { thought_signature: `S${id}` } }
      }))
      const answer = vendors.deepseek.answer
      vendors.deepseek.answer = (_, response) => {
        const deltas = [
          { reasoning_content: "First." },
          { content: "Well…" },
          ...signed.map((one) => ({ tool_calls: [one] }))
        ]
        sse(response, [
          ...deltas.map((delta) => ({ id: "c", choices: [{ index: 0, delta, finish_reason: null }] })),
          { id: "c", choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
          "data: [DONE]\n\n"
        ])
        response.end()
      }
      const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
      const { output } = yield* Effect.promise(() =>
        client.responses.stream({ model: "deepseek", input: "The weather?" }).finalResponse()
      )
      vendors.deepseek.answer = answer
      const results = signed.map(({ id }) => ({ type: "function_call_output", call_id: id, output: "Rain" }))
      for (const to of ["deepseek", "openai", "claude"])
        yield* post("/v1/responses", { model: to, input: [{ type: "message", ...question }, ...output, ...results] })
      const [toItself] = vendors.deepseek.requests.slice(-1)
      const [toOther] = vendors.openai.requests.slice(-1)
      const [toClaude] = vendors.claude.requests.slice(-1)
      assert.deepStrictEqual(
        toItself?.body.messages[1].tool_calls.map(({ extra_content: extra }: Any) => extra.google.thought_signature),
        ["Sa", "Sb"]
      )
      assert.strictEqual(toItself?.body.messages[1].reasoning_content, "First.")
      assert.isUndefined(toOther && chatFault(toOther))
      assert.isUndefined(toClaude && messageFault(toClaude))
    }).pipe(Effect.scoped)
  )

  it.effect("has no thoughts of another provider where the Responses API is passed on, with or without ids", () =>
    Effect.gen(function* () {
      const { post, vendors } = yield* setUp([thinking("I must look it up."), call])
      const { output } = yield* post("/v1/responses", {
        model: "claude",
        input: "The weather?",
        max_output_tokens: 30_000,
        reasoning: { effort: "high" },
        tools: [{ type: "function", name: "weather", parameters: { type: "object" } }]
      })
      assert.deepStrictEqual(
        output.map(({ type }: Any) => type),
        ["reasoning", "function_call"]
      )
      // Codex sends thoughts without their ids.
      const bare = output.map((item: Any) => Struct.omit(item, ["id"]))
      const result = { type: "function_call_output", call_id: call.id, output: "Rain" }
      for (const kept of [output, bare]) {
        for (const path of ["/v1/responses", "/v1/responses/input_tokens"]) {
          yield* post(path, { model: "responses", input: [{ type: "message", ...question }, ...kept, result] })
          const sent = vendors.responses.requests.at(-1)?.body
          assert.deepStrictEqual(
            sent.input.map(({ type }: Any) => type),
            ["message", "function_call", "function_call_output"]
          )
        }
      }
    }).pipe(Effect.scoped)
  )

  it.effect("calls with thoughts at vendors that require them, though other models made the calls", () =>
    Effect.gen(function* () {
      const { chat, post, vendors } = yield* setUp([thinking("I must look it up."), call])
      const { choices } = yield* chat("claude", [question], limit)
      const result = { role: "tool", tool_call_id: call.id, content: "Rain" }
      const { tool_calls: calls } = choices[0].message
      const unsigned = calls.map((one: Any) => Struct.omit(one, ["extra_content"]))
      const turns = [choices[0].message, { role: "assistant", content: null, tool_calls: unsigned }]
      for (const turn of turns) yield* chat("deepseek", [question, turn, result])
      yield* chat("deepseek", [question, { ...turns[1], reasoning_content: "Its own." }, result])
      yield* post("/v1/messages", {
        model: "deepseek",
        max_tokens: 100,
        messages: [
          question,
          { role: "assistant", content: [call] },
          { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "Rain" }] }
        ]
      })
      assert.deepStrictEqual(
        vendors.deepseek.requests.map(({ body }) => body.messages[1].reasoning_content),
        [" ", " ", "Its own.", " "]
      )
      yield* chat("openai", [question, choices[0].message, result])
      assert.notProperty(vendors.openai.requests.at(-1)?.body.messages[1], "reasoning_content")
      const [sent] = vendors.openai.requests.slice(-1)
      assert.isUndefined(sent && chatFault(sent))
    }).pipe(Effect.scoped)
  )

  it.effect("gives back what a whole text holds, in either alphabet of base64, and nothing for any other", () =>
    Effect.gen(function* () {
      const { chat, vendors } = yield* setUp([thinking("I must look it up."), call])
      const { choices } = yield* chat("claude", [question], limit)
      const [{ extra_content: _, ...bare }] = choices[0].message.tool_calls
      const [detail] = choices[0].message.reasoning_details
      const { data } = detail
      const result = { role: "tool", tool_call_id: call.id, content: "Rain" }
      const sent = Effect.fnUntraced(function* (written: unknown) {
        const turn = { role: "assistant", content: null, tool_calls: [bare], reasoning_details: written }
        yield* chat("claude", [question, turn, result], limit)
        const body = vendors.claude.requests.at(-1)?.body
        assert.notInclude(JSON.stringify(body), "gatewayState")
        return body.messages[1].content.length
      })
      const whole = [
        data,
        data.replaceAll("+", "-").replaceAll("/", "_"),
        data.replaceAll("=", ""),
        `${data}.${data}`,
        `${data}${data}`,
        `${data}.gatewayState`
      ]
      for (const text of whole) assert.strictEqual(yield* sent([{ ...detail, data: text }]), 2, text)
      assert.strictEqual(yield* sent([detail, detail]), 2, "kept twice")
      const middle = Math.floor(data.length / 2)
      const others = [
        data.slice(0, -8),
        data.slice(0, middle),
        data.slice(0, middle) + (data[middle] === "A" ? "B" : "A") + data.slice(middle + 1),
        data.slice("gatewayState".length),
        "gatewayState",
        "gatewayState....",
        "gatewayState\u0000\ud800",
        `gatewayState${"A".repeat(100_000)}`
      ]
      for (const text of others) assert.strictEqual(yield* sent([{ ...detail, data: text }]), 1, text.slice(0, 99))
      for (const text of [7, null, {}, [[detail]], [{ data: { data } }], [null]])
        assert.strictEqual(yield* sent(text), 1, JSON.stringify(text))
    }).pipe(Effect.scoped)
  )

  it.effect("costs no more than was reserved where a provider gets more of it back than the one that counted it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const broken = yield* startProvider((request, response) =>
        request.path.endsWith("/count_tokens")
          ? claude([])(request, response)
          : json(response, 500, { type: "error", error: { type: "api_error", message: "Broken" } })
      )
      const whole = yield* startProvider(claude([thinking("I think. ".repeat(4000)), call]))
      const named = "claude-sonnet-4-5"
      const of = (id: string, ...providers: ReadonlyArray<string>) =>
        model(id, [], {
          prices: { inputUsdPerMTok: 2, outputUsdPerMTok: 2 },
          targets: providers.map((provider, priority) => ({ provider, model: named, priority }))
        })
      yield* configure(
        service,
        Object.entries({ broken, whole }).map(([id, standIn]) =>
          provider(id, standIn, { dialect: "anthropic", baseUrl: standIn.url })
        ),
        [of("alone", "whole"), of("both", "broken", "whole")]
      )
      const { key, tenantId } = yield* spender(service, [])
      const post = (to: string, messages: ReadonlyArray<object>) =>
        readAll(service, key, "/v1/chat/completions", {
          model: to,
          messages,
          tools: functions,
          reasoning_effort: "low",
          max_tokens: 2000
        })
      const { message } = JSON.parse((yield* post("alone", [question])).text).choices[0]
      const [{ extra_content: _, ...bare }] = message.tool_calls
      const kept = { ...message, reasoning_content: undefined, tool_calls: [bare] }
      const result = { role: "tool", tool_call_id: call.id, content: "Rain" }
      const cap = { tenantId, name: "a cap", unit: "usd", period: "total", limit: 0.06 }
      assert.strictEqual((yield* service.call("POST", "/api/budgets/caps", { body: cap })).status, 201)
      // The bytes of the request, which bound its tokens, do not fit the cap, but those that the first provider gets do.
      const { status, text } = yield* post("both", [question, kept, result])
      assert.strictEqual(status, 402, text)
      // A request that each of them gets alike is counted.
      const long = { role: "user", content: "A long question. ".repeat(1500) }
      const counted = yield* post("both", [long])
      assert.strictEqual(counted.status, 200, counted.text)
    }).pipe(Effect.scoped)
  )
})
