import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { gatewaySnapshot } from "../../../src/gateway/configuration/gateway-snapshot.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { type UsageMeter } from "../../../src/gateway/metering/usage-meter.ts"
import { ResponseCache } from "../../../src/gateway/pipeline/response-cache.ts"
import { type CallAnswer } from "../../../src/gateway/pipeline/response-relay.ts"
import { TenantId } from "../../../src/kernel/identifier.ts"
import { configureVendors, reservationsOf } from "../../support/gateway-vendors.ts"
import { costNanoUsd, model, spender } from "../../support/gateway.ts"
import { runningLoopback } from "../../support/loopback.ts"
import { json, sse } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { said } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

const chat = "/v1/chat/completions"
const complete = "/api/llm/complete"
const messages = [{ role: "user", content: "What time is it?" }]
const cached = { "x-cache": "true" }

const ask = (service: Service, key: string, body: object = {}, headers: Record<string, string> = cached) =>
  service.call("POST", chat, { key, headers, body: { model: "gpt", messages, ...body } })

const savedNanoUsd = ({ savingsUsd }: { readonly savingsUsd: number }) => Math.round(savingsUsd * 1e9)

/** The text of a stream, and what was told of the cache. */
const stream = ({ url }: Service, key: string, path = chat, body: object = {}) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json", ...cached },
      body: JSON.stringify({ model: "gpt", messages, stream: true, ...body })
    })
    return { told: response.headers.get("x-cache"), text: await response.text() }
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the response cache", (it) => {
  it.effect("answers the same question of the same tenant again, at no cost and with no provider", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { openai } = yield* configureVendors(service, [model("gpt", ["oa"])])
      const { key, tenantId } = yield* spender(service, [])
      const first = yield* ask(service, key)
      assert.strictEqual(first.headers.get("x-cache"), "miss")
      assert.strictEqual(first.headers.get("x-cost-usd"), String(costNanoUsd / 1e9))
      // Where a cap over all tenants changes meanwhile, a call is admitted again.
      const reservations = reservationsOf(service, tenantId)
      const made = yield* reservations
      const again = yield* ask(service, key)
      assert.strictEqual(again.status, 200)
      assert.strictEqual(again.text, first.text)
      assert.strictEqual(again.headers.get("x-cache"), "hit")
      assert.strictEqual(again.headers.get("x-cost-usd"), "0")
      assert.isNull(again.headers.get("x-reservation-id"))
      assert.lengthOf(openai.requests, 1)
      assert.lengthOf(yield* reservations, made.length)
    }).pipe(Effect.scoped)
  )

  it.effect("saves what the answers would have cost, and is no request", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* configureVendors(service, [model("gpt", ["oa"])])
      const { key, tenantId } = yield* spender(service, [])
      const totals = Effect.map(
        service.call("GET", `/api/insights/overview?tenantId=${tenantId}`),
        ({ body }) => body.totals
      )
      yield* ask(service, key)
      const first = yield* eventually(totals, ({ requests }) => requests === 1)
      for (let times = 0; times < 2; times++) yield* ask(service, key)
      const wanted = savedNanoUsd(first) + 2 * costNanoUsd
      const last = yield* eventually(totals, (found) => savedNanoUsd(found) >= wanted)
      assert.strictEqual(savedNanoUsd(last), wanted)
      assert.deepInclude(last, { requests: 1, costUsd: first.costUsd })
    }).pipe(Effect.scoped)
  )

  it.effect("is asked by nobody who did not opt in, and by whoever calls a model that did", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const models = [model("gpt", ["oa"]), model("kept", ["oa"], { cache: true })]
      const { openai } = yield* configureVendors(service, models)
      const { key } = yield* spender(service, [])
      for (let times = 0; times < 2; times++) {
        assert.isNull((yield* ask(service, key, {}, {})).headers.get("x-cache"))
      }
      assert.lengthOf(openai.requests, 2)
      yield* ask(service, key, { model: "kept" }, {})
      assert.strictEqual((yield* ask(service, key, { model: "kept" }, {})).headers.get("x-cache"), "hit")
      assert.lengthOf(openai.requests, 3)
      const refused = yield* ask(service, key, { model: "kept" }, { "x-cache": "false" })
      assert.isNull(refused.headers.get("x-cache"))
      assert.lengthOf(openai.requests, 4)
      const neither = yield* ask(service, key, {}, { "x-cache": "yes" })
      assert.deepStrictEqual([neither.status, neither.body.error.param], [400, "x-cache"])
    }).pipe(Effect.scoped)
  )

  it.effect("gives no tenant what another was answered, and none what was asked in other words", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { openai } = yield* configureVendors(service, [model("gpt", ["oa"])])
      const one = yield* spender(service, [])
      const other = yield* spender(service, [])
      yield* ask(service, one.key)
      const unlike = [
        yield* ask(service, other.key),
        yield* ask(service, one.key, { temperature: 1 }),
        yield* ask(service, one.key, {}, { ...cached, "openai-beta": "x" }),
        yield* service.call("POST", "/v1/messages", {
          key: one.key,
          headers: cached,
          body: { model: "gpt", messages, max_tokens: 9 }
        })
      ]
      for (const answer of unlike) assert.strictEqual(answer.headers.get("x-cache"), "miss")
      assert.lengthOf(openai.requests, 5)
      assert.strictEqual((yield* ask(service, one.key)).headers.get("x-cache"), "hit")
      // Another configuration may lead elsewhere.
      yield* configureVendors(service, [model("gpt", ["an"])])
      assert.strictEqual((yield* ask(service, one.key)).headers.get("x-cache"), "miss")
    }).pipe(Effect.scoped)
  )

  it.effect("gives streams again as they were, in every dialect", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { openai } = yield* configureVendors(service, [model("gpt", ["oa"])])
      const { key, tenantId } = yield* spender(service, [])
      for (const [path, body] of [
        [chat, {}],
        ["/v1/messages", { max_tokens: 9 }]
      ] as const) {
        const asked = openai.requests.length
        const first = yield* stream(service, key, path, body)
        assert.strictEqual(first.told, "miss")
        const again = yield* stream(service, key, path, body)
        assert.deepStrictEqual(again, { told: "hit", text: first.text })
        assert.strictEqual(openai.requests.length, asked + 1)
      }
      assert.lengthOf(yield* reservationsOf(service, tenantId), 2)
    }).pipe(Effect.scoped)
  )

  it.effect("is told of in the gateway's own words", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* configureVendors(service, [
        model("gpt", ["oa"]),
        model("vectors", ["oa"], { kind: "embedding", cache: true })
      ])
      const { key } = yield* spender(service, [])
      const body = { model: "gpt", messages, cache: true }
      const first = yield* service.call("POST", complete, { key, body })
      assert.deepInclude(first.body, { cached: false, costUsd: costNanoUsd / 1e9 })
      const again = yield* service.call("POST", complete, { key, body })
      assert.deepInclude(again.body, { cached: true, costUsd: 0, reservationId: null, text: said, attempts: [] })
      assert.deepStrictEqual(again.body.usage, first.body.usage)
      const embed = { key, body: { model: "vectors", input: "a" } }
      const vectors = yield* service.call("POST", "/api/llm/embed", embed)
      const kept = yield* service.call("POST", "/api/llm/embed", embed)
      assert.deepInclude(kept.body, { cached: true, costUsd: 0, embeddings: vectors.body.embeddings })
      const events = (yield* stream(service, key, complete, { cache: true })).text
      assert.include(events, '"cached":false')
      assert.include((yield* stream(service, key, complete, { cache: true })).text, '"costUsd":0,')
    }).pipe(Effect.scoped)
  )

  it.effect("keeps nothing that failed, broke off or was given up", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { openai } = yield* configureVendors(service, [model("gpt", ["oa"])])
      const { key } = yield* spender(service, [])
      const usual = openai.answer
      openai.answer = (_, response) => json(response, 500, { error: { message: "No luck." } })
      assert.strictEqual((yield* ask(service, key)).status, 500)
      const started = { id: "c", choices: [{ index: 0, delta: { role: "assistant", content: "It" } }] }
      openai.answer = (_, response) => {
        sse(response, [started])
        setImmediate(() => response.destroy())
      }
      assert.include((yield* stream(service, key)).text, "broke")
      openai.answer = (_, response) => sse(response, [started])
      yield* Effect.promise(async () => {
        const leaving = new AbortController()
        const response = await fetch(`${service.url}${chat}`, {
          method: "POST",
          signal: leaving.signal,
          headers: { "x-api-key": key, "content-type": "application/json", ...cached },
          body: JSON.stringify({ model: "gpt", messages, stream: true })
        })
        await response.body?.getReader().read()
        leaving.abort()
      })
      yield* eventually(
        Effect.sync(() => openai.aborted),
        (aborted) => aborted > 0
      )
      openai.answer = usual
      assert.strictEqual((yield* stream(service, key)).told, "miss")
      assert.strictEqual((yield* ask(service, key)).headers.get("x-cache"), "miss")
    }).pipe(Effect.scoped)
  )
})

