import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import Anthropic from "@anthropic-ai/sdk"
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema"
import { assert, layer } from "@effect/vitest"
import { GoogleGenAI } from "@google/genai"
import { generateText, type LanguageModel, stepCountIs, streamText, tool } from "ai"
import { Effect } from "effect"
import OpenAI from "openai"
import { z } from "zod"
import { ask, charges, configure, costNanoUsd, model, provider, readAll, spender } from "../../support/gateway.ts"
import { type Answerer, json, sse, startProvider } from "../../support/provider.ts"
import { makeResponsesVendor, responseEvents } from "../../support/responses-vendor.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { calledWith, openAiVendor, said, used } from "../../support/vendors.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- requests of every shape
type Any = any

const turns = 3
const usage = {
  input_tokens: used.input,
  input_tokens_details: { cached_tokens: used.cached },
  output_tokens: used.output,
  output_tokens_details: { reasoning_tokens: used.reasoning },
  total_tokens: used.input + used.output
}

/** The items of a turn that thinks, comments, and calls a function. */
const itemsOf = (turn: number): ReadonlyArray<Any> => [
  { id: `rs_${turn}`, type: "reasoning", summary: [], encrypted_content: `thoughts of turn ${turn}` },
  {
    id: `msg_${turn}`,
    type: "message",
    status: "completed",
    role: "assistant",
    phase: "commentary",
    content: [{ type: "output_text", text: `Turn ${turn}.`, annotations: [] }]
  },
  {
    id: `fc_${turn}`,
    type: "function_call",
    status: "completed",
    call_id: `call_${turn}`,
    name: "weather",
    arguments: JSON.stringify(calledWith)
  }
]

const answered = (body: Any, output: ReadonlyArray<Any>, members: object = {}) => ({
  id: "resp_1",
  object: "response",
  created_at: 1,
  status: "completed",
  model: body.model,
  output,
  usage,
  ...members
})

/** What matters of an item in a request. */
const essence = ({ arguments: input, call_id, content, encrypted_content, phase, type }: Any) => [
  type,
  encrypted_content ?? call_id ?? phase,
  input ?? content?.map?.(({ text }: Any) => text)
]

/** Calls a function in each of some turns, and takes no conversation that lost a thought or a phase of any of them. */
const forgetsNothing: Answerer = ({ body }, response) => {
  const results = body.input.filter(({ type }: Any) => type === "function_call_output")
  const before = Array.from({ length: results.length }, (_, turn) => [
    ...itemsOf(turn).map(essence),
    ["function_call_output", `call_${turn}`, undefined]
  ]).flat()
  const given = body.input.slice(1).map(essence)
  if (JSON.stringify(given) !== JSON.stringify(before) || body.store !== false) {
    return json(response, 400, { error: { message: `Lost: ${JSON.stringify(given)}`, type: "invalid_request_error" } })
  }
  const final = {
    ...itemsOf(0)[1],
    phase: "final_answer",
    content: [{ type: "output_text", text: said, annotations: [] }]
  }
  const answer = answered(body, results.length < turns ? itemsOf(results.length) : [final])
  if (body.stream !== true) return json(response, 200, answer)
  sse(response, responseEvents(answer))
  response.end()
}

const schema = { type: "object" as const, properties: { city: { type: "string" } }, required: ["city"] }

interface Connection {
  readonly url: string
  readonly key: string
}

/** A task with calls of a function, as each SDK runs it. */
type Client = (connection: Connection, isStreamed: boolean) => Promise<string | null>

