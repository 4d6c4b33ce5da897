import Anthropic from "@anthropic-ai/sdk"
import { assert, layer } from "@effect/vitest"
import { GoogleGenAI } from "@google/genai"
import { Effect } from "effect"
import OpenAI from "openai"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import { type Answerer, json, sse, startProvider } from "../../support/provider.ts"
import { responseEvents } from "../../support/responses-vendor.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- conversations of every format
type Any = any

const called = { city: "Oslo" }
const thought = "I must look it up."
const marks = { chat: "Q0hBVA==", claude: "Q0xBVURF", gemini: "R0VNSU5J", responses: "UkVTUE9OU0VT" }

/** Thinks and calls a function, unless a result came in; a provider of chat completions with signed calls. */
const chatVendor: Answerer = ({ body }, response) => {
  const isAnswered = body.messages.at(-1).role === "tool"
  const call = {
    id: "call_1",
    type: "function",
    function: { name: "weather", arguments: JSON.stringify(called) },
    extra_content: { google: { thought_signature: marks.chat } }
  }
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
  const message = isAnswered ? { content: "Rain." } : { content: null, reasoning_content: thought, tool_calls: [call] }
  const finish_reason = isAnswered ? "stop" : "tool_calls"
  if (body.stream !== true) {
    return json(response, 200, {
      id: "c",
      choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }],
      usage
    })
  }
  const deltas = isAnswered
    ? [message]
    : [
        { reasoning_content: thought.slice(0, 4) },
        { reasoning_content: thought.slice(4) },
        { tool_calls: [{ index: 0, ...call, function: { name: "weather", arguments: "" } }] },
        { tool_calls: [{ index: 0, function: { arguments: JSON.stringify(called) } }] }
      ]
  sse(response, [
    ...deltas.map((delta) => ({ id: "c", choices: [{ index: 0, delta, finish_reason: null }] })),
    { id: "c", choices: [{ index: 0, delta: {}, finish_reason }] },
    { id: "c", choices: [], usage },
    "data: [DONE]\n\n"
  ])
  response.end()
}

/** The deltas of a block, and what its beginning has in the place of them. */
const streamedBlock = ({
  input,
  signature,
  text,
  thinking,
  type
}: Any): { deltas: ReadonlyArray<Any>; begun: object } => {
  switch (type) {
    case "thinking":
      return {
        deltas: [
          { type: "thinking_delta", thinking },
          { type: "signature_delta", signature }
        ],
        begun: { thinking: "", signature: "" }
      }
    case "tool_use":
      return { deltas: [{ type: "input_json_delta", partial_json: JSON.stringify(input) }], begun: { input: {} } }
    case "text":
      return { deltas: [{ type: "text_delta", text }], begun: { text: "" } }
    default:
      return { deltas: [], begun: {} }
  }
}

const eventsOf = (block: Any): ReadonlyArray<object> => {
  const { begun, deltas } = streamedBlock(block)
  const start = { type: "content_block_start", content_block: { ...block, ...begun } }
  return [start, ...deltas.map((delta) => ({ type: "content_block_delta", delta })), { type: "content_block_stop" }]
}

/** A turn that thinks between its text and its call. */
const claudeTurn = [
  { type: "thinking", thinking: thought, signature: marks.claude },
  { type: "redacted_thinking", data: `${marks.claude}${marks.claude}` },
  { type: "text", text: "One moment." },
  { type: "thinking", thinking: "Oslo, then.", signature: `${marks.claude}${marks.claude}` },
  { type: "tool_use", id: "toolu_1", name: "weather", input: called }
]

