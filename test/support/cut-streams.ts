import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { charges, configure, costNanoUsd, counters, model, prices, provider, spender } from "./gateway.ts"
import { type Answerer, type ProviderStandIn, startProvider } from "./provider.ts"
import { TestService } from "./service.ts"
import { used } from "./vendors.ts"
import { eventually } from "./waiting.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- events of every dialect
type Json = any

/** A stream that is cut: what is said in it, where it ends, and who ends it. */
export const CutStream = Schema.Struct({
  words: Schema.Array(Schema.String.pipe(Schema.check(Schema.isMaxLength(12)))).pipe(
    Schema.check(Schema.isMinLength(1), Schema.isMaxLength(5))
  ),
  /** In thousandths of its bytes. */
  at: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 1000 }))),
  by: Schema.Literals(["client", "provider", "provider, by a reset"])
})

const data = (value: Json) => `data: ${JSON.stringify(value)}\n\n`
const named = (value: Json) => `event: ${value.type}\n${data(value)}`

const completionUsage = {
  prompt_tokens: used.input,
  completion_tokens: used.output,
  total_tokens: used.input + used.output,
  prompt_tokens_details: { cached_tokens: used.cached }
}
const inputUsage = {
  input_tokens: used.input - used.cached,
  cache_read_input_tokens: used.cached,
  cache_creation_input_tokens: 0
}
const response = { id: "resp_1", object: "response", model: "m", output: [] }

