import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { rateTable } from "../../../src/gateway/catalog/cost.ts"
import { type ModelTarget } from "../../../src/gateway/configuration/gateway-snapshot.ts"
import { type Dialect } from "../../../src/gateway/formats/domain.ts"
import { routeOrder } from "../../../src/gateway/routing/resolve-model.ts"
import { inSessionOrder, sessionNameIn } from "../../../src/gateway/routing/sessions.ts"
import { diceOf } from "../../contract/dice.ts"
import { makeKey } from "../../support/authority.ts"
import { chatFormats, knownModel } from "../../support/formats.ts"
import { ask, asks, configure, model, provider, spender } from "../../support/gateway.ts"
import { runningLoopback } from "../../support/loopback.ts"
import { json, startProvider, type ProviderStandIn } from "../../support/provider.ts"
import { makeResponsesVendor } from "../../support/responses-vendor.ts"
import { serviceLayer, startService, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor } from "../../support/vendors.ts"

type Service = TestService["Service"]

const target = (id: string, members: Partial<ModelTarget> = {}): ModelTarget => ({
  provider: { ...runningLoopback, id },
  ...knownModel("m"),
  apis: runningLoopback.apis,
  isListed: true,
  weight: 1,
  priority: 0,
  rates: null,
  ...members
})
const session = (name: string) => createHash("sha256").update(name).digest()
const sessions = Array.from({ length: 4000 }, (_, index) => session(`session ${index}`))
const ids = (targets: ReadonlyArray<ModelTarget>) => targets.map(({ provider: { id } }) => id)
const firstOf = (key: Uint8Array, targets: ReadonlyArray<ModelTarget>) => inSessionOrder(key)(targets)[0]?.provider.id

const assertShares = (targets: ReadonlyArray<ModelTarget>) => {
  const total = targets.reduce((sum, { weight }) => sum + weight, 0)
  for (const { provider, weight } of targets) {
    const share = sessions.filter((key) => firstOf(key, targets) === provider.id).length / sessions.length
    const expected = weight / total
    // Five standard deviations.
    const tolerance = 5 * Math.sqrt((expected * (1 - expected)) / sessions.length)
    assert.approximately(share, expected, tolerance, provider.id)
  }
}

const priced = (usd: number) => rateTable({ inputUsdPerMTok: BigInt(usd) })

describe("the order of a session's targets", () => {
  it("moves the sessions of a target that is lost, and no others, and they return with it", () => {
    const dice = diceOf("rendezvous")
    for (let round = 0; round < 20; round++) {
      const targets = Array.from({ length: 2 + dice.below(6) }, (_, index) =>
        target(`p${index}`, { weight: 1 + dice.below(5) })
      )
      const lost = targets[dice.below(targets.length)]!
      const rest = targets.filter((one) => one !== lost)
      for (const key of sessions.slice(0, 200)) {
        const order = inSessionOrder(key)(targets)
        assert.deepStrictEqual(ids(inSessionOrder(key)(rest)), ids(order.filter((one) => one !== lost)))
        assert.deepStrictEqual(ids(inSessionOrder(key)(targets.toReversed())), ids(order))
      }
    }
  })

  it("gives each target its share of the sessions, also of those of a lost one", () => {
    const targets = [target("a"), target("b", { weight: 3 }), target("c", { weight: 6 }), target("none", { weight: 0 })]
    assertShares(targets)
    assertShares(targets.slice(0, 2).concat(targets.slice(3)))
  })

  it("replaces chance and latency, decides among equals by price and quota, and leaves the rest as it is", () => {
    const targets = [
      target("a", { rates: priced(2) }),
      target("b", { rates: priced(1) }),
      target("c", { rates: priced(1) }),
      target("d", { rates: priced(0), priority: 1 })
    ]
    const facts = {
      latency: ({ provider: { id } }: ModelTarget) => ({ a: 1, b: 2, c: 3 })[id],
      random: () => 0,
      quota: ({ provider: { id } }: ModelTarget) => (id === "a" ? ("metered" as const) : ("prepaid" as const))
    }
    const seen = {
      weighted: new Set(),
      "least-latency": new Set(),
      cheapest: new Set(),
      "subscription-first": new Set()
    }
    for (const key of sessions.slice(0, 200)) {
      const order = inSessionOrder(key)
      for (const [strategy, orders] of Object.entries(seen)) {
        const routed = ids(routeOrder(targets, strategy as keyof typeof seen, facts, order))
        orders.add(routed.join(""))
        assert.strictEqual(routed.at(-1), "d")
      }
      assert.deepStrictEqual(ids(routeOrder(targets, "priority", facts, order)), ["a", "b", "c", "d"])
    }
    assert.strictEqual(seen.weighted.size, 6)
    assert.strictEqual(seen["least-latency"].size, 6)
    assert.deepStrictEqual([...seen.cheapest].toSorted(), ["bcad", "cbad"])
    assert.deepStrictEqual([...seen["subscription-first"]].toSorted(), ["bcad", "cbad"])
  })
})

