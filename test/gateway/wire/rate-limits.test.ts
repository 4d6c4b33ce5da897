import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { holdBack } from "../../support/gateway-vendors.ts"
import { ask, configure, counters, model, provider, spender } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import { type Answer, serviceLayer, sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor, used } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

const messages = [{ role: "user", content: "What time is it?" }]
const askAnthropic = (service: Service, key: string, body: object = {}) =>
  service.call("POST", "/v1/messages", { key, body: { model: "gpt", max_tokens: 30, messages, ...body } })

/** What an answer says of limits, in the names of both vendors. */
const quotaIn = ({ headers }: Answer) =>
  Object.fromEntries([...headers].filter(([name]) => /^(?:x|anthropic)-ratelimit-/.test(name)))

const limitedBy = Effect.fnUntraced(function* (service: Service, cap: object) {
  const standIn = yield* startProvider(openAiVendor)
  yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
  return { standIn, ...(yield* spender(service, [cap])) }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a call above a rate", (it) => {
  it.effect("is told what its requests are limited to, in the headers of its dialect", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* limitedBy(service, { unit: "requests", limit: 1, period: "hour" })
      assert.deepStrictEqual(quotaIn(yield* ask(service, key)), {})
      const openai = yield* ask(service, key)
      assert.strictEqual(openai.status, 429, openai.text)
      const { "x-ratelimit-reset-requests": wait = "", ...rest } = quotaIn(openai)
      assert.deepStrictEqual(rest, { "x-ratelimit-limit-requests": "1", "x-ratelimit-remaining-requests": "0" })
      assert.match(wait, /^(?:1h0m0s|(?:[1-5]?\dm)?[1-5]?\ds)$/)
      assert.match(openai.headers.get("retry-after") ?? "", /^[1-6]?\d$/)
      const anthropic = yield* askAnthropic(service, key)
      assert.strictEqual(anthropic.status, 429, anthropic.text)
      const { "anthropic-ratelimit-requests-reset": reset = "", ...others } = quotaIn(anthropic)
      assert.deepStrictEqual(others, {
        "anthropic-ratelimit-requests-limit": "1",
        "anthropic-ratelimit-requests-remaining": "0"
      })
      assert.match(reset, /^\d{4}-\d\d-\d\dT\d\d:00:00Z$/)
    }).pipe(Effect.scoped)
  )

  it.effect("is told what is left of its tokens, and when a window has rolled on", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const window = { period: "rolling", windowSeconds: 60 }
      const { key, tenantId } = yield* limitedBy(service, { unit: "tokens", limit: 1000, ...window })
      assert.strictEqual((yield* ask(service, key, { max_tokens: 30 })).status, 200)
      yield* eventually(counters(service, tenantId), ([row]) => row?.reserved === "0")
      const refused = yield* ask(service, key, { max_tokens: 5000 })
      assert.strictEqual(refused.status, 429, refused.text)
      const { "x-ratelimit-reset-tokens": wait = "", ...rest } = quotaIn(refused)
      assert.deepStrictEqual(rest, {
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": String(1000 - used.input - used.output)
      })
      assert.match(wait, /^(?:1m0|5\d)s$/)
    }).pipe(Effect.scoped)
  )

  it.effect("is told nothing of the kind where money is in flight, or where the limit is everybody's", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key, standIn } = yield* limitedBy(service, { limit: 0.001 })
      const held = holdBack(standIn)
      const first = yield* Effect.forkChild(ask(service, key, { max_tokens: 30 }), { startImmediately: true })
      yield* eventually(
        Effect.sync(() => held.waiting.length),
        (count) => count === 1
      )
      const inFlight = yield* ask(service, key, { max_tokens: 30 })
      assert.deepStrictEqual([inFlight.status, inFlight.headers.get("retry-after")], [429, "1"], inFlight.text)
      assert.deepStrictEqual(quotaIn(inFlight), {})
      held.letGo()
      yield* Fiber.join(first)
      const everybody = { name: "everybody", unit: "requests", limit: 0, period: "minute", scope: { model: "gpt" } }
      const made = yield* service.call("POST", "/api/budgets/caps", { body: { ...everybody, tenantId: null } })
      assert.strictEqual(made.status, 201, made.text)
      const { key: another } = yield* spender(service, [])
      const refused = yield* ask(service, another)
      assert.strictEqual(refused.status, 429, refused.text)
      assert.deepStrictEqual(quotaIn(refused), {})
      const system = quotaIn(yield* ask(service, service.serviceKey))
      assert.strictEqual(system["x-ratelimit-limit-requests"], "0")
      assert.strictEqual((yield* service.call("DELETE", `/api/budgets/caps/${made.body.id}`)).status, 204)
    }).pipe(Effect.scoped)
  )
})

const limits = serviceLayer({ Api__RateLimit__Enabled: "true", Api__RateLimit__AnonymousPerMinute: "1" })

layer(limits, { excludeTestServices: true, timeout: "60 seconds" })("a call without a valid credential", (it) => {
  it.effect("is told how many of them its address has, once they are used up", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const first = yield* ask(service, "amk_nobody")
      assert.deepStrictEqual([first.status, quotaIn(first)], [401, {}])
      const second = yield* ask(service, "amk_nobody")
      assert.strictEqual(second.status, 429, second.text)
      const { "x-ratelimit-reset-requests": wait = "", ...rest } = quotaIn(second)
      assert.deepStrictEqual(rest, { "x-ratelimit-limit-requests": "1", "x-ratelimit-remaining-requests": "0" })
      assert.match(wait, /^(?:1m0|[1-5]?\d)s$/)
      const third = quotaIn(yield* askAnthropic(service, "amk_nobody"))
      assert.strictEqual(third["anthropic-ratelimit-requests-limit"], "1")
    })
  )
})
