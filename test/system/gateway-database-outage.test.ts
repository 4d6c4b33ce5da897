import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { isLinux } from "../support/embedded-postgres.ts"
import { configureVendors, reservationsOf } from "../support/gateway-vendors.ts"
import { ask, configure, costNanoUsd, model, provider, spender } from "../support/gateway.ts"
import { makeServer } from "../support/leaving-server.ts"
import { type Answerer, json, startProvider } from "../support/provider.ts"
import { type Answer, startService, type TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { openAiVendor } from "../support/vendors.ts"
import { eventually } from "../support/waiting.ts"

type Service = TestService["Service"]

const messages = [{ role: "user", content: "What time is it?" }]
const body = { model: "gpt", max_tokens: 10, messages }
const native = { model: "gpt", maxTokens: 10, messages }

const post = (service: Service, path: string, key: string, idempotencyKey?: string) =>
  service.call("POST", path, {
    key,
    body: path.startsWith("/v1") ? body : native,
    headers: idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }
  })

const paths = [
  ["/v1/chat/completions", 503],
  ["/v1/messages", 529],
  ["/api/llm/complete", 503]
] as const

const assertOverloaded = (answer: Answer, status: number) => {
  assert.strictEqual(answer.status, status, answer.text)
  const seconds = Number(answer.headers.get("retry-after"))
  assert.isAtLeast(seconds, 1)
  assert.isAtMost(seconds, 60)
}

const started = Effect.gen(function* () {
  const server = yield* makeServer
  const service = yield* startService(server.database, { Database__AcquireTimeoutSeconds: "1" })
  const { openai } = yield* configureVendors(service, [model("gpt", ["oa"])])
  return { server, service, openai, ...(yield* spender(service, [{ limit: 100 }])) }
})

/** Waits until nothing is reserved any more, and answers the states of all reservations. */
const settledStates = (service: Service, tenantId: string) =>
  Effect.map(
    eventually(reservationsOf(service, tenantId), (all) => all.every(({ state }) => state !== "open")),
    (all) => all.map(({ state }) => state)
  )

describe("the ledger while its database is away", () => {
  it.live.runIf(isLinux)(
    "hanging: every call is answered in time, nothing is charged, and no key stays taken",
    () =>
      Effect.gen(function* () {
        const { key, server, service, tenantId } = yield* started
        for (const [path] of paths) assert.strictEqual((yield* post(service, path, key)).status, 200)
        yield* service.call("GET", "/api/budgets/caps-status")
        const before = (yield* settledStates(service, tenantId)).length
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* server.freeze
            const calls = paths.flatMap(([path, status]) =>
              [undefined, `${path} 1`, `${path} 2`].map((idempotencyKey) =>
                Effect.map(post(service, path, key, idempotencyKey), (answer) => assertOverloaded(answer, status))
              )
            )
            const ledger = (
              [
                ["POST", "/api/spend/reserve", { amountUsd: 1 }],
                [
                  "POST",
                  "/api/spend/reconcile",
                  { reservationId: "0198a5b0-7c00-7000-8000-00000000002a", actualUsd: 1 }
                ],
                ["GET", "/api/spend/reservations", undefined],
                ["GET", "/api/budgets/caps-status", undefined],
                ["POST", "/api/budgets/caps", { name: "c", unit: "usd", limit: 1, period: "day" }]
              ] as const
            ).map(([method, path, sent]) =>
              Effect.map(service.call(method, path, { body: sent }), (answer) => assertOverloaded(answer, 503))
            )
            yield* Effect.all([...calls, ...ledger], { concurrency: "unbounded" })
          })
        )
        yield* eventually(service.call("GET", "/health/ready"), ({ status }) => status === 200)
        const states = yield* settledStates(service, tenantId)
        assert.deepStrictEqual(
          states.slice(before).filter((state) => state !== "released"),
          []
        )
        for (const [path] of paths) {
          // A claim that the database made only when it was back is free by itself after a minute.
          const repeated = post(service, path, key, `${path} 1`)
          const again = yield* eventually(repeated, ({ status }) => status !== 409, "90 seconds")
          assert.strictEqual(again.status, 200, again.text)
        }
      }).pipe(Effect.scoped),
    240_000
  )

  it.live(
    "down: a failure of the provider is answered as such, although the key cannot be freed yet",
    () =>
      Effect.gen(function* () {
        const { key, openai, server, service, tenantId } = yield* started
        const fail: Array<() => void> = []
        openai.answer = (_, response) =>
          void fail.push(() => json(response, 400, { error: { message: "no", type: "invalid_request_error" } }))
        const names = Array.from({ length: 12 }, (_, at) => `call ${at}`)
        const calls = yield* Effect.forEach(names, (name) =>
          Effect.forkChild(post(service, "/v1/chat/completions", key, name), { startImmediately: true })
        )
        yield* eventually(
          Effect.sync(() => fail.length),
          (count) => count === names.length
        )
        yield* server.crash
        for (const answer of fail) answer()
        for (const call of calls) assert.strictEqual((yield* Fiber.join(call)).status, 400)
        assertOverloaded(yield* post(service, "/v1/chat/completions", key, "while it is down"), 503)
        openai.answer = openAiVendor
        yield* server.startAgain
        yield* eventually(service.call("GET", "/health/ready"), ({ status }) => status === 200)
        assert.isEmpty((yield* settledStates(service, tenantId)).filter((state) => state !== "released"))
        for (const name of [...names, "while it is down"]) {
          const again = yield* eventually(
            post(service, "/v1/chat/completions", key, name),
            ({ status }) => status !== 409
          )
          assert.strictEqual(again.status, 200, again.text)
        }
      }).pipe(Effect.scoped),
    120_000
  )
})

describe("a call that ends while the database is away", () => {
  it.live(
    "is answered, and charged exactly once it is back",
    () =>
      Effect.gen(function* () {
        const asked = yield* Deferred.make<void>()
        const gate = Promise.withResolvers<void>()
        const waiting: Answerer = (request, response) => {
          Deferred.doneUnsafe(asked, Effect.void)
          void gate.promise.then(() => openAiVendor(request, response))
        }
        const standIn = yield* startProvider(waiting)
        const server = yield* makeServer
        const service = yield* startService(server.database)
        yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        const call = yield* Effect.forkChild(ask(service, key, { max_tokens: 30 }), { startImmediately: true })
        yield* Deferred.await(asked)
        yield* server.stop
        gate.resolve()
        const answer = yield* Fiber.join(call)
        assert.strictEqual(answer.status, 200, answer.text)
        yield* server.startAgain
        const counted = asSuperuser(
          server.database,
          (sql) => sql<{ readonly spent: string; readonly reserved: string }>`
            SELECT spent::text, reserved::text FROM budget_counters WHERE tenant_id = ${tenantId}`
        )
        const [counter] = yield* eventually(counted, ([row]) => row?.reserved === "0")
        assert.deepStrictEqual(counter, { spent: String(costNanoUsd), reserved: "0" })
      }).pipe(Effect.scoped),
    60_000
  )
})
