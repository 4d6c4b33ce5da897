import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeAgent } from "../../support/agents.ts"
import { makeKey } from "../../support/authority.ts"
import { makeSetting } from "../../support/plans.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { type Answer, sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { walkCursors } from "../../support/walk.ts"

const unknownId = "0198a5b0-7c00-7000-8000-00000000002a"
const path = "/api/spend/reservations"
const ids = ({ body }: Answer) => body.items.map((one: { readonly id: string }) => one.id)

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(path, (it) => {
  it.effect("lists by state, agent, plan and cap, the newest first, and of a tenant its own", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { agentId, call, capIds, key, settle, start, tenantId } = yield* makeSetting(service, [
        {},
        { scope: { model: "large" } },
        { mode: "approval", limit: 0, scope: { model: "held" } }
      ])
      const reserve = (members: object) =>
        Effect.map(call("POST", "/api/spend/reserve", { amountUsd: 0.5, ...members }), ({ body }) => body.id as string)
      const small = yield* reserve({})
      const large = yield* reserve({ model: "large" })
      const settled = yield* reserve({ agentId })
      yield* settle(settled, 0.25)
      const held = yield* reserve({ model: "held" })
      const released = yield* reserve({ agentId })
      yield* call("DELETE", `${path}/${released}`)
      const plan = yield* start({ budgetUsd: 2 })
      const drawn = yield* reserve({ planId: plan.id })
      const all = [drawn, plan.id, released, held, settled, large, small]
      const list = (query: string, by = key) => Effect.map(service.call("GET", `${path}${query}`, { key: by }), ids)

      assert.deepStrictEqual(yield* list(""), all)
      assert.deepStrictEqual(yield* list("?state=open"), [drawn, plan.id, large, small])
      assert.deepStrictEqual(yield* list("?state=held"), [held])
      assert.deepStrictEqual(yield* list("?state=settled"), [settled])
      assert.deepStrictEqual(yield* list("?state=released"), [released])
      assert.deepStrictEqual(yield* list("?state=expired"), [])
      assert.deepStrictEqual(yield* list(`?agentId=${agentId}`), [drawn, plan.id, released, settled])
      assert.deepStrictEqual(yield* list(`?agentId=${agentId}&state=settled`), [settled])
      assert.deepStrictEqual(yield* list(`?planId=${plan.id}`), [drawn, plan.id])
      assert.deepStrictEqual(yield* list(`?capId=${capIds[1]}`), [large])
      assert.deepStrictEqual(yield* list(`?capId=${capIds[2]}`), [held])
      assert.deepStrictEqual(yield* list(`?tenantId=${tenantId}`), all)
      const pages = yield* walkCursors(service, `${path}?limit=3`, { call: { key } })
      assert.deepStrictEqual(pages, [all.slice(0, 3), all.slice(3, 6), all.slice(6)])

      // A system caller finds them by whatever it names; another tenant finds nothing, whatever it names.
      const stranger = yield* makeSetting(service)
      for (const query of [
        `?agentId=${agentId}`,
        `?planId=${plan.id}`,
        `?capId=${capIds[1]}`,
        `?tenantId=${tenantId}`
      ]) {
        assert.deepStrictEqual(yield* list(query, service.serviceKey), yield* list(query))
        assert.deepStrictEqual(yield* list(query, stranger.key), [])
      }
      for (const query of [`?agentId=${unknownId}`, `?planId=${unknownId}`, `?capId=${unknownId}`]) {
        assert.deepStrictEqual(yield* list(query), [])
        assert.deepStrictEqual(yield* list(query, service.serviceKey), [])
      }
    })
  )

  it.effect("409: what the gateway looks after is not settled, released or extended by hand, whoever asks", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call } = yield* makeSetting(service)
      const { body } = yield* call("POST", "/api/spend/reserve", { amountUsd: 0.5 })
      yield* asSuperuser(
        service.database,
        (sql) => sql`UPDATE budget_reservations SET origin = 'gateway' WHERE id = ${body.id}`
      )
      for (const answer of [
        yield* call("POST", "/api/spend/reconcile", { reservationId: body.id, actualUsd: 0.1 }),
        yield* call("DELETE", `${path}/${body.id}`),
        yield* call("POST", `${path}/${body.id}/extend`, { ttlSeconds: 60 }),
        yield* service.call("DELETE", `${path}/${body.id}`)
      ]) {
        assertProblem(answer, 409, "reservation-managed")
        assert.strictEqual(answer.body.origin, "gateway")
      }
      assert.deepInclude((yield* call("GET", `${path}/${body.id}`)).body, { state: "open", origin: "gateway" })
    })
  )

  it.effect(
    "a second settle with the same actual answers the same, with another 409; a held one cannot be settled",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const caps = [{}, { mode: "approval", limit: 0, scope: { model: "held" } }]
        const { call, settle, utilization } = yield* makeSetting(service, caps)
        const { body } = yield* call("POST", "/api/spend/reserve", { amountUsd: 0.5 })
        const first = yield* settle(body.id, 0.25)
        assert.deepStrictEqual((yield* settle(body.id, 0.25)).body, first.body)
        assertProblem(yield* settle(body.id, 0.3), 409, "reservation-settled")
        assert.deepInclude(yield* utilization(), { spent: 0.25, reserved: 0 })
        const held = yield* call("POST", "/api/spend/reserve", { amountUsd: 0.5, model: "held" })
        const stillHeld = yield* settle(held.body.id, 0.25)
        assertProblem(stillHeld, 409, "reservation-not-open")
        assert.strictEqual(stillHeld.body.state, "held")
        const deny = `/api/budgets/approvals/${held.body.id}/deny`
        assert.strictEqual((yield* service.call("POST", deny, { body: { reason: "no" } })).status, 200)
        const denied = yield* settle(held.body.id, 0.25)
        assertProblem(denied, 409, "reservation-not-open")
        assert.strictEqual(denied.body.state, "denied")
        assertProblem(yield* settle(unknownId, 0.25), 404, "reservation-not-found")
      })
  )

  it.effect("an estimate is reserved and a usage is charged by the catalogue's prices", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call } = yield* makeSetting(service)
      const estimate = { model: "loopback-1", inputTokens: 100_000, maxOutputTokens: 50_000 }
      const reserved = yield* call("POST", "/api/spend/reserve", { estimate })
      assert.strictEqual(reserved.status, 201, reserved.text)
      assert.strictEqual(reserved.body.tokens, 150_000)
      assert.closeTo(reserved.body.amountUsd, 0.2, 1e-6)
      const usage = { model: "loopback-1", inputTokens: 90_000, outputTokens: 5000 }
      const settled = yield* call("POST", "/api/spend/reconcile", { reservationId: reserved.body.id, usage })
      assert.deepInclude(settled.body.charge, { amountUsd: 0.1, tokens: 95_000, overrunUsd: 0 })
      const stored = yield* call("GET", `${path}/${reserved.body.id}`)
      assert.deepInclude(stored.body, { model: "loopback-1", actualUsd: 0.1, actualTokens: 95_000 })
    })
  )

  it.effect("404: a refund of a charge that is none, or another tenant's", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, settle } = yield* makeSetting(service)
      const stranger = yield* makeSetting(service)
      const { body } = yield* call("POST", "/api/spend/reserve", { amountUsd: 0.5 })
      const chargeId = (yield* settle(body.id, 0.5)).body.charge.id
      const refund = { amountUsd: 0.1, reason: "credited" }
      assertProblem(
        yield* call("POST", "/api/spend/refunds", { chargeId: unknownId, ...refund }),
        404,
        "charge-not-found"
      )
      assertProblem(
        yield* stranger.call("POST", "/api/spend/refunds", { chargeId, ...refund }),
        404,
        "charge-not-found"
      )
      const ofSystem = yield* service.call("POST", "/api/spend/refunds", { body: { chargeId, ...refund } })
      assert.strictEqual(ofSystem.status, 201, ofSystem.text)
    })
  )

  it.effect("a refusal is in the audit log, under the cap that refused, and like ones are counted", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { agentId, call, capIds, collection } = yield* makeSetting(service, [{ name: "Ten dollars" }])
      for (const [place, model] of ["small", "large", "small"].entries()) {
        const body = { amountUsd: 50 + place, model, agentId }
        assertProblem(yield* call("POST", "/api/spend/reserve", body), 402, "budget-denied")
      }
      const refusals = Effect.map(call("GET", "/api/audit-logs?actionType=SpendRefused"), ({ body }) => body.items)
      const [first, ...others] = yield* refusals
      assert.lengthOf(others, 0)
      const summary = 'The cap "Ten dollars" has no room: the amount is more than it ever allows.'
      const figures = "Asked for: $50.00; limit: $10.00; spent: $0.00; reserved: $0.00; "
      assert.deepInclude(first, { entityId: capIds[0], outcome: "denied", count: 1 })
      assert.isTrue(first.reason.startsWith(`${summary} ${figures}`), first.reason)
      const { body: detail } = yield* call("GET", `/api/audit-logs/${first.id}`)
      assert.deepInclude(detail.changes.after, { requested: 50, limit: 10, spent: 0, model: "small", agentId })

      // So are a plan that does not fit, and one that cannot grow.
      const plan = yield* call("POST", collection, { budgetUsd: 8 })
      assertProblem(yield* call("POST", collection, { budgetUsd: 5 }), 402, "budget-denied")
      assertProblem(
        yield* call("POST", `${collection}/${plan.body.id}/extend`, { additionalUsd: 30 }),
        400,
        "budget-denied"
      )
      const reasons = (yield* refusals).map(
        (entry: { readonly reason: string }) => entry.reason.split(" Asked for: ")[0]
      )
      assert.deepStrictEqual(reasons, [
        'The cap "Ten dollars" has no room: open reservations hold what is left; it may fit once they settle.',
        summary
      ])
    })
  )

  it.effect("a refusal under a cap over all tenants is in the log of each tenant, with what that one asked for", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const taskType = `task of ${crypto.randomUUID()}`
      const cap = yield* make(service, "/api/budgets/caps", {
        name: "of all",
        tenantId: null,
        unit: "usd",
        limit: 1,
        period: "total",
        scope: { taskType }
      })
      const agent = { allowedTaskTypes: [taskType] }
      const settings = [yield* makeSetting(service, [], agent), yield* makeSetting(service, [], agent)]
      for (const { agentId } of settings) {
        for (const amountUsd of [5, 6]) {
          const body = { amountUsd, taskType, agentId }
          assertProblem(yield* service.call("POST", "/api/spend/reserve", { body }), 402, "budget-denied")
        }
      }
      for (const { agentId, call, tenantId } of settings) {
        const { items } = (yield* call("GET", "/api/audit-logs?actionType=SpendRefused")).body
        assert.lengthOf(items, 1)
        assert.deepInclude(items[0], { entityId: cap.id, tenantId, count: 1 })
        const { body: detail } = yield* call("GET", `/api/audit-logs/${items[0].id}`)
        const after = { reason: "exhausted", unit: "usd", requested: 5, taskType, agentId }
        assert.deepStrictEqual(detail.changes, { before: null, after })
      }
    })
  )

  it.effect("counts for the key that asks, and for the agent and the application that it declares", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id: applicationId } = yield* make(service, "/api/applications", { name: `app of ${unknownId}` })
      const { key } = yield* makeKey(service, ["spend:*"])
      const free = yield* service.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 0.1, applicationId } })
      assert.strictEqual(free.status, 201, free.text)
      const stored = yield* service.call("GET", `${path}/${free.body.id}`)
      assert.match(stored.body.apiKeyId, /^[0-9a-f-]{36}$/)
      assert.deepInclude(stored.body, { applicationId, agentId: null })
      const agent = yield* makeAgent(service)
      const declared = yield* service.call("POST", "/api/spend/reserve", {
        key,
        body: { amountUsd: 0.1, agentId: agent.id }
      })
      const of = yield* service.call("GET", `${path}/${declared.body.id}`)
      assert.strictEqual(of.body.agentId, agent.id)
    })
  )
})
