import { assert, layer } from "@effect/vitest"
import { Effect, Logger } from "effect"
import * as Logging from "../../../src/platform/observability/logging.ts"
import { makeDatabase } from "../../support/database.ts"
import { ask, charges, configure, model, provider, spender } from "../../support/gateway.ts"
import { assertProblem } from "../../support/problem.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, startService, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("an error of a provider", (it) => {
  it.effect("that says that the gateway's account is empty is asked once, and told as the gateway's own trouble", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const error = { message: "Check your plan.", type: "insufficient_quota", param: null, code: "insufficient_quota" }
      const empty = yield* startProvider((_, response) => json(response, 429, { error }, { "x-should-retry": "false" }))
      const good = yield* startProvider(openAiVendor)
      yield* configure(
        service,
        [provider("empty", empty), provider("good", good)],
        [model("gpt", ["empty", "good"]), model("alone", ["empty"])],
        { retries: 2 }
      )
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
      const answered = yield* ask(service, key, { max_tokens: 30 })
      assert.strictEqual(answered.status, 200, answered.text)
      assert.deepStrictEqual([empty.requests.length, good.requests.length], [1, 1])
      const refused = yield* ask(service, key, { model: "alone", max_tokens: 30 })
      assert.deepStrictEqual([refused.status, refused.body.error.code], [502, "provider-credentials"])
      assert.lengthOf(empty.requests, 2)
      const last = (yield* charges(service, tenantId)).at(-1)
      assert.deepInclude(last, { state: "released", amount: "0" })
    }).pipe(Effect.scoped)
  )

  for (const [what, members] of [
    ["a name that every object has", { code: "toString" }],
    ["the type of no error", { type: "__proto__" }],
    ["half a status", { code: 418.5 }],
    ["half a status in digits", { code: "418.5" }],
    ["a code that is no text", { code: { toString: 1 } }]
  ] as const) {
    it.effect(`with ${what} is 502, and costs nothing`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const odd = yield* startProvider((_, response) =>
          json(response, 200, { error: { message: "No.", ...members } })
        )
        yield* configure(service, [provider("odd", odd)], [model("gpt", ["odd"])], { retries: 0 })
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        const answered = yield* ask(service, key, { max_tokens: 30 })
        assert.strictEqual(answered.status, 502, answered.text)
        assert.deepInclude((yield* charges(service, tenantId)).at(-1), { state: "released", amount: "0" })
      }).pipe(Effect.scoped)
    )
  }

  it.effect("names the provider in the answer and in the log, without what the provider said", () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const logger = Logger.map(Logging.json, (line) => void lines.push(line))
      const service = yield* startService(yield* makeDatabase, {}, [logger])
      const broken = yield* startProvider((_, response) => json(response, 500, { error: { message: "Prompt: Hi" } }))
      const gone = { id: "gone", dialect: "openai", baseUrl: "http://127.0.0.1:1" }
      yield* configure(
        service,
        [gone, provider("broken", broken)],
        [model("gpt", ["gone"]), model("other", ["broken"])],
        { retries: 0 }
      )
      const unreachable = yield* ask(service, service.serviceKey)
      assert.strictEqual(unreachable.status, 502, unreachable.text)
      assert.strictEqual(unreachable.body.error.message, "The provider gone cannot be reached.")
      const native = yield* service.call("POST", "/api/llm/complete", {
        body: { model: "other", messages: [{ role: "user", content: "Hi" }] }
      })
      assertProblem(native, 502, "provider-unavailable")
      assert.strictEqual(native.body.detail, "The provider broken failed: Prompt: Hi")
      const logged = lines.filter((line) => line.includes("failed")).map((line) => JSON.parse(line))
      assert.deepStrictEqual(
        logged.map(({ message, provider, traceId }) => [message, provider, traceId]),
        [
          ["The provider gone failed", "gone", logged[0].traceId],
          ["The provider broken failed", "broken", native.body.traceId]
        ]
      )
      assert.notInclude(lines.join(), "Prompt: Hi")
    }).pipe(Effect.scoped)
  )

  it.effect("is told with the headers that its answers have too, and in its dialect as it came", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const error = { message: "Slow down.", type: "tokens", param: null, code: "rate_limit_exceeded" }
      const oa = yield* startProvider((_, response) =>
        json(
          response,
          429,
          { error },
          { "x-request-id": "req_oa", "x-ratelimit-remaining-tokens": "0", "retry-after": "20", "set-cookie": "a=b" }
        )
      )
      const details = { error_visibility: "user_facing" }
      const an = yield* startProvider((_, response) =>
        json(
          response,
          529,
          { type: "error", error: { type: "overloaded_error", message: "Busy.", details } },
          { "request-id": "req_an", "anthropic-ratelimit-requests-limit": "50" }
        )
      )
      yield* configure(
        service,
        [provider("oa", oa), { id: "an", dialect: "anthropic", baseUrl: an.url }],
        [model("gpt", ["oa"]), model("claude", ["an"])]
      )
      const messages = [{ role: "user", content: "Hi" }]
      const openai = yield* ask(service, service.serviceKey)
      assert.deepStrictEqual([openai.status, openai.body], [429, { error }])
      assert.strictEqual(openai.headers.get("x-upstream-request-id"), "req_oa")
      assert.notStrictEqual(openai.headers.get("x-request-id"), "req_oa")
      assert.strictEqual(openai.headers.get("x-ratelimit-remaining-tokens"), "0")
      assert.strictEqual(openai.headers.get("retry-after"), "20")
      assert.isNull(openai.headers.get("set-cookie"))
      for (const path of ["/v1/messages", "/v1/messages/count_tokens"]) {
        const anthropic = yield* service.call("POST", path, { body: { model: "claude", max_tokens: 9, messages } })
        assert.strictEqual(anthropic.status, 529, anthropic.text)
        const message = "The provider an failed: Busy."
        assert.deepStrictEqual(anthropic.body.error, { type: "overloaded_error", message, details })
        assert.strictEqual(anthropic.headers.get("x-upstream-request-id"), "req_an")
        assert.strictEqual(anthropic.headers.get("anthropic-ratelimit-requests-limit"), "50")
      }
      const other = yield* ask(service, service.serviceKey, { model: "claude" })
      assert.deepInclude(other.body.error, { type: "server_error", code: "overloaded_error" })
      assert.strictEqual(other.headers.get("x-upstream-request-id"), "req_an")
    }).pipe(Effect.scoped)
  )
})
