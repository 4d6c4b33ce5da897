import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { rateTable } from "../../../src/gateway/catalog/cost.ts"
import { gatewaySnapshot, type ModelTarget } from "../../../src/gateway/configuration/gateway-snapshot.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { noTraits } from "../../../src/gateway/formats/traits-domain.ts"
import { type Provider, providerCredentials, ProviderFailure } from "../../../src/gateway/providers/provider.ts"
import { Breakers } from "../../../src/gateway/routing/breakers.ts"
import { Bulkheads } from "../../../src/gateway/routing/bulkheads.ts"
import { routeOrder } from "../../../src/gateway/routing/resolve-model.ts"
import { Router, mayFailOver, mayRepeat, pauseBefore } from "../../../src/gateway/routing/router.ts"
import { ProviderHealth } from "../../../src/gateway/routing/router.ts"
import { SharedRedis } from "../../../src/platform/redis/shared-redis.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"
import { repeatableLoopback, runningLoopback } from "../../support/loopback.ts"

const loopback = repeatableLoopback()

const target = (model: string, members: Partial<ModelTarget> = {}): ModelTarget => ({
  provider: { ...runningLoopback, id: "p", maxConcurrency: 2, provider: loopback },
  model,
  isListed: true,
  traits: noTraits,
  apis: runningLoopback.apis,
  weight: 1,
  priority: 0,
  rates: null,
  ...members
})
const priced = (usd: number) => rateTable({ inputUsdPerMTok: BigInt(usd), outputUsdPerMTok: BigInt(usd) })
const none = { latency: () => undefined, random: () => 0, quota: () => "metered" as const }
const models = (targets: ReadonlyArray<ModelTarget>) => targets.map(({ model }) => model)

describe("the order of targets", () => {
  it("has prepaid quotas first within a priority, and leaves out those that are exhausted", () => {
    const targets = [target("a"), target("b"), target("c"), target("d", { priority: 1 })]
    const facts = {
      ...none,
      quota: ({ model }: ModelTarget) =>
        model === "b" || model === "d"
          ? ("prepaid" as const)
          : model === "c"
            ? ("exhausted" as const)
            : ("metered" as const)
    }
    assert.deepStrictEqual(models(routeOrder(targets, "subscription-first", facts)), ["b", "a", "d"])
    assert.deepStrictEqual(models(routeOrder(targets.slice(2, 3), "subscription-first", facts)), [])
    assert.deepStrictEqual(models(routeOrder(targets, "priority", facts)), ["a", "b", "c", "d"])
  })

  it("is by priority, and among equals as they are written", () => {
    const targets = [target("b", { priority: 1 }), target("a"), target("c", { priority: 1 }), target("d")]
    assert.deepStrictEqual(models(routeOrder(targets, "priority", none)), ["a", "d", "b", "c"])
  })

  it("is by price, with what nobody knows last", () => {
    const targets = [target("x"), target("b", { rates: priced(2) }), target("a", { rates: priced(1) })]
    assert.deepStrictEqual(models(routeOrder(targets, "cheapest", none)), ["a", "b", "x"])
  })

  it("is by latency, with what was never tried first", () => {
    const latencies: Readonly<Record<string, number>> = { a: 10, b: 20 }
    const facts = { ...none, latency: ({ model }: ModelTarget) => latencies[model] }
    const targets = [target("b"), target("a"), target("new")]
    assert.deepStrictEqual(models(routeOrder(targets, "least-latency", facts)), ["new", "a", "b"])
  })

  it("is drawn by weight: as often first as its share, and never without one before those with", () => {
    const targets = [target("none", { weight: 0 }), target("one", { weight: 1 }), target("three", { weight: 3 })]
    const firsts = Array.from({ length: 1000 }, (_, index) => {
      const order = models(routeOrder(targets, "weighted", { ...none, random: () => index / 1000 }))
      assert.sameMembers(order, ["none", "one", "three"])
      return order[0]
    })
    assert.strictEqual(firsts.filter((model) => model === "one").length, 250)
    assert.strictEqual(firsts.filter((model) => model === "three").length, 750)
  })
})

const failure = (members: Partial<ConstructorParameters<typeof ProviderFailure>[0]>) =>
  new ProviderFailure({
    reason: "status",
    sent: false,
    error: { status: 500, message: "down", code: null },
    ...members
  })
const status = (code: number) => failure({ error: { status: code, message: "x", code: null }, received: code })

