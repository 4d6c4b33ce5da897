import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { makeDatabase } from "../support/database.ts"
import { hasRedis, makeRedis } from "../support/redis.ts"
import { startService } from "../support/service.ts"

it.live.runIf(hasRedis)("replicas share a count in Redis, and two installations do not", () =>
  Effect.gen(function* () {
    const redis = yield* makeRedis
    yield* redis.startAgain
    const settings = {
      Redis__Url: redis.url,
      Api__RateLimit__Enabled: "true",
      Api__RateLimit__PerMinute: "4"
    }
    const [database, other] = [yield* makeDatabase, yield* makeDatabase]
    const start = (on: typeof database, publicUrl: string) =>
      startService(on, { ...settings, Api__PublicUrl: publicUrl })
    const first = yield* start(database, "https://one.example")
    const replica = yield* start(database, "https://one.example")
    const stranger = yield* start(other, "https://two.example")
    for (const service of [first, replica, first, replica]) {
      assert.strictEqual((yield* service.call("GET", "/api/tenants")).status, 200)
    }
    assert.strictEqual((yield* first.call("GET", "/api/tenants")).status, 429)
    assert.strictEqual((yield* replica.call("GET", "/api/tenants")).status, 429)
    assert.strictEqual((yield* stranger.call("GET", "/api/tenants")).status, 200)
  }).pipe(Effect.scoped)
)