/** The SDK's own runner sends the members alone that it knows; a conversation that is kept as it came has the others. */
const openAi: Client = async ({ key, url }, isStreamed) => {
  const { completions } = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 }).chat
  const tools = [{ type: "function" as const, function: { name: "weather", parameters: schema } }]
  const ask = async (messages: ReadonlyArray<Any>): Promise<string | null> => {
    const request = { model: "codex", messages: [...messages], tools }
    const message: Any = { role: "assistant", content: null, tool_calls: [], reasoning_details: [] }
    if (!isStreamed) Object.assign(message, (await completions.create(request)).choices[0]?.message)
    else {
      for await (const { choices } of await completions.create({ ...request, stream: true })) {
        const { content, reasoning_details: details = [], tool_calls: calls = [] }: Any = choices[0]?.delta ?? {}
        if (content) message.content = (message.content ?? "") + content
        message.reasoning_details.push(...details)
        for (const { index, ...call } of calls) {
          const begun = (message.tool_calls[index] ??= { ...call, function: { ...call.function, arguments: "" } })
          begun.function.arguments += call.function.arguments
        }
      }
    }
    const [call] = message.tool_calls
    const result = { role: "tool", tool_call_id: call?.id, content: "Rain" }
    return call === undefined ? message.content : ask([...messages, message, result])
  }
  return ask([{ role: "user", content: "Hi" }])
}

const anthropic: Client = async ({ key, url }, isStreamed) => {
  const { messages } = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 }).beta
  const tools = [
    betaTool({ name: "weather", description: "The weather", inputSchema: schema as Any, run: () => "Rain" })
  ]
  const request = { model: "codex", max_tokens: 4000, messages: [{ role: "user" as const, content: "Hi" }], tools }
  const answer = isStreamed
    ? await messages.toolRunner({ ...request, stream: true }).runUntilDone()
    : await messages.toolRunner({ ...request, stream: false }).runUntilDone()
  return answer.content.map((block) => (block.type === "text" ? block.text : "")).join("")
}

const google: Client = async ({ key, url }, isStreamed) => {
  const chat = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } }).chats.create({
    model: "codex",
    config: { tools: [{ functionDeclarations: [{ name: "weather", parametersJsonSchema: schema }] }] }
  })
  const ask = async (message: Any): Promise<string> => {
    const parts: Array<Any> = []
    if (isStreamed) {
      for await (const { candidates } of await chat.sendMessageStream({ message })) {
        parts.push(...(candidates?.[0]?.content?.parts ?? []))
      }
    } else parts.push(...((await chat.sendMessage({ message })).candidates?.[0]?.content?.parts ?? []))
    const call = parts.find(({ functionCall }) => functionCall)?.functionCall
    if (call === undefined) return parts.map(({ text = "" }) => text).join("")
    const { id, name } = call
    return ask([{ functionResponse: { id, name, response: { output: "Rain" } } }])
  }
  return ask("Hi")
}

const aiSdk =
  (modelOf: (connection: Connection) => LanguageModel): Client =>
  async (connection, isStreamed) => {
    const request = {
      model: modelOf(connection),
      prompt: "Hi",
      maxOutputTokens: 4000,
      maxRetries: 0,
      tools: { weather: tool({ inputSchema: z.object({ city: z.string() }), execute: () => "Rain" }) },
      stopWhen: stepCountIs(turns + 1)
    }
    return isStreamed ? await streamText(request).text : (await generateText(request)).text
  }

const clients: Readonly<Record<string, Client>> = {
  "OpenAI's SDK": openAi,
  "Anthropic's SDK": anthropic,
  "Google's SDK": google,
  "the AI SDK, for Anthropic": aiSdk(({ key, url }) => createAnthropic({ apiKey: key, baseURL: `${url}/v1` })("codex")),
  "the AI SDK, for compatible providers": aiSdk(({ key, url }) =>
    createOpenAICompatible({ name: "gateway", apiKey: key, baseURL: `${url}/v1` })("codex")
  )
}

