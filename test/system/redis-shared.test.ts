import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { type GatewaySnapshot } from "../../src/gateway/configuration/gateway-snapshot.ts"
import { ProviderFailure } from "../../src/gateway/providers/provider.ts"
import { Breakers } from "../../src/gateway/routing/breakers.ts"
import { SharedRedis } from "../../src/platform/redis/shared-redis.ts"
import { Settings } from "../../src/platform/settings/settings.ts"
import { makePlace, survivesRedis } from "../support/redis-faults.ts"
import { hasRedis } from "../support/redis.ts"
import { eventually } from "../support/waiting.ts"

// The other ways are tests of the system.
survivesRedis(["killed", "frozen"])

describe.runIf(hasRedis)("Redis that is", { timeout: 120_000 }, () => {
  it.live("frozen keeps no breaker from opening, and no service from ending", () =>
    Effect.gen(function* () {
      const place = yield* makePlace
      yield* place.startAgain
      const build = Breakers.layer.pipe(
        Layer.provideMerge(SharedRedis.layer),
        Layer.provide(Settings.layerMemory({ environment: { Redis__Url: place.url } }))
      )
      yield* Effect.gen(function* () {
        const breakers = yield* Breakers
        const routing = { breakerFailures: 2, breakerOpenSeconds: 60 } as GatewaySnapshot["routing"]
        const call = (provider: string) =>
          breakers.guard(
            provider,
            "model",
            routing,
            Effect.fail(
              new ProviderFailure({
                reason: "connection",
                sent: false,
                error: { status: 503, message: "x", code: null }
              })
            )
          )
        const open = Effect.fnUntraced(function* (provider: string) {
          for (const _ of [1, 2]) assert.strictEqual((yield* Effect.flip(call(provider))).reason, "connection")
          assert.strictEqual((yield* Effect.flip(call(provider))).reason, "breaker-open")
          assert.strictEqual(yield* breakers.state(provider, "model"), "open")
        })
        yield* open("shared")
        yield* place.freeze
        yield* open("own")
        assert.strictEqual(yield* breakers.state("shared", "model"), "closed")
        yield* place.thaw
        const { state } = yield* SharedRedis
        yield* eventually(Effect.sync(state), (found) => found === "connected")
        assert.strictEqual(yield* breakers.state("shared", "model"), "open")
        yield* place.freeze
      }).pipe(Effect.provide(build))
    }).pipe(Effect.scoped)
  )
})
