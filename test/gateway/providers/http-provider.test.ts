import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Layer, Pull, Redacted } from "effect"
import * as zlib from "node:zlib"
import { anthropicCount, anthropicDialect } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { type VendorDialect } from "../../../src/gateway/formats/format.ts"
import { sentForm } from "../../../src/gateway/formats/forms/form.ts"
import { openAiChat, openAiDialect } from "../../../src/gateway/formats/openai-chat/format.ts"
import { ProviderClients } from "../../../src/gateway/providers/clients.ts"
import { type Credential, unusedCredential } from "../../../src/gateway/providers/credential.ts"
import { makeHttpProvider } from "../../../src/gateway/providers/http-provider.ts"
import { type Provider, type ProviderAnswer } from "../../../src/gateway/providers/provider.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"
import { type Answerer, json, type ProviderStandIn, sse, startProvider } from "../../support/provider.ts"
import { eventually } from "../../support/waiting.ts"

const clients = ProviderClients.layer.pipe(Layer.provide(Settings.layerMemory()))

const provider = Effect.fnUntraced(function* (
  answer: Answerer,
  vendor: VendorDialect = openAiDialect,
  timeoutSeconds = 5,
  credential?: Credential
) {
  const standIn = yield* startProvider(answer)
  const client = yield* (yield* ProviderClients).configured(undefined)
  const made = makeHttpProvider(client, vendor, {
    id: "p",
    baseUrl: `${standIn.url}/v1/`,
    apiKey: credential === undefined ? Redacted.make("sk-test-1") : undefined,
    credential,
    headers: { "x-own": "1" },
    timeoutSeconds
  })
  return { standIn, provider: made }
})

const request = {
  format: openAiChat,
  model: "m",
  streams: false,
  body: '{"model":"m"}',
  headers: { "openai-organization": "o" }
} as const

const untilAborted = (standIn: ProviderStandIn) =>
  eventually(
    Effect.sync(() => standIn.aborted),
    (aborted) => aborted === 1
  )

const textOf = Effect.fnUntraced(function* ({ body }: ProviderAnswer) {
  if (body instanceof Uint8Array) return Buffer.from(body).toString("utf8")
  const chunks = [...body.first]
  for (;;) {
    const read = yield* Pull.catchDone(body.rest, () => Effect.succeed(undefined))
    if (read === undefined) return Buffer.concat(chunks).toString("utf8")
    chunks.push(...read)
  }
})

const refusal = (made: Provider) => Effect.flip(Effect.scoped(made.send(request)))

/** A credential with numbered tokens, of which the first so many end while they are used. */
const numberedTokens = (ended: number) => {
  const authorized: Array<string> = []
  let given = 0
  const credential: Credential = {
    authorize: () =>
      Effect.sync(() => {
        authorized.push(`Bearer token-${given + 1}`)
        return { authorization: `Bearer token-${given + 1}` }
      }),
    refused: ({ status }, sent) =>
      Effect.sync(() => {
        if (status !== 401 || sent.authorization !== `Bearer token-${given + 1}`) return false
        given += 1
        return true
      }),
    secrets: () => [`token-${given + 1}`],
    state: () => unusedCredential
  }
  const answer: Answerer = ({ headers }, response) =>
    authorized.indexOf(headers.authorization ?? "") < ended
      ? json(response, 401, { error: { message: `Bad token: ${headers.authorization}` } })
      : json(response, 200, { choices: [{ message: { content: "Hello" } }], usage: { prompt_tokens: 1 } })
  return { answer, credential }
}

