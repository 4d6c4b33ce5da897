import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger, type Scope } from "effect"
import * as net from "node:net"
import { makeKey } from "./authority.ts"
import { makeDatabase } from "./database.ts"
import { makeForwarder } from "./forwarder.ts"
import { hasRedis, makeRedis } from "./redis.ts"
import { startService, type TestService } from "./service.ts"
import { eventually } from "./waiting.ts"

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

/** Collects what a service logs of Redis. */
const makeLog = () => {
  const lines: Array<string> = []
  const logger = Logger.make<unknown, void>(({ message }) => {
    if (String(message).includes("Redis")) lines.push(String(message))
  })
  return { lines, logger }
}

const until = (service: Running, status: string) => eventually(statusOf(service), (found) => found === status)

/** A Redis, and a way to it that may become slow. */
export const makePlace = Effect.gen(function* () {
  const redis = yield* makeRedis
  const { delay, port } = yield* makeForwarder({ host: "127.0.0.1", port: redis.port })
  return { ...redis, delay, slowUrl: `redis://127.0.0.1:${port}` }
})
type Place = Effect.Success<typeof makePlace>
type Step = (place: Place) => Effect.Effect<unknown, never, Scope.Scope>

const faults: ReadonlyArray<readonly [string, Step, Step]> = [
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
  ["slow", ({ delay }) => delay(200), ({ delay }) => delay(0)],
  [
    "at its limit of clients",
    ({ command, port }) =>
      Effect.gen(function* () {
        yield* command("CLIENT", "KILL", "TYPE", "normal")
        // The one client that is admitted.
        yield* Effect.acquireRelease(
          Effect.callback<net.Socket>((resume) => {
            const socket = net.connect(port, "127.0.0.1", () => resume(Effect.succeed(socket))).on("error", () => {})
          }),
          (socket) => Effect.sync(() => socket.destroy())
        )
        yield* command("CONFIG", "SET", "maxclients", "1")
      }),
    ({ kill, startAgain }) => Effect.andThen(kill, startAgain)
  ],
  ["without its scripts, which are loaded again", ({ command }) => command("SCRIPT", "FLUSH"), () => Effect.void]
]

/** Has services use a Redis that fails in these ways, and is mended again; of all ways unless given. */
export const survivesRedis = (ways?: ReadonlyArray<string>) =>
  describe.runIf(hasRedis)("Redis that is", { timeout: 120_000 }, () => {
    for (const [what, fail, mend] of faults) {
      if (ways?.includes(what) === false) continue
      it.live(what, () =>
        Effect.gen(function* () {
          const place = yield* makePlace
          yield* place.startAgain
          const { lines, logger } = makeLog()
          const database = yield* makeDatabase
          const url = what === "slow" ? place.slowUrl : place.url
          const one = yield* startService(database, settings(url), [logger])
          const other = yield* startService(database, settings(url))
          assert.strictEqual(yield* served(one, other), perMinute)
          assert.deepStrictEqual(yield* redisCheck(one), {
            status: 200,
            name: "redis",
            ready: true,
            detail: "connected"
          })

          yield* fail(place)
          const staysAway = !what.startsWith("without")
          if (staysAway) {
            // Each replica counts for itself, at once.
            assert.isAtLeast(yield* served(one, other), 2 * perMinute - 1)
            yield* until(one, "Degraded")
            yield* until(other, "Degraded")
            assert.strictEqual(yield* served(one, other), 2 * perMinute)
            const check = yield* redisCheck(one)
            assert.strictEqual(check.status, 200)
            assert.match(check.detail, /^degraded: /u)
            const { body } = yield* one.call("GET", "/api/dashboard/health")
            assert.deepInclude(
              body.checks.map(({ name, status }: { readonly name: string; readonly status: string }) => ({
                name,
                status
              })),
              { name: "redis", status: "Degraded" }
            )
            const metrics = yield* one.call("GET", "/metrics")
            assert.match(metrics.text, /^app_redis_failures_total [1-9]\d*$/mu)
            assert.lengthOf(lines, 1)
            assert.match(lines[0] ?? "", /^Redis \(Redis:Url\) cannot be used: .+\. Each replica keeps/u)
          }

          yield* mend(place)
          yield* until(one, "Healthy")
          yield* until(other, "Healthy")
          assert.strictEqual(yield* served(one, other), perMinute)
          assert.lengthOf(lines, staysAway ? 2 : 0)
        }).pipe(Effect.scoped)
      )
    }

    if (ways !== undefined) return
    it.live("away at the start is used once it is there", () =>
      Effect.gen(function* () {
        const place = yield* makePlace
        const database = yield* makeDatabase
        const service = yield* startService(database, settings(place.url))
        assert.strictEqual(yield* statusOf(service), "Degraded")
        assert.strictEqual(yield* served(service), perMinute)
        yield* place.startAgain
        yield* until(service, "Healthy")
        assert.strictEqual(yield* served(service), perMinute)
        assert.match(yield* place.command("KEYS", "application-manager:rate-limit:*"), /principal/u)
      }).pipe(Effect.scoped)
    )
  })
