import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI, { OpenAIError } from "openai"
import { ResponsesWS } from "openai/resources/responses/ws"
import { makeKey } from "../../support/authority.ts"
import { charges, configure, costNanoUsd, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { sse, startProvider } from "../../support/provider.ts"
import { makeResponsesVendor, responseEvents } from "../../support/responses-vendor.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor, said } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"
import { openSocket, refusedSocket } from "../../support/web-socket.ts"

const setUp = Effect.fnUntraced(function* (caps: ReadonlyArray<object> = [{ limit: 1 }]) {
  const service = yield* TestService
  const native = yield* startProvider(makeResponsesVendor())
  const chat = yield* startProvider(openAiVendor)
  yield* configure(
    service,
    [provider("re", native, { apis: ["chat", "responses"] }), provider("oa", chat, { apis: ["chat"] })],
    [model("native", ["re"], { contextTokens: 10_000 }), model("bridged", ["oa"], { contextTokens: 10_000 })]
  )
  const { key, tenantId } = yield* spender(service, caps)
  const authorization = { authorization: `Bearer ${key}` }
  const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
  return { authorization, chat, client, key, native, service, tenantId }
})

const charged = { amount: String(costNanoUsd), state: "settled", method: "provider_usage" }
const user = (text: string) => ({ type: "message", role: "user", content: text })
const create = (body: object) => ({ type: "response.create", ...body })
const textsOf = (items: ReadonlyArray<{ readonly content: unknown }>) =>
  items.map(({ content }) => (typeof content === "string" ? content : (content as [{ text: string }])[0].text))

/** A turn of OpenAI's SDK: its events, up to the last one. */
const sdkTurn = (socket: ResponsesWS, body: Omit<Parameters<ResponsesWS["send"]>[0], "type">) =>
  Effect.promise(async () => {
    const events = socket.stream()
    socket.send({ type: "response.create", ...body })
    for await (const event of events) {
      if (event.type === "error") throw event.error
      if (event.type === "message" && event.message.type === "response.completed") return event.message.response
    }
    throw new Error("The socket was closed")
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("/v1/responses by WebSocket", (it) => {
  for (const name of ["native", "bridged"] as const) {
    it.effect(`${name}: OpenAI's SDK has turns on one socket, each charged exactly`, () =>
      Effect.gen(function* () {
        const { client, service, tenantId } = yield* setUp()
        const socket = yield* Effect.acquireRelease(
          Effect.sync(() => new ResponsesWS(client)),
          (open) => Effect.sync(() => open.close())
        )
        const first = yield* sdkTurn(socket, { model: name, input: "One" })
        assert.include(JSON.stringify(first.output), said)
        const second = yield* sdkTurn(socket, { model: name, input: "Two", previous_response_id: first.id })
        assert.notStrictEqual(second.id, first.id)
        assert.deepStrictEqual(yield* charges(service, tenantId), [charged, charged])
        const rows = yield* usageRows(service, tenantId)
        assert.strictEqual(new Set(rows.map(({ traceId }) => traceId)).size, 2)
        // What was stored is shown by HTTP, too.
        const stored = yield* Effect.promise(() => client.responses.retrieve(second.id))
        assert.strictEqual(stored.previous_response_id, first.id)
      }).pipe(Effect.scoped)
    )

    it.effect(`${name}: a turn that is not stored goes on from the one before it, on its socket alone`, () =>
      Effect.gen(function* () {
        const { authorization, chat, native, service, tenantId } = yield* setUp()
        const standIn = name === "native" ? native : chat
        const socket = yield* openSocket(service.url, authorization)
        const body = { model: name, store: false, stream: true }
        const warm = yield* socket.turn(create({ ...body, generate: false, input: [user("Rules")] }))
        assert.deepStrictEqual(
          warm.map(({ type }) => type),
          ["response.created", "response.in_progress", "response.completed"]
        )
        const { id, output, usage } = warm.at(-1).response
        assert.deepStrictEqual([output, usage.total_tokens], [[], 0])
        assert.deepStrictEqual(yield* charges(service, tenantId), [])
        assert.lengthOf(standIn.requests, 0)

        const first = yield* socket.turn(create({ ...body, previous_response_id: id, input: [user("One")] }))
        const second = yield* socket.turn(
          create({ ...body, previous_response_id: first.at(-1).response.id, input: [user("Two")] })
        )
        assert.strictEqual(second.at(-1).type, "response.completed")
        const sent = standIn.requests.map(({ body: { input, messages } }) => textsOf(input ?? messages))
        assert.deepStrictEqual(sent, [
          ["Rules", "One"],
          ["Rules", "One", said, "Two"]
        ])
        for (const { body: request } of standIn.requests) {
          assert.notProperty(request, "generate")
          assert.notProperty(request, "type")
          assert.strictEqual(request.stream, true)
        }
        assert.deepStrictEqual(yield* charges(service, tenantId), [charged, charged])

        // A provider of this kind stores what it is asked not to.
        if (name === "native") return
        const other = yield* openSocket(service.url, authorization)
        const [lost] = yield* other.turn(
          create({ ...body, previous_response_id: second.at(-1).response.id, input: [user("Three")] })
        )
        assert.deepInclude(lost, { type: "error", status: 400 })
        assert.deepInclude(lost.error, { code: "previous_response_not_found", param: "previous_response_id" })
      }).pipe(Effect.scoped)
    )
  }

  it.effect("what a hard cap refuses is an error that OpenAI's SDK reads, after which the socket goes on", () =>
    Effect.gen(function* () {
      const { client, native, service, tenantId } = yield* setUp([{ limit: 0.01 }])
      const socket = yield* Effect.acquireRelease(
        Effect.sync(() => new ResponsesWS(client)),
        (open) => Effect.sync(() => open.close())
      )
      const refused = yield* Effect.flip(
        Effect.tryPromise({
          try: () => Effect.runPromise(sdkTurn(socket, { model: "native", input: "One", max_output_tokens: 9000 })),
          catch: (error) => error as { readonly error: { readonly status: number; readonly error: object } }
        })
      ).pipe(Effect.orDie)
      assert.instanceOf(refused, OpenAIError)
      assert.strictEqual(refused.error.status, 402)
      assert.deepInclude(refused.error.error, { type: "insufficient_quota", code: "request_exceeds_budget" })
      assert.notInclude(
        native.requests.map(({ path }) => path),
        "/v1/responses"
      )
      yield* sdkTurn(socket, { model: "native", input: "One", max_output_tokens: 100 })
      assert.deepStrictEqual(yield* charges(service, tenantId), [charged])
    }).pipe(Effect.scoped)
  )

  it.effect("answers what is no request with the error of HTTP, and goes on", () =>
    Effect.gen(function* () {
      const { authorization, service } = yield* setUp()
      const socket = yield* openSocket(service.url, authorization)
      const cases: ReadonlyArray<readonly [message: object | string, status: number, code: string]> = [
        ["{", 400, "invalid_json"],
        ["[]", 400, "invalid_json"],
        ["", 400, "invalid_json"],
        [`{"type":"response.create","type":"response.create"}`, 400, "invalid_json"],
        [`{"type":"response.create","input":${"[".repeat(5000)}${"]".repeat(5000)}}`, 400, "invalid_json"],
        [{ type: "response.steer", input: "Left" }, 400, "invalid_request"],
        [{ type: "response.cancel" }, 400, "invalid_request"],
        [{ model: "native", input: "a" }, 400, "invalid_request"],
        [create({ model: "native", input: "a", background: true }), 400, "invalid_request"],
        [create({ model: "native", input: "a", generate: false, background: true }), 400, "invalid_request"],
        [create({ model: "nothing", input: "a" }), 404, "model_not_found"],
        [create({ model: "nothing", input: "a", generate: false }), 404, "model_not_found"],
        [create({ model: "bridged", input: 7 }), 400, "invalid_request"]
      ]
      for (const [message, status, code] of cases) {
        const [error] = yield* socket.turn(message)
        assert.deepStrictEqual(
          [error.type, error.status, error.error.code],
          ["error", status, code],
          error.error.message
        )
        assert.match(error.headers["request-id"], /./)
      }
      socket.send({ type: "response.processed", response_id: "resp_1" })
      const whole = yield* socket.turn(create({ model: "native", input: "One" }))
      assert.strictEqual(whole[0].type, "response.created")
    }).pipe(Effect.scoped)
  )

  it.effect("makes one response at a time", () =>
    Effect.gen(function* () {
      const { authorization, native, service, tenantId } = yield* setUp()
      const vendor = native.answer
      const held: Array<() => void> = []
      native.answer = (request, response) => void held.push(() => vendor(request, response))
      const socket = yield* openSocket(service.url, authorization)
      socket.send(create({ model: "native", input: "One" }))
      yield* eventually(
        Effect.sync(() => held.length),
        (count) => count === 1
      )
      for (const message of [create({ model: "native", input: "Two" }), { type: "response.steer" }]) {
        socket.send(message)
        const error = yield* socket.next
        assert.deepStrictEqual([error.type, error.status, error.error.code], ["error", 400, "response_in_progress"])
      }
      held[0]!()
      assert.strictEqual((yield* socket.next).type, "response.created")
      yield* eventually(charges(service, tenantId), (all) => all.length === 1 && all[0]!.state === "settled")
      assert.lengthOf(native.requests, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("a client that leaves is one that left a stream: what was said is charged, and the provider stops", () =>
    Effect.gen(function* () {
      const { authorization, native, service, tenantId } = yield* setUp()
      native.answer = ({ body }, response) => {
        const events = responseEvents({
          id: `resp_${"0".repeat(50)}`,
          model: body.model,
          status: "completed",
          output: [
            { id: `msg_${"0".repeat(50)}`, type: "message", content: [{ type: "output_text", text: "A few words" }] }
          ]
        })
        sse(response, events.slice(0, 5))
      }
      const socket = yield* openSocket(service.url, authorization)
      socket.send(create({ model: "native", input: "One" }))
      let last = yield* socket.next
      while (last.type !== "response.output_text.delta") last = yield* socket.next
      socket.socket.terminate()
      yield* eventually(
        Effect.sync(() => native.aborted),
        (count) => count === 1
      )
      const [charge] = yield* eventually(
        charges(service, tenantId),
        (all) => all.length === 1 && all[0]!.state === "settled"
      )
      assert.strictEqual(charge?.method, "aborted")
      assert.isAbove(Number(charge?.amount), 0)
      assert.isBelow(Number(charge?.amount), 1e9)
    }).pipe(Effect.scoped)
  )

  it.effect("an answer that breaks off is an error, after which the socket goes on", () =>
    Effect.gen(function* () {
      const { authorization, native, service } = yield* setUp()
      const vendor = native.answer
      const socket = yield* openSocket(service.url, authorization)
      native.answer = (_, response) => {
        sse(response, ['event: response.created\ndata: {"type":"response.created","response":{}}\n\n'])
        response.destroy()
      }
      const broken = yield* socket.turn(create({ model: "native", input: "One" }))
      assert.deepInclude(broken.at(-1), { type: "error", status: 502 })
      assert.isString(broken.at(-1).error.message)
      native.answer = (_, response) => {
        response.writeHead(429, { "content-type": "application/json", "retry-after": "7" })
        response.end(JSON.stringify({ error: { message: "Slower", type: "requests", code: "rate_limit_exceeded" } }))
      }
      const [limited] = yield* socket.turn(create({ model: "native", input: "One" }))
      assert.strictEqual(limited.status, 429)
      assert.strictEqual(limited.headers["retry-after"], "7")
      native.answer = vendor
      assert.strictEqual(
        (yield* socket.turn(create({ model: "native", input: "One" }))).at(-1).type,
        "response.completed"
      )
    }).pipe(Effect.scoped)
  )

  it.effect(
    "closes for bytes with 1003, for a message over 32 MiB with 1009, and for text that is no UTF-8 with 1007",
    () =>
      Effect.gen(function* () {
        const { authorization, service } = yield* setUp()
        const binary = yield* openSocket(service.url, authorization)
        binary.socket.send(Buffer.from("{}"))
        assert.strictEqual((yield* binary.closed).code, 1003)
        const large = yield* openSocket(service.url, authorization)
        large.send(" ".repeat(32 * 2 ** 20 + 1))
        assert.strictEqual((yield* large.closed).code, 1009)
        const fragments = yield* openSocket(service.url, authorization)
        for (let sent = 0; sent <= 32; sent++) fragments.socket.send(" ".repeat(2 ** 20), { fin: false })
        assert.strictEqual((yield* fragments.closed).code, 1009)
        const garbled = yield* openSocket(service.url, authorization)
        garbled.socket.send(Buffer.from([0x7b, 0xff, 0x7d]), { binary: false })
        assert.strictEqual((yield* garbled.closed).code, 1007)
      }).pipe(Effect.scoped)
  )

  it.effect("a request in several frames is one", () =>
    Effect.gen(function* () {
      const { authorization, service } = yield* setUp()
      const socket = yield* openSocket(service.url, authorization)
      const text = JSON.stringify(create({ model: "native", input: "Grüße" }))
      const bytes = Buffer.from(text)
      for (let at = 0; at < bytes.length; at++) {
        socket.socket.send(bytes.subarray(at, at + 1), { binary: false, fin: at === bytes.length - 1 })
        if (at % 10 === 0) socket.socket.ping()
      }
      assert.strictEqual((yield* socket.next).type, "response.created")
    }).pipe(Effect.scoped)
  )

  it.effect("a key that is revoked ends its sockets at the next message, with an error and 1008", () =>
    Effect.gen(function* () {
      const { service, tenantId } = yield* setUp()
      const made = yield* makeKey(service, ["llm:*"], { tenantId })
      const authorization = { authorization: `Bearer ${made.key}` }
      const socket = yield* openSocket(service.url, authorization)
      assert.strictEqual(
        (yield* socket.turn(create({ model: "native", input: "One" }))).at(-1).type,
        "response.completed"
      )
      const revoked = yield* service.call("DELETE", `/api/api-keys/${made.id}`)
      assert.isBelow(revoked.status, 300, revoked.text)
      const [error] = yield* socket.turn(create({ model: "native", input: "Two" }))
      assert.deepStrictEqual([error.status, error.error.type], [401, "authentication_error"])
      assert.strictEqual((yield* socket.closed).code, 1008)
    }).pipe(Effect.scoped)
  )

  it.effect("an agent's token that expires ends its sockets at the next message, with an error and 1008", () =>
    Effect.gen(function* () {
      const { service, tenantId } = yield* setUp()
      const agent = yield* service.call("POST", "/api/agents", {
        body: { name: "voice", scopeCeiling: ["llm:complete"], tenantId }
      })
      const issued = yield* service.call("POST", `/api/agents/${agent.body.id}/credentials`, {
        body: { ttlSeconds: 5 }
      })
      assert.strictEqual(issued.status, 201, issued.text)
      const authorization = { authorization: `Bearer ${issued.body.accessToken}` }
      const socket = yield* openSocket(service.url, authorization)
      assert.strictEqual(
        (yield* socket.turn(create({ model: "native", input: "One" }))).at(-1).type,
        "response.completed"
      )
      yield* eventually(
        service.call("GET", "/api/auth/me", { key: null, headers: authorization }),
        ({ status }) => status === 401
      )
      const [error] = yield* socket.turn(create({ model: "native", input: "Two" }))
      assert.deepStrictEqual([error.status, error.error.type], [401, "authentication_error"])
      assert.strictEqual((yield* socket.closed).code, 1008)
      assert.lengthOf(yield* charges(service, tenantId), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("is refused with 401 where no credential is accepted, and else with 426", () =>
    Effect.gen(function* () {
      const { authorization, service } = yield* setUp()
      const refused = Effect.fnUntraced(function* (headers: Record<string, string>, options?: object) {
        const { headers: got, status, text } = yield* refusedSocket(service.url, headers, options)
        return { got, status, ...JSON.parse(text).error }
      })
      for (const headers of [{}, { authorization: "Bearer amk_nothing" }]) {
        const { got, status, type } = yield* refused(headers)
        assert.deepStrictEqual([status, type], [401, "authentication_error"])
        assert.match(String(got["www-authenticate"]), /^Bearer /)
      }
      const version = yield* refused(authorization, { protocolVersion: 8 })
      assert.deepStrictEqual([version.status, version.got["sec-websocket-version"]], [426, "13"])
      assert.strictEqual(version.got.upgrade, "websocket")
      const origin = yield* refused({ ...authorization, origin: "https://example.com" })
      assert.deepStrictEqual([origin.status, origin.code], [426, "websocket_refused"])
      const { key } = yield* makeKey(service, ["trial-users:read"])
      assert.strictEqual((yield* refused({ authorization: `Bearer ${key}` })).status, 426)
      const got = yield* service.call("GET", "/v1/responses")
      assert.deepStrictEqual([got.status, got.headers.get("allow")], [405, "POST, OPTIONS"])
    }).pipe(Effect.scoped)
  )
})
