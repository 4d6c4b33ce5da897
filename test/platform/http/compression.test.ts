import { assert, it as test, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { HttpApi } from "effect/http-api"
import { Api } from "../../../src/api.ts"
import { capabilitiesOf, resources } from "../../../src/kernel/authority/capability.ts"
import { Compressible } from "../../../src/kernel/problems/validation.ts"
import { OneTimeSecrets } from "../../../src/platform/idempotency/domain.ts"
import { makeApplication, makeFile } from "../../support/configuration.ts"
import { make } from "../../support/scenarios.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

/** Requests with an Accept-Encoding; the body comes decoded, the headers as they were sent. */
const request = Effect.fnUntraced(function* (
  path: string,
  encoding: string,
  { body, headers, method = "GET" }: { method?: string; headers?: Record<string, string>; body?: unknown } = {}
) {
  const { serviceKey, url } = yield* TestService
  return yield* Effect.promise(async () => {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: {
        "x-api-key": serviceKey,
        "accept-encoding": encoding,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const isStream = answer.headers.get("content-type")?.startsWith("text/event-stream") === true
    if (isStream) await answer.body?.cancel()
    return {
      status: answer.status,
      coding: answer.headers.get("content-encoding"),
      vary: answer.headers.get("vary"),
      etag: answer.headers.get("etag"),
      length: answer.headers.get("content-length"),
      text: isStream ? "" : await answer.text()
    }
  })
})

/** A list of several kilobytes. */
const large = Effect.gen(function* () {
  const service = yield* TestService
  yield* Effect.forEach(Array.from({ length: 20 }), () => makeApplication(service))
  return "/api/applications?limit=50"
})

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("compression", (it) => {
  it.effect("of a large answer, by the weights of Accept-Encoding", () =>
    Effect.gen(function* () {
      const path = yield* large
      const plain = yield* request(path, "identity")
      assert.isAbove(plain.text.length, 1400)
      assert.strictEqual(plain.length, String(Buffer.byteLength(plain.text)))
      for (const [accepted, coding] of [
        ["gzip", "gzip"],
        ["br", "br"],
        ["gzip, deflate, br, zstd", "br"],
        ["gzip;q=1.0, br;q=0.5", "gzip"],
        ["br;q=0.1, gzip;q=0.2", "gzip"],
        ["GZIP", "gzip"],
        ["x-gzip", "gzip"],
        ["*", "br"],
        ["br;q=0, *", "gzip"],
        ["*;q=0, gzip;q=0.001", "gzip"],
        ["gzip;q=0", null],
        ["gzip;q=0, br;q=0.0", null],
        ["*;q=0", null],
        ["identity;q=1, gzip;q=0.5", null],
        ["identity;q=0.5, gzip;q=0.5", "gzip"],
        ["deflate", null],
        ["gzipped, bra", null],
        ["identity", null]
      ] as const) {
        const answer = yield* request(path, accepted)
        assert.deepStrictEqual(
          [answer.status, answer.coding, answer.vary?.includes("Accept-Encoding")],
          [200, coding, true],
          accepted
        )
        assert.strictEqual(answer.text, plain.text)
        if (coding !== null) assert.isBelow(Number(answer.length), plain.text.length)
      }
      const without = yield* (yield* TestService).call("GET", path)
      assert.isNull(without.headers.get("content-encoding"))
      const head = yield* request(path, "gzip", { method: "HEAD" })
      assert.deepStrictEqual([head.status, head.coding], [200, null])
    })
  )

  it.effect("of each coding has its own entity tag, and each of them is a precondition of the resource", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "text ".repeat(1000))
      const path = `/api/configuration/${id}`
      const tags = new Map<string, string>()
      for (const [accepted, coding] of [
        ["identity", null],
        ["gzip", "gzip"],
        ["br", "br"]
      ] as const) {
        const answer = yield* request(path, accepted)
        assert.strictEqual(answer.coding, coding)
        const etag = answer.etag ?? assert.fail("no tag")
        assert.match(etag, /^"/)
        tags.set(accepted, etag)
        const known = yield* request(path, accepted, { headers: { "if-none-match": etag } })
        assert.deepStrictEqual([known.status, known.etag, known.text], [304, etag, ""])
      }
      assert.strictEqual(new Set(tags.values()).size, 3)
      let version = 0
      for (const etag of [tags.get("gzip")!, `"9", ${tags.get("br")!}`]) {
        const content = `${(version += 1)} ${"more ".repeat(1000)}`
        const saved = yield* request(path, "gzip", { method: "PUT", body: { content }, headers: { "if-match": etag } })
        assert.strictEqual(saved.status, version === 1 ? 200 : 412, saved.text)
      }
      const stale = yield* request(path, "gzip", { headers: { "if-none-match": tags.get("gzip")! } })
      assert.deepStrictEqual([stale.status, stale.coding], [200, "gzip"])
    })
  )

  it.effect("of exports, as they are written", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      // Entries get their place in the chain a moment after they are written.
      yield* eventually(service.call("GET", "/api/audit-logs?limit=1"), ({ body }) => body.items[0]?.sequence !== null)
      for (const path of ["/api/usage/export?format=csv", "/api/usage/export", "/api/audit-logs?limit=100"]) {
        const [plain, gzip, br] = [
          yield* request(path, "identity"),
          yield* request(path, "gzip"),
          yield* request(path, "br")
        ]
        assert.deepStrictEqual([plain.coding, gzip.coding, br.coding], [null, "gzip", "br"], path)
        assert.deepStrictEqual([gzip.text, br.text], [plain.text, plain.text])
      }
      const log = yield* request("/api/audit-logs/export", "gzip")
      assert.strictEqual(log.coding, "gzip")
      for (const line of log.text.trimEnd().split("\n")) JSON.parse(line)
    })
  )

  it.effect("of no small answer, no event stream, no secret and no call of a model", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const all = "gzip, br"
      const { id } = yield* make(service, "/api/applications", { name: "small" })
      const small = yield* request(`/api/applications/${id}`, all)
      assert.deepStrictEqual([small.status, small.coding, small.vary], [200, null, null])
      for (const path of ["/api/audit-logs/stream", "/api/cloudevents/stream"]) {
        const stream = yield* request(path, all)
        assert.deepStrictEqual([stream.status, stream.coding], [200, null], path)
      }
      const key = yield* request("/api/api-keys", all, {
        method: "POST",
        body: {
          name: "k".repeat(100),
          scopes: resources.flatMap(capabilitiesOf).concat(resources.map((resource) => `${resource}:*`))
        }
      })
      assert.deepStrictEqual([key.status, key.coding], [201, null], key.text)
      assert.isAbove(key.text.length, 1400)
      const messages = [{ role: "user", content: "echo ".repeat(1000) }]
      for (const [path, body] of [
        ["/v1/chat/completions", { model: "loopback-1", messages }],
        ["/v1/messages", { model: "loopback-1", max_tokens: 5000, messages }],
        ["/api/llm/complete", { model: "loopback-1", messages }]
      ] as const) {
        const answer = yield* request(path, all, {
          method: "POST",
          body,
          headers: { "anthropic-version": "2023-06-01" }
        })
        assert.deepStrictEqual([answer.status, answer.coding], [200, null], answer.text.slice(0, 200))
        assert.isAbove(answer.text.length, 1400)
      }
      const document = yield* request("/openapi.json", all)
      assert.strictEqual(document.coding, "br")
    })
  )
})

test("only what is read may be compressed, and nothing with a secret that is shown once", () => {
  let count = 0
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group }) => {
      if (!Context.get(endpoint.annotations, Compressible)) return
      count += 1
      const name = `${group.identifier}.${endpoint.identifier}`
      assert.strictEqual(endpoint.method, "GET", name)
      assert.notInclude(["registration", "oauth"], group.identifier)
      assert.isEmpty(Context.get(endpoint.annotations, OneTimeSecrets), name)
    }
  })
  assert.isAbove(count, 80)
})
