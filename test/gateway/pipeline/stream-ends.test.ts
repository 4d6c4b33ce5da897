import Anthropic from "@anthropic-ai/sdk"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { anthropicMessages } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { type Dialect, noUsage } from "../../../src/gateway/formats/domain.ts"
import { EventReader } from "../../../src/gateway/formats/event-reader.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { openAiResponses } from "../../../src/gateway/formats/openai-responses/format.ts"
import { StreamTransformer } from "../../../src/gateway/pipeline/stream-transformer.ts"
import { chatFormats } from "../../support/formats.ts"
import { charges, configure, model, prices, provider, readAll, spender } from "../../support/gateway.ts"
import { type Answerer, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { readableSeal } from "../../support/turn-seals.ts"

const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const named = (value: { readonly type: string; readonly [member: string]: unknown }) =>
  `event: ${value.type}\n${data(value)}`
const chunk = (delta: object, finish_reason: string | null = null, members: object = {}) =>
  data({ id: "c", model: "m", choices: [{ index: 0, delta, finish_reason }], ...members })
const usage = { prompt_tokens: 1000, completion_tokens: 50, total_tokens: 1050 }
const used = data({ id: "c", model: "m", choices: [], usage })
const done = "data: [DONE]\n\n"
const call = {
  role: "assistant",
  tool_calls: [{ index: 0, id: "t", type: "function", function: { name: "f", arguments: '{"ü":1}' } }]
}
const text = chunk({ role: "assistant", content: "It’s noon." })
const stop = chunk({}, "stop")

const messageUsage = { input_tokens: 1000, output_tokens: 50 }
const message = [
  named({ type: "message_start", message: { id: "m", role: "assistant", content: [], usage: messageUsage } }),
  named({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
  named({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "It’s noon." } }),
  named({ type: "content_block_stop", index: 0 })
].join("")
const messageDelta = named({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 50 } })
const messageStop = named({ type: "message_stop" })

const response = { id: "resp_1", object: "response", status: "in_progress", output: [] }
const created = named({ type: "response.created", sequence_number: 0, response })
const delta = named({ type: "response.output_text.delta", sequence_number: 1, item_id: "m_1", delta: "It’s noon." })
const responseUsage = { input_tokens: 1000, output_tokens: 50, total_tokens: 1050 }
const ended = (status: string) =>
  named({
    type: `response.${status}`,
    sequence_number: 2,
    response: {
      ...response,
      status,
      usage: responseUsage,
      ...(status === "failed" ? { error: { message: "Late" } } : {})
    }
  })
const failing = named({ type: "error", sequence_number: 1, code: "server_error", message: "Late" })
const broken = data({ error: { message: "Late", type: "server_error" } })

interface Ending {
  readonly api: "chat" | "messages" | "responses"
  readonly stream: string
  /** Whether the provider failed, and whether what it reports is all that it used. */
  readonly fails?: boolean
  /** What the caller's own dialect has to have at its end. */
  readonly last: RegExp
}

const endings: Readonly<Record<string, Ending>> = {
  "a finish reason, a usage and a terminator": { api: "chat", stream: text + stop + used + done, last: /\[DONE\]$/ },
  "no finish reason": { api: "chat", stream: text + used + done, last: /"finish_reason":"stop".*\n\ndata: \[DONE\]$/ },
  "no finish reason after a call": {
    api: "chat",
    stream: chunk(call) + used + done,
    last: /"finish_reason":"tool_calls".*\n\ndata: \[DONE\]$/
  },
  "a terminator twice, and more": { api: "chat", stream: text + stop + used + done + done + text, last: /\[DONE\]$/ },
  "no terminator": { api: "chat", stream: text + chunk({}, "stop", { usage }), last: /"usage":\{[^\n]*$/ },
  "an error and a terminator": {
    api: "chat",
    stream: text + broken + done,
    fails: true,
    last: /"Late".*\n\ndata: \[DONE\]$/
  },
  "a message_stop": { api: "messages", stream: message + messageDelta + messageStop, last: /"message_stop"\}$/ },
  "no message_stop": { api: "messages", stream: message + messageDelta, last: /"message_stop"\}$/ },
  "a message_stop, and a terminator": {
    api: "messages",
    stream: message + messageDelta + messageStop + done,
    last: /"message_stop"\}$/
  },
  "a terminator alone": { api: "messages", stream: message + messageDelta + done, last: /"message_stop"\}$/ },
  "a completed response, and a terminator": {
    api: "responses",
    stream: created + delta + ended("completed") + done,
    last: /"status":"completed".*$/
  },
  "an incomplete response": {
    api: "responses",
    stream: created + delta + ended("incomplete"),
    last: /"incomplete".*$/
  },
  "an error, and a failed response": {
    api: "responses",
    stream: created + failing + ended("failed") + done,
    fails: true,
    last: /"type":"error"[^]*"response.failed".*$/
  }
}

