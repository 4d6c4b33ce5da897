import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, configure, counters, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { assertProblem } from "../../support/problem.ts"
import { json, type ReceivedRequest, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, startService, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

type Service = Pick<TestService["Service"], "call">

const path = "/api/llm/admin/broken-bounds"
const broken = "GatewayTargetBoundBroken"
const acknowledged = "GatewayTargetBoundAcknowledged"

/** Two dollars for what a question may cost a few thousandths of. */
const greedy = {
  id: "c",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "Noon." }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1_000_000, completion_tokens: 0, total_tokens: 1_000_000 }
}
const chargedUsd = 2

/** A provider that answers like a vendor but for chats that it charges too much for, while it does. */
const greedyProvider = Effect.gen(function* () {
  const state = { isGreedy: true }
  const standIn = yield* startProvider((request: ReceivedRequest, out) =>
    state.isGreedy && request.path.endsWith("/chat/completions") ? json(out, 200, greedy) : openAiVendor(request, out)
  )
  return { state, standIn }
})

const overOf = (service: Service, id: string) =>
  Effect.map(service.call("GET", `${path}?status=over&limit=200`), ({ body }) =>
    body.items.filter((bound: { readonly provider: string }) => bound.provider === id)
  )
const firstOver = (service: Service, id: string) =>
  Effect.map(
    eventually(overOf(service, id), ({ length }) => length > 0),
    ([bound]) => bound
  )