/** What each kind of provider streams. */
const streams = {
  chat: (words: ReadonlyArray<string>) => [
    ...words.map((content) => data({ id: "c", choices: [{ index: 0, delta: { content }, finish_reason: null }] })),
    data({ id: "c", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
    data({ id: "c", choices: [], usage: completionUsage }),
    "data: [DONE]\n\n"
  ],
  completions: (words: ReadonlyArray<string>) => [
    ...words.map((text) => data({ id: "c", choices: [{ index: 0, text, finish_reason: null }] })),
    data({ id: "c", choices: [{ index: 0, text: "", finish_reason: "stop" }] }),
    data({ id: "c", choices: [], usage: completionUsage }),
    "data: [DONE]\n\n"
  ],
  anthropic: (words: ReadonlyArray<string>) => [
    named({
      type: "message_start",
      message: { id: "m", role: "assistant", content: [], usage: { ...inputUsage, output_tokens: 1 } }
    }),
    named({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
    ...words.map((text) => named({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })),
    named({ type: "content_block_stop", index: 0 }),
    named({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: used.output } }),
    named({ type: "message_stop" })
  ],
  responses: (words: ReadonlyArray<string>) => [
    named({ type: "response.created", sequence_number: 0, response: { ...response, status: "in_progress" } }),
    ...words.map((delta) =>
      named({ type: "response.output_text.delta", item_id: "msg_1", output_index: 0, content_index: 0, delta })
    ),
    named({
      type: "response.completed",
      response: {
        ...response,
        status: "completed",
        usage: {
          input_tokens: used.input,
          input_tokens_details: { cached_tokens: used.cached },
          output_tokens: used.output
        }
      }
    })
  ]
}
type Kind = keyof typeof streams

const question = { messages: [{ role: "user", content: "Hi" }], max_tokens: 500 }

/** The ways through the gateway: what the caller asks for, and what the provider speaks. */
export const ways: Readonly<Record<string, { readonly path: string; readonly behind: Kind; readonly body: object }>> = {
  "chat completions": {
    path: "/v1/chat/completions",
    behind: "chat",
    body: { ...question, stream_options: { include_usage: true } }
  },
  "chat completions without usage": { path: "/v1/chat/completions", behind: "chat", body: question },
  "chat completions of Anthropic's": { path: "/v1/chat/completions", behind: "anthropic", body: question },
  messages: { path: "/v1/messages", behind: "anthropic", body: question },
  "messages of OpenAI's": { path: "/v1/messages", behind: "chat", body: question },
  "responses, native": { path: "/v1/responses", behind: "responses", body: { input: "Hi", max_output_tokens: 500 } },
  "responses by chat completions": {
    path: "/v1/responses",
    behind: "chat",
    body: { input: "Hi", max_output_tokens: 500 }
  },
  "responses by messages": {
    path: "/v1/responses",
    behind: "anthropic",
    body: { input: "Hi", max_output_tokens: 500 }
  },
  "text completions": { path: "/v1/completions", behind: "completions", body: { prompt: "Hi", max_tokens: 500 } }
}

/** What the provider's complete events say of the answer. */
const told = (sent: string) => {
  const events: ReadonlyArray<Json> = sent
    .split("\n\n")
    .slice(0, -1)
    .flatMap((event) => {
      const line = event.split("\n").find((one) => one.startsWith("data: {"))
      return line === undefined ? [] : [JSON.parse(line.slice("data: ".length))]
    })
  let isFinished = false
  let hasUsage = false
  let hasInput = false
  let bytes = 0
  for (const { choices, delta, response: whole, type, usage } of events) {
    const [choice] = choices ?? []
    const text = choice?.delta?.content ?? choice?.text ?? (typeof delta === "string" ? delta : delta?.text) ?? ""
    bytes += Buffer.byteLength(text)
    isFinished ||= Boolean(choice?.finish_reason ?? delta?.stop_reason) || whole?.usage !== undefined
    hasUsage ||= usage !== undefined || whole?.usage !== undefined
    hasInput ||= type === "message_start"
  }
  return { isFinished, hasUsage: hasUsage && isFinished, hasInput, bytes }
}

const bytesPerToken = 3

/** The charge that the contract names for what a provider has sent. */
const expected = (sent: string, by: (typeof CutStream.Type)["by"]) => {
  const { bytes, hasInput, hasUsage, isFinished } = told(sent)
  // A caller that leaves after the end has the rest read for it.
  if (hasUsage || (by === "client" && isFinished)) return { method: "provider_usage", amount: String(costNanoUsd) }
  // A provider that closes its stream in order and has told nothing gave no answer.
  if (by === "provider" && bytes === 0 && !hasInput) return { state: "released", method: "released", amount: "0" }
  const said = Math.ceil(bytes / bytesPerToken)
  const input = hasInput
    ? (used.input - used.cached) * prices.inputUsdPerMTok * 1000 + used.cached * prices.cacheReadUsdPerMTok * 1000
    : Math.ceil("Hi".length / bytesPerToken) * prices.inputUsdPerMTok * 1000
  const output = Math.max(hasInput ? 1 : 0, said) * prices.outputUsdPerMTok * 1000
  return { method: by === "client" ? "aborted" : "estimated", amount: String(input + output) }
}

/** One provider of each kind, all of them at one address. */
export const setUpCuts = Effect.gen(function* () {
  const service = yield* TestService
  const standIn = yield* startProvider(() => {})
  const apis: Readonly<Record<Kind, object>> = {
    chat: { apis: ["chat"] },
    completions: { apis: ["completions"] },
    responses: { apis: ["responses"] },
    anthropic: { dialect: "anthropic", baseUrl: standIn.url }
  }
  yield* configure(
    service,
    Object.entries(apis).map(([kind, members]) => provider(kind, standIn, members)),
    Object.keys(apis).map((kind) => model(kind, [kind]))
  )
  return standIn
})

/** Makes a call whose stream is cut, and checks that its hold is closed once, with the charge that the contract names. */
export const checkCut = (
  standIn: ProviderStandIn,
  { behind, body, path }: (typeof ways)[string],
  { at, by, words }: typeof CutStream.Type
) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
    const whole = Buffer.from(streams[behind](words).join(""))
    // A client has to receive something before it can leave: the first event, and the first words.
    const least = by === "client" ? streams[behind](words).slice(0, 3).join("").length + 1 : 1
    const cut = Math.max(Math.min(least, whole.length), Math.floor((whole.length * at) / 1000))
    const sent = whole.subarray(0, cut)
    const gate = Promise.withResolvers<void>()
    const answer: Answerer = (_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" })
      if (by === "provider") response.end(sent)
      else if (by === "client") {
        response.write(sent)
        void gate.promise.then(() => response.end(whole.subarray(cut)))
      } else response.write(sent, () => void setImmediate(() => response.destroy()))
    }
    standIn.answer = answer
    yield* Effect.promise(async () => {
      const controller = new AbortController()
      const received = await fetch(`${service.url}${path}`, {
        method: "POST",
        signal: controller.signal,
        headers: { "x-api-key": key, "content-type": "application/json" },
        body: JSON.stringify({ model: behind, stream: true, ...body })
      })
      try {
        for await (const _ of received.body ?? []) if (by === "client") break
      } catch {
        // A broken stream may break its caller's too.
      }
      controller.abort()
    })
    // Once these are answered, the service knows that the caller is gone.
    if (by === "client") for (let times = 0; times < 2; times++) yield* service.call("GET", "/health")
    gate.resolve()
    const all = yield* eventually(charges(service, tenantId), (rows) =>
      rows.every(({ state }) => state === "settled" || state === "released")
    )
    assert.deepStrictEqual(all, [{ state: "settled", ...expected(sent.toString("utf8"), by) }])
    const [counter] = yield* counters(service, tenantId)
    assert.deepStrictEqual(counter, { reserved: "0", spent: all[0]?.amount ?? "" })
  })
