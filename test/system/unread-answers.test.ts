import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { once } from "node:events"
import { type IncomingMessage, type ServerResponse } from "node:http"
import * as net from "node:net"
import { makeServer } from "../../src/platform/http/listener.ts"
import { exchange, requestText } from "../support/raw-http.ts"

/** More than the buffers of a connection hold. */
const large = Buffer.alloc(64 * 2 ** 20)

const answers: Readonly<Record<string, (response: ServerResponse) => void>> = {
  "/large": (response) => response.end(large),
  "/late": (response) => setTimeout(() => response.end("late"), 5_000)
}

const listening = Effect.acquireRelease(
  Effect.promise(async () => {
    const server = makeServer({ requestTimeoutSeconds: 0, publicUrl: "http://localhost" })
    server.on("request", ({ url = "" }: IncomingMessage, response: ServerResponse) => answers[url]?.(response))
    server.keepAliveTimeout = 100
    await once(server.listen(0, "127.0.0.1"), "listening")
    const { port } = server.address() as net.AddressInfo
    return { server, url: `http://127.0.0.1:${port}`, port }
  }),
  ({ server }) => Effect.sync(() => server.close().closeAllConnections())
)

it.live("ends connections whose answers are not read, or that are idle, and no others", () =>
  Effect.scoped(
    Effect.gen(function* () {
      const { port, server, url } = yield* listening
      const deaf = net.connect(port, "127.0.0.1")
      deaf.pause().write(requestText("GET", "/large"))
      const [, response] = yield* Effect.promise(() => once(server, "request") as Promise<[unknown, ServerResponse]>)
      const closed = Effect.promise(() => once(response, "close"))
      const late = exchange(url, requestText("GET", "/late"), { untilClosed: true })
      const [, { answers, closed: isClosed }] = yield* Effect.all([closed, late], { concurrency: "unbounded" })
      assert.isFalse(response.writableFinished)
      assert.strictEqual(answers[0]?.text, "late")
      assert.isTrue(isClosed)
      deaf.destroy()
    })
  )
)
