import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, configure, costNanoUsd, counters, model, provider, spender } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { openAiVendor } from "../../support/vendors.ts"

const calls = Array.from({ length: 25 })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("callers that do not wait", (it) => {
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