const formats = { chat: openAiChat, responses: openAiResponses, messages: anthropicMessages }

/** What a caller gets of a stream that arrives in these parts, and what is known of it. */
const relayed = (api: Ending["api"], to: Dialect, parts: ReadonlyArray<Uint8Array>) => {
  const transformer = new StreamTransformer({
    from: formats[api],
    to: to === formats[api].dialect ? formats[api] : chatFormats[to],
    head: { id: "c", model: "m", createdSeconds: 17 },
    seal: readableSeal,
    includeUsage: true,
    keepsWords: false,
    writeError: ({ message }) => `data: ${message}\n\n`
  })
  const passed: Array<Uint8Array> = []
  for (const part of parts) {
    if (transformer.done) break
    passed.push(transformer.push(part))
  }
  passed.push(transformer.end({ ...noUsage, inputTokens: 1, outputTokens: 1 }, undefined))
  const { failure, finished, isCounted, usage } = transformer
  return { text: Buffer.concat(passed).toString("utf8"), failure, finished, isCounted, usage }
}

const chopped = (bytes: Uint8Array, size: number) =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.subarray(at * size, (at + 1) * size))

const between = (events: string) => `\u{FEFF}${events.replaceAll("\n\n", "\n\n: still there\n\nevent: odd\n\n")}`

const eventsOf = (all: string) => new EventReader().push(Buffer.from(all)).map((event) => event.data)

const withoutPings = (all: ReadonlyArray<string>) => all.filter((event) => event !== '{"type":"ping"}')

describe("a stream ends in the same way, wherever the network cuts it", () => {
  for (const [what, { api, fails = false, last, stream }] of Object.entries(endings)) {
    for (const to of api === "responses" ? (["openai"] as const) : (["openai", "anthropic"] as const)) {
      for (const [lineEnd, name] of [
        ["\n", "line feeds"],
        ["\r\n", "both"],
        ["\r", "carriage returns"]
      ] as const) {
        it(`with ${what}, told in ${to}'s dialect, its lines ending in ${name}`, () => {
          const bytes = Buffer.from(stream.replaceAll("\n", lineEnd))
          const whole = relayed(api, to, [bytes])
          assert.deepStrictEqual(
            [whole.finished, whole.failure?.message, whole.usage?.inputTokens, whole.usage?.outputTokens],
            [
              !fails || api === "responses",
              fails ? "Late" : undefined,
              ...(fails && api === "chat" ? [undefined, undefined] : [1000, 50])
            ]
          )
          if (api === "responses" || (api === "messages") === (to === "anthropic")) {
            assert.match(whole.text.replaceAll(/\r\n?/g, "\n").trimEnd(), last)
            // Each event that is passed on is whole.
            const read = new EventReader()
            for (const { data } of [...read.push(Buffer.from(whole.text)), ...read.end()]) {
              if (data !== "[DONE]") JSON.parse(data)
            }
          }
          for (let at = 1; at < bytes.length; at++) {
            assert.deepStrictEqual(relayed(api, to, [bytes.subarray(0, at), bytes.subarray(at)]), whole, `cut at ${at}`)
          }
          for (const size of [1, 2, 3]) assert.deepStrictEqual(relayed(api, to, chopped(bytes, size)), whole, `${size}`)
        })
      }
    }
  }

  it("whatever is between its events, and before them", () => {
    const bytes = Buffer.from(between(text + stop + used + done))
    for (const to of ["openai", "anthropic"] as const) {
      const plain = relayed("chat", to, [Buffer.from(text + stop + used + done)])
      for (const size of [1, 2, 3, 7, bytes.length]) {
        const odd = relayed("chat", to, chopped(bytes, size))
        assert.deepStrictEqual(withoutPings(eventsOf(odd.text)), eventsOf(plain.text), `${size}`)
        assert.deepStrictEqual([odd.finished, odd.usage], [true, plain.usage])
      }
    }
  })

  it("and one that ends in the middle of a text is broken off", () => {
    for (const [api, stream] of [
      ["chat", text],
      ["messages", message],
      ["responses", created + delta]
    ] as const) {
      const { finished, text: told } = relayed(api, api === "messages" ? "anthropic" : "openai", [Buffer.from(stream)])
      assert.isFalse(finished)
      assert.include(told, "The provider broke its answer off.")
    }
  })
})

