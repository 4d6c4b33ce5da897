import { assert, layer } from "@effect/vitest"
import { GoogleGenAI } from "@google/genai"
import { Effect } from "effect"
import { charges, configure, costNanoUsd, model, provider, readAll, spender, usageRows } from "../../support/gateway.ts"
import { type Answerer, startProvider } from "../../support/provider.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { openAiVendor, said } from "../../support/vendors.ts"

const googleError = { error: { code: 429, message: "Quota exceeded", status: "RESOURCE_EXHAUSTED" } }
const openAiError = { error: { message: "Quota exceeded", type: "rate_limit_error", code: "rate_limit_exceeded" } }
const anthropicError = { type: "error", error: { type: "overloaded_error", message: "Quota exceeded" } }

const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const named = (value: { readonly type: string }) => `event: ${value.type}\n${data(value)}`
const message = { id: "m", role: "assistant", content: [], usage: { input_tokens: 10, output_tokens: 1 } }

/** What a provider of each dialect says before it fails, what says nothing, and how its error looks. */
const vendors = {
  gemini: {
    silent: ":\n\n",
    begun: data({ candidates: [{ content: { role: "model", parts: [{ text: "It is" }] }, index: 0 }] }),
    error: googleError
  },
  openai: {
    silent: data({ id: "c", choices: [{ index: 0, delta: { role: "assistant" }, finish_reason: null }] }),
    begun: data({ id: "c", choices: [{ index: 0, delta: { content: "It is" }, finish_reason: null }] }),
    error: openAiError
  },
  anthropic: {
    silent: named({ type: "ping" }),
    begun:
      named({ type: "message_start", message } as { readonly type: string }) +
      named({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } } as never) +
      named({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "It is" } } as never),
    error: anthropicError
  }
}
type Vendor = keyof typeof vendors

/** Sends the pieces one by one, each once the one before was sent, and ends or leaves the connection open. */
const sending =
  (pieces: ReadonlyArray<string>, ends = true): Answerer =>
  (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" })
    const send = ([piece, ...rest]: ReadonlyArray<string>): void => {
      if (piece === undefined) {
        if (ends) response.end()
      } else response.write(piece, () => setImmediate(send, rest))
    }
    send(pieces)
  }

const hi = [{ role: "user", content: "Hi" }]
/** The paths of callers, with their requests for a stream, and what finds the error's message in one. */
const callers = {
  chat: ["/v1/chat/completions", { messages: hi, max_tokens: 30 }],
  "chat with usage": [
    "/v1/chat/completions",
    { messages: hi, max_tokens: 30, stream_options: { include_usage: true } }
  ],
  messages: ["/v1/messages", { messages: hi, max_tokens: 30 }],
  responses: ["/v1/responses", { input: "Hi", max_output_tokens: 30 }],
  "gemini, in events": ["/v1beta/models/m:streamGenerateContent?alt=sse", { contents: [{ parts: [{ text: "Hi" }] }] }],
  "gemini, in an array": ["/v1beta/models/m:streamGenerateContent", { contents: [{ parts: [{ text: "Hi" }] }] }]
} as const
type Caller = keyof typeof callers

const streamed = (service: TestService["Service"], key: string, caller: Caller) => {
  const [path, body] = callers[caller]
  return readAll(service, key, path, path.startsWith("/v1beta") ? body : { model: "m", stream: true, ...body })
}

/** The error in the text of a stream, in its caller's own form; anything else fails. */
const errorIn = (caller: Caller, text: string): { readonly message: string; readonly [member: string]: unknown } => {
  if (caller === "gemini, in an array") return JSON.parse(text).at(-1).error
  const last = text.split(/\r?\n\r?\n/).findLast((part) => part.trim() !== "") ?? ""
  if (caller === "gemini, in events") return JSON.parse(last).error
  const value = JSON.parse(
    last
      .trimStart()
      .replace(/^event: .*\n/, "")
      .replace("data: ", "")
  )
  return value.error ?? value.response.error
}

