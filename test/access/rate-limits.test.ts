import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeAgent, tokenOf } from "../support/agents.ts"
import { makeKey } from "../support/authority.ts"
import { makeDatabase } from "../support/database.ts"
import { assertProblem } from "../support/problem.ts"
import {
  type Answer,
  type Call,
  serviceKey,
  serviceLayer,
  sharedServiceLayer,
  startService,
  TestService
} from "../support/service.ts"

const perMinute = 8
const limited = {
  Api__RateLimit__Enabled: "true",
  Api__RateLimit__PerMinute: `${perMinute}`,
  Api__RateLimit__AnonymousPerMinute: "3"
}

const assertLimited = (answer: Answer, limit: number) => {
  assertProblem(answer, 429, "rate-limited")
  const seconds = Number(answer.headers.get("retry-after"))
  assert.isTrue(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60, `Retry-After: ${seconds}`)
  assert.strictEqual(answer.body.retryAfterSeconds, seconds)
  assert.strictEqual(answer.headers.get("ratelimit-policy"), `"principal";q=${limit};w=60`)
  assert.match(answer.headers.get("ratelimit") ?? "", /^"principal";r=0;t=[1-9]\d?$/u)
}

const remainingOf = (answer: Answer) => Number(/;r=(\d+);/u.exec(answer.headers.get("ratelimit") ?? "")?.[1])

const asMany = Effect.fnUntraced(function* (times: number, path: string, call: Call) {
  const service = yield* TestService
  return yield* Effect.forEach(Array.from({ length: times }), () => service.call("GET", path, call))
})

layer(serviceLayer(limited), { excludeTestServices: true, timeout: "60 seconds" })(
  "rate limits of principals",
  (it) => {
    it.effect("429: a key that has used up its minute; others are served as before", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const one = yield* makeKey(service, ["sessions:read"])
        const other = yield* makeKey(service, ["sessions:read"])
        const granted = yield* asMany(perMinute, "/api/sessions", { key: one.key })
        for (const [at, answer] of granted.entries()) {
          assert.strictEqual(answer.status, 200)
          assert.strictEqual(answer.headers.get("ratelimit-policy"), `"principal";q=${perMinute};w=60`)
          assert.strictEqual(remainingOf(answer), perMinute - 1 - at)
          assert.isNull(answer.headers.get("retry-after"))
        }
        for (const answer of yield* asMany(3, "/api/sessions", { key: one.key })) assertLimited(answer, perMinute)
        const [served] = yield* asMany(1, "/api/sessions", { key: other.key })
        assert.strictEqual(served?.status, 200)
        assert.strictEqual((yield* service.call("GET", "/health", { key: one.key })).status, 200)
      })
    )

    it.effect("what caps limit is not counted: as many reservations as they let in", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { key } = yield* makeKey(service, ["spend:write"])
        for (const body of Array.from({ length: 2 * perMinute }, () => ({ amountUsd: 0.01 }))) {
          const answer = yield* service.call("POST", "/api/spend/reserve", { key, body })
          assert.strictEqual(answer.status, 201)
          assert.isNull(answer.headers.get("ratelimit"))
        }
      })
    )

    it.effect("429: an agent that introspects its own token, by that token as by an assertion", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const agent = yield* makeAgent(service)
        const { accessToken } = yield* tokenOf(service, agent)
        const ask = service.call("POST", "/oauth2/introspect", {
          key: null,
          body: `token=${accessToken}`,
          headers: {
            authorization: `Bearer ${accessToken}`,
            "content-type": "application/x-www-form-urlencoded"
          }
        })
        // The token was the first.
        const answers = yield* Effect.forEach(Array.from({ length: perMinute }), () => ask)
        assert.deepStrictEqual(
          answers.map(({ status }) => status),
          [...Array.from({ length: perMinute - 1 }, () => 200), 429]
        )
      })
    )

    it.effect("requests that are refused count too, and at once as one after another", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { key } = yield* makeKey(service, ["sessions:read"])
        const answers = yield* Effect.forEach(
          Array.from({ length: 3 * perMinute }),
          (_, n) => service.call("GET", n % 2 === 0 ? "/api/sessions" : "/api/trial-users", { key }),
          { concurrency: "unbounded" }
        )
        const limits = answers.filter(({ status }) => status === 429)
        assert.lengthOf(limits, 2 * perMinute)
        for (const answer of limits) assertLimited(answer, perMinute)
      })
    )
  }
)

