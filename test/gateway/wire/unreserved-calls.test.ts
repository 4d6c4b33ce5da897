import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { ask, configure, model, provider } from "../../support/gateway.ts"
import { type Answerer, json, startProvider } from "../../support/provider.ts"
import { type Answer, type Call, serviceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor } from "../../support/vendors.ts"

type Service = TestService["Service"]

const perMinute = 60
const limited = serviceLayer({ Api__RateLimit__Enabled: "true", Api__RateLimit__PerMinute: `${perMinute}` })
const served = Layer.provideMerge(
  Layer.suspend(() => Vendors.layer),
  limited
)

const messages = [{ role: "user", content: "What time is it?" }]
const unknown = "resp_0198a5b07c0070008000000000000001"
const reference = { type: "item_reference", id: "msg_0198a5b07c0070008000000000000001_0" }

const openAi: Answerer = (request, response) => {
  if (request.path.endsWith("/files")) return json(response, 200, { id: "file-1", object: "file" })
  if (request.body?.messages?.[0]?.content !== "refuse") return openAiVendor(request, response)
  json(response, 400, { error: { message: "No.", type: "invalid_request_error", param: null, code: null } })
}
const anthropic: Answerer = (request, response) =>
  request.path.endsWith("/count_tokens")
    ? json(response, 200, { input_tokens: 1_000_000 })
    : anthropicVendor(request, response)

/** The stand-ins of both vendors, configured once: the service account has a rate, too. */
class Vendors extends Context.Service<Vendors, { readonly asked: () => number }>()("test/Vendors") {
  static readonly layer = Layer.effect(
    Vendors,
    Effect.gen(function* () {
      const oa = yield* startProvider(openAi)
      const an = yield* startProvider(anthropic)
      yield* configure(
        yield* TestService,
        [provider("oa", oa), provider("an", an, { dialect: "anthropic", baseUrl: an.url })],
        [model("gpt", ["oa"]), model("claude", ["an"])]
      )
      return { asked: () => oa.requests.length + an.requests.length }
    })
  )
}

/** Sends requests one after the other. */
const times = (count: number, send: Effect.Effect<Answer>) => Effect.forEach(Array.from({ length: count }), () => send)

const statuses = (answers: ReadonlyArray<Answer>) => [...new Set(answers.map(({ status }) => status))]

/** The error of a used-up rate, in the dialect of a path. */
const assertLimited = (answer: Answer, path: string) => {
  assert.strictEqual(answer.status, 429, answer.text)
  const seconds = Number(answer.headers.get("retry-after"))
  assert.isTrue(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60, `Retry-After: ${seconds}`)
  if (path.startsWith("/api/")) {
    assert.strictEqual(answer.body.type, "urn:application-manager:problem:rate-limited")
  } else if (path.startsWith("/v1/messages")) {
    assert.deepStrictEqual([answer.body.type, answer.body.error.type], ["error", "rate_limit_error"])
    assert.strictEqual(answer.headers.get("anthropic-ratelimit-requests-limit"), String(perMinute))
    assert.strictEqual(answer.headers.get("anthropic-ratelimit-requests-remaining"), "0")
  } else {
    assert.deepInclude(answer.body.error, { type: "rate_limit_error", code: "rate_limit_exceeded" })
    assert.strictEqual(answer.headers.get("x-ratelimit-limit-requests"), String(perMinute))
    assert.strictEqual(answer.headers.get("x-ratelimit-remaining-requests"), "0")
    assert.match(answer.headers.get("x-ratelimit-reset-requests") ?? "", /^(?:1m0|[1-5]?\d)s$/)
  }
}

interface Unreserved {
  readonly path: string
  readonly method?: string
  readonly status: number
  readonly call?: Omit<Call, "key">
  readonly caps?: ReadonlyArray<object>
}

const chat = "/v1/chat/completions"
const form = [
  '--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n',
  '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\ntext\r\n--b--\r\n'
].join("")
const nothing = [{ limit: 0 }]