const setUp = (answer: Answerer, other: Answerer = openAiVendor) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const alone = yield* startProvider(answer)
    const chat = yield* startProvider(other)
    yield* configure(
      service,
      [
        // What is stated of a target goes before what is stated of its provider.
        provider("re", alone, { apis: ["chat", "responses"] }),
        provider("chat", chat)
      ],
      [
        model("alone", [], { targets: [{ provider: "re", model: "alone", apis: ["responses"] }] }),
        model("first", [], {
          targets: [
            { provider: "re", model: "m", apis: ["responses"] },
            { provider: "chat", model: "m", priority: 1 }
          ]
        }),
        model("last", [], {
          targets: [
            { provider: "chat", model: "m" },
            { provider: "re", model: "m", apis: ["responses"], priority: 1 }
          ]
        })
      ]
    )
    const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
    return { alone, chat, key, service, tenantId }
  })

const question = { messages: [{ role: "user", content: "What time is it?" }] }

const failed = (body: Any, members: object = {}) =>
  answered(body, [], {
    status: "failed",
    error: { code: "server_error", message: "It failed." },
    usage: null,
    ...members
  })
const failing =
  (members: object = {}): Answerer =>
  ({ body }, response) => {
    if (body.stream !== true) return json(response, 200, failed(body, members))
    sse(response, responseEvents(failed(body, members)))
    response.end()
  }