const claudeVendor: Answerer = ({ body }, response) => {
  const isAnswered = body.messages.at(-1).content.some?.(({ type }: Any) => type === "tool_result")
  const content = isAnswered ? [{ type: "text", text: "Rain." }] : claudeTurn
  const stop_reason = isAnswered ? "end_turn" : "tool_use"
  const message = { id: "msg_1", type: "message", role: "assistant", model: body.model, stop_sequence: null }
  const usage = { input_tokens: 10, output_tokens: 5 }
  if (body.stream !== true) return json(response, 200, { ...message, content, stop_reason, usage })
  const blocks = content.flatMap((block, index) => eventsOf(block).map((event) => Object.assign({ index }, event)))
  const events: ReadonlyArray<Any> = [
    { type: "message_start", message: { ...message, content: [], stop_reason: null, usage } },
    ...blocks,
    { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
    { type: "message_stop" }
  ]
  sse(
    response,
    events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  )
  response.end()
}

const geminiVendor: Answerer = ({ body, path }, response) => {
  const isAnswered = body.contents.at(-1).parts.some(({ functionResponse }: Any) => functionResponse)
  const parts: ReadonlyArray<Any> = isAnswered
    ? [{ text: "Rain." }]
    : [
        { thought: true, text: thought },
        { text: "One moment." },
        { functionCall: { id: "fc_1", name: "weather", args: called }, thoughtSignature: marks.gemini }
      ]
  const answer = (some: ReadonlyArray<Any>, rest: object) => ({
    candidates: [{ content: { role: "model", parts: some }, index: 0, ...rest }],
    responseId: "r1",
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 }
  })
  if (!path.includes(":stream")) return json(response, 200, answer(parts, { finishReason: "STOP" }))
  sse(response, [...parts.map((part) => answer([part], {})), answer([], { finishReason: "STOP" })])
  response.end()
}

/** A turn that thinks, comments, thinks again and calls. */
const responsesTurn = [
  {
    id: "rs_1",
    type: "reasoning",
    summary: [{ type: "summary_text", text: thought }],
    encrypted_content: marks.responses
  },
  {
    id: "msg_1",
    type: "message",
    status: "completed",
    role: "assistant",
    phase: "commentary",
    content: [{ type: "output_text", text: "One moment.", annotations: [] }]
  },
  { id: "rs_2", type: "reasoning", summary: [], encrypted_content: `${marks.responses}2` },
  {
    id: "fc_1",
    type: "function_call",
    status: "completed",
    call_id: "call_r",
    name: "weather",
    arguments: JSON.stringify(called)
  }
]

const responsesVendor: Answerer = ({ body }, response) => {
  const isAnswered = body.input.at(-1).type === "function_call_output"
  const rain = { id: "msg_2", type: "message", status: "completed", role: "assistant", phase: "final_answer" }
  const output = isAnswered
    ? [{ ...rain, content: [{ type: "output_text", text: "Rain.", annotations: [] }] }]
    : responsesTurn
  const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 }
  const answer = {
    id: "resp_1",
    object: "response",
    created_at: 1,
    status: "completed",
    model: body.model,
    output,
    usage
  }
  if (body.stream !== true) return json(response, 200, answer)
  sse(response, responseEvents(answer))
  response.end()
}

/** A conversation of a client: the turn of a question, and the one that follows with the result of the call. */
interface Client {
  /** The answer to the question, as the client keeps it. */
  ask(model: string, isStreamed: boolean): Promise<Any>
  /** Goes on with that answer. */
  answer(model: string, kept: Any): Promise<unknown>
}

const schema = { type: "object" as const, properties: { city: { type: "string" } } }

const chatClient = (url: string, key: string): Client => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 })
  const tools = [{ type: "function" as const, function: { name: "weather", parameters: schema } }]
  const question = { role: "user" as const, content: "The weather?" }
  const asked = { tools, max_tokens: 30_000, reasoning_effort: "high" as const }
  return {
    ask: async (model, isStreamed) => {
      if (!isStreamed) {
        const { choices } = await client.chat.completions.create({ model, messages: [question], ...asked })
        return choices[0]?.message
      }
      const stream = await client.chat.completions.create({ model, messages: [question], ...asked, stream: true })
      const message: Any = { role: "assistant", content: null, tool_calls: [], reasoning_details: [] }
      for await (const { choices } of stream) {
        const delta: Any = choices[0]?.delta ?? {}
        message.reasoning_details.push(...(delta.reasoning_details ?? []))
        if (delta.reasoning_content)
          message.reasoning_content = (message.reasoning_content ?? "") + delta.reasoning_content
        if (delta.content) message.content = (message.content ?? "") + delta.content
        for (const { function: part, index, ...call } of delta.tool_calls ?? []) {
          const before = message.tool_calls[index]
          if (before === undefined) message.tool_calls[index] = { ...call, function: { arguments: "", ...part } }
          else before.function.arguments += part.arguments
        }
      }
      return message
    },
    answer: (model, kept) =>
      client.chat.completions.create({
        model,
        messages: [question, kept, { role: "tool", tool_call_id: kept.tool_calls[0].id, content: "Rain" }],
        ...asked
      })
  }
}

