import { assert, describe, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { ask, configure, costNanoUsd, counters, model, provider, spender } from "../../support/gateway.ts"
import { makeServer } from "../../support/leaving-server.ts"
import { type Answerer, startProvider } from "../../support/provider.ts"
import { serviceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { openAiVendor } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

const calls = Array.from({ length: 25 })

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("callers that do not wait", (it) => {
  const setUp = Effect.gen(function* () {
    const service = yield* TestService
    const standIn = yield* startProvider(openAiVendor)
    yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
    const { key, tenantId } = yield* spender(service, [])
    yield* ask(service, key, { max_tokens: 30 })
    const [kept] = yield* asSuperuser(
      service.database,
      (sql) => sql<{ readonly amount: number }>`
        SELECT amount::float8 AS amount FROM budget_reservations WHERE tenant_id = ${tenantId}`
    )
    return { service, keptNanoUsd: kept?.amount ?? 0 }
  })

  for (const mode of ["hard", "approval"]) {
    it.effect(`have what the call before them kept free, under a cap of mode ${mode}`, () =>
      Effect.gen(function* () {
        const { keptNanoUsd, service } = yield* setUp
        assert.isAbove(keptNanoUsd, costNanoUsd)
        // The last of them fits only if everything before it is charged as what it did cost.
        const limit = ((calls.length - 1) * costNanoUsd + keptNanoUsd) / 1e9
        const { key, tenantId } = yield* spender(service, [{ limit, mode }])
        for (const [index] of calls.entries()) {
          const answer = yield* ask(service, key, { max_tokens: 30 })
          assert.strictEqual(answer.status, 200, `${index}: ${answer.text}`)
        }
        const [counter] = yield* counters(service, tenantId)
        assert.deepStrictEqual(counter, { spent: String(calls.length * costNanoUsd), reserved: "0" })
      }).pipe(Effect.scoped)
    )
  }

  it.effect("see in what is spent every call that was answered before", () =>
    Effect.gen(function* () {
      const { service } = yield* setUp
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
      for (const [index] of calls.entries()) {
        yield* ask(service, key, { max_tokens: 30, stream: index % 2 === 0 })
        const status = yield* service.call("GET", `/api/budgets/caps-status?tenantId=${tenantId}`)
        assert.deepInclude(status.body.items[0], { spent: ((index + 1) * costNanoUsd) / 1e9, reserved: 0 })
      }
    }).pipe(Effect.scoped)
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