const entriesOf = (service: Service, actionType: string, id: string) =>
  Effect.map(service.call("GET", `/api/audit-logs?actionType=${actionType}&entityId=${id}`), ({ body }) => body.items)

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "120 seconds" })(
  "a charge above what was held for it under a hard cap",
  (it) => {
    it.effect("is charged in full, and its target takes no such call under hard caps until it is acknowledged", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { standIn, state } = yield* greedyProvider
        yield* configure(
          service,
          [provider("greedy", standIn)],
          [model("gpt", ["greedy"]), model("vectors", ["greedy"], { kind: "embedding" })]
        )
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        const others = yield* spender(service, [{ limit: 1 }])
        const soft = yield* spender(service, [{ limit: 1, mode: "soft" }])

        const first = yield* ask(service, key)
        assert.strictEqual(first.status, 200, first.text)
        const [row] = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 1)
        assert.strictEqual(row.cost, chargedUsd * 1e9)
        assert.deepStrictEqual(row.priceTerms, { hold: "over" })
        assert.deepStrictEqual(yield* counters(service, tenantId), [{ spent: String(row.cost), reserved: "0" }])
        const { body: caps } = yield* service.call("GET", `/api/budgets/caps-status?tenantId=${tenantId}`)
        assert.deepStrictEqual(
          (caps.items ?? caps).map((cap: { readonly state: string }) => cap.state),
          ["over"]
        )

        const bound = yield* firstOver(service, "greedy")
        assert.deepInclude(bound, {
          provider: "greedy",
          model: "gpt",
          operation: "chat",
          status: "over",
          reservationId: row.reservationId,
          chargedUsd,
          times: 1,
          acknowledgedAt: null
        })
        assert.isBelow(bound.reservedUsd, chargedUsd)
        const [entry] = yield* entriesOf(service, broken, bound.id)
        assert.deepInclude(entry, { entityType: "GatewayTarget", tenantId: null })
        const { body: types } = yield* service.call("GET", "/api/cloudevents/types")
        assert.deepInclude(types, {
          type: "com.application-manager.gateway-target.bound-broken",
          actionType: broken
        })

        // Every tenant's calls of this kind, where a hard cap applies, and its dry runs.
        const sent = standIn.requests.length
        const refused = yield* eventually(ask(service, others.key), ({ status }) => status !== 200)
        assert.strictEqual(refused.status, 403, refused.text)
        assert.deepInclude(refused.body.error, { code: "cost_unbounded" })
        assert.include(refused.body.error.message, "greedy")
        const messages = [{ role: "user", content: "Hi" }]
        const dry = { model: "gpt", messages, dryRun: true }
        assertProblem(
          yield* service.call("POST", "/api/llm/complete", { key: others.key, body: dry }),
          403,
          "cost-unbounded"
        )
        assert.lengthOf(standIn.requests, sent)
        // Neither its other kinds, nor calls that no hard cap limits.
        state.isGreedy = false
        const vectors = { key: others.key, body: { model: "vectors", input: "a" } }
        assert.strictEqual((yield* service.call("POST", "/v1/embeddings", vectors)).status, 200)
        assert.strictEqual((yield* ask(service, soft.key)).status, 200)

        const health = yield* service.call("GET", "/api/llm/health")
        const own = health.body.providers.find(({ id }: { readonly id: string }) => id === "greedy")
        assert.deepStrictEqual(own.brokenBounds, [
          { id: bound.id, model: "gpt", operation: "chat", since: bound.brokenAt }
        ])
        assert.strictEqual(health.body.status, "degraded")

        // A replica, and one that starts now.
        const replica = yield* service.replica
        const started = yield* startService(service.database)
        for (const one of [replica, started]) {
          const there = yield* eventually(ask(one, others.key), ({ status }) => status !== 200)
          assert.strictEqual(there.status, 403, there.text)
        }

        const at = `${path}/${bound.id}`
        const patch = (body: object) => service.call("PATCH", at, { body })
        assertProblem(yield* patch({ status: "acknowledged" }), 400, "validation-failed")
        assertProblem(yield* patch({ status: "acknowledged", reason: "" }), 400, "validation-failed")
        assert.deepStrictEqual((yield* patch({ status: "over", reason: "no" })).body, bound)
        const done = yield* patch({ ...bound, status: "acknowledged", reason: "The price was missing" })
        assert.strictEqual(done.status, 200, done.text)
        assert.deepInclude(done.body, {
          status: "acknowledged",
          reason: "The price was missing",
          acknowledgedBy: "service-account"
        })
        assert.deepStrictEqual((yield* service.call("GET", at)).body, done.body)
        assertProblem(yield* patch({ status: "over", reason: "again" }), 400, "validation-failed")
        const [second] = yield* entriesOf(service, acknowledged, bound.id)
        assert.strictEqual(second.entityId, bound.id)
        assert.strictEqual((yield* ask(service, others.key)).status, 200)
        for (const one of [replica, started]) {
          yield* eventually(ask(one, others.key), ({ status }) => status === 200)
        }
        assert.deepStrictEqual(yield* overOf(service, "greedy"), [])

        // The next one is another.
        state.isGreedy = true
        assert.strictEqual((yield* ask(service, others.key)).status, 200)
        assert.notStrictEqual((yield* firstOver(service, "greedy")).id, bound.id)
      }).pipe(Effect.scoped)
    )

    it.effect("leaves the other targets of its model, and is counted once more where calls were under way", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { standIn } = yield* greedyProvider
        const good = yield* startProvider(openAiVendor)
        const out: Array<() => void> = []
        const answer = standIn.answer
        standIn.answer = (request, response) => void out.push(() => answer(request, response))
        yield* configure(
          service,
          [provider("hasty", standIn), provider("steady", good)],
          [model("gpt", ["hasty", "steady"])]
        )
        const both = yield* Effect.all([spender(service, [{ limit: 1 }]), spender(service, [{ limit: 1 }])])
        const calls = Effect.forEach(both, ({ key }) => ask(service, key), { concurrency: 2 })
        const letGo = Effect.gen(function* () {
          yield* eventually(
            Effect.sync(() => out.length),
            (count) => count === 2
          )
          for (const go of out) go()
        })
        const [answers] = yield* Effect.all([calls, letGo], { concurrency: 2 })
        for (const { status, text } of answers) assert.strictEqual(status, 200, text)
        yield* eventually(overOf(service, "hasty"), ([bound]) => bound?.times === 2)
        const [bound] = yield* overOf(service, "hasty")
        assert.lengthOf(yield* entriesOf(service, broken, bound.id), 1)

        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        yield* eventually(
          Effect.map(ask(service, key), () => good.requests.length),
          (count) => count > 0
        )
        const rows = yield* eventually(usageRows(service, tenantId), ({ length }) => length > 0)
        assert.strictEqual(rows.at(-1).provider, "steady")
        const { body } = yield* service.call("PATCH", `${path}/${bound.id}`, {
          body: { status: "acknowledged", reason: "A test" }
        })
        assert.strictEqual(body.status, "acknowledged")
      }).pipe(Effect.scoped)
    )

    it.effect("is one of tokens where a hard cap in tokens relies on them, and none where no hard cap does", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { standIn } = yield* greedyProvider
        const free = { prices: { inputUsdPerMTok: 0 } }
        yield* configure(service, [provider("loose", standIn)], [model("gpt", ["loose"], free)])
        const soft = yield* spender(service, [{ limit: 1, mode: "soft" }])
        assert.strictEqual((yield* ask(service, soft.key)).status, 200)
        const [row] = yield* eventually(usageRows(service, soft.tenantId), ({ length }) => length === 1)
        assert.isNull(row.priceTerms)
        assert.deepStrictEqual(yield* overOf(service, "loose"), [])

        const inTokens = yield* spender(service, [{ unit: "tokens", limit: 2_000_000 }])
        assert.strictEqual((yield* ask(service, inTokens.key)).status, 200)
        const bound = yield* firstOver(service, "loose")
        assert.deepInclude(bound, { chargedUsd: 0, reservedUsd: 0, chargedTokens: 1_000_000 })
        assert.isBelow(bound.reservedTokens, 1_000_000)
      }).pipe(Effect.scoped)
    )
  }
)