const setUp = Effect.fnUntraced(function* (vendor: Vendor, second = false) {
  const service = yield* TestService
  const failing = yield* startProvider(() => {})
  const good = yield* startProvider(openAiVendor)
  const baseUrl = { gemini: `${failing.url}/v1beta`, openai: `${failing.url}/v1`, anthropic: failing.url }[vendor]
  const providers = [provider("bad", failing, { dialect: vendor, baseUrl }), provider("good", good)]
  yield* configure(service, providers, [model("m", second ? ["bad", "good"] : ["bad"])])
  return { failing, service, ...(yield* spender(service, [{ limit: 10 }])) }
})

layer(serviceLayer({}), { excludeTestServices: true, timeout: "60 seconds" })(
  "a provider that sends its error without an event",
  (it) => {
    for (const vendor of ["gemini", "openai", "anthropic"] as const) {
      const { begun, error, silent } = vendors[vendor]
      const bare = JSON.stringify(error)
      const pretty = JSON.stringify(error, null, 2)

      it.effect(`${vendor}: is failed over from where it has said nothing, and charged nothing`, () =>
        Effect.gen(function* () {
          const { failing, key, service, tenantId } = yield* setUp(vendor, true)
          const beginnings = [
            [bare],
            [`[${pretty}\n]\n`],
            [silent, bare],
            [silent + bare.slice(0, 9), bare.slice(9), "\n\n"],
            [silent, ...pretty]
          ]
          for (const pieces of beginnings) {
            failing.answer = sending(pieces)
            const { status, text } = yield* streamed(service, key, "chat")
            assert.strictEqual(status, 200, text)
            assert.include(text, "noon", JSON.stringify(pieces))
            assert.notInclude(text, "Quota")
          }
          assert.deepStrictEqual(
            (yield* charges(service, tenantId)).map(({ amount }) => amount),
            beginnings.flatMap(() => ["0", String(costNanoUsd)])
          )
        }).pipe(Effect.scoped)
      )

      it.effect(`${vendor}: is refused with its error's status where no other target can answer, in each format`, () =>
        Effect.gen(function* () {
          const { failing, key, service } = yield* setUp(vendor)
          for (const pieces of [[bare], [silent, `[${bare}]`]]) {
            failing.answer = sending(pieces)
            for (const caller of Object.keys(callers) as ReadonlyArray<Caller>) {
              const { status, text } = yield* streamed(service, key, caller)
              const overloaded = caller === "messages" ? 529 : 503
              assert.strictEqual(status, vendor === "anthropic" ? overloaded : 429, `${caller} ${text}`)
              assert.include(text, "Quota exceeded")
            }
          }
        }).pipe(Effect.scoped)
      )

      it.effect(`${vendor}: is reported by its error to each caller where it has begun, and charged for that`, () =>
        Effect.gen(function* () {
          const { failing, key, service, tenantId } = yield* setUp(vendor)
          const endings: ReadonlyArray<ReadonlyArray<string>> = [
            [begun, bare],
            [begun + bare],
            [`${begun.slice(0, -1)}${pretty}\n\n`],
            [begun, `[${pretty}`, "\n]"],
            [begun.slice(0, 20), begun.slice(20) + bare.slice(0, 30), bare.slice(30, -1), "}\n", "\n"],
            [begun, `,\r\n${pretty.replaceAll("\n", "\r\n")}\r\n]\r\n`]
          ]
          for (const caller of Object.keys(callers) as ReadonlyArray<Caller>) {
            for (const pieces of endings) {
              failing.answer = sending(pieces)
              const { status, text } = yield* streamed(service, key, caller)
              assert.strictEqual(status, 200, text)
              assert.include(text, "It is", `${caller} ${JSON.stringify(pieces)}`)
              assert.include(errorIn(caller, text).message, "Quota exceeded", `${caller} ${text}`)
              assert.notInclude(text, "broke its answer off")
              assert.lengthOf(text.match(/Quota exceeded/g) ?? [], 1, `${caller} ${text}`)
              if (caller.startsWith("gemini") && vendor === "gemini") {
                assert.deepInclude(errorIn(caller, text), { code: 429, status: "RESOURCE_EXHAUSTED" })
              }
            }
          }
          const rows = yield* usageRows(service, tenantId)
          assert.lengthOf(rows, Object.keys(callers).length * endings.length)
          for (const row of rows) {
            assert.deepInclude(row, { method: "estimated", status: vendor === "gemini" ? 429 : 502 })
            assert.isAbove(Number(row.cost), 0)
          }
        }).pipe(Effect.scoped)
      )
    }

    it.effect("is reported to Google's SDK as an error with its code, and not waited for", () =>
      Effect.gen(function* () {
        const { failing, key, service } = yield* setUp("gemini")
        failing.answer = sending([vendors.gemini.begun, JSON.stringify(googleError)], false)
        const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: service.url } })
        const texts: Array<string> = []
        const failure = yield* Effect.promise(async () => {
          const stream = await client.models.generateContentStream({ model: "m", contents: "Hi" })
          try {
            for await (const { text } of stream) texts.push(text ?? "")
            return undefined
          } catch (error) {
            return error as { readonly name: string; readonly status: number }
          }
        })
        assert.deepStrictEqual([texts.join(""), failure?.name, failure?.status], ["It is", "ApiError", 429])
      }).pipe(Effect.scoped)
    )

    it.effect("is failed where a whole answer was asked for, with what it said before charged", () =>
      Effect.gen(function* () {
        const { failing, key, service, tenantId } = yield* setUp("gemini")
        failing.answer = sending([vendors.gemini.begun, `[${JSON.stringify(googleError, null, 2)}]`])
        for (const path of ["/v1/chat/completions", "/v1/messages"]) {
          const { status, text } = yield* readAll(service, key, path, { model: "m", max_tokens: 30, messages: hi })
          assert.strictEqual(status, 429, text)
          assert.include(text, "Quota exceeded")
        }
        for (const { cost } of yield* usageRows(service, tenantId)) assert.isAbove(Number(cost), 0)
      }).pipe(Effect.scoped)
    )

    it.effect("is read in a list also as a whole answer, with its code and the time to wait, whatever its status", () =>
      Effect.gen(function* () {
        const { failing, key, service } = yield* setUp("gemini")
        const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "7s" }]
        for (const received of [200, 429]) {
          failing.answer = (_, response) => {
            response.writeHead(received, { "content-type": "application/json" })
            response.end(JSON.stringify([{ error: { ...googleError.error, details } }], null, 2))
          }
          const { headers, status, text } = yield* streamed(service, key, "chat")
          assert.strictEqual(status, 429, text)
          assert.deepInclude(JSON.parse(text).error, { code: "RESOURCE_EXHAUSTED" })
          assert.include(text, "Quota exceeded")
          assert.strictEqual(headers.get("retry-after"), "7")
        }
      }).pipe(Effect.scoped)
    )

    it.effect("Google's refusal of the gateway's key is no fault of the caller", () =>
      Effect.gen(function* () {
        const { failing, key, service } = yield* setUp("gemini")
        const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }]
        failing.answer = (_, response) => {
          response.writeHead(400, { "content-type": "application/json" })
          response.end(JSON.stringify({ error: { code: 400, message: "API key not valid.", details } }))
        }
        const { status, text } = yield* streamed(service, key, "chat")
        assert.strictEqual(status, 502, text)
        assert.include(text, "refuses the gateway's key")
      }).pipe(Effect.scoped)
    )

    it.effect("whose stream of its own has JSON that is no error between the events passes it on", () =>
      Effect.gen(function* () {
        const { failing, key, service } = yield* setUp("openai")
        const end = data({ id: "c", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })
        failing.answer = sending([vendors.openai.begun, '{"a":1}\n\n', `${end}data: [DONE]\n\n`])
        const { text } = yield* streamed(service, key, "chat with usage")
        assert.include(text, "It is")
        assert.match(text, /data: \[DONE\]\n\n$/)
        assert.notInclude(said, text)
      }).pipe(Effect.scoped)
    )
  }
)
