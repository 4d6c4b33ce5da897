import { assert, layer } from "@effect/vitest"
import { OpenAIRealtimeWebSocket, RealtimeAgent, RealtimeSession, tool } from "@openai/agents/realtime"
import { Effect } from "effect"
import * as net from "node:net"
import * as tls from "node:tls"
import OpenAI from "openai"
import { OpenAIRealtimeWS } from "openai/realtime/ws"
import { makeCertificate } from "../../support/certificate.ts"
import { charges, configure, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { realtimeUsage, startRealtimeVendor } from "../../support/realtime-vendor.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"
import { openSocket, refusedSocket, type TestSocket } from "../../support/web-socket.ts"

const perToken = {
  input: 4000,
  cacheRead: 400,
  output: 16_000,
  audioInput: 32_000,
  audioOutput: 64_000
}

const realtimePrices = {
  inputUsdPerMTok: 4,
  cacheReadUsdPerMTok: 0.4,
  outputUsdPerMTok: 16,
  audioInputUsdPerMTok: 32,
  audioCacheReadUsdPerMTok: 0.5,
  audioOutputUsdPerMTok: 64
}

interface Usage {
  readonly input_token_details: {
    readonly text_tokens: number
    readonly audio_tokens: number
    readonly cached_tokens: number
  }
  readonly output_token_details: { readonly text_tokens: number; readonly audio_tokens: number }
}

const costOf = ({ input_token_details: input, output_token_details: output }: Usage): number =>
  (input.text_tokens - input.cached_tokens) * perToken.input +
  input.cached_tokens * perToken.cacheRead +
  input.audio_tokens * perToken.audioInput +
  output.text_tokens * perToken.output +
  output.audio_tokens * perToken.audioOutput

/** What a response is held for: the whole context, and the longest answer. */
const heldNanoUsd = (output = 4096) => 32_000 * perToken.audioInput + output * perToken.audioOutput

const setUp = Effect.fnUntraced(function* (
  caps: ReadonlyArray<object> = [{ limit: 10 }],
  members: object = {},
  routing: object = {}
) {
  const service = yield* TestService
  const vendor = yield* startRealtimeVendor()
  yield* configure(
    service,
    [provider("rt", vendor, { apiKey: "sk-realtime", apis: ["realtime", "transcriptions"] })],
    [
      model("voice", ["rt"], {
        kind: "realtime",
        prices: realtimePrices,
        contextTokens: 32_000,
        maxOutputTokens: 4096,
        ...members
      }),
      {
        id: "whisper",
        kind: "transcription",
        prices: { inputUsdPerMTok: 0, outputUsdPerMTok: 0, audioSecondUsd: 0.0001 },
        targets: [{ provider: "rt", model: "upstream-whisper" }]
      },
      {
        id: "hearing",
        kind: "transcription",
        prices: { inputUsdPerMTok: 0, outputUsdPerMTok: 0, audioSecondUsd: 0.0001 },
        maxOutputTokens: 2000,
        targets: [{ provider: "rt", model: "gpt-4o-mini-transcribe" }]
      },
      {
        id: "listener",
        kind: "transcription",
        prices: { inputUsdPerMTok: 2.5, audioInputUsdPerMTok: 6, outputUsdPerMTok: 10 },
        maxOutputTokens: 2000,
        targets: [{ provider: "rt", model: "upstream-listener" }]
      }
    ],
    routing
  )
  const { key, tenantId } = yield* spender(service, caps)
  const authorization = { authorization: `Bearer ${key}` }
  const open = (headers: Readonly<Record<string, string>> = authorization) =>
    openSocket(service.url, headers, "/v1/realtime?model=voice")
  return { authorization, key, open, service, tenantId, vendor }
})

/** Events up to one of this type. */
const until = Effect.fnUntraced(function* ({ next }: TestSocket, type: string) {
  const got = [yield* next]
  while (got.at(-1).type !== type) got.push(yield* next)
  return got
})

const speech = { type: "input_audio_buffer.append", audio: Buffer.alloc(48_000, 7).toString("base64") }
const silence = { type: "input_audio_buffer.append", audio: Buffer.alloc(48_000).toString("base64") }
const turns = (create_response: boolean, members: object = {}) => ({
  type: "session.update",
  session: {
    type: "realtime",
    audio: { input: { turn_detection: { type: "server_vad", create_response, ...members } } }
  }
})

const transcribing = (model: string) => ({
  type: "session.update",
  session: { type: "realtime", audio: { input: { transcription: { model } } } }
})

/** A front of the service that speaks TLS, as OpenAI's SDK asks for. */
const withTls = (url: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const { hostname, port } = new URL(url)
      const server = tls.createServer(makeCertificate(), (socket) => {
        const inner = net.connect(Number(port), hostname)
        socket.on("error", () => inner.destroy())
        inner.on("error", () => socket.destroy())
        socket.pipe(inner).pipe(socket)
      })
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      return server
    }),
    (server) => Effect.sync(() => server.close())
  ).pipe(Effect.map((server) => `https://127.0.0.1:${(server.address() as net.AddressInfo).port}`))

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("/v1/realtime", (it) => {
  it.effect(
    "OpenAI's SDK speaks with a model; each response is a call of its own, charged by its classes of tokens",
    () =>
      Effect.gen(function* () {
        const { key, service, tenantId, vendor } = yield* setUp()
        const client = new OpenAI({ baseURL: `${yield* withTls(service.url)}/v1`, apiKey: key })
        const usages = yield* Effect.promise(async () => {
          const socket = new OpenAIRealtimeWS({ model: "voice", options: { rejectUnauthorized: false } }, client)
          const found: Array<Usage> = []
          let audio = 0
          await new Promise<void>((resolve, reject) => {
            socket.on("error", reject)
            socket.on("session.created", ({ session }) => {
              assert.deepInclude(session as object, { model: "voice" })
              assert.notProperty(session, "client_secret")
              socket.send({
                type: "conversation.item.create",
                item: { type: "message", role: "user", content: [{ type: "input_text", text: "What time is it?" }] }
              })
              socket.send({ type: "response.create", response: { instructions: "Be brief" } })
            })
            socket.on("response.output_audio.delta", ({ delta }) => (audio += Buffer.from(delta, "base64").length))
            socket.on("response.done", ({ response }) => {
              assert.strictEqual(response.status, "completed")
              found.push(response.usage as unknown as Usage)
              if (found.length === 2) return resolve()
              socket.send({ type: "response.create" })
            })
          })
          assert.strictEqual(audio, 4 * 4800)
          socket.close()
          return found
        })
        assert.deepStrictEqual(
          yield* charges(service, tenantId),
          usages.map((usage) => ({ amount: String(costOf(usage)), state: "settled", method: "provider_usage" }))
        )
        const rows = yield* usageRows(service, tenantId)
        assert.strictEqual(new Set(rows.map(({ traceId }) => traceId)).size, 2)
        assert.deepInclude(rows[0], { operation: "realtime", dialect: "openai", provider: "rt", status: 200 })
        const [handshake] = vendor.handshakes
        assert.strictEqual(handshake?.headers.authorization, "Bearer sk-realtime")
        assert.notInclude(JSON.stringify(handshake?.headers), key)
        yield* eventually(Effect.sync(vendor.open), (open) => open === 0)
      }).pipe(Effect.scoped)
  )

  it.effect("the gateway makes each response at the end of a turn, once it is held", () =>
    Effect.gen(function* () {
      const { open, service, tenantId, vendor } = yield* setUp()
      const socket = yield* open()
      const created = yield* socket.next
      assert.strictEqual(created.session.audio.input.turn_detection.create_response, true)
      for (const message of [speech, silence]) socket.send(message)
      const first = yield* until(socket, "response.done")
      assert.deepStrictEqual(
        first.map(({ type }) => type),
        [
          "input_audio_buffer.speech_started",
          "input_audio_buffer.speech_stopped",
          "input_audio_buffer.committed",
          "conversation.item.added",
          "response.created",
          "response.output_item.added",
          "conversation.item.added",
          "response.output_audio_transcript.delta",
          "response.output_audio.delta",
          "response.output_audio_transcript.delta",
          "response.output_audio.delta",
          "response.output_item.done",
          "response.done"
        ]
      )
      const sent = vendor.events.filter(({ type }) => type === "response.create")
      assert.deepStrictEqual(
        sent.map(({ response }) => response),
        [{ max_output_tokens: 4096 }]
      )
      const [detection] = vendor.events.map(({ session }) => session?.audio?.input?.turn_detection)
      assert.deepInclude(detection, { type: "server_vad", create_response: false, interrupt_response: true })

      // A client that makes its responses itself.
      socket.send(turns(false))
      const updated = yield* until(socket, "session.updated")
      assert.strictEqual(updated.at(-1).session.audio.input.turn_detection.create_response, false)
      for (const message of [speech, silence]) socket.send(message)
      yield* until(socket, "conversation.item.added")
      socket.send({ type: "response.create", event_id: "mine" })
      const second = yield* until(socket, "response.done")
      assert.deepStrictEqual(
        yield* charges(service, tenantId),
        [first, second].map((events) => ({
          amount: String(costOf(events.at(-1).response.usage)),
          state: "settled",
          method: "provider_usage"
        }))
      )
    }).pipe(Effect.scoped)
  )

  it.effect("a response whose bound exceeds a hard cap is an error that names it; the session goes on", () =>
    Effect.gen(function* () {
      const { open, service, tenantId, vendor } = yield* setUp([{ limit: heldNanoUsd() / 1e9 + 0.02 }])
      const socket = yield* open()
      yield* socket.next
      socket.send({ type: "response.create" })
      yield* until(socket, "response.done")
      let refused: { readonly error: Readonly<Record<string, unknown>> } | undefined
      for (let asked = 0; asked < 20 && refused === undefined; asked++) {
        socket.send({ type: "response.create", event_id: `asked-${asked}`, response: { max_output_tokens: 4096 } })
        for (;;) {
          const event = yield* socket.next
          if (event.type === "error") refused = event
          if (event.type === "error" || event.type === "response.done") break
        }
      }
      assert.deepInclude(refused?.error, { type: "insufficient_quota", code: "request_exceeds_budget" })
      assert.match(String(refused?.error.event_id), /^asked-\d+$/)
      const made = vendor.events.filter(({ type }) => type === "response.create").length
      assert.lengthOf(
        (yield* charges(service, tenantId)).filter(({ state }) => state === "settled"),
        made
      )
      socket.send({ type: "input_audio_buffer.commit", event_id: "later" })
      assert.deepInclude((yield* socket.next).error, { code: "input_audio_buffer_commit_empty", event_id: "later" })
      // A shorter answer has room.
      socket.send({ type: "response.create", response: { max_output_tokens: 100 } })
      const last = yield* until(socket, "response.done")
      assert.strictEqual(last.at(-1).response.usage.output_token_details.audio_tokens, realtimeUsage.audio)
    }).pipe(Effect.scoped)
  )

  it.effect("what has no bound is refused under a hard cap, and charged without one", () =>
    Effect.gen(function* () {
      const beside: ReadonlyArray<object> = [
        { conversation: "none" },
        { input: [] },
        { tools: [{ type: "mcp", server_label: "x", server_url: "https://example.com" }] },
        { prompt: { id: "pmpt_1" } }
      ]
      const hard = yield* setUp()
      const bounded = yield* hard.open()
      yield* bounded.next
      for (const response of beside) {
        bounded.send({ type: "response.create", response })
        const { error } = yield* bounded.next
        assert.deepInclude(error, { type: "permission_error", code: "cost_unbounded" }, JSON.stringify(response))
      }
      bounded.send({ type: "session.update", session: { tools: [{ type: "mcp", server_label: "x" }] } })
      yield* until(bounded, "session.updated")
      bounded.send({ type: "response.create" })
      assert.strictEqual((yield* bounded.next).error.code, "cost_unbounded")
      assert.lengthOf(
        hard.vendor.events.filter(({ type }) => type === "response.create"),
        0
      )
      const soft = yield* setUp([{ limit: 10, mode: "soft" }])
      const socket = yield* soft.open()
      yield* socket.next
      for (const response of beside) {
        socket.send({ type: "response.create", response })
        yield* until(socket, "response.done")
      }
      assert.lengthOf(yield* charges(soft.service, soft.tenantId), beside.length)
    }).pipe(Effect.scoped)
  )

  it.effect("events that the gateway does not know do not pass, however they are written", () =>
    Effect.gen(function* () {
      const { open, vendor } = yield* setUp()
      const socket = yield* open()
      yield* socket.next
      const refusals: ReadonlyArray<readonly [message: string | object, code: string]> = [
        ["no JSON", "invalid_json"],
        ["[]", "invalid_json"],
        [{ type: "transcription_session.update", session: {} }, "unknown_event_type"],
        [{ type: "Response.Create" }, "unknown_event_type"],
        [{ type: "session.update", session: { turn_detection: { create_response: true } } }, "unknown_parameter"],
        [{ type: "session.update", session: { type: "transcription" } }, "invalid_request"],
        [{ type: "session.update", session: { model: "other" } }, "invalid_request"],
        [
          { type: "session.update", session: { audio: { input: { transcription: { language: "en" } } } } },
          "invalid_request"
        ],
        [
          { type: "session.update", session: { audio: { input: { transcription: { model: "nope" } } } } },
          "model_not_found"
        ],
        [turns(true, { idle_timeout_ms: 6000 }), "invalid_request"],
        [{ type: "response.create", response: { modalities: ["text"] } }, "unknown_parameter"],
        [{ type: "response.create", response: { max_output_tokens: 5000 } }, "invalid_request"],
        [{ type: "response.create", event_id: 7 }, "invalid_request"],
        [
          {
            type: "conversation.item.create",
            item: { type: "message", role: "user", content: [{ type: "input_image", file_id: "file-1" }] }
          },
          "not_found"
        ],
        [{ type: "response.create", response: { audio: { output: { voice: { id: "voice_1" } } } } }, "not_found"]
      ]
      for (const [message, code] of refusals) {
        socket.send(message)
        const event = yield* socket.next
        assert.deepInclude(event, { type: "error" }, JSON.stringify(message))
        assert.strictEqual(event.error.code, code, JSON.stringify(message))
      }
      const before = vendor.events.length
      // The last of two members is read, here and there.
      socket.send('{"type":"response.create","type":"input_audio_buffer.clear","session":{"tools":[]}}')
      assert.strictEqual((yield* socket.next).type, "input_audio_buffer.cleared")
      assert.deepStrictEqual(vendor.events.slice(before), [{ type: "input_audio_buffer.clear" }])
    }).pipe(Effect.scoped)
  )

  it.effect("one response is made at a time; its provider's own errors come with the client's ids", () =>
    Effect.gen(function* () {
      const { open, service, tenantId, vendor } = yield* setUp()
      vendor.faults = { holdsEnd: true }
      const socket = yield* open()
      yield* socket.next
      socket.send({ type: "response.create" })
      yield* until(socket, "response.output_audio.delta")
      socket.send({ type: "response.create", event_id: "second" })
      const [active] = (yield* until(socket, "error")).slice(-1)
      assert.deepInclude(active.error, { code: "conversation_already_has_active_response", event_id: "second" })
      socket.send({ type: "response.cancel" })
      const cancelled = (yield* until(socket, "response.done")).at(-1).response
      assert.strictEqual(cancelled.status, "cancelled")
      vendor.faults = { refusesResponses: true }
      socket.send({ type: "response.create", event_id: "third" })
      assert.deepInclude((yield* socket.next).error, { message: "No such voice", event_id: "third" })
      socket.send({ type: "session.update", event_id: "fourth", session: { instructions: "refuse this" } })
      assert.deepInclude((yield* socket.next).error, { message: "Invalid instructions", event_id: "fourth" })
      assert.deepStrictEqual(yield* charges(service, tenantId), [
        { amount: String(costOf(cancelled.usage)), state: "settled", method: "provider_usage" },
        { amount: "0", state: "released", method: "released" }
      ])
    }).pipe(Effect.scoped)
  )

  it.effect("a client that leaves has its response cancelled, and pays what its provider says", () =>
    Effect.gen(function* () {
      const { open, service, tenantId, vendor } = yield* setUp()
      vendor.faults = { holdsEnd: true }
      const socket = yield* open()
      yield* socket.next
      socket.send({ type: "response.create" })
      yield* until(socket, "response.output_audio.delta")
      socket.socket.terminate()
      yield* eventually(Effect.sync(vendor.open), (open) => open === 0)
      assert.strictEqual(vendor.events.at(-1).type, "response.cancel")
      const usage: Usage = {
        input_token_details: { text_tokens: 10, audio_tokens: 0, cached_tokens: 0 },
        output_token_details: { text_tokens: realtimeUsage.text, audio_tokens: realtimeUsage.audio }
      }
      assert.deepStrictEqual(yield* charges(service, tenantId), [
        { amount: String(costOf(usage)), state: "settled", method: "provider_usage" }
      ])
    }).pipe(Effect.scoped)
  )

  it.effect("a provider that cuts a response is charged for what it said, and ends the session", () =>
    Effect.gen(function* () {
      const { open, service, tenantId, vendor } = yield* setUp()
      vendor.faults = { cutsAfter: 4 }
      const socket = yield* open()
      yield* socket.next
      socket.send({ type: "response.create" })
      const events = yield* until(socket, "error")
      assert.strictEqual(events.at(-1).error.message, "The provider ended the session.")
      assert.strictEqual((yield* socket.closed).code, 1011)
      const [charged] = yield* charges(service, tenantId)
      assert.deepInclude(charged, { state: "settled", method: "estimated" })
      // Two tokens of audio were heard, of 4800 bytes, and a few of text.
      assert.isAtLeast(Number(charged?.amount), 2 * perToken.output)
      assert.isBelow(Number(charged?.amount), heldNanoUsd())
    }).pipe(Effect.scoped)
  )

  it.effect("a provider that makes responses unasked is refused, or they are charged", () =>
    Effect.gen(function* () {
      const { authorization, open, service, tenantId, vendor } = yield* setUp()
      vendor.faults = { respondsByItself: true }
      const refused = yield* refusedSocket(service.url, authorization, {}, "/v1/realtime?model=voice")
      assert.strictEqual(refused.status, 502)
      assert.include(refused.text, "The provider rt makes responses")
      vendor.faults = { respondsUnasked: true }
      const socket = yield* open()
      yield* socket.next
      for (const message of [speech, silence]) socket.send(message)
      const done = (yield* until(socket, "response.done")).at(-1).response
      const made = yield* charges(service, tenantId)
      assert.deepStrictEqual(made, [{ amount: String(costOf(done.usage)), state: "settled", method: "provider_usage" }])
    }).pipe(Effect.scoped)
  )

  it.effect("a handshake is refused with the status of a request", () =>
    Effect.gen(function* () {
      const { authorization, key: own, service, vendor } = yield* setUp()
      const refused = (path: string, headers: Readonly<Record<string, string>> = authorization) =>
        refusedSocket(service.url, headers, {}, path)
      const cases = [
        [yield* refused("/v1/realtime?model=voice", {}), 401, "invalid_api_key"],
        [yield* refused("/v1/realtime"), 400, "invalid_request"],
        [yield* refused("/v1/realtime?model=nope"), 404, "model_not_found"],
        [yield* refused("/v1/realtime?model=whisper"), 400, "model_not_supported"],
        [yield* refused("/v1/realtime?call_id=rtc_1"), 400, "invalid_request"]
      ] as const
      for (const [{ status, text }, expected, code] of cases) {
        assert.strictEqual(status, expected, text)
        assert.strictEqual(JSON.parse(text).error.code, code)
      }
      vendor.faults = { refusesWith: 503 }
      assert.strictEqual((yield* refused("/v1/realtime?model=voice")).status, 503)
      const posted = yield* service.call("POST", "/v1/realtime", { key: own, body: { model: "voice" } })
      assert.strictEqual(posted.status, 405)
      // In a browser, whose pages can set no header.
      const { key } = yield* setUp()
      const socket = yield* openSocket(service.url, {}, "/v1/realtime?model=voice", [
        "realtime",
        `openai-insecure-api-key.${key}`
      ])
      assert.strictEqual((yield* socket.next).type, "session.created")
      assert.strictEqual(socket.socket.protocol, "realtime")
    }).pipe(Effect.scoped)
  )

  it.effect(
    "what is said is transcribed by another model, held before it is sent and charged by what is reported",
    () =>
      Effect.gen(function* () {
        const { open, service, tenantId, vendor } = yield* setUp()
        const socket = yield* open()
        yield* socket.next
        socket.send(transcribing("whisper"))
        const updated = (yield* until(socket, "session.updated")).at(-1).session
        assert.strictEqual(updated.audio.input.transcription.model, "whisper")
        assert.strictEqual(vendor.events.at(-1).session.audio.input.transcription.model, "upstream-whisper")
        for (let turn = 0; turn < 2; turn++) {
          for (const message of [speech, silence]) socket.send(message)
          yield* until(socket, "conversation.item.input_audio_transcription.completed")
          yield* until(socket, "response.done")
        }
        const held = (yield* charges(service, tenantId)).filter(({ state }) => state === "open")
        assert.lengthOf(held, 1)
        socket.socket.close()
        yield* eventually(Effect.sync(vendor.open), (left) => left === 0)
        const rows = (yield* usageRows(service, tenantId)).filter(({ operation }) => operation === "transcribe")
        assert.lengthOf(rows, 1)
        assert.deepInclude(rows[0], { provider: "rt", status: 200, method: "provider_usage" })
        const charged = (yield* charges(service, tenantId)).find(({ amount }) => amount === String(4 * 100_000))
        assert.deepInclude(charged, { state: "settled", method: "provider_usage" })
      }).pipe(Effect.scoped)
  )

  it.effect("a transcription that is not held for is not sent; one that was not reported is charged nothing", () =>
    Effect.gen(function* () {
      // 300 seconds of audio are held for.
      const poor = yield* setUp([{ limit: 0.029 }])
      const refused = yield* poor.open()
      yield* refused.next
      refused.send(transcribing("listener"))
      assert.strictEqual((yield* until(refused, "error")).at(-1).error.code, "cost_unbounded")
      refused.send(transcribing("whisper"))
      yield* until(refused, "session.updated")
      refused.send(speech)
      assert.strictEqual((yield* until(refused, "error")).at(-1).error.code, "request_exceeds_budget")
      assert.strictEqual((yield* refused.closed).code, 1008)
      assert.isFalse(poor.vendor.events.some(({ type }) => type === "input_audio_buffer.append"))

      const { open, service, tenantId, vendor } = yield* setUp([{ limit: 10, mode: "soft" }])
      const socket = yield* open()
      yield* socket.next
      socket.send(turns(false))
      yield* until(socket, "session.updated")
      socket.send(transcribing("listener"))
      yield* until(socket, "session.updated")
      for (const message of [speech, silence]) socket.send(message)
      const { usage } = (yield* until(socket, "conversation.item.input_audio_transcription.completed")).at(-1)
      vendor.faults = { transcribesNothing: true }
      socket.send(speech)
      socket.send({ type: "input_audio_buffer.clear" })
      yield* until(socket, "input_audio_buffer.cleared")
      socket.socket.close()
      yield* eventually(Effect.sync(vendor.open), (left) => left === 0)
      assert.deepStrictEqual(yield* charges(service, tenantId), [
        {
          amount: String(usage.input_tokens * 6000 + usage.output_tokens * 10_000),
          state: "settled",
          method: "provider_usage"
        }
      ])
    }).pipe(Effect.scoped)
  )

  it.effect("what is said is held for at the price of the model that transcribes it, whenever that is named", () =>
    Effect.gen(function* () {
      const { open, service, tenantId, vendor } = yield* setUp([{ limit: 10, mode: "soft" }])
      const socket = yield* open()
      yield* socket.next
      socket.send({ type: "session.update", session: { audio: { input: { turn_detection: null } } } })
      yield* until(socket, "session.updated")
      // Said before anything is transcribed.
      socket.send(speech)
      socket.send(transcribing("whisper"))
      yield* until(socket, "session.updated")
      const held = (yield* charges(service, tenantId)).filter(({ state }) => state === "open")
      assert.lengthOf(held, 1)
      socket.send({ type: "input_audio_buffer.commit" })
      yield* until(socket, "conversation.item.input_audio_transcription.completed")
      // Said while another model is to transcribe it.
      socket.send(speech)
      socket.send(transcribing("listener"))
      yield* until(socket, "session.updated")
      socket.send({ type: "input_audio_buffer.commit" })
      const { usage } = (yield* until(socket, "conversation.item.input_audio_transcription.completed")).at(-1)
      socket.socket.close()
      yield* eventually(Effect.sync(vendor.open), (left) => left === 0)
      assert.sameMembers(
        (yield* charges(service, tenantId)).map(({ amount, method }) => `${method} ${amount}`),
        [100_000, usage.input_tokens * 6000 + usage.output_tokens * 10_000].map((cost) => `provider_usage ${cost}`)
      )

      const poor = yield* setUp([{ limit: 0.029 }])
      const refused = yield* poor.open()
      yield* refused.next
      refused.send(speech)
      refused.send(transcribing("whisper"))
      assert.strictEqual((yield* until(refused, "error")).at(-1).error.code, "request_exceeds_budget")
      assert.strictEqual((yield* refused.closed).code, 1008)
      assert.isFalse(poor.vendor.events.some(({ session }) => session?.audio?.input?.transcription !== undefined))
    }).pipe(Effect.scoped)
  )

  it.effect("a response that takes the session's members where it says null is bounded by them", () =>
    Effect.gen(function* () {
      const { open, vendor } = yield* setUp()
      const socket = yield* open()
      yield* socket.next
      socket.send({ type: "session.update", session: { tools: [{ type: "mcp", server_label: "x" }] } })
      yield* until(socket, "session.updated")
      socket.send({ type: "response.create", response: { tools: null } })
      assert.strictEqual((yield* socket.next).error?.code, "cost_unbounded")
      assert.isFalse(vendor.events.some(({ type }) => type === "response.create"))
    }).pipe(Effect.scoped)
  )

  it.effect("a client that leaves before its response has begun has it cancelled, and pays what was used", () =>
    Effect.gen(function* () {
      const { open, service, tenantId, vendor } = yield* setUp()
      vendor.faults = { holdsEnd: true }
      const socket = yield* open()
      yield* socket.next
      socket.send({ type: "response.create" })
      socket.socket.close()
      yield* eventually(Effect.sync(vendor.open), (open) => open === 0)
      assert.strictEqual(vendor.events.at(-1).type, "response.cancel")
      const [charged] = yield* charges(service, tenantId)
      assert.deepInclude(charged, { state: "settled", method: "provider_usage" })
    }).pipe(Effect.scoped)
  )

  it.effect("a usage that cannot be one leaves the estimate of what was heard", () =>
    Effect.gen(function* () {
      for (const usage of [
        null,
        {},
        { input_tokens: -5, output_tokens: -1 },
        { input_tokens: 1e30, output_tokens: 1 }
      ]) {
        const { open, service, tenantId, vendor } = yield* setUp()
        vendor.faults = { usage }
        const socket = yield* open()
        yield* socket.next
        socket.send({ type: "response.create" })
        yield* until(socket, "response.done")
        assert.deepStrictEqual(
          yield* charges(service, tenantId),
          // Two pieces of audio of two tokens each.
          [{ amount: String(4 * perToken.audioOutput), state: "settled", method: "estimated" }],
          JSON.stringify(usage)
        )
      }
    }).pipe(Effect.scoped)
  )

  it.effect("a response that is asked for again has the session that it was bounded by, and is charged once", () =>
    Effect.gen(function* () {
      const { open, service, tenantId, vendor } = yield* setUp(undefined, {}, { retries: 1 })
      vendor.faults = { overloadedTimes: 1 }
      const socket = yield* open()
      yield* socket.next
      socket.send({ type: "response.create" })
      socket.send({ type: "session.update", session: { tools: [{ type: "mcp", server_label: "x" }] } })
      const types = (yield* until(socket, "session.updated")).map(({ type }) => type)
      if (!types.includes("response.done")) yield* until(socket, "response.done")
      assert.notInclude(types, "error")
      assert.deepStrictEqual(
        vendor.events.slice(1).map(({ type }) => type),
        ["response.create", "response.create", "session.update"]
      )
      const [charged, ...others] = yield* charges(service, tenantId)
      assert.deepInclude(charged, { state: "settled", method: "provider_usage" })
      assert.lengthOf(others, 0)
    }).pipe(Effect.scoped)
  )

  it.effect("no error of a provider has the gateway's key, or says that a caller's key or quota is refused", () =>
    Effect.gen(function* () {
      const { authorization, service, vendor } = yield* setUp()
      const errors = [
        [
          { type: "authentication_error", code: "invalid_api_key", message: "Wrong key: sk-realtime" },
          "refuses the gateway's key"
        ],
        [{ type: "insufficient_quota", code: "insufficient_quota", message: "Pay for sk-realtime" }, "not paid for"],
        [{ type: "server_error", code: "odd", message: "No such thing: sk-realtime" }, "No such thing: ***"]
      ] as const
      for (const [beginsWith, message] of errors) {
        vendor.faults = { beginsWith }
        const { status, text } = yield* refusedSocket(service.url, authorization, {}, "/v1/realtime?model=voice")
        assert.strictEqual(status, 502, text)
        assert.include(text, message)
        assert.notInclude(text, "sk-realtime")
      }
    }).pipe(Effect.scoped)
  )

  it.effect("a response that breaks off is charged for the conversation that it read", () =>
    Effect.gen(function* () {
      const { open, service, tenantId, vendor } = yield* setUp()
      const socket = yield* open()
      yield* socket.next
      socket.send({ type: "response.create" })
      const { usage } = (yield* until(socket, "response.done")).at(-1).response
      const content = [{ type: "input_text", text: "word ".repeat(4000) }]
      socket.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } })
      yield* until(socket, "conversation.item.done")
      vendor.faults = { cutsAfter: 0 }
      socket.send({ type: "response.create" })
      yield* socket.closed
      const broken = (yield* charges(service, tenantId)).find(({ method }) => method === "estimated")
      assert.strictEqual(broken?.amount, String((usage.total_tokens + 5000) * perToken.input))
    }).pipe(Effect.scoped)
  )

  it.effect("the end of another response does not end the one in progress", () =>
    Effect.gen(function* () {
      const { open, service, tenantId, vendor } = yield* setUp()
      vendor.faults = { endsOther: { input_tokens: 1, output_tokens: 1 } }
      const socket = yield* open()
      yield* socket.next
      socket.send({ type: "response.create" })
      const { usage } = (yield* until(socket, "response.output_item.done").pipe(
        Effect.andThen(until(socket, "response.done"))
      )).at(-1).response
      assert.deepStrictEqual(yield* charges(service, tenantId), [
        { amount: String(costOf(usage)), state: "settled", method: "provider_usage" }
      ])
    }).pipe(Effect.scoped)
  )

  it.effect("a response is made with the session that it was bounded by", () =>
    Effect.gen(function* () {
      const { open, vendor } = yield* setUp()
      const socket = yield* open()
      yield* socket.next
      const mcp = [{ type: "mcp", server_label: "x", server_url: "https://example.com" }]
      socket.send({ type: "response.create" })
      socket.send({ type: "session.update", session: { tools: mcp } })
      // A turn that ends while the change is on its way.
      for (const message of [speech, silence]) socket.send(message)
      yield* until(socket, "response.done")
      assert.strictEqual((yield* until(socket, "error")).at(-1).error.code, "cost_unbounded")
      assert.deepStrictEqual(
        vendor.events.slice(1).map(({ type }) => type),
        ["response.create", "session.update", "input_audio_buffer.append", "input_audio_buffer.append"]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("a response that was not asked for and has no budget is cancelled, and ends the session", () =>
    Effect.gen(function* () {
      const { open, service, tenantId, vendor } = yield* setUp([{ limit: 0.1 }])
      vendor.faults = { respondsUnasked: true, holdsEnd: true, deltas: 200 }
      const socket = yield* open()
      yield* socket.next
      for (const message of [speech, silence]) socket.send(message)
      assert.strictEqual((yield* until(socket, "error")).at(-1).error.code, "request_exceeds_budget")
      assert.strictEqual((yield* socket.closed).code, 1008)
      yield* eventually(Effect.sync(vendor.open), (left) => left === 0)
      assert.strictEqual(vendor.events.at(-1).type, "response.cancel")
      assert.deepStrictEqual(yield* charges(service, tenantId), [])
    }).pipe(Effect.scoped)
  )

  it.effect("a client that reads nothing holds its provider back, and what it leaves is charged", () =>
    Effect.gen(function* () {
      const { open, service, tenantId, vendor } = yield* setUp()
      vendor.faults = { deltas: 3000 }
      const socket = yield* open()
      yield* socket.next
      socket.send({ type: "response.create" })
      yield* until(socket, "response.created")
      socket.socket.pause()
      yield* eventually(Effect.sync(vendor.waitingBytes), (bytes) => bytes > 1_000_000)
      socket.socket.terminate()
      yield* eventually(Effect.sync(vendor.open), (left) => left === 0)
      const [charged] = yield* charges(service, tenantId)
      assert.deepInclude(charged, { state: "settled", method: "provider_usage" })
    }).pipe(Effect.scoped)
  )

  it.effect("the loopback model says again what it was told, at its simulated price", () =>
    Effect.gen(function* () {
      const { authorization, service, tenantId } = yield* setUp()
      const socket = yield* openSocket(service.url, authorization, "/v1/realtime?model=loopback-1")
      const item = { type: "message", role: "user", content: [{ type: "input_text", text: "Hello there" }] }
      socket.send({ type: "conversation.item.create", item })
      socket.send({ type: "response.create" })
      const events = yield* until(socket, "response.done")
      assert.strictEqual(
        events.flatMap(({ delta, type }) => (type === "response.output_text.delta" ? [delta] : [])).join(""),
        "Hello there"
      )
      const { input_tokens: input, output_tokens: output } = events.at(-1).response.usage
      assert.deepStrictEqual(yield* charges(service, tenantId), [
        { amount: String(1000 * input + 2000 * output), state: "settled", method: "provider_usage" }
      ])
    }).pipe(Effect.scoped)
  )

  it.effect("turns that are refused leave nothing behind that a later response would wait for", () =>
    Effect.gen(function* () {
      const { open, service, tenantId } = yield* setUp([{ limit: 0.1 }])
      const socket = yield* open()
      yield* socket.next
      for (const message of [speech, silence, speech, silence]) socket.send(message)
      yield* until(socket, "error")
      socket.send({ type: "input_audio_buffer.clear" })
      yield* until(socket, "input_audio_buffer.cleared")
      let code: unknown
      for (let asked = 0; asked < 50; asked++) {
        socket.send({ type: "response.create", event_id: "asked" })
        const { error } = (yield* until(socket, "error")).at(-1)
        if (error.event_id !== "asked") continue
        code = error.code
        if (code === "request_exceeds_budget") break
      }
      assert.strictEqual(code, "request_exceeds_budget")
      assert.deepStrictEqual(yield* charges(service, tenantId), [])
    }).pipe(Effect.scoped)
  )

  it.effect("OpenAI's Agents SDK speaks, with its usual model for transcriptions and a tool of its own", () =>
    Effect.gen(function* () {
      const { key, service, tenantId, vendor } = yield* setUp()
      const { history, usage } = yield* Effect.promise(async () => {
        const time = tool({
          name: "get_time",
          description: "The time in a city",
          parameters: { type: "object", properties: {}, required: [], additionalProperties: true },
          strict: false,
          execute: () => "noon"
        })
        const agent = new RealtimeAgent({ name: "Clock", instructions: "Say the time", tools: [time] })
        const url = `${service.url.replace(/^http/, "ws")}/v1/realtime?model=voice`
        const session = new RealtimeSession(agent, { transport: new OpenAIRealtimeWebSocket({ url }), model: "voice" })
        await session.connect({ apiKey: key })
        const answered = new Promise<void>((resolve, reject) => {
          session.on("agent_end", () => resolve())
          session.on("error", ({ error }) => reject(new Error(JSON.stringify(error))))
        })
        session.sendMessage("What time is it?")
        await answered
        session.close()
        return session
      })
      assert.deepStrictEqual(
        history.map((item) => (item.type === "message" ? item.role : item.type)),
        ["user", "assistant"]
      )
      assert.strictEqual(usage.outputTokens, realtimeUsage.text + realtimeUsage.audio)
      const { audio, tools } = vendor.events.findLast(({ session }) => session?.tools !== undefined).session
      assert.strictEqual(audio.input.transcription.model, "gpt-4o-mini-transcribe")
      assert.deepInclude(audio.input.turn_detection, { type: "semantic_vad", create_response: false })
      assert.strictEqual(tools[0].name, "get_time")
      const [charged] = yield* charges(service, tenantId)
      assert.deepInclude(charged, { state: "settled", method: "provider_usage" })
    }).pipe(Effect.scoped)
  )

  it.effect("what a provider says of the gateway's account in a session is told as by HTTP", () =>
    Effect.gen(function* () {
      const { open, vendor } = yield* setUp()
      const socket = yield* open()
      yield* socket.next
      const message = "You exceeded your current quota, organization org-secret"
      vendor.faults = { failsWith: { type: "insufficient_quota", code: "insufficient_quota", message } }
      socket.send({ type: "input_audio_buffer.clear" })
      const { error } = yield* socket.next
      assert.deepInclude(error, { type: "server_error", code: "provider-credentials" })
      assert.notInclude(JSON.stringify(error), "org-secret")
      const prompt = "x".repeat(2001)
      socket.send({
        type: "session.update",
        session: { audio: { input: { transcription: { model: "whisper", prompt } } } }
      })
      assert.match((yield* socket.next).error.message, /prompt: Expected a text of at most 2000 bytes/)
    }).pipe(Effect.scoped)
  )

  it.effect("a response that takes longer than a call may is cancelled at its provider", () =>
    Effect.gen(function* () {
      const { authorization, service, tenantId, vendor } = yield* setUp()
      yield* configure(
        service,
        [provider("rt", vendor, { apiKey: "sk-realtime", apis: ["realtime"] })],
        [
          model("voice", ["rt"], {
            kind: "realtime",
            prices: realtimePrices,
            contextTokens: 32_000,
            maxOutputTokens: 4096
          })
        ],
        { timeoutSeconds: 1 }
      )
      vendor.faults = { holdsEnd: true }
      const socket = yield* openSocket(service.url, authorization, "/v1/realtime?model=voice")
      yield* socket.next
      socket.send({ type: "response.create" })
      yield* until(socket, "error")
      const events = yield* until(socket, "response.done")
      assert.strictEqual(events.at(-1).response.status, "cancelled")
      assert.strictEqual(vendor.events.at(-1).type, "response.cancel")
      const [charged] = yield* charges(service, tenantId)
      assert.deepInclude(charged, { state: "settled", method: "estimated" })
    }).pipe(Effect.scoped)
  )

  it.effect("a turn that ended before a change of the session is answered by the session after it", () =>
    Effect.gen(function* () {
      const { open, vendor } = yield* setUp()
      vendor.faults = { holdsEnd: true }
      const socket = yield* open()
      yield* socket.next
      socket.send(turns(true, { interrupt_response: false }))
      yield* until(socket, "session.updated")
      socket.send({ type: "response.create" })
      yield* until(socket, "response.output_audio.delta")
      for (const message of [speech, silence]) socket.send(message)
      yield* until(socket, "input_audio_buffer.committed")
      // The response ends after the change was sent, and before it is confirmed.
      const confirms: Array<() => void> = []
      vendor.faults = { holdsEnd: true, endsAtUpdate: (confirm) => void confirms.push(confirm) }
      const tools = [{ type: "mcp", server_label: "x", server_url: "https://example.com" }]
      socket.send({ type: "session.update", session: { tools } })
      yield* until(socket, "response.done")
      confirms[0]?.()
      yield* until(socket, "session.updated")
      assert.strictEqual((yield* until(socket, "error")).at(-1).error.code, "cost_unbounded")
      assert.lengthOf(
        vendor.events.filter(({ type }) => type === "response.create"),
        1
      )
    }).pipe(Effect.scoped)
  )
})