/** What ends without a reservation. */
const unreserved: Readonly<Record<string, Unreserved>> = {
  "a count of a message's tokens": {
    path: "/v1/messages/count_tokens",
    status: 200,
    call: { body: { model: "claude", messages } }
  },
  "a count of a response's tokens": {
    path: "/v1/responses/input_tokens",
    status: 200,
    call: { body: { model: "gpt", input: "Hi" } }
  },
  "the list of models": { method: "GET", path: "/v1/models", status: 200 },
  "the list of files": { method: "GET", path: "/v1/files", status: 200 },
  "an upload of a file": {
    path: "/v1/files",
    status: 200,
    call: { headers: { "content-type": "multipart/form-data; boundary=b" }, body: form }
  },
  "a file that there is not": { method: "DELETE", path: "/v1/files/file-1", status: 404 },
  "a batch that there is not": { method: "DELETE", path: "/v1/messages/batches/msgbatch_1", status: 404 },
  "a model that there is not": { method: "GET", path: "/v1/models/none", status: 404 },
  "a stored response": { method: "GET", path: `/v1/responses/${unknown}`, status: 404 },
  "the input of a stored response": { method: "GET", path: `/v1/responses/${unknown}/input_items`, status: 404 },
  "a removal of a stored response": { method: "DELETE", path: `/v1/responses/${unknown}`, status: 404 },
  "a cancellation": { method: "POST", path: `/v1/responses/${unknown}/cancel`, status: 404 },
  "a reference to no item": {
    path: "/v1/responses",
    status: 404,
    call: { body: { model: "gpt", input: [reference] } }
  },
  "a conversation that is not stored": {
    path: "/v1/responses",
    status: 404,
    call: { body: { model: "gpt", input: "Hi", previous_response_id: unknown } }
  },
  "a compaction that no provider does": {
    path: "/v1/responses/compact",
    status: 400,
    call: { body: { model: "gpt", input: "Hi" } }
  },
  "a dry run": { path: "/api/llm/complete", status: 200, call: { body: { model: "gpt", messages, dryRun: true } } },
  "the health of providers": { method: "GET", path: "/api/llm/health", status: 200 },
  "a body that is no JSON": { path: chat, status: 400, call: { body: "{" } },
  "a body without messages": { path: "/v1/messages", status: 400, call: { body: { model: "claude", max_tokens: 1 } } },
  "an invalid body in the native format": { path: "/api/llm/complete", status: 400, call: { body: { model: "gpt" } } },
  "an unknown model": { path: chat, status: 404, call: { body: { model: "none", messages } } },
  "an unknown model of embeddings": {
    path: "/api/llm/embed",
    status: 404,
    call: { body: { model: "none", input: "Hi" } }
  },
  "a reservation that there is not": {
    path: chat,
    status: 404,
    call: { body: { model: "gpt", messages }, headers: { "x-reservation-id": "0198a5b0-7c00-7000-8000-000000000001" } }
  },
  "a call that a cap refuses": { path: chat, status: 402, call: { body: { model: "gpt", messages } }, caps: nothing },
  "a call that a cap refuses after a count": {
    path: "/v1/messages",
    status: 402,
    call: { body: { model: "claude", max_tokens: 10, messages: [{ role: "user", content: "x".repeat(40_000) }] } },
    caps: [{ limit: 0.01 }]
  },
  "a call that its provider refuses": {
    path: chat,
    status: 400,
    call: { body: { model: "gpt", messages: [{ role: "user", content: "refuse" }] } }
  },
  "a reserve that a cap refuses": {
    path: "/api/spend/reserve",
    status: 402,
    call: { body: { amountUsd: 1 } },
    caps: nothing
  },
  "the list of reservations": { method: "GET", path: "/api/spend/reservations", status: 200 },
  "a release of no reservation": {
    method: "DELETE",
    path: "/api/spend/reservations/0198a5b0-7c00-7000-8000-000000000001",
    status: 404
  }
}

const keyOf = Effect.fnUntraced(function* (service: Service, caps: ReadonlyArray<object>) {
  const tenantId = yield* makeTenant(service.database)
  for (const cap of caps) {
    const body = { tenantId, name: "a cap", unit: "usd", period: "total", ...cap }
    assert.strictEqual((yield* service.call("POST", "/api/budgets/caps", { body })).status, 201)
  }
  return (yield* makeKey(service, ["llm:*", "spend:*"], { tenantId })).key
})