const unavailable: Answerer = (_, response) => json(response, 503, { error: { message: "Not now." } })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a model that has the Responses API alone",
  (it) => {
    for (const [name, run] of Object.entries(clients)) {
      for (const isStreamed of [false, true]) {
        it.effect(`keeps its thoughts over the turns of ${name}, ${isStreamed ? "streamed" : "whole"}`, () =>
          Effect.gen(function* () {
            const service = yield* TestService
            const vendor = yield* startProvider(forgetsNothing)
            yield* configure(service, [provider("re", vendor, { apis: ["responses"] })], [model("codex", ["re"])])
            const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
            const answer = yield* Effect.promise(() => run({ key, url: service.url }, isStreamed))
            assert.strictEqual(answer, said)
            const charge = { amount: String(costNanoUsd), state: "settled", method: "provider_usage" }
            assert.deepStrictEqual(
              yield* charges(service, tenantId),
              Array.from({ length: turns + 1 }, () => charge)
            )
          }).pipe(Effect.scoped)
        )
      }
    }

    it.effect("answers callers of every format, each with a limit that fits its cap, and is charged by its usage", () =>
      Effect.gen(function* () {
        const { alone, key, service, tenantId } = yield* setUp(makeResponsesVendor())
        const contents = [{ role: "user", parts: [{ text: "What time is it?" }] }]
        const requests: ReadonlyArray<readonly [path: string, body: object]> = [
          ["/v1/chat/completions", { model: "alone", ...question }],
          ["/v1/messages", { model: "alone", max_tokens: 4000, ...question }],
          ["/api/llm/complete", { model: "alone", ...question }],
          ["/v1beta/models/alone:generateContent", { contents }],
          ["/v1beta/models/alone:streamGenerateContent?alt=sse", { contents }],
          ["/v1/responses", { model: "alone", input: "What time is it?" }]
        ]
        for (const [path, body] of requests) {
          const { status, text } = yield* readAll(service, key, path, body)
          assert.strictEqual(status, 200, `${path} ${text}`)
          for (const word of said.split(" ")) assert.include(text, word, path)
          const { body: sent, path: sentTo } = alone.requests.at(-1)!
          assert.strictEqual(sentTo, "/v1/responses")
          assert.isAtLeast(sent.max_output_tokens, 1, path)
        }
        const charge = { amount: String(costNanoUsd), state: "settled", method: "provider_usage" }
        assert.deepStrictEqual(
          yield* charges(service, tenantId),
          requests.map(() => charge)
        )
      }).pipe(Effect.scoped)
    )

    for (const stream of [false, true]) {
      const kind = stream ? "streamed" : "whole"

      it.effect(`is one target of several, which answer for each other, ${kind}`, () =>
        Effect.gen(function* () {
          const { alone, chat, key, service } = yield* setUp(failing())
          const path = "/v1/chat/completions"
          const first = yield* readAll(service, key, path, { model: "first", stream, ...question })
          assert.deepStrictEqual([first.status, alone.requests.length, chat.requests.length], [200, 1, 1])
          for (const word of said.split(" ")) assert.include(first.text, word)
          alone.answer = makeResponsesVendor()
          chat.answer = unavailable
          const last = yield* readAll(service, key, path, { model: "last", stream, ...question })
          assert.deepStrictEqual([last.status, alone.requests.length, chat.requests.length], [200, 2, 2])
          for (const word of said.split(" ")) assert.include(last.text, word)
          // A caller of the Responses API has it as its own; where that fails, it is not asked again in another format.
          alone.answer = unavailable
          chat.answer = openAiVendor
          const asked = { model: "first", input: "Hi", stream }
          const native = yield* readAll(service, key, "/v1/responses", asked)
          assert.deepStrictEqual([native.status, alone.requests.length, chat.requests.length], [200, 3, 3])
          alone.answer = makeResponsesVendor()
          chat.answer = unavailable
          const bridged = yield* readAll(service, key, "/v1/responses", { ...asked, model: "last" })
          assert.deepStrictEqual([bridged.status, alone.requests.length, chat.requests.length], [200, 4, 4])
          for (const word of said.split(" ")) assert.include(bridged.text, word)
        }).pipe(Effect.scoped)
      )

      it.effect(`fails in the format of its caller, and is charged what it reports, ${kind}`, () =>
        Effect.gen(function* () {
          const { key, service, tenantId } = yield* setUp(failing({ usage }))
          const body = { model: "alone", stream, max_tokens: 1000, ...question }
          for (const path of ["/v1/chat/completions", "/v1/messages"]) {
            const { status, text } = yield* readAll(service, key, path, body)
            assert.strictEqual(status, stream ? 200 : 502, text)
            assert.include(text, "It failed.")
          }
          const all = yield* charges(service, tenantId)
          assert.deepStrictEqual(
            all.map(({ amount, method }) => [amount, method]),
            all.map(() => [String(costNanoUsd), "provider_usage"])
          )
          assert.lengthOf(all, 2)
        }).pipe(Effect.scoped)
      )
    }

    it.effect("refuses what its API has nothing like by name, unless another target has", () =>
      Effect.gen(function* () {
        const { alone, chat, key, service, tenantId } = yield* setUp(makeResponsesVendor())
        const stopped = yield* ask(service, key, { model: "alone", stop: ["."], n: 2 })
        assert.deepInclude(stopped.body.error, { param: "n", type: "invalid_request_error" })
        assert.include(stopped.body.error.message, "stop: ")
        assert.strictEqual(stopped.status, 400)
        assert.isEmpty(alone.requests)
        assert.deepStrictEqual(
          (yield* charges(service, tenantId)).map(({ amount }) => amount),
          ["0"]
        )
        const other = yield* ask(service, key, { model: "first", stop: ["."] })
        assert.deepStrictEqual([other.status, alone.requests.length, chat.requests.length], [200, 0, 1])
      }).pipe(Effect.scoped)
    )

    it.effect("names a seed that it was not sent", () =>
      Effect.gen(function* () {
        const { key, service } = yield* setUp(makeResponsesVendor())
        for (const stream of [false, true]) {
          const answer = yield* ask(service, key, { model: "alone", seed: 7, stream })
          assert.deepStrictEqual([answer.status, answer.headers.get("x-omitted-members")], [200, "seed"])
        }
        const without = yield* ask(service, key, { model: "alone" })
        assert.isNull(without.headers.get("x-omitted-members"))
        const other = yield* ask(service, key, { model: "last", seed: 7 })
        assert.isNull(other.headers.get("x-omitted-members"))
      }).pipe(Effect.scoped)
    )
  }
)