const answer = (bytes: Uint8Array) =>
  ({ status: 200, headers: {}, body: bytes, report: { provider: "p", model: "m" } }) as unknown as CallAnswer

const saying = (content: string) => Buffer.from(JSON.stringify({ choices: [{ message: { content } }] }))

describe("what the response cache keeps", () => {
  const gateway = gatewaySnapshot({ cache: { ttlSeconds: 60, maxEntries: 2 } }, 1, runningLoopback, [], [])
  const loopback = gateway.modelNamed("loopback-1") ?? assert.fail("no model")
  const tenantId = TenantId.make("0198a5b0-7c00-7000-8000-00000000002a")
  const meter = { completedUsage: undefined, endedWell: true } as unknown as UsageMeter
  const slotFor = Effect.fnUntraced(function* (question: string) {
    const cache = yield* ResponseCache
    const call = { format: openAiChat, model: "m", streams: false, body: {}, headers: {}, cache: true } as const
    const slot = cache.slot({ ...call, bytes: Buffer.from(question) }, loopback, tenantId, gateway)
    return slot ?? assert.fail("not cached")
  })
  const keep = (question: string, bytes: Uint8Array = saying(question)) =>
    Effect.flatMap(slotFor(question), (slot) => slot.keep(answer(bytes), meter))
  const isKept = (question: string) =>
    Effect.flatMap(slotFor(question), (slot) => Effect.map(slot.find, (found) => found !== undefined))

  it.effect("is forgotten when its time is over", () =>
    Effect.gen(function* () {
      yield* keep("a")
      yield* TestClock.adjust("59 seconds")
      assert.isTrue(yield* isKept("a"))
      yield* TestClock.adjust("1 second")
      assert.isFalse(yield* isKept("a"))
    }).pipe(Effect.provide(ResponseCache.layer))
  )

  it.effect("has a bound, and what was asked for least lately makes room", () =>
    Effect.gen(function* () {
      yield* keep("a")
      yield* keep("b")
      assert.isTrue(yield* isKept("a"))
      yield* keep("c")
      assert.deepStrictEqual(yield* Effect.forEach(["a", "b", "c"], isKept), [true, false, true])
    }).pipe(Effect.provide(ResponseCache.layer))
  )

  it.effect("is nothing that says nothing, or that its provider failed", () =>
    Effect.gen(function* () {
      yield* keep("a", saying(""))
      yield* keep("b", Buffer.from('{"choices":[]}'))
      const failed = { completedUsage: undefined, endedWell: false } as unknown as UsageMeter
      yield* Effect.flatMap(slotFor("c"), (slot) => slot.keep(answer(saying("c")), failed))
      assert.deepStrictEqual(yield* Effect.forEach(["a", "b", "c"], isKept), [false, false, false])
    }).pipe(Effect.provide(ResponseCache.layer))
  )

  it.effect("is nothing that is larger than a mebibyte", () =>
    Effect.gen(function* () {
      yield* keep("a", saying("x".repeat(1_048_577)))
      assert.isFalse(yield* isKept("a"))
    }).pipe(Effect.provide(ResponseCache.layer))
  )
})
