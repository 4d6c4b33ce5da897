import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { makeKey } from "../../support/authority.ts"
import { makeDatabase } from "../../support/database.ts"
import { hasRedis, makeRedis } from "../../support/redis.ts"
import { startService, type TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const perMinute = 5
const settings = (url: string) => ({
  Api__RateLimit__Enabled: "true",
  Api__RateLimit__PerMinute: `${perMinute}`,
  Redis__Url: url
})

type Running = TestService["Service"]

/** How many of twice as many requests as a minute allows are served, asked of one service after the other. */
const served = Effect.fnUntraced(function* (...services: readonly [Running, ...ReadonlyArray<Running>]) {
  const { key } = yield* makeKey(services[0], ["sessions:read"])
  const answers = yield* Effect.forEach(Array.from({ length: 2 * perMinute * services.length }), (_, at) =>
    (services[at % services.length] ?? services[0]).call("GET", "/api/sessions", { key })
  )
  for (const { status } of answers) assert.include([200, 429], status)
  return answers.filter(({ status }) => status === 200).length
})

const statusOf = (service: Running) => Effect.map(service.call("GET", "/health"), ({ body }) => body.status)

const redisCheck = (service: Running) =>
  Effect.map(service.call("GET", "/health/ready"), ({ body, status }) => ({
    status,
    ...body.checks.find(({ name }: { readonly name: string }) => name === "redis")
  }))

const lines: Array<string> = []
const logger = Logger.make<unknown, void>(({ message }) => void lines.push(String(message)))
const redisLines = () => lines.filter((line) => line.includes("Redis"))

const until = (service: Running, status: string) => eventually(statusOf(service), (found) => found === status)

type Redis = Effect.Success<typeof makeRedis>
const faults: ReadonlyArray<
  readonly [
    string,
    (redis: Redis) => Effect.Effect<unknown>,
    (redis: Redis) => Effect.Effect<unknown, never, import("effect").Scope.Scope>
  ]
> = [
  ["killed", ({ kill }) => kill, ({ startAgain }) => startAgain],
  ["frozen", ({ freeze }) => freeze, ({ thaw }) => thaw],
  [
    "full",
    ({ command }) => command("CONFIG", "SET", "maxmemory", "1"),
    ({ command }) => command("CONFIG", "SET", "maxmemory", "0")
  ],
  [
    "a replica that takes no writes",
    ({ command }) => command("REPLICAOF", "127.0.0.1", "1"),
    ({ command }) => command("REPLICAOF", "NO", "ONE")
  ],
  [
    "behind another password",
    ({ command }) =>
      Effect.andThen(
        command("CONFIG", "SET", "requirepass", "other"),
        command("-a", "other", "CLIENT", "KILL", "TYPE", "normal")
      ),
    ({ command }) => command("-a", "other", "CONFIG", "SET", "requirepass", "")
  ],
  [
    "paused",
    ({ command }) => command("CLIENT", "PAUSE", "600000", "ALL"),
    ({ kill, startAgain }) => Effect.andThen(kill, startAgain)
  ],
  ["without its scripts, which are loaded again", ({ command }) => command("SCRIPT", "FLUSH"), () => Effect.void]
]

describe.runIf(hasRedis)("Redis that is", { timeout: 120_000 }, () => {
  for (const [what, fail, mend] of faults) {
    it.live(what, () =>
      Effect.gen(function* () {
        const redis = yield* makeRedis
        yield* redis.startAgain
        lines.length = 0
        const database = yield* makeDatabase
        const one = yield* startService(database, settings(redis.url), [logger])
        const other = yield* startService(database, settings(redis.url))
        assert.strictEqual(yield* served(one, other), perMinute)
        assert.deepStrictEqual(yield* redisCheck(one), { status: 200, name: "redis", ready: true, detail: "connected" })

        yield* fail(redis)
        if (!what.startsWith("without")) {
          // Each replica counts for itself, at once.
          assert.isAtLeast(yield* served(one, other), 2 * perMinute - 1)
          yield* until(one, "Degraded")
          yield* until(other, "Degraded")
          assert.strictEqual(yield* served(one, other), 2 * perMinute)
          const check = yield* redisCheck(one)
          assert.strictEqual(check.status, 200)
          assert.match(check.detail, /^degraded: /u)
          const metrics = yield* one.call("GET", "/metrics")
          assert.match(metrics.text, /^app_redis_failures_total \d+$/mu)
          assert.lengthOf(redisLines(), 1)
          assert.match(redisLines()[0] ?? "", /^Redis \(Redis:Url\) cannot be used: .+\. Each replica keeps/u)
        }

        yield* mend(redis)
        yield* until(one, "Healthy")
        yield* until(other, "Healthy")
        assert.strictEqual(yield* served(one, other), perMinute)
        assert.lengthOf(redisLines(), what.startsWith("without") ? 0 : 2)
      }).pipe(Effect.scoped)
    )
  }
})
