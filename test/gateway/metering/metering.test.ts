import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey } from "../../support/authority.ts"
import { ask, charges, configure, costNanoUsd, counters, model, provider, spender } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor, said } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

const options = { excludeTestServices: true, timeout: "60 seconds" } as const

layer(sharedServiceLayer, options)("metering", (it) => {
  it.effect("never spends above a cap with 64 callers on its last cents, and nothing stays reserved", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const limitUsd = 0.005
      const { key, tenantId } = yield* spender(service, [{ limit: limitUsd }])
      const answers = yield* Effect.forEach(
        Array.from({ length: 64 }, (_, index) => index),
        (index) => ask(service, key, { max_tokens: 30, stream: index % 2 === 0 }),
        { concurrency: 64 }
      )
      const statuses = new Set(answers.map(({ status }) => status))
      assert.isTrue(
        [...statuses].every((status) => [200, 402, 429].includes(status)),
        [...statuses].join()
      )
      const served = answers.filter(({ status }) => status === 200).length
      assert.isAbove(served, 0)
      assert.isBelow(served, 64)
      const [counter] = yield* eventually(counters(service, tenantId), ([row]) => row?.reserved === "0")
      assert.strictEqual(counter?.spent, String(served * costNanoUsd))
      assert.isAtMost(Number(counter?.spent), limitUsd * 1e9)
    }).pipe(Effect.scoped)
  )

  it.effect("says what is left, and denies what does not fit in the words of the dialect", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const { key, tenantId } = yield* spender(service, [{ limit: 0.001 }])
      const good = yield* ask(service, key, { max_tokens: 30 })
      assert.strictEqual(good.status, 200, good.text)
      assert.strictEqual(good.headers.get("x-cost-usd"), "0.00034")
      assert.strictEqual(good.headers.get("x-budget-remaining-usd"), "0.00066")
      assert.match(good.headers.get("x-reservation-id") ?? "", /^[0-9a-f-]{36}$/)
      const larger = yield* ask(service, key, { max_tokens: 100_000 })
      assert.strictEqual(larger.status, 402)
      assert.deepInclude(larger.body.error, { type: "insufficient_quota", code: "request_exceeds_budget" })
      assert.strictEqual(larger.headers.get("x-should-retry"), "false")
      const anthropic = yield* service.call("POST", "/v1/messages", {
        key,
        body: { model: "gpt", max_tokens: 100_000, messages: [{ role: "user", content: "Hi" }] }
      })
      assert.strictEqual(anthropic.status, 402)
      assert.strictEqual(anthropic.body.error.type, "billing_error")
      assert.lengthOf(standIn.requests, 1)
      const [counter] = yield* counters(service, tenantId)
      assert.deepStrictEqual(counter, { spent: String(costNanoUsd), reserved: "0" })
    }).pipe(Effect.scoped)
  )

  it.effect("sends a limit that fits where none was asked for, and never lowers one that was", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"], { maxOutputTokens: 50 })])
      const rich = yield* spender(service, [{ limit: 1 }])
      yield* ask(service, rich.key)
      assert.strictEqual(standIn.requests.at(-1)?.body.max_tokens, 50)
      const poor = yield* spender(service, [{ limit: 0.0007 }])
      yield* ask(service, poor.key)
      const sent: number = standIn.requests.at(-1)?.body.max_tokens
      assert.isAbove(sent, 0)
      assert.isBelow(sent, 50)
      const few = yield* spender(service, [{ unit: "tokens", limit: 210 }])
      const answered = yield* ask(service, few.key)
      assert.strictEqual(answered.status, 200, answered.text)
      const fitted: number = standIn.requests.at(-1)?.body.max_tokens
      assert.isTrue(fitted > 0 && fitted < 50, String(fitted))
      yield* ask(service, rich.key, { max_tokens: 7 })
      const { max_completion_tokens, max_tokens } = standIn.requests.at(-1)?.body ?? {}
      assert.deepStrictEqual([max_tokens, max_completion_tokens], [7, undefined])
      const free = yield* spender(service, [])
      yield* ask(service, free.key)
      assert.isUndefined(standIn.requests.at(-1)?.body.max_tokens)
    }).pipe(Effect.scoped)
  )

  it.effect("refuses what has no price or no bound where a cap asks for one, and lets it through where none does", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      const { prices: _, ...unpriced } = model("odd", ["oa"])
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"]), unpriced])
      const capped = yield* spender(service, [{ limit: 1 }])
      const free = yield* spender(service, [])
      const audio = [{ role: "user", content: [{ type: "input_audio", input_audio: {} }] }]
      for (const [body, code] of [
        [{ model: "odd" }, "model_unpriced"],
        [{ messages: audio }, "cost_unbounded"]
      ] as const) {
        const refused = yield* ask(service, capped.key, body)
        assert.strictEqual(refused.status, 403, refused.text)
        assert.strictEqual(refused.body.error.code, code)
        assert.strictEqual((yield* ask(service, free.key, body)).status, 200)
      }
      assert.lengthOf(standIn.requests, 2)
    }).pipe(Effect.scoped)
  )

  it.effect("takes caps in requests for rate limits", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const { key } = yield* spender(service, [{ unit: "requests", limit: 1, period: "hour" }])
      assert.strictEqual((yield* ask(service, key)).status, 200)
      const limited = yield* ask(service, key)
      assert.strictEqual(limited.status, 429)
      const seconds = Number(limited.headers.get("retry-after"))
      assert.isTrue(seconds >= 1 && seconds <= 60)
    }).pipe(Effect.scoped)
  )

  it.effect("records a denied call in the audit log, once a minute for each cap and reason", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const { key, tenantId } = yield* spender(service, [
        { name: "One an hour", unit: "requests", limit: 1, period: "hour" },
        { name: "A cent", limit: 0.01 }
      ])
      assert.strictEqual((yield* ask(service, key, { max_tokens: 100_000 })).status, 402)
      assert.strictEqual((yield* ask(service, key, { max_tokens: 30 })).status, 200)
      for (let times = 0; times < 3; times++) {
        assert.strictEqual((yield* ask(service, key, { max_tokens: 30 })).status, 429)
      }
      const { body } = yield* service.call("GET", `/api/audit-logs?actionType=SpendRefused&tenantId=${tenantId}`)
      assert.deepStrictEqual(
        body.items.map(({ reason }: { readonly reason: string }) => reason.split(" Asked for: ")[0]),
        [
          'The cap "One an hour" has no room: what is left is less than the amount.',
          'The cap "A cent" has no room: the amount is more than it ever allows.'
        ]
      )
      const { body: first } = yield* service.call("GET", `/api/audit-logs/${body.items[1].id}`)
      assert.deepInclude(first, { outcome: "denied", actorType: "api-key", tenantId })
      assert.deepInclude(first.changes.after, { reason: "exceeds-limit", unit: "usd", limit: 0.01, model: "gpt" })
    }).pipe(Effect.scoped)
  )

  it.effect("goes to the next provider, whose caps govern then; what may have cost something is charged in full", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const silent = yield* startProvider(() => {})
      const broken = yield* startProvider((_, response) => json(response, 500, {}))
      const good = yield* startProvider(openAiVendor)
      yield* configure(
        service,
        [provider("silent", silent, { timeoutSeconds: 1 }), provider("broken", broken), provider("good", good)],
        [model("gpt", ["silent", "broken", "good"])]
      )
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
      const answer = yield* ask(service, key, { max_tokens: 30 })
      assert.strictEqual(answer.status, 200, answer.text)
      assert.strictEqual(answer.body.choices[0].message.content, said)
      const rows = yield* charges(service, tenantId)
      assert.deepStrictEqual(
        rows.map(({ method, state }) => [state, method]),
        [
          ["settled", "unanswered"],
          ["released", "released"],
          ["settled", "provider_usage"]
        ]
      )
      assert.strictEqual(rows[2]?.amount, String(costNanoUsd))
      const denied = yield* spender(service, [{ limit: 1 }, { scope: { provider: "good" }, limit: 0 }])
      const refused = yield* ask(service, denied.key, { max_tokens: 30 })
      assert.strictEqual(refused.status, 402, refused.text)
      assert.lengthOf(good.requests, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("counts by bytes where a provider tells no usage", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((_, response) =>
        json(response, 200, { choices: [{ message: { content: said }, finish_reason: "stop" }] })
      )
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
      assert.strictEqual((yield* ask(service, key, { max_tokens: 30 })).status, 200)
      const [row] = yield* charges(service, tenantId)
      assert.strictEqual(row?.method, "estimated")
      assert.isAbove(Number(row?.amount), 0)
    }).pipe(Effect.scoped)
  )

  it.effect("lets nobody call without a capability, a body that can be read, and members that it must read", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const { key: reader } = yield* makeKey(service, ["llm:read"])
      assert.strictEqual((yield* ask(service, reader)).status, 403)
      const path = "/v1/chat/completions"
      assert.strictEqual((yield* service.call("POST", path, { key: null, body: {} })).status, 401)
      for (const body of ["{", "[]", '"x"']) {
        assert.strictEqual((yield* service.call("POST", path, { body })).body.error.code, "invalid_json")
      }
      for (const [body, param] of [
        [{ model: 1 }, "model"],
        [{ messages: [] }, "messages"],
        [{ messages: [{}] }, "messages.0.role"],
        [{ max_tokens: -1 }, "max_tokens"],
        [{ stream: "yes" }, "stream"]
      ] as const) {
        const refused = yield* ask(service, service.serviceKey, body)
        assert.strictEqual(refused.status, 400, refused.text)
        assert.strictEqual(refused.body.error.param, param)
      }
      assert.isEmpty(standIn.requests)
    }).pipe(Effect.scoped)
  )
})