describe("another try", () => {
  it("is made after what may pass, and not after what will not", () => {
    for (const code of [408, 409, 429, 500, 502, 503, 504, 529]) assert.isTrue(mayFailOver(status(code)), `${code}`)
    for (const code of [400, 413, 422]) assert.isFalse(mayFailOver(status(code)), `${code}`)
    for (const reason of ["connection", "timeout", "broken-off"] as const) assert.isTrue(mayRepeat(failure({ reason })))
    for (const reason of ["breaker-open", "busy"] as const) {
      assert.isTrue(mayFailOver(failure({ reason })))
      assert.isFalse(mayRepeat(failure({ reason })))
    }
    // The gateway's own key or account is refused, or the model is gone: another target may have a good one.
    for (const [received, code] of [
      [401, providerCredentials],
      [402, providerCredentials],
      [403, providerCredentials],
      [429, providerCredentials],
      [404, null],
      [410, null]
    ] as const) {
      const refused = failure({ error: { status: 502, message: "x", code }, received })
      assert.deepStrictEqual([mayFailOver(refused), mayRepeat(refused)], [true, false])
    }
  })

  it("waits longer each time, and as long as the provider says", () => {
    assert.deepStrictEqual(
      [1, 2, 3, 9].map((tries) => pauseBefore(tries, status(500), 1)),
      [200, 400, 800, 5000]
    )
    assert.strictEqual(pauseBefore(1, status(500), 0), 100)
    assert.strictEqual(pauseBefore(1, failure({ retryAfterSeconds: 3 }), 0), 3000)
    assert.strictEqual(pauseBefore(1, failure({ retryAfterSeconds: 1.5 }), 0), 1500)
    assert.isUndefined(pauseBefore(1, failure({ retryAfterSeconds: 60 }), 0))
  })
})

const layers = Router.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(Breakers.layer, Bulkheads.layer, ProviderHealth.layer)),
  Layer.provide(SharedRedis.layer),
  Layer.provide(Settings.layerMemory())
)
const { routing } = gatewaySnapshot(
  { routing: { breaker: { failures: 2, openSeconds: 30 } } },
  null,
  runningLoopback,
  [],
  []
)
const request = { format: openAiChat, model: "m", streams: false, body: '{"messages":[]}', headers: {} } as const
const streaming = { ...request, body: '{"messages":[],"stream":true}' }

describe("an attempt", () => {
  it.effect("is kept from a provider that failed too often, until it is tried again", () =>
    Effect.gen(function* () {
      const router = yield* Router
      const breakers = yield* Breakers
      let asked = 0
      let down = true
      const provider: Provider = {
        ...loopback,
        send: (one) => {
          asked++
          return down ? Effect.fail(status(500)) : loopback.send(one)
        }
      }
      const moody = target("m", { provider: { ...target("m").provider, provider } })
      const attempt = Effect.scoped(router.send(moody, request, routing))
      yield* Effect.flip(attempt)
      yield* Effect.flip(attempt)
      const cut = yield* Effect.flip(attempt)
      assert.deepStrictEqual([cut.reason, cut.error.status, cut.retryAfterSeconds], ["breaker-open", 503, 30])
      assert.strictEqual(asked, 2)
      assert.strictEqual(yield* breakers.state("p", "m"), "open")
      assert.strictEqual(yield* breakers.state("p", "other"), "closed")
      yield* TestClock.adjust("30 seconds")
      down = false
      assert.strictEqual((yield* attempt).status, 200)
      assert.strictEqual(yield* breakers.state("p", "m"), "closed")
    }).pipe(Effect.provide(layers))
  )

  it.effect("that is refused for itself, or comes too often, says nothing against the provider", () =>
    Effect.gen(function* () {
      const router = yield* Router
      const breakers = yield* Breakers
      for (const code of [400, 429]) {
        const provider: Provider = { ...loopback, send: () => Effect.fail(status(code)) }
        const strict = target("strict", { provider: { ...target("m").provider, provider } })
        for (let tries = 0; tries < 5; tries++) {
          yield* Effect.flip(Effect.scoped(router.send(strict, request, routing)))
        }
      }
      assert.strictEqual(yield* breakers.state("p", "strict"), "closed")
    }).pipe(Effect.provide(layers))
  )

  it.effect("waits for a place at the provider, and is refused where as many wait already", () =>
    Effect.gen(function* () {
      const router = yield* Router
      const scopes = yield* Effect.replicateEffect(Scope.make(), 2)
      // A stream keeps its place until it ends, a whole answer gives it back at once.
      for (const scope of scopes) {
        yield* Effect.scoped(router.send(target("m"), request, routing))
        yield* Scope.provide(router.send(target("m"), streaming, routing), scope)
      }
      const deadline = (yield* Clock.currentTimeMillis) + 1000
      const late = yield* Effect.forkChild(
        Effect.flip(Effect.scoped(router.send(target("m"), { ...request, deadline }, routing))),
        { startImmediately: true }
      )
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(late)).reason, "busy")
      const waiting = yield* Effect.replicateEffect(
        Effect.forkChild(Effect.scoped(router.send(target("m"), request, routing)), { startImmediately: true }),
        2
      )
      const refused = yield* Effect.flip(Effect.scoped(router.send(target("m"), request, routing)))
      assert.deepStrictEqual([refused.reason, refused.error.status], ["busy", 503])
      for (const scope of scopes) yield* Scope.close(scope, Exit.void)
      for (const fiber of waiting) assert.strictEqual((yield* Fiber.join(fiber)).status, 200)
    }).pipe(Effect.provide(layers))
  )
})
