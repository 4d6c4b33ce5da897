import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { once } from "node:events"
import { type IncomingMessage, type ServerResponse } from "node:http"
import * as net from "node:net"
import { makeServer } from "../../../src/platform/http/listener.ts"
import { exchange, requestText } from "../../support/raw-http.ts"

/** More than the buffers of a connection hold. */
const large = Buffer.alloc(64 * 2 ** 20)

/** A server that keeps idle connections open indefinitely, and what its handlers do with a request by its path. */
const listening = (answers: Readonly<Record<string, (response: ServerResponse) => void>>) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const server = makeServer({ requestTimeoutSeconds: 60, publicUrl: "http://localhost" })
      server.on("request", ({ url = "" }: IncomingMessage, response: ServerResponse) => answers[url]?.(response))
      server.keepAliveTimeout = 0
      await once(server.listen(0, "127.0.0.1"), "listening")
      const { port } = server.address() as net.AddressInfo
      return { server, url: `http://127.0.0.1:${port}`, port }
    }),
    ({ server }) => Effect.sync(() => server.closeAllConnections())
  )

const closing = (server: ReturnType<typeof makeServer>) =>
  Effect.callback<void>((resume) => void server.close(() => resume(Effect.void)))

it.live("a connection whose answer had begun ends with it, and the server with its last connection", () =>
  Effect.gen(function* () {
    const begun = yield* Deferred.make<ServerResponse>()
    const { server, url } = yield* listening({
      "/stream": (response) => {
        response.write("first ")
        Deferred.doneUnsafe(begun, Effect.succeed(response))
      }
    })
    const streamed = yield* Effect.forkScoped(exchange(url, requestText("GET", "/stream"), { untilClosed: true }))
    const response = yield* Deferred.await(begun)
    const closed = yield* Effect.forkScoped(closing(server), { startImmediately: true })
    response.end("last")
    const { answers } = yield* Fiber.join(streamed)
    assert.strictEqual(answers[0]?.text, "first last")
    yield* Fiber.join(closed)
  }).pipe(Effect.scoped)
)

it.live("a request that waits behind the one under way is served before its connection ends", () =>
  Effect.gen(function* () {
    const begun = yield* Deferred.make<ServerResponse>()
    const { server, url } = yield* listening({
      "/first": (response) => {
        response.writeHead(200, { "content-length": 5 }).write("fir")
        Deferred.doneUnsafe(begun, Effect.succeed(response))
      },
      "/second": (response) => response.writeHead(200, { connection: "close" }).end("second")
    })
    const both = `${requestText("GET", "/first")}${requestText("GET", "/second")}`
    const pipelined = yield* Effect.forkScoped(exchange(url, both, { untilClosed: true }))
    const response = yield* Deferred.await(begun)
    const closed = yield* Effect.forkScoped(closing(server), { startImmediately: true })
    response.end("st")
    const { answers } = yield* Fiber.join(pipelined)
    assert.deepStrictEqual(
      answers.map(({ text }) => text),
      ["first", "second"]
    )
    yield* Fiber.join(closed)
  }).pipe(Effect.scoped)
)

it.live("a client that has not read its answer yet gets all of it", () =>
  Effect.gen(function* () {
    const { port, server } = yield* listening({ "/large": (response) => response.end(large) })
    const slow = net.connect(port, "127.0.0.1")
    slow.pause().write(requestText("GET", "/large"))
    yield* Effect.promise(() => once(server, "request"))
    const closed = yield* Effect.forkScoped(closing(server), { startImmediately: true })
    let received = 0
    slow.on("data", (chunk) => (received += chunk.length)).resume()
    yield* Effect.promise(() => once(slow, "close"))
    assert.isAbove(received, large.length)
    yield* Fiber.join(closed)
  }).pipe(Effect.scoped)
)

it.live("connections without a request end at once", () =>
  Effect.gen(function* () {
    const { port, server, url } = yield* listening({ "/": (response) => response.end("read") })
    const idle = net.connect(port, "127.0.0.1")
    idle.write(requestText("GET", "/"))
    yield* Effect.promise(() => once(idle, "data"))
    const ended = Effect.promise(() => once(idle.resume(), "close"))
    yield* Effect.all([closing(server), ended], { concurrency: "unbounded" })
    assert.strictEqual(server.listening, false, url)
  }).pipe(Effect.scoped)
)