const messagesClient = (url: string, key: string): Client => {
  const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0, timeout: 60_000 })
  const tools = [{ name: "weather", input_schema: schema }]
  const question = { role: "user" as const, content: "The weather?" }
  const asked = { max_tokens: 30_000, tools, thinking: { type: "enabled" as const, budget_tokens: 2000 } }
  return {
    ask: async (model, isStreamed) => {
      const request = { model, messages: [question], ...asked }
      const message = isStreamed
        ? await client.messages.stream(request).finalMessage()
        : await client.messages.create({ ...request, stream: false })
      return message.content
    },
    answer: (model, kept) =>
      client.messages.create({
        model,
        messages: [
          question,
          { role: "assistant", content: kept },
          {
            role: "user",
            content: [
              {
                type: "tool_result",
                tool_use_id: kept.find(({ type }: Any) => type === "tool_use").id,
                content: "Rain"
              }
            ]
          }
        ],
        ...asked,
        stream: false
      })
  }
}

const responsesClient = (url: string, key: string): Client => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 })
  const tools = [{ type: "function" as const, name: "weather", parameters: schema, strict: false }]
  const asked = { tools, store: false, max_output_tokens: 30_000, reasoning: { effort: "high" as const } }
  return {
    ask: async (model, isStreamed) => {
      const request = { model, input: "The weather?", ...asked }
      const { output } = isStreamed
        ? await client.responses.stream(request).finalResponse()
        : await client.responses.create(request)
      return output
    },
    answer: (model, kept) =>
      client.responses.create({
        model,
        input: [
          { role: "user", content: "The weather?" },
          ...kept,
          {
            type: "function_call_output",
            call_id: kept.find(({ type }: Any) => type === "function_call").call_id,
            output: "Rain"
          }
        ],
        ...asked
      })
  }
}

const geminiClient = (url: string, key: string): Client => {
  const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } })
  const question = { role: "user", parts: [{ text: "The weather?" }] }
  const config = {
    maxOutputTokens: 30_000,
    thinkingConfig: { thinkingBudget: 2000 },
    tools: [{ functionDeclarations: [{ name: "weather", parametersJsonSchema: schema }] }]
  }
  return {
    ask: async (model, isStreamed) => {
      const request = { model, contents: [question], config }
      if (!isStreamed) return [(await client.models.generateContent(request)).candidates?.[0]?.content]
      const contents: Array<Any> = []
      for await (const { candidates } of await client.models.generateContentStream(request)) {
        if (candidates?.[0]?.content !== undefined) contents.push(candidates[0].content)
      }
      return contents
    },
    answer: (model, kept) => {
      const parts = kept.flatMap((content: Any) => content.parts ?? [])
      const { id } = parts.find(({ functionCall }: Any) => functionCall).functionCall
      const result = { functionResponse: { id, name: "weather", response: { output: "Rain" } } }
      return client.models.generateContent({
        model,
        contents: [question, ...kept, { role: "user", parts: [result] }],
        config
      })
    }
  }
}

const clients = {
  "chat completions": chatClient,
  messages: messagesClient,
  responses: responsesClient,
  "Google's SDK": geminiClient
}

/** What matters of an item that is given back; its id and status are the client's to leave out. */
const givenBack = ({ arguments: input, call_id, content, encrypted_content, phase, summary, type }: Any) => ({
  type,
  thoughts: [encrypted_content, summary],
  words: [phase, content?.map(({ text }: Any) => text)],
  call: [call_id, input]
})