const name = (headers: object, body: object = {}, dialect: Dialect = "openai") =>
  sessionNameIn({ ...headers }, { ...body }, chatFormats[dialect])

describe("the session of a call", () => {
  it("is named by the first header that clients send, the key of a cache, or Anthropic's user", () => {
    const headers = {
      "x-amp-thread-id": "5",
      "x-session-affinity": "4",
      "session-id": "3",
      "x-claude-code-session-id": "2",
      "x-session-id": "1"
    }
    for (let count = 5; count > 0; count--) {
      const given = Object.fromEntries(Object.entries(headers).slice(0, count))
      assert.strictEqual(name(given, { prompt_cache_key: "k" }), String(6 - count))
    }
    assert.strictEqual(name({}, { prompt_cache_key: "k", metadata: { user_id: "u" } }, "anthropic"), "k")
    assert.strictEqual(name({}, { metadata: { user_id: "u" } }, "anthropic"), "u")
    // A label of OpenAI's, and ids of single requests, name none; nor does what is empty or too long.
    assert.isUndefined(name({}, { metadata: { user_id: "u" } }))
    assert.isUndefined(name({ "x-request-id": "a", "x-client-request-id": "b", traceparent: "c" }))
    assert.isUndefined(name({ "x-session-id": "" }, { prompt_cache_key: "é".repeat(129) }))
    assert.strictEqual(
      name({ "x-session-id": "a".repeat(257) }, { prompt_cache_key: "é".repeat(128) }),
      "é".repeat(128)
    )
  })
})

const spread = ["a", "b", "c", "d"]

/** A model at four providers, drawn by weight; answers with how often each was asked. */
const balanced = Effect.fnUntraced(function* (service: Service, routing: object = {}) {
  const standIns = yield* Effect.forEach(spread, () => startProvider(openAiVendor))
  yield* configure(
    service,
    spread.map((id, index) => provider(id, standIns[index]!)),
    [model("gpt", spread)],
    {
      strategy: "weighted",
      ...routing
    }
  )
  return standIns
})
const asked = (standIns: ReadonlyArray<ProviderStandIn>) =>
  standIns.map(({ requests }) => requests.filter(({ path }) => path.endsWith("/completions")).length)
