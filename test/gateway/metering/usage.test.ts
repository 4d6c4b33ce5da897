import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { beginStream, endless } from "../../support/endless-stream.ts"
import {
  ask,
  charges,
  configure,
  costNanoUsd,
  counters,
  model,
  outlive,
  provider,
  spender,
  usageRows
} from "../../support/gateway.ts"
import { assertNoDrift, makeSetting } from "../../support/plans.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor, used } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the row of a call", (it) => {
  it.effect("says who called what, what it used, what that cost by which rates, and how long it took", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"], { aliases: ["latest"] })])
      const { agentId, key, start, tenantId } = yield* makeSetting(service)
      const plan = yield* start({ taskType: "summaries" })
      const answer = yield* service.call("POST", "/api/llm/complete", {
        key,
        headers: { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" },
        body: {
          model: "latest",
          messages: [{ role: "user", content: "A secret" }],
          maxTokens: 30,
          planId: plan.id,
          metadata: { ticket: "4711" }
        }
      })
      assert.strictEqual(answer.status, 200, answer.text)
      const [row] = yield* usageRows(service, tenantId)
      assert.deepInclude(row, {
        reservationId: answer.body.reservationId,
        agentId,
        planId: plan.id,
        applicationId: null,
        taskType: "summaries",
        operation: "chat",
        dialect: "openai",
        modelAsked: "latest",
        model: "gpt",
        modelServed: "gpt",
        provider: "oa",
        inputTokens: used.input,
        outputTokens: used.output,
        cachedInputTokens: used.cached,
        cacheWriteTokens: 0,
        reasoningTokens: used.reasoning,
        cost: costNanoUsd,
        method: "provider_usage",
        status: 200,
        timeToFirstTokenMs: null,
        metadata: { ticket: "4711" },
        traceId: "4bf92f3577b34da6a3ce929d0e0e4736"
      })
      assert.isString(row.apiKeyId)
      assert.strictEqual(row.createdBy, "api-key")
      assert.deepInclude(row.rates, { input: "2000000000", output: "10000000000", cacheRead: "500000000" })
      assert.match(row.catalogueVersion, /\/\d+$/)
      assert.isTrue(row.latencyMs >= row.upstreamLatencyMs)
      assert.lengthOf(row.attempts, 1)
      assert.notInclude(JSON.stringify(row), "secret")
      assert.notInclude(JSON.stringify(row), "noon")
    }).pipe(Effect.scoped)
  )

  it.effect("is there for every ending, with the way that its cost was found", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", standIn, { timeoutSeconds: 1 })], [model("gpt", ["oa"])])
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }, { unit: "tokens", limit: 100_000 }])
      yield* ask(service, key, { max_tokens: 30 })
      standIn.answer = (_, response) => json(response, 200, { choices: [{ message: { content: "Noon." } }] })
      yield* ask(service, key, { max_tokens: 30 })
      standIn.answer = (_, response) => json(response, 500, {})
      yield* ask(service, key, { max_tokens: 30 })
      standIn.answer = () => {}
      yield* ask(service, key, { max_tokens: 30 })
      standIn.answer = endless
      yield* Effect.scoped(beginStream(service.url, key))
      const rows = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 5)
      assert.deepStrictEqual(
        rows.map(({ method, status }: { readonly method: string; readonly status: number }) => [method, status]),
        [
          ["provider_usage", 200],
          ["estimated", 200],
          ["released", 500],
          ["unanswered", 504],
          ["aborted", 499]
        ]
      )
      const overview = service.call("GET", `/api/insights/overview?tenantId=${tenantId}`)
      const { body } = yield* eventually(overview, (answer) => answer.body.totals.requests === 5)
      assert.strictEqual(body.totals.errors, 2)
      assert.lengthOf((yield* service.call("GET", `/api/usage?tenantId=${tenantId}`)).body.items, 5)
      const search = `/api/usage?tenantId=${tenantId}&search=${rows[2].reservationId}`
      const { items: found } = (yield* service.call("GET", search)).body
      assert.deepInclude(found[0], { method: "released", reservationId: rows[2].reservationId })
      assert.lengthOf(found, 1)
      // Nobody knows what a request used that was never answered: it is charged as a whole, in tokens too.
      assert.isNull(rows[3].inputTokens)
      const [, , , unanswered] = yield* charges(service, tenantId)
      assert.strictEqual(Number(unanswered?.amount), rows[3].cost)
      const [money, tokens] = yield* eventually(counters(service, tenantId), (all) =>
        all.every(({ reserved }) => reserved === "0")
      )
      const sum = rows.reduce((total: number, { cost }: { readonly cost: number }) => total + cost, 0)
      assert.strictEqual(money?.spent, String(sum))
      assert.isAbove(Number(tokens?.spent), 2 * (used.input + used.output))
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("of a call that nobody ended says so: it is charged what was kept free", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(endless)
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
      yield* beginStream(service.url, key)
      yield* outlive(service, tenantId)
      const [row] = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 1)
      assert.deepInclude(row, {
        method: "expired",
        model: "gpt",
        provider: "oa",
        inputTokens: null,
        chargeId: row.chargeId
      })
      const [charge] = yield* charges(service, tenantId)
      assert.deepStrictEqual(charge, { state: "settled", method: "expired", amount: String(row.cost) })
      const [counter] = yield* counters(service, tenantId)
      assert.deepStrictEqual(counter, { spent: String(row.cost), reserved: "0" })
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )
})