const cost = String(1000 * prices.inputUsdPerMTok * 1000 + 50 * prices.outputUsdPerMTok * 1000)
const messages = [{ role: "user" as const, content: "Hi" }]

/** Sends each part as a packet of its own, and ends, or breaks the connection. */
const sending =
  (parts: ReadonlyArray<string>, reset = false): Answerer =>
  (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" })
    response.socket?.setNoDelay(true)
    const next = ([part, ...more]: ReadonlyArray<string>) => {
      if (part !== undefined) response.write(part, () => setImmediate(next, more))
      else if (reset) response.destroy()
      else response.end()
    }
    next(parts)
  }

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a stream that has ended", (it) => {
  const setUp = Effect.fnUntraced(function* (answer: Answerer) {
    const service = yield* TestService
    const standIn = yield* startProvider(answer)
    yield* configure(
      service,
      [
        provider("chat", standIn, { apis: ["chat"] }),
        provider("responses", standIn, { apis: ["responses"] }),
        provider("messages", standIn, { dialect: "anthropic", baseUrl: standIn.url })
      ],
      ["chat", "responses", "messages"].map((name) => model(name, [name]))
    )
    return { service, ...(yield* spender(service, [{ limit: 1, mode: "soft" }])) }
  })
  const bodies = {
    "/v1/chat/completions": { messages, stream_options: { include_usage: true } },
    "/v1/messages": { messages, max_tokens: 100 },
    "/v1/responses": { input: "Hi" }
  }
  const lasts = {
    "/v1/chat/completions": /\[DONE\]|"usage":\{/,
    "/v1/messages": /message_stop/,
    "/v1/responses": /response\.completed/
  }
  const paths = Object.keys(bodies) as ReadonlyArray<keyof typeof bodies>

  for (const [what, kind, parts, reset] of [
    ["without a finish reason", "chat", [text, used, done], false],
    ["without a terminator", "chat", [text, chunk({}, "stop", { usage })], false],
    ["with a usage of its own after its finish reason", "chat", [text, stop, used], false],
    ["and then is reset", "chat", [text, stop, used], true],
    ["without a message_stop", "messages", [message, messageDelta], false],
    ["with a message_stop, and then is reset", "messages", [message, messageDelta, messageStop], true]
  ] as const) {
    it.effect(`${what} is whole for each caller, and charged what it reports`, () =>
      Effect.gen(function* () {
        const { key, service, tenantId } = yield* setUp(sending(parts, reset))
        for (const path of paths) {
          for (const stream of [true, false]) {
            const answer = yield* readAll(service, key, path, { model: kind, stream, ...bodies[path] })
            assert.strictEqual(answer.status, 200, answer.text)
            assert.notInclude(answer.text, '"error":{')
            assert.notInclude(answer.text, "response.failed")
            if (stream) assert.match(answer.text, lasts[path])
            if (stream && path === "/v1/responses") {
              const id = /"id":"(resp_[^"]+)"/.exec(answer.text)?.[1] ?? ""
              const stored = yield* service.call("GET", `/v1/responses/${id}`, { key })
              assert.strictEqual(stored.status, 200, stored.text)
              assert.deepInclude(stored.body, { status: "completed" })
              assert.strictEqual(stored.body.usage.input_tokens, 1000)
            }
          }
        }
        assert.deepStrictEqual(
          (yield* charges(service, tenantId)).map(({ amount, method }) => `${amount} ${method}`),
          Array(paths.length * 2).fill(`${cost} provider_usage`)
        )
      }).pipe(Effect.scoped)
    )
  }

  it.effect("is complete for the vendors' SDKs", () =>
    Effect.gen(function* () {
      let parts: ReadonlyArray<string> = [chunk(call), used, done]
      const { key, service } = yield* setUp((request, response) => sending(parts)(request, response))
      const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
      const claude = new Anthropic({ baseURL: service.url, apiKey: key, maxRetries: 0 })
      const completion = yield* Effect.promise(() =>
        client.chat.completions.stream({ model: "chat", messages }).finalChatCompletion()
      )
      assert.strictEqual(completion.choices[0]?.finish_reason, "tool_calls")
      parts = [text, chunk({}, "stop", { usage })]
      const responded = yield* Effect.promise(() =>
        client.responses.stream({ model: "chat", input: "Hi" }).finalResponse()
      )
      assert.strictEqual(responded.status, "completed")
      assert.strictEqual(responded.output_text, "It’s noon.")
      parts = [message, messageDelta]
      const said = yield* Effect.promise(() =>
        claude.messages.stream({ model: "messages", max_tokens: 100, messages }).finalMessage()
      )
      assert.strictEqual(said.stop_reason, "end_turn")
    }).pipe(Effect.scoped)
  )

  it.effect("with an error has all that its provider sends after it, in one packet or in two", () =>
    Effect.gen(function* () {
      let parts: ReadonlyArray<string> = []
      const { key, service, tenantId } = yield* setUp((request, response) => sending(parts)(request, response))
      const answers: Array<string> = []
      for (parts of [[created + failing + ended("failed")], [created, failing, ended("failed")]]) {
        answers.push(
          (yield* readAll(service, key, "/v1/responses", { model: "responses", stream: true, input: "Hi" })).text
        )
      }
      const without = answers.map((text) => text.replaceAll(/"id":"[^"]+"/g, ""))
      assert.match(
        without[0] ?? "",
        /event: response.created[^]*event: error[^]*event: response.failed[^\n]*\n[^\n]*\n\n$/
      )
      assert.strictEqual(without[1], without[0])
      for (parts of [[text + broken + done], [text, broken, done]]) {
        const { text: told } = yield* readAll(service, key, "/v1/chat/completions", {
          model: "chat",
          stream: true,
          messages
        })
        assert.match(told, /"Late"[^\n]*\n\ndata: \[DONE\]\n\n$/)
      }
      const made = yield* charges(service, tenantId)
      assert.deepStrictEqual(
        made.slice(0, 2).map(({ amount, method }) => `${amount} ${method}`),
        Array(2).fill(`${cost} provider_usage`)
      )
    }).pipe(Effect.scoped)
  )

  it.effect("has nothing after its last event, cut or not", () =>
    Effect.gen(function* () {
      let parts: ReadonlyArray<string> = []
      const { key, service } = yield* setUp((request, response) => sending(parts)(request, response))
      const whole = created + delta + ended("completed")
      for (parts of [[whole], [whole + done], [`${whole}data: [DO`, "NE]\n\n"], [`${whole}data: [DO`], [whole, done]]) {
        const { text: told } = yield* readAll(service, key, "/v1/responses", {
          model: "responses",
          stream: true,
          input: "Hi"
        })
        assert.match(told, /"type":"response.completed"[^\n]*\n\n$/)
      }
      const stopped = message + messageDelta + messageStop
      for (parts of [[stopped], [`${stopped}data: [DO`, "NE]\n\n"], [`${stopped}event: ping\nda`]]) {
        const { text: told } = yield* readAll(service, key, "/v1/messages", {
          model: "messages",
          stream: true,
          ...bodies["/v1/messages"]
        })
        assert.strictEqual(told, stopped)
      }
    }).pipe(Effect.scoped)
  )
})