layer(served, { excludeTestServices: true, timeout: "60 seconds" })("what reserves no budget", (it) => {
  for (const [name, { call, caps = [], method = "POST", path, status }] of Object.entries(unreserved)) {
    it.effect(`counts against its caller's rate: ${name}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { asked } = yield* Vendors
        const key = yield* keyOf(service, caps)
        const send = service.call(method, path, { ...call, key })
        assert.deepStrictEqual(statuses(yield* times(perMinute, send)), [status])
        const before = asked()
        assertLimited(yield* send, path)
        assert.isAtMost(asked(), before + (name === "a call that its provider refuses" ? 1 : 0))
        // A caller without requests left still gets what caps limit.
        if (caps.length > 0) return
        assert.strictEqual((yield* ask(service, key)).status, 200)
      })
    )
  }

  it.effect("counts against its caller's rate: repetitions of a call, and answers of the cache", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const [headers, status] of [
        [{ "idempotency-key": "once" }, 409],
        [{ "x-cache": "true" }, 200]
      ] as const) {
        const key = yield* keyOf(service, [])
        const send = ask(service, key, {}, headers)
        const first = yield* send
        assert.deepStrictEqual([first.status, first.headers.get("ratelimit")], [200, null])
        assert.deepStrictEqual(statuses(yield* times(perMinute, send)), [status])
        assertLimited(yield* send, chat)
      }
    })
  )

  it.effect("counts against its caller's rate: calls that lack their capability", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* makeKey(service, ["llm:embed"])
      assert.deepStrictEqual(statuses(yield* times(perMinute, ask(service, key))), [403])
      assertLimited(yield* ask(service, key), chat)
    })
  )

  it.effect("counts no reservation and no settlement, but their repetitions", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const key = yield* keyOf(service, [])
      for (const { body, headers, status } of yield* times(
        perMinute + 5,
        service.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 0.01 } })
      )) {
        assert.deepStrictEqual([status, headers.get("ratelimit")], [201, null])
        const settle = service.call("POST", "/api/spend/reconcile", {
          key,
          body: { reservationId: body.id, actualUsd: 0.005 }
        })
        const [settled, repeated] = yield* times(2, settle)
        assert.deepStrictEqual([settled?.status, settled?.headers.get("ratelimit")], [200, null])
        assert.isNotNull(repeated?.headers.get("ratelimit"))
      }
    })
  )

  it.effect("counts no call that reserves, one after another and at once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const key = yield* keyOf(service, [])
      const native = service.call("POST", "/api/llm/complete", { key, body: { model: "gpt", messages } })
      const answers = yield* Effect.forEach(
        Array.from({ length: 2 * perMinute + 10 }),
        (_, place) => (place % 2 === 0 ? ask(service, key) : native),
        { concurrency: 16 }
      )
      assert.deepStrictEqual(statuses(answers), [200])
      for (const { headers } of answers) assert.isNull(headers.get("ratelimit"))
    })
  )

  it.effect("is served no more often where it comes at once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const key = yield* keyOf(service, [])
      const paths = ["/v1/models/none", `/v1/responses/${unknown}`, "/v1/chat/completions"]
      const answers = yield* Effect.forEach(
        Array.from({ length: 3 * perMinute }),
        (_, place) => {
          const path = paths[place % paths.length] ?? chat
          const body = { model: "none", messages }
          return path === chat ? service.call("POST", path, { key, body }) : service.call("GET", path, { key })
        },
        { concurrency: "unbounded" }
      )
      const of = (wanted: number) => answers.filter(({ status }) => status === wanted).length
      assert.deepStrictEqual([of(404), of(429)], [perMinute, 2 * perMinute])
    })
  )

  it.effect("is not counted, looked up or sent on once the rate is used up; as much again, and nothing is served", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { asked } = yield* Vendors
      const key = yield* keyOf(service, [{ limit: 0.01 }])
      yield* times(perMinute, service.call("GET", "/v1/models", { key }))
      const before = asked()
      const { call, path } = unreserved["a call that a cap refuses after a count"] ?? assert.fail()
      const large = service.call("POST", path, { ...call, key })
      assertLimited(yield* large, path)
      assert.strictEqual(asked(), before)
      const read = yield* service.call("POST", "/v1/responses", {
        key,
        body: { model: "gpt", input: [reference], max_output_tokens: 1 }
      })
      assertLimited(read, "/v1/responses")
      const small = { max_tokens: 1 }
      assert.strictEqual((yield* ask(service, key, small)).status, 200)
      yield* times(perMinute, large)
      assertLimited(yield* ask(service, key, small), chat)
    })
  )
})