const times = 12
const repeated = (call: Effect.Effect<{ readonly status: number; readonly text: string }>) =>
  Effect.forEach(Array.from({ length: times }), () =>
    Effect.map(call, ({ status, text }) => assert.strictEqual(status, 200, text))
  )

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("calls of a session", (it) => {
  it.effect("go to one target, on each replica, until their caller or the configuration turns it off", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const other = yield* startService(service.database)
      const standIns = yield* balanced(service)
      const { key } = yield* spender(service, [])
      for (const name of ["one", "two", "three"]) {
        const before = asked(standIns)
        const headers = { "x-session-id": name }
        yield* repeated(ask(service, key, {}, headers))
        yield* repeated(ask(other, key, {}, headers))
        yield* repeated(
          service.call("POST", "/api/llm/complete", {
            key,
            headers,
            body: { model: "gpt", messages: [{ role: "user", content: "Hello" }] }
          })
        )
        const after = asked(standIns).map((count, index) => count - before[index]!)
        assert.deepStrictEqual(after.toSorted(), [0, 0, 0, 3 * times])
      }
      const used = () => asked(standIns).filter((count) => count > 0).length
      const wrong = yield* ask(service, key, {}, { "x-session-id": "one", "x-affinity": "maybe" })
      assert.strictEqual(wrong.status, 400)
      yield* Effect.forEach(Array.from({ length: 5 }), () =>
        repeated(ask(service, key, {}, { "x-session-id": "one", "x-affinity": "off" }))
      )
      assert.isAbove(used(), 1)
      const off = yield* balanced(service, { affinity: "off" })
      yield* Effect.forEach(Array.from({ length: 5 }), () => repeated(ask(service, key, {}, { "x-session-id": "one" })))
      assert.isAbove(asked(off).filter((count) => count > 0).length, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("are spread over the targets by session, and by whose it is", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIns = yield* balanced(service)
      const { key, tenantId } = yield* spender(service, [])
      for (let index = 0; index < 40; index++) {
        yield* asks(service, key, "/v1/messages", {
          model: "gpt",
          max_tokens: 50,
          metadata: { user_id: `user ${index}` }
        })
      }
      assert.isAbove(asked(standIns).filter((count) => count > 0).length, 2)
      // The same name of other keys of the tenant is that of other sessions.
      const names = yield* Effect.forEach(Array.from({ length: 12 }), () =>
        Effect.gen(function* () {
          const before = asked(standIns)
          const { key: another } = yield* makeKey(service, ["llm:*"], { tenantId })
          yield* ask(service, another, { prompt_cache_key: "shared" })
          return asked(standIns).findIndex((count, index) => count > before[index]!)
        })
      )
      assert.isAbove(new Set(names).size, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("go to the next target while theirs fails, and back when it answers", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      let failing = new Set<number>()
      const standIns = yield* Effect.forEach(spread, (_, place) =>
        startProvider((request, response) =>
          failing.has(place) ? json(response, 429, { error: { message: "slow" } }) : openAiVendor(request, response)
        )
      )
      yield* configure(
        service,
        spread.map((id, index) => provider(id, standIns[index]!)),
        [model("gpt", spread)],
        {
          strategy: "weighted"
        }
      )
      const { key } = yield* spender(service, [])
      const answered = Effect.gen(function* () {
        const { headers, status, text } = yield* service.call("POST", "/api/llm/complete", {
          key,
          headers: { "x-session-id": "s" },
          body: { model: "gpt", messages: [{ role: "user", content: "Hello" }] }
        })
        assert.strictEqual(status, 200, `${text} ${headers.get("x-request-id")}`)
        return spread.indexOf(JSON.parse(text).provider)
      })
      const own = yield* answered
      failing = new Set([own])
      const next = yield* answered
      assert.notStrictEqual(next, own)
      assert.strictEqual(yield* answered, next)
      failing = new Set([own, next])
      const third = yield* answered
      assert.notInclude([own, next], third)
      failing = new Set([next])
      assert.strictEqual(yield* answered, own)
    }).pipe(Effect.scoped)
  )
})

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("a vendor's prompt cache", (it) => {
  it.effect("is told sessions apart by a key of the gateway's own, and never by a caller's words", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((request, response) =>
        (request.path.endsWith("/messages")
          ? anthropicVendor
          : request.path.includes("/responses")
            ? makeResponsesVendor()
            : openAiVendor)(request, response)
      )
      const providers = ["openai", "mistral-eu", "unheard"].map((id) =>
        provider(id, standIn, { apis: ["chat", "responses", "completions"] })
      )
      yield* configure(
        service,
        providers,
        ["openai", "mistral-eu", "unheard"].map((id) => model(`at-${id}`, [id]))
      )
      const [first, second] = [yield* spender(service, []), yield* spender(service, [])]
      const sent = (key: string, path: string, body: object, headers: Record<string, string> = {}) =>
        Effect.map(
          service.call("POST", path, {
            key,
            headers,
            body:
              path === "/v1/responses"
                ? { input: "Hi", ...body }
                : { messages: [{ role: "user", content: "Hi" }], ...body }
          }),
          ({ status, text }) => {
            assert.strictEqual(status, 200, text)
            return standIn.requests.at(-1)?.body.prompt_cache_key as string | undefined
          }
        )
      const chat = "/v1/chat/completions"
      const own = yield* sent(first.key, chat, { model: "at-openai", prompt_cache_key: "mine" })
      assert.match(own ?? "", /^[\w-]{43}$/)
      // The same at each vendor and on each path, and with the name in a header.
      for (const [path, body, headers] of [
        [chat, { model: "at-unheard", prompt_cache_key: "mine" }, {}],
        [chat, { model: "at-openai" }, { "x-session-id": "mine" }],
        [chat, { model: "at-mistral-eu" }, { "session-id": "mine" }],
        [chat, { model: "at-openai" }, { "x-session-id": "mine", "x-affinity": "off" }],
        ["/v1/messages", { model: "at-openai", max_tokens: 20, metadata: { user_id: "mine" } }, {}],
        ["/v1/responses", { model: "at-openai", prompt_cache_key: "mine" }, {}],
        ["/v1/responses", { model: "at-openai" }, { "x-session-id": "mine" }]
      ] as const) {
        assert.strictEqual(yield* sent(first.key, path, body, headers), own, path)
      }
      // A key of the caller's own goes before its session; other tenants have other keys.
      const both = yield* sent(
        first.key,
        chat,
        { model: "at-openai", prompt_cache_key: "mine" },
        { "x-session-id": "s" }
      )
      assert.strictEqual(both, own)
      assert.notStrictEqual(yield* sent(second.key, chat, { model: "at-openai", prompt_cache_key: "mine" }), own)
      assert.match((yield* sent(first.key, chat, { model: "at-openai", prompt_cache_key: 7 })) ?? "", /^[\w-]{43}$/)
      // Nothing is added without a session, or for a vendor that is not known to take it.
      assert.isUndefined(yield* sent(first.key, chat, { model: "at-openai" }))
      assert.isUndefined(yield* sent(first.key, chat, { model: "at-unheard" }, { "x-session-id": "mine" }))
    }).pipe(Effect.scoped)
  )
})
