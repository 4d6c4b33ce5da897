import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { once } from "node:events"
import { type IncomingMessage, type ServerResponse } from "node:http"
import { type AddressInfo } from "node:net"
import { makeServer } from "../../../src/platform/http/listener.ts"
import { exchange, requestText } from "../../support/raw-http.ts"

/** A server that answers each request a moment later with its path and its body, and the most that it had at once. */
const listening = Effect.acquireRelease(
  Effect.promise(async () => {
    const server = makeServer({ requestTimeoutSeconds: 60, publicUrl: "http://localhost" })
    const seen = { now: 0, most: 0, all: 0 }
    server.on("request", async (request: IncomingMessage, response: ServerResponse) => {
      seen.all += 1
      seen.most = Math.max(seen.most, ++seen.now)
      const chunks: Array<Buffer> = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      setImmediate(() => {
        seen.now -= 1
        response.end(`${request.url} ${Buffer.concat(chunks).toString()}`)
      })
    })
    await once(server.listen(0, "127.0.0.1"), "listening")
    return { server, seen, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  }),
  ({ server }) => Effect.sync(() => server.close().closeAllConnections())
)

it.live("pipelined requests are answered in their order, one at a time", () =>
  Effect.scoped(
    Effect.gen(function* () {
      const { seen, url } = yield* listening
      const body = "x".repeat(200_000)
      const requests = [
        ...Array.from({ length: 20 }, (_, at) => requestText("GET", `/${at}`)),
        requestText("POST", "/20", [], body),
        requestText("GET", "/21")
      ]
      const { answers } = yield* exchange(url, requests.join(""), { answers: requests.length })
      assert.deepStrictEqual(
        answers.map(({ text }) => text),
        requests.map((_, at) => `/${at} ${at === 20 ? body : ""}`)
      )
      assert.deepStrictEqual(seen, { now: 0, most: 1, all: requests.length })
    })
  )
)

it.live("a connection with more than 32 of them waiting is ended", () =>
  Effect.scoped(
    Effect.gen(function* () {
      const { seen, url } = yield* listening
      const many = requestText("GET", "/").repeat(5000)
      const { closed } = yield* exchange(url, many, { untilClosed: true })
      assert.isTrue(closed)
      assert.isBelow(seen.all, 32)
    })
  )
)
