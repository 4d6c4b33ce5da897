import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { configureVendors } from "../../support/gateway-vendors.ts"
import { configure, model, spender } from "../../support/gateway.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { exchange, requestText } from "../../support/raw-http.ts"
import { type Answer, type Call, serviceLayer, TestService } from "../../support/service.ts"

const messages = [{ role: "user", content: "What time is it?" }]
const chat = { path: "/v1/chat/completions", body: { model: "gpt", messages } }
const message = { path: "/v1/messages", body: { model: "gpt", max_tokens: 9, messages } }
const native = { path: "/api/llm/complete", body: { model: "gpt", messages } }
const embeddings = { path: "/v1/embeddings", body: { model: "gpt", input: "a" } }

const maxBodyBytes = 1_000_000

/** JSON that is nested as deeply as it may be, or more. */
const deep = (times: number) => (open: string, close: string) => `${open.repeat(times)}{}${close.repeat(times)}`

/** What each dialect's SDK reads of an error. */
const inDialect = (path: string, { body, status }: Answer) =>
  path === message.path
    ? { status, shape: [body.type, body.error.type], message: body.error.message, id: body.request_id }
    : { status, shape: [body.error.type, body.error.code, body.error.param], message: body.error.message }

layer(serviceLayer({ Llm__Gateway__MaxBodyBytes: String(maxBodyBytes) }), {
  excludeTestServices: true,
  timeout: "60 seconds"
})("bad input to the gateway", (it) => {
  const ask = Effect.fnUntraced(function* (path: string, body: unknown, call: Call = {}) {
    const service = yield* TestService
    return yield* service.call("POST", path, { ...call, body })
  })

  it.effect("a model that nobody has is 404 in the words of the dialect", () =>
    Effect.gen(function* () {
      for (const { body, path } of [chat, embeddings]) {
        const answer = inDialect(path, yield* ask(path, { ...body, model: "nothing" }))
        assert.deepStrictEqual(
          [answer.status, answer.shape],
          [404, ["invalid_request_error", "model_not_found", "model"]]
        )
        assert.include(answer.message, "`nothing`")
      }
      const answer = inDialect(message.path, yield* ask(message.path, { ...message.body, model: "nothing" }))
      assert.deepStrictEqual([answer.status, answer.shape], [404, ["error", "not_found_error"]])
      assert.isNotEmpty(answer.id)
      assertProblem(yield* ask(native.path, { ...native.body, model: "nothing" }), 404, "model-not-found")
    })
  )

  it.effect("messages that are none are 400 and named, every one of them", () =>
    Effect.gen(function* () {
      const { openai } = yield* configureVendors(yield* TestService, [model("gpt", ["oa"])])
      for (const { body, path } of [chat, message]) {
        for (const [members, named] of [
          [{ messages: undefined }, ["messages"]],
          [{ messages: [] }, ["messages"]],
          [{ messages: "Hello" }, ["messages"]],
          [{ messages: [...messages, { content: "Hello" }, "Hello"] }, ["messages.1.role", "messages.2.role"]],
          [{ max_tokens: -1, stream: "yes" }, ["max_tokens", "stream"]],
          [{ model: 1 }, ["model"]]
        ] as const) {
          const answer = inDialect(path, yield* ask(path, { ...body, ...members }))
          assert.strictEqual(answer.status, 400)
          for (const name of named) assert.include(answer.message, name)
          if (path === chat.path) assert.strictEqual(answer.shape[2], named[0])
        }
      }
      const { max_tokens: _, ...limitless } = message.body
      assert.match(inDialect(message.path, yield* ask(message.path, limitless)).message, /max_tokens/)
      const faults = faultPaths(yield* ask(native.path, { ...native.body, messages: [{ role: "nobody" }], extra: 1 }))
      assert.includeMembers([...faults], ["payload.messages.0.role", "payload.extra"])
      assert.isEmpty(openai.requests)
    }).pipe(Effect.scoped)
  )

  it.effect("limits beyond what any model writes are 400, and too many faults are counted", () =>
    Effect.gen(function* () {
      const { openai } = yield* configureVendors(yield* TestService, [model("gpt", ["oa"])])
      for (const [members, named] of [
        [{ max_tokens: Number.MAX_SAFE_INTEGER }, "max_tokens"],
        [{ max_completion_tokens: 2 ** 31 }, "max_completion_tokens"],
        [{ n: 1025 }, "n"]
      ] as const) {
        const answer = inDialect(chat.path, yield* ask(chat.path, { ...chat.body, ...members }))
        assert.deepStrictEqual([answer.status, answer.shape[2]], [400, named])
      }
      const dear = yield* ask(chat.path, { ...chat.body, max_tokens: 2 ** 31 - 1, n: 1024 })
      assert.deepStrictEqual([dear.status, dear.body.error.code], [402, "request_exceeds_budget"])
      const many = inDialect(chat.path, yield* ask(chat.path, { ...chat.body, messages: Array(1000).fill("Hi") }))
      assert.match(many.message, /; and 950 more$/)
      assert.isEmpty(openai.requests)
    }).pipe(Effect.scoped)
  )

  it.effect(
    "members that are there twice, or in capitals, are 400: not every provider would read what is metered",
    () =>
      Effect.gen(function* () {
        const { openai } = yield* configureVendors(yield* TestService, [model("gpt", ["oa"])])
        const headers = { "content-type": "application/json" }
        const rest = '"messages":[{"role":"user","content":"Hi \\" \\\\"}]'
        for (const [text, named] of [
          [`{"model":"gpt","max_tokens":100000,${rest},"max_tokens":1}`, "max_tokens"],
          [`{"model":"gpt",${rest}, "m\\u006fdel" : "dear"}`, "model"],
          [`{"model":"gpt","messages":[{"role":"user","content":"Hi","content":"Ho"}]}`, "content"],
          [`{"model":"gpt",${rest},"max_tokens":1,"Max_Tokens":100000}`, "Max_Tokens"],
          [`{"model":"gpt",${rest},"max_token\u017f":100000}`, "max_token\u017f"],
          [`{"model":"gpt",${rest},"max_tokens":1,"max_to\u212aens":100000}`, "max_to\u212aens"]
        ] as const) {
          const answer = inDialect(chat.path, yield* ask(chat.path, text, { headers }))
          assert.deepStrictEqual([answer.status, answer.shape[2]], [400, named], text)
        }
        assert.isEmpty(openai.requests)
        const good = `{"model":"gpt",${rest},"metadata":{"model":"a","messages":"b"},"tools":[]}`
        const { status } = yield* ask(chat.path, good, { headers })
        assert.strictEqual(status, 200)
      }).pipe(Effect.scoped)
  )

  it.effect("members that are nested deeply break nothing, and more than 1,000 within each other are 400", () =>
    Effect.gen(function* () {
      yield* configureVendors(yield* TestService, [model("gpt", ["oa"]), model("claude", ["an"])])
      const headers = { "content-type": "application/json" }
      for (const [times, isTooDeep] of [
        [490, false],
        [10_000, true]
      ] as const) {
        const nested = deep(times)
        const results = `[{"role":"user","content":${nested('[{"type":"tool_result","content":', "}]")}}]`
        const schema = nested('{"properties":', "}")
        const rest = '"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]'
        for (const [path, text, expected] of [
          [message.path, `{"model":"claude","max_tokens":9,"messages":${results}}`, 400],
          [message.path, `{"model":"gpt","max_tokens":9,"messages":${results}}`, 400],
          ["/v1/messages/count_tokens", `{"model":"gpt","messages":${results}}`, 200],
          [message.path, `{"model":"gpt",${rest},"tools":[{"name":"a","input_schema":${schema}}]}`, 200],
          [native.path, `{"model":"gpt","messages":[],"tools":[{"name":"a","parameters":${schema}}]}`, 400],
          [chat.path, `{"model":"gpt",${rest},"prediction":${schema}}`, 400]
        ] as const) {
          const { status, text: told } = yield* ask(path, text, { headers })
          assert.strictEqual(status, isTooDeep ? 400 : expected, told.slice(0, 500))
          assert.strictEqual(told.includes("within each other"), isTooDeep)
        }
      }
    }).pipe(Effect.scoped)
  )

  it.effect("a byte order mark before the body is passed over", () =>
    Effect.gen(function* () {
      const { openai } = yield* configureVendors(yield* TestService, [model("gpt", ["oa"])])
      for (const { body, path } of [chat, message, native]) {
        const answer = yield* ask(path, `\ufeff${JSON.stringify(body)}`, {
          headers: { "content-type": "application/json" }
        })
        assert.strictEqual(answer.status, 200, answer.text)
      }
      assert.lengthOf(openai.requests, 3)
    }).pipe(Effect.scoped)
  )

  it.effect("members that another dialect has no words for are 400 and named", () =>
    Effect.gen(function* () {
      const { anthropic } = yield* configureVendors(yield* TestService, [model("gpt", ["an"])])
      const answer = inDialect(chat.path, yield* ask(chat.path, { ...chat.body, n: 2, logprobs: true }))
      assert.strictEqual(answer.status, 400)
      assert.match(answer.message, /^n: .*logprobs: /)
      assert.isEmpty(anthropic.requests)
    }).pipe(Effect.scoped)
  )

  it.effect("paths that the gateway does not have are 404 in the words of the dialect", () =>
    Effect.gen(function* () {
      const openai = yield* ask("/v1/vector_stores", {})
      assert.deepStrictEqual([openai.status, openai.body.error.code], [404, "unknown_url"])
      for (const [path, headers] of [
        ["/v1/messages/threads", {}],
        ["/v1/skills", { "anthropic-version": "2023-06-01" }]
      ] as const) {
        const anthropic = yield* ask(path, {}, { headers })
        assert.deepStrictEqual([anthropic.status, anthropic.body.error.type], [404, "not_found_error"])
      }
    })
  )

  it.effect("wrong base URLs are told the right ones", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const [path, says] of [
        ["/v1/v1/chat/completions", /contains \/v1 twice: .*\/v1, /],
        ["/chat/completions", /lacks \/v1: /],
        ["/responses", /lacks \/v1: /],
        ["/batches", /lacks \/v1: /],
        ["/v1/nothing", /It serves .*\/v1\/chat\/completions, .*\/v1\/responses/]
      ] as const) {
        const answer = yield* ask(path, {})
        assert.strictEqual(answer.status, 404)
        assert.match(answer.body.error.message, says)
      }
      for (const method of ["GET", "HEAD"]) {
        assert.strictEqual((yield* service.call(method, "/v1", { key: null })).status, 200)
      }
    })
  )

  it.effect("methods that a path does not have are 405 in the words of the dialect, with Allow", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const [method, path, allow, shape] of [
        ["GET", chat.path, "POST, OPTIONS", ["invalid_request_error", "method_not_allowed", null]],
        ["DELETE", embeddings.path, "POST, OPTIONS", ["invalid_request_error", "method_not_allowed", null]],
        ["GET", `${message.path}?beta=true`, "POST, OPTIONS", ["error", "invalid_request_error"]],
        ["POST", "/v1/models", "GET, HEAD, OPTIONS", ["invalid_request_error", "method_not_allowed", null]],
        ["DELETE", "/v1/models/gpt", "GET, HEAD, OPTIONS", ["invalid_request_error", "method_not_allowed", null]]
      ] as const) {
        const answer = yield* service.call(method, path)
        const told = inDialect(path.split("?")[0] ?? "", answer)
        assert.deepStrictEqual([told.status, told.shape], [405, shape], path)
        assert.strictEqual(answer.headers.get("allow"), allow)
      }
      for (const path of ["/v1/models", "/v1/models/loopback-1"]) {
        const [got, head] = [yield* service.call("GET", path), yield* service.call("HEAD", path)]
        assert.deepStrictEqual([got.status, head.status, head.text], [200, 200, ""], path)
        assert.strictEqual(head.headers.get("content-type"), got.headers.get("content-type"))
      }
      assert.strictEqual((yield* service.call("HEAD", `/v1/responses/resp_${"0".repeat(32)}`)).status, 404)
      assert.strictEqual((yield* service.call("HEAD", chat.path)).status, 405)
      const asked = yield* service.call("OPTIONS", chat.path)
      assert.deepStrictEqual([asked.status, asked.headers.get("allow")], [204, "POST, OPTIONS"])
    })
  )

  it.effect("a WebSocket at a path that has none is 400, saying what to do instead", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const lines = [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        `Authorization: Bearer ${service.serviceKey}`
      ]
      const { answers } = yield* exchange(service.url, requestText("GET", "/v1/chat/completions", lines))
      const told = inDialect("/v1/chat/completions", answers[0]!)
      assert.deepStrictEqual([told.status, told.shape], [400, ["invalid_request_error", "invalid_request", "upgrade"]])
      assert.match(told.message, /at \/v1\/responses and \/v1\/realtime alone: POST/)
    })
  )

  it.effect("bodies that are no JSON object are 400", () =>
    Effect.gen(function* () {
      const headers = { "content-type": "application/json" }
      for (const { path } of [chat, message, embeddings]) {
        for (const body of ["", "{", "[]", "1", "null"]) {
          const answer = inDialect(path, yield* ask(path, body, { headers }))
          assert.strictEqual(answer.status, 400)
          assert.match(answer.message, /JSON/)
        }
      }
    })
  )

  it.effect("bodies that are too large are 413, whether or not they say so", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const large = { messages: [{ role: "user", content: "a".repeat(maxBodyBytes) }] }
      for (const { body, path } of [chat, message, embeddings]) {
        const answer = inDialect(path, yield* ask(path, { ...body, ...large }))
        assert.strictEqual(answer.status, 413)
        if (path === message.path) assert.deepStrictEqual(answer.shape, ["error", "request_too_large"])
      }
      const streamed = yield* Effect.promise(() =>
        fetch(`${service.url}${chat.path}`, {
          method: "POST",
          headers: { "x-api-key": service.serviceKey, "content-type": "application/json" },
          body: new Blob([JSON.stringify({ ...chat.body, ...large })]).stream(),
          duplex: "half"
        } as RequestInit)
      )
      assert.strictEqual(streamed.status, 413)
    })
  )

  it.effect("a model without a price is 403 under a cap in money", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { openai } = yield* configureVendors(service, [])
      const { prices: _, ...unpriced } = model("gpt", ["oa"])
      const providers = [{ id: "oa", dialect: "openai", baseUrl: `${openai.url}/v1` }]
      yield* configure(service, providers, [unpriced])
      const { key } = yield* spender(service, [{ limit: 1 }])
      const refused = yield* ask(chat.path, chat.body, { key })
      assert.deepStrictEqual(inDialect(chat.path, refused).shape, ["permission_error", "model_unpriced", null])
      const other = inDialect(message.path, yield* ask(message.path, message.body, { key }))
      assert.deepStrictEqual([other.status, other.shape], [403, ["error", "permission_error"]])
      assertProblem(yield* ask(native.path, native.body, { key }), 403, "model-unpriced")
      assert.isEmpty(openai.requests)
    }).pipe(Effect.scoped)
  )
})