describe("a provider over HTTP", () => {
  it.live("is sent a request again with another credential where the first has ended, and once only", () =>
    Effect.gen(function* () {
      const one = numberedTokens(1)
      const { provider: made, standIn } = yield* provider(one.answer, openAiDialect, 5, one.credential)
      const { status } = yield* Effect.scoped(made.send(request))
      assert.strictEqual(status, 200)
      assert.deepStrictEqual(
        standIn.requests.map(({ headers }) => headers.authorization),
        ["Bearer token-1", "Bearer token-2"]
      )
      const two = numberedTokens(2)
      const other = yield* provider(two.answer, openAiDialect, 5, two.credential)
      const { error } = yield* refusal(other.provider)
      assert.deepInclude(error, { status: 502, code: "provider-credentials" })
      assert.lengthOf(other.standIn.requests, 2)
    }).pipe(Effect.provide(clients))
  )

  it.live("is sent a form again with another credential, from its beginning", () =>
    Effect.gen(function* () {
      const one = numberedTokens(1)
      const { provider: made, standIn } = yield* provider(one.answer, openAiDialect, 5, one.credential)
      const chunks = [Buffer.alloc(70_000, 1), Promise.resolve(Buffer.alloc(70_000, 2))]
      const file = { name: "file", filename: "a.mp3", contentType: "audio/mpeg", length: 140_000, chunks }
      const form = sentForm({ boundary: "b", parts: [file] }, { model: "m" })
      const { status } = yield* Effect.scoped(made.send({ ...request, form }))
      assert.strictEqual(status, 200)
      const [first, second] = standIn.requests
      assert.deepStrictEqual(
        [first?.headers.authorization, second?.headers.authorization],
        ["Bearer token-1", "Bearer token-2"]
      )
      assert.strictEqual(second?.body.file.bytes.length, 140_000)
      assert.deepStrictEqual(first?.bytes, second?.bytes)
    }).pipe(Effect.provide(clients))
  )

  it.live("is sent the request with its own credentials, and nothing of the trace", () =>
    Effect.gen(function* () {
      const said = { choices: [{ message: { content: "ok" } }] }
      const { provider: made, standIn } = yield* provider((_, response) => json(response, 200, said))
      const answer = yield* made.send(request).pipe(Effect.withSpan("test"))
      assert.strictEqual(yield* textOf(answer), JSON.stringify(said))
      const [received] = standIn.requests
      assert.strictEqual(received?.path, "/v1/chat/completions")
      assert.deepStrictEqual(received?.body, { model: "m" })
      assert.strictEqual(received?.headers.authorization, "Bearer sk-test-1")
      assert.strictEqual(received?.headers["openai-organization"], "o")
      assert.strictEqual(received?.headers["x-own"], "1")
      for (const name of ["traceparent", "b3", "x-b3-traceid"]) assert.isUndefined(received?.headers[name])
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("does not tell what it was sent: a key that an error repeats is left out", () =>
    Effect.gen(function* () {
      const { provider: made } = yield* provider(({ headers }, response) =>
        json(response, 400, { error: { message: `Bad header: ${headers.authorization}, ${headers["x-own"]}` } })
      )
      assert.strictEqual((yield* refusal(made)).error.message, "Bad header: Bearer ***, 1")
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("that tells an error in the place of an answer has failed, whatever its status", () =>
    Effect.gen(function* () {
      const overloaded = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }
      const event = `: one moment\n\nevent: error\ndata: ${JSON.stringify(overloaded)}\n\n`
      const limited = { error: { message: "Slow down", code: 429 } }
      for (const [answer, status, message] of [
        [(_, response) => (sse(response, [event]), response.end()), 529, "Overloaded"],
        [(_, response) => (sse(response, [limited]), response.end()), 429, "Slow down"],
        [(_, response) => json(response, 200, { error: { message: "boom", type: "odd" } }), 502, "boom"],
        [(_, response) => json(response, 200, { id: null, object: "error", error: { message: "late" } }), 502, "late"],
        [
          (_, response) => json(response, 200, { object: "error", message: "no such model", code: 404 }),
          404,
          "no such model"
        ]
      ] as ReadonlyArray<readonly [Answerer, number, string]>) {
        const { provider: made } = yield* provider(answer)
        const { error, sent } = yield* refusal(made)
        assert.deepStrictEqual([error.status, error.message, sent], [status, message, false])
      }
      const quoting = { choices: [{ index: 0, delta: { content: '{"error":{}}' } }], error: null }
      const beside = {
        choices: [{ message: { content: '{"object":"error"}' } }],
        object: "error",
        error: { message: "x" }
      }
      const { provider: partial } = yield* provider((_, response) => json(response, 200, beside))
      assert.strictEqual(yield* textOf(yield* partial.send(request)), JSON.stringify(beside))
      const { provider: good } = yield* provider((_, response) => (sse(response, [quoting]), response.end()))
      assert.strictEqual(yield* textOf(yield* good.send(request)), `data: ${JSON.stringify(quoting)}\n\n`)
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live(
    "that encodes its answer, which nobody asked for, is read all the same; a stream of such is told to be none",
    () =>
      Effect.gen(function* () {
        const said = { choices: [{ index: 0, message: { content: "It is noon." } }] }
        for (const [coding, encode] of [
          ["gzip", zlib.gzipSync],
          ["BR", zlib.brotliCompressSync],
          ["deflate", zlib.deflateSync],
          ["zstd", zlib.zstdCompressSync]
        ] as const) {
          const answering =
            (type: string): Answerer =>
            (_, response) => {
              response.writeHead(200, { "content-type": type, "content-encoding": coding })
              response.end(encode(JSON.stringify(said)))
            }
          const { provider: made } = yield* provider(answering("application/json"))
          assert.strictEqual(yield* textOf(yield* made.send(request)), JSON.stringify(said), coding)
          const { provider: streaming } = yield* provider(answering("text/event-stream"))
          assert.include((yield* refusal(streaming)).error.message, "encoded")
        }
        const spaces = zlib.gzipSync(JSON.stringify(said) + " ".repeat(5_000_000))
        const { provider: blown } = yield* provider((_, response) => {
          response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" }).end(spaces)
        })
        assert.strictEqual((yield* refusal(blown)).error.status, 502)
        for (const coding of ["gzip", "rot13", "constructor", "__proto__"]) {
          const { provider: torn } = yield* provider((_, response) =>
            json(response, 200, said, { "content-encoding": coding })
          )
          const { error, sent } = yield* refusal(torn)
          assert.deepStrictEqual([error.status, sent], [502, true])
        }
      }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("is given up where its answer has no end", () =>
    Effect.gen(function* () {
      const { provider: made, standIn } = yield* provider((_, response) => {
        response.writeHead(200, { "content-type": "application/json" })
        const more = () => {
          while (!response.destroyed && response.write(Buffer.alloc(1_048_576, " ")));
          if (!response.destroyed) response.once("drain", more)
        }
        more()
      })
      const { error, sent } = yield* refusal(made)
      assert.deepStrictEqual([error.message, sent], ["The provider's answer is too large.", true])
      yield* untilAborted(standIn)
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("that ends its answer before the first byte has failed, and cost nothing", () =>
    Effect.gen(function* () {
      for (const answer of [
        (_, response) => (sse(response, []), response.end()),
        (_, response) => response.writeHead(200, { "content-type": "application/json" }).end(),
        (_, response) => response.writeHead(204).end()
      ] as ReadonlyArray<Answerer>) {
        const { provider: made } = yield* provider(answer)
        const { error, reason, sent } = yield* refusal(made)
        assert.deepStrictEqual([reason, sent, error.status], ["broken-off", false, 502])
      }
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("of Anthropic's has its own key header, version and paths", () =>
    Effect.gen(function* () {
      const { provider: made, standIn } = yield* provider(
        (_, response) => json(response, 200, { data: [] }),
        anthropicDialect
      )
      yield* made.send({ ...request, format: anthropicCount })
      yield* made.listModels
      assert.deepStrictEqual(
        standIn.requests.map(({ path }) => path),
        ["/v1/v1/messages/count_tokens", "/v1/v1/models?limit=1000"]
      )
      for (const { headers } of standIn.requests) {
        assert.strictEqual(headers["x-api-key"], "sk-test-1")
        assert.strictEqual(headers["anthropic-version"], "2023-06-01")
      }
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("hands on bytes as they come, and breaks off where the provider does", () =>
    Effect.gen(function* () {
      const whole = yield* provider((_, response) => {
        sse(response, ["data: 1\r\n\r\n", ": ping\n\n"])
        response.end("data: 2\n\n")
      })
      assert.strictEqual(yield* textOf(yield* whole.provider.send(request)), "data: 1\r\n\r\n: ping\n\ndata: 2\n\n")
      const broken = yield* provider((_, response) => {
        sse(response, ["data: 1\n\n"])
        setImmediate(() => response.destroy())
      })
      const failure = yield* Effect.flip(Effect.flatMap(broken.provider.send(request), textOf))
      assert.strictEqual(failure.reason, "broken-off")
      assert.isTrue(failure.sent)
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("gives the request up when the scope ends", () =>
    Effect.gen(function* () {
      const { provider: made, standIn } = yield* provider((_, response) => sse(response, ["data: 1\n\n"]))
      yield* Effect.scoped(made.send(request))
      yield* untilAborted(standIn)
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("tells every error in the same words, and what may have cost something", () =>
    Effect.gen(function* () {
      const error = { error: { message: "Slow down.", type: "rate_limit_error", code: null } }
      const limited = yield* provider((_, response) => json(response, 429, error, { "retry-after": "7" }))
      const tooMany = yield* refusal(limited.provider)
      assert.deepStrictEqual(
        [tooMany.reason, tooMany.sent, tooMany.error.status, tooMany.error.message, tooMany.retryAfterSeconds],
        ["status", false, 429, "Slow down.", 7]
      )
      const inFourSeconds = new Date((yield* Clock.currentTimeMillis) + 4000).toUTCString()
      for (const header of [{ "retry-after": inFourSeconds }, { "retry-after-ms": "3500" }]) {
        const soon = yield* provider((_, response) => json(response, 503, error, header))
        const { retryAfterSeconds = 0 } = yield* refusal(soon.provider)
        assert.isTrue(retryAfterSeconds > 1 && retryAfterSeconds <= 4, `${retryAfterSeconds}`)
      }
      const html = yield* provider((_, response) => response.writeHead(500).end("<html>"))
      assert.match((yield* refusal(html.provider)).error.message, /status 500/)
      for (const status of [401, 402, 403]) {
        const unauthorized = yield* provider((_, response) => json(response, status, error))
        const { error: told } = yield* refusal(unauthorized.provider)
        assert.deepStrictEqual([told.status, told.code], [502, "provider-credentials"])
      }
      for (const unpaid of [
        { message: "Check your plan.", type: "insufficient_quota", param: null, code: "insufficient_quota" },
        { message: "Not active.", type: "billing_not_active", param: null, code: null }
      ]) {
        const empty = yield* provider((_, response) =>
          json(response, 429, { error: unpaid }, { "retry-after": "1", "x-should-retry": "false" })
        )
        const { error: told, received, retryAfterSeconds } = yield* refusal(empty.provider)
        assert.deepStrictEqual(
          [told.status, told.code, received, retryAfterSeconds],
          [502, "provider-credentials", 429, undefined]
        )
        assert.notInclude(told.message, unpaid.message)
      }
      const moved = yield* provider((_, response) => response.writeHead(302, { location: "http://127.0.0.1/" }).end())
      assert.strictEqual((yield* refusal(moved.provider)).error.status, 502)
      assert.lengthOf(moved.standIn.requests, 1)
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("tells a connection that never was from one that broke, and from one that is slow", () =>
    Effect.gen(function* () {
      const { provider: made, standIn } = yield* provider((_, response) => response.destroy())
      const broken = yield* refusal(made)
      assert.deepStrictEqual([broken.reason, broken.sent, broken.error.status], ["broken-off", true, 502])
      const slow = yield* provider(() => {}, openAiDialect, 0.05)
      const late = yield* refusal(slow.provider)
      assert.deepStrictEqual([late.reason, late.sent, late.error.status], ["timeout", true, 504])
      yield* untilAborted(slow.standIn)
      const client = yield* (yield* ProviderClients).configured(undefined)
      const nowhere = makeHttpProvider(client, openAiDialect, {
        id: "p",
        baseUrl: `${standIn.url.replace(/\d+$/, "1")}/v1`,
        apiKey: undefined,
        headers: {},
        timeoutSeconds: 5
      })
      const refused = yield* refusal(nowhere)
      assert.deepStrictEqual([refused.reason, refused.sent, refused.error.status], ["connection", false, 502])
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("that never ends is given up after its patience", () =>
    Effect.gen(function* () {
      const { provider: made } = yield* provider((_, response) => sse(response, ["data: 1\n\n"]), openAiDialect, 0.05)
      const failure = yield* Effect.flip(Effect.flatMap(made.send(request), textOf))
      assert.strictEqual(failure.reason, "timeout")
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("is given up when the call's time is over, before its answer and within it", () =>
    Effect.gen(function* () {
      const silent = yield* provider(() => {})
      const endless = yield* provider((_, response) => sse(response, ["data: 1\n\n"]))
      const soon = { ...request, deadline: (yield* Clock.currentTimeMillis) + 50 }
      const failures = yield* Effect.all(
        [
          Effect.flip(Effect.scoped(silent.provider.send(soon))),
          Effect.flip(Effect.scoped(Effect.flatMap(endless.provider.send(soon), textOf)))
        ],
        { concurrency: "unbounded" }
      )
      for (const { error, reason } of failures) assert.deepStrictEqual([reason, error.status], ["timeout", 504])
      yield* untilAborted(silent.standIn)
      yield* untilAborted(endless.standIn)
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("that is faster than its caller waits for it, and loses nothing", () =>
    Effect.gen(function* () {
      const line = `data: ${"x".repeat(1000)}\n\n`
      const lines = 2000
      let waited = false
      const { provider: made } = yield* provider((_, response) => {
        sse(response, [])
        for (let count = 0; count < lines; count++) waited = !response.write(line) || waited
        response.end()
      })
      assert.lengthOf(yield* textOf(yield* made.send(request)), lines * line.length)
      assert.isTrue(waited)
    }).pipe(Effect.scoped, Effect.provide(clients))
  )

  it.live("lists its models in either dialect", () =>
    Effect.gen(function* () {
      const data = [
        { id: "gpt", owned_by: "openai", created: 1_700_000_000 },
        { id: "claude", created_at: "2026-01-02T03:04:05Z" },
        { id: "bare" }
      ]
      const { provider: made } = yield* provider((_, response) => json(response, 200, { data }))
      assert.deepStrictEqual(yield* made.listModels, [
        { id: "gpt", ownedBy: "openai", createdAt: new Date("2023-11-14T22:13:20Z") },
        { id: "claude", ownedBy: null, createdAt: new Date("2026-01-02T03:04:05Z") },
        { id: "bare", ownedBy: null, createdAt: null }
      ])
      const odd = yield* provider((_, response) => json(response, 200, { models: [] }))
      assert.strictEqual((yield* Effect.flip(odd.provider.listModels)).error.status, 502)
    }).pipe(Effect.scoped, Effect.provide(clients))
  )
})

describe("a provider at an address of the caller's", () => {
  it.live("leads into no private network, written out or by a name", () =>
    Effect.gen(function* () {
      const standIn = yield* startProvider((_, response) => json(response, 200, { data: [] }))
      const { guarded } = yield* ProviderClients
      const { port } = new URL(standIn.url)
      for (const host of ["127.0.0.1", "localhost", "[::1]", "0x7f000001", "2130706433", "[::ffff:127.0.0.1]"]) {
        const made = makeHttpProvider(guarded, openAiDialect, {
          id: "p",
          baseUrl: `http://${host}:${port}/v1`,
          apiKey: undefined,
          headers: {},
          timeoutSeconds: 5
        })
        const failure = yield* Effect.flip(made.listModels)
        assert.strictEqual(failure.error.code, "address-refused", host)
      }
      assert.isEmpty(standIn.requests)
    }).pipe(Effect.scoped, Effect.provide(clients))
  )
})
