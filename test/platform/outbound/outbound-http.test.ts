import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { codesOf } from "../../../src/platform/outbound/connection-errors.ts"
import {
  isPrivateHost,
  makeGuardedDispatcher,
  publicLookup
} from "../../../src/platform/outbound/guarded-dispatcher.ts"
import { OutboundHttp, type OutboundRequest } from "../../../src/platform/outbound/outbound-http.ts"
import { startProvider } from "../../support/provider.ts"

const request = (url: string, more: Partial<OutboundRequest> = {}): OutboundRequest => ({
  method: "GET",
  url,
  headers: {},
  timeoutSeconds: 5,
  maxBytes: 100,
  allowPrivate: true,
  ...more
})

describe("the host of a URL", () => {
  it.each([
    "127.0.0.1",
    "10.0.0.1",
    "169.254.169.254",
    "[::1]",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::7f00:1]",
    "localhost",
    "localhost.",
    "a.localhost",
    new URL("http://2130706433/").hostname,
    new URL("http://0x7f.1/").hostname,
    new URL("http://017700000001/").hostname
  ])("%s is private", (host) => assert.isTrue(isPrivateHost(host)))

  it.each(["8.8.8.8", "[2606:4700::1111]", "example.com", "localhost.example.com", "metadata.google.internal"])(
    "%s is not known to be",
    (host) => assert.isFalse(isPrivateHost(host))
  )
})

layer(OutboundHttp.layer, { excludeTestServices: true })("requests to addresses that callers name", (it) => {
  it.effect("connect to no private address, however it is written", () =>
    Effect.gen(function* () {
      const http = yield* OutboundHttp
      const server = yield* startProvider((_, response) => response.end("ok"))
      const { port } = new URL(server.url)
      for (const host of ["127.0.0.1", "localhost", "127.1", "2130706433", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"]) {
        const failure = yield* Effect.flip(http.send(request(`http://${host}:${port}/`, { allowPrivate: false })))
        assert.strictEqual(failure.reason, "address", host)
      }
      assert.strictEqual(server.requests.length, 0)
    })
  )

  it.effect("follow no redirect, and read no more than they were told to", () =>
    Effect.gen(function* () {
      const http = yield* OutboundHttp
      const server = yield* startProvider(({ path }, response) =>
        path === "/"
          ? response.writeHead(302, { location: "http://169.254.169.254/latest/meta-data" }).end()
          : response.end("x".repeat(10_000))
      )
      const redirect = yield* http.send(request(`${server.url}/`))
      assert.strictEqual(redirect.status, 302)
      const long = yield* http.send(request(`${server.url}/long?a=1`))
      assert.deepStrictEqual([long.text.length, long.isCut], [100, true])
      assert.deepStrictEqual(
        server.requests.map(({ path }) => path),
        ["/", "/long?a=1"]
      )
    })
  )

  it.effect("say why there is no response", () =>
    Effect.gen(function* () {
      const http = yield* OutboundHttp
      const silent = yield* startProvider(() => {})
      const late = yield* Effect.flip(http.send(request(silent.url, { timeoutSeconds: 0.05 })))
      assert.strictEqual(late.reason, "timeout")
      const closed = yield* Effect.flip(http.send(request("http://127.0.0.1:1/")))
      assert.deepStrictEqual([closed.reason, closed.detail.includes("ECONNREFUSED")], ["connection", true])
    })
  )
})

describe("a name whose addresses change", () => {
  it("is checked by the addresses that are connected to", () => {
    const answers = [
      { address: "8.8.8.8", family: 4 },
      { address: "127.0.0.1", family: 4 }
    ]
    const lookup = publicLookup((_, __, callback) => callback(null, answers.splice(0, 1)))
    const seen: Array<unknown> = []
    const ask = () =>
      lookup("rebinding.test", {}, (error, address) => seen.push(error === null ? address : codesOf(error)))
    ask()
    ask()
    assert.deepStrictEqual(seen, ["8.8.8.8", ["ERR_ADDRESS_REFUSED"]])
  })

  it.live("is refused when any of its addresses is private", () =>
    Effect.gen(function* () {
      const dispatcher = yield* makeGuardedDispatcher({
        connections: 1,
        connectTimeoutMillis: 50,
        resolve: (_, __, callback) =>
          callback(null, [
            { address: "8.8.8.8", family: 4 },
            { address: "::ffff:169.254.169.254", family: 6 }
          ])
      })
      const refused = yield* Effect.flip(
        Effect.tryPromise({
          try: () => dispatcher.request({ origin: "http://mixed.test", path: "/", method: "GET" }),
          catch: codesOf
        })
      )
      assert.include(refused, "ERR_ADDRESS_REFUSED")
    })
  )
})
