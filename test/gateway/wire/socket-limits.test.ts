import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as net from "node:net"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import { sse, startProvider } from "../../support/provider.ts"
import { exchange, requestText } from "../../support/raw-http.ts"
import { startRealtimeVendor } from "../../support/realtime-vendor.ts"
import { makeResponsesVendor } from "../../support/responses-vendor.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"
import { openSocket, refusedSocket } from "../../support/web-socket.ts"

const setUp = Effect.gen(function* () {
  const service = yield* TestService
  const native = yield* startProvider(makeResponsesVendor())
  const chat = yield* startProvider(openAiVendor)
  yield* configure(
    service,
    [provider("re", native, { apis: ["chat", "responses"] }), provider("oa", chat, { apis: ["chat"] })],
    [model("native", ["re"]), model("bridged", ["oa"])]
  )
  const { key } = yield* spender(service, [])
  return { authorization: { authorization: `Bearer ${key}` }, native, service }
})

const create = (body: object) => ({ type: "response.create", ...body })

const handshakeText = ({ authorization }: { readonly authorization: string }) =>
  requestText("GET", "/v1/responses", [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    `Authorization: ${authorization}`
  ])

/** A connection on which a WebSocket is open, for what no client would send. */
const rawSocket = (url: string, headers: { readonly authorization: string }) =>
  Effect.acquireRelease(
    Effect.callback<net.Socket>((resume) => {
      const { hostname, port } = new URL(url)
      const socket = net.connect(Number(port), hostname)
      socket.on("error", () => {})
      socket.write(handshakeText(headers))
      socket.once("data", () => resume(Effect.succeed(socket)))
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

const untilClosed = (socket: net.Socket) =>
  Effect.callback<void>((resume) => {
    if (socket.closed) return resume(Effect.void)
    socket.once("close", () => resume(Effect.void))
  })

/** A masked frame, without its end where `length` is more than the bytes. */
const frame = (first: number, payload: Uint8Array, length = payload.length) => {
  const head = Buffer.alloc(14)
  head[0] = first
  head[1] = 0x80 | 127
  head.writeBigUInt64BE(BigInt(length), 2)
  return Buffer.concat([head, payload])
}

layer(
  serviceLayer({
    Api__WebSockets__IdleSeconds: "8",
    Api__WebSockets__MaxPerPrincipal: "2",
    Api__RequestTimeoutSeconds: "5",
    Api__Cors__AllowedOrigins: "https://example.com",
    Llm__Gateway__MaxSocketStateBytes: "200"
  }),
  { excludeTestServices: true, timeout: "60 seconds" }
)("limits of WebSockets", (it) => {
  it.effect("a principal has a number of sockets, and a closed one gives its place back", () =>
    Effect.gen(function* () {
      const { authorization, service } = yield* setUp
      const [first] = yield* Effect.all([
        openSocket(service.url, authorization),
        openSocket(service.url, authorization)
      ])
      const { headers, status, text } = yield* refusedSocket(service.url, authorization)
      assert.deepStrictEqual([status, headers.upgrade], [426, "websocket"])
      assert.match(JSON.parse(text).error.message, /2 open WebSockets/)
      // No session is opened at a provider for one that has no place.
      const vendor = yield* startRealtimeVendor()
      yield* configure(
        service,
        [provider("rt", vendor, { apiKey: "sk-realtime", apis: ["realtime"] })],
        [model("voice", ["rt"], { kind: "realtime" })]
      )
      const realtime = yield* refusedSocket(service.url, authorization, {}, "/v1/realtime?model=voice")
      assert.strictEqual(realtime.status, 429, realtime.text)
      assert.isEmpty(vendor.handshakes)
      first.socket.close()
      yield* eventually(
        Effect.exit(Effect.scoped(openSocket(service.url, authorization))),
        ({ _tag }) => _tag === "Success"
      )
    }).pipe(Effect.scoped)
  )

  it.effect("an idle socket is closed, one with a response in progress is not", () =>
    Effect.gen(function* () {
      const { authorization, native, service } = yield* setUp
      const vendor = native.answer
      const finishes: Array<() => void> = []
      native.answer = (_, response) => {
        sse(response, [`event: response.in_progress\ndata: {"type":"response.in_progress","response":{}}\n\n`])
        finishes.push(() => {
          response.end(`event: response.completed\ndata: {"type":"response.completed","response":{"usage":{}}}\n\n`)
        })
      }
      const busy = yield* openSocket(service.url, authorization)
      busy.send(create({ model: "native", input: "One" }))
      assert.strictEqual((yield* busy.next).type, "response.in_progress")
      const idle = yield* openSocket(service.url, authorization)
      assert.deepStrictEqual(yield* idle.closed, { code: 1000, reason: "Nothing was asked for in 8 s." })
      finishes[0]!()
      assert.strictEqual((yield* busy.next).type, "response.completed")
      native.answer = vendor
      assert.strictEqual((yield* busy.closed).code, 1000)
    }).pipe(Effect.scoped)
  )

  it.effect("a message that goes on to arrive too long is cut off", () =>
    Effect.gen(function* () {
      const { authorization, service } = yield* setUp
      const socket = yield* rawSocket(service.url, authorization)
      socket.write(frame(0x81, Buffer.alloc(200_000, " "), 1_000_000))
      const read: Array<Buffer> = []
      socket.on("data", (bytes: Buffer) => void read.push(bytes))
      const pieces = setInterval(() => socket.write(" "), 50)
      yield* untilClosed(socket)
      clearInterval(pieces)
      // The end of the socket: its code, and why.
      const end = Buffer.concat(read)
      assert.deepStrictEqual([end[0], end.readUInt16BE(2)], [0x88, 1008])
      assert.match(end.subarray(4).toString(), /longer than 5 s/)
    }).pipe(Effect.scoped)
  )

  it.effect("a client that breaks the protocol is closed", () =>
    Effect.gen(function* () {
      const { authorization, service } = yield* setUp
      const unmasked = Buffer.from([0x81, 0x02, 0x7b, 0x7d])
      const reserved = frame(0xc1, Buffer.from("{}"))
      const control = frame(0x09, Buffer.from("fragmented"))
      for (const bytes of [unmasked, reserved, control, frame(0x8b, Buffer.alloc(200))]) {
        const socket = yield* rawSocket(service.url, authorization)
        socket.write(bytes)
        yield* untilClosed(socket)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("a WebSocket that is asked for before the answer to another request is there ends the connection", () =>
    Effect.gen(function* () {
      const { authorization, native, service } = yield* setUp
      native.answer = () => {}
      const lines = [`Authorization: ${authorization.authorization}`, "Content-Type: application/json"]
      const request = requestText("POST", "/v1/responses", lines, JSON.stringify({ model: "native", input: "One" }))
      const { answers, closed } = yield* exchange(service.url, request + handshakeText(authorization), {
        untilClosed: true
      })
      assert.deepStrictEqual([answers.length, closed], [0, true])
    }).pipe(Effect.scoped)
  )

  it.effect("a flood of pings whose answers are not read takes no memory, and ends", () =>
    Effect.gen(function* () {
      const { authorization, service } = yield* setUp
      const socket = yield* rawSocket(service.url, authorization)
      socket.pause()
      const ping = Buffer.concat([Buffer.from([0x89, 0x80 | 100, 0, 0, 0, 0]), Buffer.alloc(100)])
      const many = Buffer.concat(Array.from({ length: 20_000 }, () => ping))
      for (let times = 0; times < 10; times++) socket.write(many)
      yield* untilClosed(socket)
    }).pipe(Effect.scoped)
  )

  it.effect("a client that reads nothing holds up its own response, and is cut off", () =>
    Effect.gen(function* () {
      const { authorization, native, service } = yield* setUp
      let written = 0
      native.answer = (_, response) => {
        sse(response, [])
        const data = JSON.stringify({ type: "response.output_text.delta", delta: "x".repeat(100_000) })
        const more = () => {
          while (!response.destroyed && written < 2e9) {
            written += data.length
            if (!response.write(`event: response.output_text.delta\ndata: ${data}\n\n`)) return
          }
        }
        response.on("drain", more)
        more()
      }
      const socket = yield* openSocket(service.url, authorization)
      socket.send(create({ model: "native", input: "One" }))
      assert.strictEqual((yield* socket.next).type, "response.output_text.delta")
      socket.socket.pause()
      yield* eventually(
        Effect.sync(() => native.aborted),
        (count) => count === 1
      )
      assert.isBelow(written, 100e6)
    }).pipe(Effect.scoped)
  )

  it.effect("what sockets keep of their turns is bounded: the oldest are dropped", () =>
    Effect.gen(function* () {
      const { authorization, service } = yield* setUp
      const body = { model: "bridged", store: false, generate: false }
      const older = yield* openSocket(service.url, authorization)
      const newer = yield* openSocket(service.url, authorization)
      const [first] = (yield* older.turn(create({ ...body, input: "a".repeat(100) }))).slice(-1)
      const [second] = (yield* newer.turn(create({ ...body, input: "b".repeat(100) }))).slice(-1)
      const [lost] = yield* older.turn(create({ ...body, generate: true, previous_response_id: first.response.id }))
      assert.deepStrictEqual([lost.status, lost.error.code], [400, "previous_response_not_found"])
      const kept = yield* newer.turn(
        create({ ...body, generate: true, input: "c", previous_response_id: second.response.id })
      )
      assert.strictEqual(kept.at(-1).type, "response.completed")
    }).pipe(Effect.scoped)
  )

  it.effect("pages of origins that CORS allows may open one", () =>
    Effect.gen(function* () {
      const { authorization, service } = yield* setUp
      yield* openSocket(service.url, { ...authorization, origin: "https://example.com" })
      const other = yield* refusedSocket(service.url, { ...authorization, origin: "https://example.org" })
      assert.strictEqual(other.status, 426)
      const opaque = yield* refusedSocket(service.url, { ...authorization, origin: "null" })
      assert.strictEqual(opaque.status, 426)
    }).pipe(Effect.scoped)
  )
})

layer(serviceLayer({ Api__WebSockets__Enabled: "false" }), { excludeTestServices: true, timeout: "60 seconds" })(
  "WebSockets that are off",
  (it) => {
    it.effect("are refused with 426, and 401 without a credential", () =>
      Effect.gen(function* () {
        const { authorization, service } = yield* setUp
        assert.strictEqual((yield* refusedSocket(service.url, authorization)).status, 426)
        assert.strictEqual((yield* refusedSocket(service.url, {})).status, 401)
      }).pipe(Effect.scoped)
    )
  }
)