layer(serviceLayer(limited), { excludeTestServices: true, timeout: "60 seconds" })("rate limits of strangers", (it) => {
  it.effect("429: an address without a valid key that has used up its minute, whatever key it tries", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tried = [
        yield* service.call("GET", "/api/sessions", { key: null }),
        yield* service.call("GET", "/api/sessions", { key: "nobody's" }),
        yield* service.call("GET", "/api/sessions", { key: `amk_${"a".repeat(61)}` })
      ]
      for (const [at, answer] of tried.entries()) {
        assertProblem(answer, 401, "unauthenticated")
        assert.strictEqual(remainingOf(answer), 2 - at)
      }
      assertLimited(yield* service.call("GET", "/api/sessions", { key: null }), 3)
      assertLimited(yield* service.call("POST", "/api/trial-users", { key: "another", body: {} }), 3)
      const known = yield* service.call("GET", "/api/sessions", { key: serviceKey })
      assert.strictEqual(known.status, 200)
    })
  )

  it.effect(
    "429: a network on every route alike, all addresses of an IPv6 /64 together, and the log has only a key's public part",
    () =>
      Effect.gen(function* () {
        const service = yield* startService(yield* makeDatabase, { ...limited, Api__TrustedProxies__0: "127.0.0.1/32" })
        const secret = "amk-looking-password-of-somebody"
        const assertion = { agentId: "0198a5b0-7c00-7000-8000-00000000002a", clientAssertion: "a.b.c" }
        const routes: ReadonlyArray<readonly [string, Call]> = [
          ["/api/sessions", { key: secret }],
          ["/v1/chat/completions", { key: secret, body: {} }],
          ["/api/llm/complete", { key: secret, body: {} }],
          ["/api/agents/token", { key: null, body: assertion }],
          [
            "/oauth2/token",
            {
              key: null,
              body: "grant_type=client_credentials",
              headers: { "content-type": "application/x-www-form-urlencoded" }
            }
          ]
        ]
        for (const [index, [path, call]] of routes.entries()) {
          const statuses: Array<number> = []
          for (const host of ["1", "2", "ffff", "abcd:1"]) {
            const headers = { ...call.headers, "x-forwarded-for": `2001:db8:0:${index + 1}::${host}` }
            statuses.push(
              (yield* service.call(call.body === undefined ? "GET" : "POST", path, { ...call, headers })).status
            )
          }
          assert.deepStrictEqual(statuses, [401, 401, 401, 429], path)
        }
        const log = yield* service.call("GET", "/api/audit-logs?outcome=denied&limit=200")
        assert.notInclude(log.text, secret.slice(0, 8))
        // Each network's three attempts within its limit and nothing after them, at a different address each.
        assert.lengthOf(log.body.items, 3 * routes.length)
      }).pipe(Effect.scoped)
  )

  it.effect("health, problems and unknown routes are nobody's to use up", () =>
    Effect.gen(function* () {
      for (const [path, status] of [
        ["/health", 200],
        ["/problems", 200],
        ["/nothing", 404]
      ] as const) {
        for (const answer of yield* asMany(10, path, { key: null })) {
          assert.strictEqual(answer.status, status)
          assert.isNull(answer.headers.get("ratelimit"))
        }
      }
    })
  )
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("rate limits that are off", (it) => {
  it.effect("200: as often as one likes, without the headers", () =>
    Effect.gen(function* () {
      for (const answer of yield* asMany(50, "/api/sessions", {})) {
        assert.strictEqual(answer.status, 200)
        assert.isNull(answer.headers.get("ratelimit"))
      }
    })
  )
})