/** What each provider wants back, in the last request that it got. */
const returned: Readonly<Record<string, (body: Any) => void>> = {
  chat: ({ messages }) => {
    const turn = messages.find(({ role }: Any) => role === "assistant")
    assert.strictEqual(turn.reasoning_content, thought)
    assert.strictEqual(turn.tool_calls[0].extra_content?.google.thought_signature, marks.chat)
  },
  claude: ({ messages, thinking }) => {
    assert.isDefined(thinking)
    assert.deepStrictEqual(messages[1].content, claudeTurn)
  },
  gemini: ({ contents }) => {
    const parts = contents.filter(({ role }: Any) => role === "model").flatMap((content: Any) => content.parts)
    const call = parts.find(({ functionCall }: Any) => functionCall)
    assert.strictEqual(call.thoughtSignature, marks.gemini)
  },
  responses: ({ input }) => {
    assert.deepStrictEqual(input.slice(1, -1).map(givenBack), responsesTurn.map(givenBack))
    assert.deepInclude(input.at(-1), { type: "function_call_output", call_id: "call_r", output: "Rain" })
  }
}

const setUp = Effect.gen(function* () {
  const service = yield* TestService
  const chat = yield* startProvider(chatVendor)
  const claude = yield* startProvider(claudeVendor)
  const gemini = yield* startProvider(geminiVendor)
  const responses = yield* startProvider(responsesVendor)
  const others = { dialect: "gemini", baseUrl: `${gemini.url}/v1beta` }
  yield* configure(
    service,
    [
      provider("chat", chat),
      provider("second-chat", chat),
      { ...provider("claude", claude), dialect: "anthropic", baseUrl: claude.url },
      { ...provider("gemini", gemini), ...others },
      provider("responses", responses, { apis: ["responses"] })
    ],
    [
      model("chat", ["chat"]),
      model("second", ["second-chat"]),
      model("claude", ["claude"]),
      model("gemini", ["gemini"]),
      model("responses", ["responses"])
    ]
  )
  const { key } = yield* spender(service, [{ limit: 10 }])
  return { vendors: { chat, claude, gemini, responses }, key, service }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("what a provider wants back", (it) => {
  for (const [name, makeClient] of Object.entries(clients)) {
    for (const isStreamed of [false, true]) {
      it.effect(`returns to it alone, from a caller of ${name}, ${isStreamed ? "streamed" : "whole"}`, () =>
        Effect.gen(function* () {
          const { key, service, vendors } = yield* setUp
          const client = makeClient(service.url, key)
          const stranger = makeClient(service.url, (yield* spender(service, [{ limit: 10 }])).key)
          for (const [asked, vendor] of Object.entries(vendors)) {
            const kept = yield* Effect.promise(() => client.ask(asked, isStreamed))
            yield* Effect.promise(() => client.answer(asked, kept))
            returned[asked]?.(vendor.requests.at(-1)?.body)
            for (const [other, { requests }] of Object.entries(vendors)) {
              if (other === asked) continue
              yield* Effect.promise(() => client.answer(other, kept))
              const sent = JSON.stringify(requests.at(-1)?.body)
              assert.notInclude(sent, "gatewayState", `${asked} to ${other}`)
              // The caller sends what it got from a provider of its own format as it was.
              if (JSON.stringify(kept).includes(marks[asked as keyof typeof marks])) continue
              for (const secret of [thought, ...Object.values(marks)])
                assert.notInclude(sent, secret, `${asked} to ${other}`)
            }
            if (JSON.stringify(kept).includes(marks[asked as keyof typeof marks])) continue
            yield* Effect.promise(() => stranger.answer(asked, kept))
            const toStranger = JSON.stringify(vendor.requests.at(-1)?.body)
            for (const secret of ["gatewayState", ...Object.values(marks)]) assert.notInclude(toStranger, secret)
          }
          const kept = yield* Effect.promise(() => client.ask("chat", isStreamed))
          if (JSON.stringify(kept).includes(marks.chat)) return
          yield* Effect.promise(() => client.answer("second", kept))
          assert.notInclude(
            JSON.stringify(vendors.chat.requests.at(-1)?.body),
            marks.chat,
            "another provider of its kind"
          )
        }).pipe(Effect.scoped)
      )
    }
  }
})
