import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeAgent, tokenOf } from "../../support/agents.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { type Call, sharedServiceLayer, TestService } from "../../support/service.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("what agents spend", (it) => {
  /** A tenant with a key and two agents, of which each may do everything with money. */
  const setting = Effect.gen(function* () {
    const service = yield* TestService
    const tenantId = yield* makeTenant(service.database)
    const { key } = yield* makeKey(service, ["*:*"], { tenantId })
    const agents = yield* Effect.forEach([0, 1], () =>
      Effect.gen(function* () {
        const agent = yield* makeAgent(service, { tenantId, scopeCeiling: ["spend:*", "budgets:*", "plans:*"] })
        const { accessToken } = yield* tokenOf(service, agent)
        return { id: agent.id, bearer: { key: null, headers: { authorization: `Bearer ${accessToken}` } } }
      })
    )
    const [one, other] = agents
    if (one === undefined || other === undefined) return assert.fail("no agents")
    const post = (path: string, body: unknown, call: Call = { key }) => service.call("POST", path, { body, ...call })
    const get = (path: string, call: Call = { key }) => service.call("GET", path, call)
    const cap = (members: object) =>
      make(service, "/api/budgets/caps", { name: "a cap", unit: "usd", limit: 10, period: "total", ...members }, key)
    return { service, tenantId, key, one, other, post, get, cap }
  })

  it.effect("nobody but it is refunded for it, by others; charges of other agents are none to it", () =>
    Effect.gen(function* () {
      const { one, other, post } = yield* setting
      const charge = Effect.fnUntraced(function* (call: Call | undefined, agentId?: string) {
        const reserved = yield* post("/api/spend/reserve", { amountUsd: 1, agentId }, call)
        assert.strictEqual(reserved.status, 201, reserved.text)
        const settled = yield* post("/api/spend/reconcile", { reservationId: reserved.body.id, actualUsd: 1 }, call)
        return settled.body.charge.id as string
      })
      const refund = (chargeId: string, call?: Call) =>
        post("/api/spend/refunds", { chargeId, amountUsd: 0.5, reason: "credited" }, call)
      const charges = [yield* charge(other.bearer), yield* charge(undefined, other.id), yield* charge(undefined)]
      for (const chargeId of charges) {
        assertProblem(yield* refund(chargeId, one.bearer), 404, "charge-not-found")
      }
      for (const chargeId of [yield* charge(one.bearer), yield* charge(undefined, one.id)]) {
        assertProblem(yield* refund(chargeId, one.bearer), 403, "forbidden")
      }
      assert.strictEqual((yield* refund(charges[0] ?? "")).status, 201)
    })
  )

  it.effect("an agent sees how caps stand for itself and for all together, and no other agent's counter", () =>
    Effect.gen(function* () {
      const { cap, get, one, other, post } = yield* setting
      const alertThresholds = [{ measure: "committed", percent: 1 }]
      const each = yield* cap({ scope: { agentId: "each" }, alertThresholds })
      const all = yield* cap({ alertThresholds })
      const ofOther = yield* cap({ scope: { agentId: other.id }, alertThresholds })
      for (const { bearer } of [one, other]) {
        assert.strictEqual((yield* post("/api/spend/reserve", { amountUsd: 1 }, bearer)).status, 201)
      }
      const seen = Effect.fnUntraced(function* (path: string, call?: Call) {
        const { body } = yield* get(path, call)
        return body.items.map(({ capId, scope }: { readonly capId: string; readonly scope: { agentId?: string } }) => [
          capId,
          scope.agentId
        ])
      })
      const own = [
        [each.id, one.id],
        [all.id, undefined]
      ]
      const everybodys = [...own, [each.id, other.id], [ofOther.id, other.id]]
      for (const path of ["/api/budgets/caps-status", "/api/budgets/alerts"]) {
        assert.sameDeepMembers(yield* seen(path, one.bearer), own)
        assert.sameDeepMembers(yield* seen(path), everybodys)
      }
    })
  )

  it.effect("a reservation that a key made for an agent is the key's to close: 403 to the agent, 404 to another", () =>
    Effect.gen(function* () {
      const { one, other, post, service } = yield* setting
      const { body } = yield* post("/api/spend/reserve", { amountUsd: 1, agentId: one.id })
      const path = `/api/spend/reservations/${body.id}`
      for (const [{ bearer }, status, slug] of [
        [one, 403, "forbidden"],
        [other, 404, "reservation-not-found"]
      ] as const) {
        const settled = yield* post("/api/spend/reconcile", { reservationId: body.id, actualUsd: 1 }, bearer)
        assertProblem(settled, status, slug)
        assertProblem(yield* post(`${path}/extend`, { ttlSeconds: 60 }, bearer), status, slug)
        assertProblem(yield* service.call("DELETE", path, bearer), status, slug)
      }
    })
  )

  for (const [how, end] of [
    ["retired", (id: string) => ["DELETE", `/api/agents/${id}`, {}] as const],
    ["suspended", (id: string) => ["PATCH", `/api/agents/${id}`, { body: { status: "suspended" } }] as const]
  ] as const) {
    it.effect(`409: an agent that is ${how} spends nothing, whoever asks; what is open is settled or given back`, () =>
      Effect.gen(function* () {
        const { cap, get, key, one, post, service, tenantId } = yield* setting
        yield* cap({ scope: { taskType: "asks" }, limit: 0, mode: "approval" })
        const plans = `/api/agents/${one.id}/plans`
        const plan = (yield* post(plans, { budgetUsd: 5 })).body
        const open = (yield* post("/api/spend/reserve", { amountUsd: 1, planId: plan.id })).body
        const held = yield* post("/api/spend/reserve", { amountUsd: 1, agentId: one.id, taskType: "asks" })
        assert.strictEqual(held.status, 202, held.text)
        const [method, path, given] = end(one.id)
        assert.oneOf((yield* service.call(method, path, { key, ...given })).status, [200, 204])
        const { key: approver } = yield* makeKey(service, ["budgets:*"], { tenantId })
        for (const answer of [
          yield* post("/api/spend/reserve", { amountUsd: 1, agentId: one.id }),
          yield* post("/api/spend/reserve", { amountUsd: 1, planId: plan.id }),
          yield* post(`/api/budgets/approvals/${held.body.id}/approve`, { override: true }, { key: approver }),
          yield* post(plans, { budgetUsd: 1 }),
          yield* post(`${plans}/${plan.id}/extend`, { additionalUsd: 1 }),
          yield* service.call("POST", `${plans}/${plan.id}/heartbeat`, { key })
        ]) {
          assertProblem(answer, 409, "agent-not-active")
        }
        const settled = yield* post("/api/spend/reconcile", { reservationId: open.id, actualUsd: 0.25 })
        assert.strictEqual(settled.status, 200, settled.text)
        const completed = yield* service.call("POST", `${plans}/${plan.id}/complete`, { key })
        assert.deepInclude(completed.body, { status: "completed", spentUsd: 0.25 })
        assert.strictEqual((yield* get(`/api/spend/reservations/${held.body.id}`)).body.state, "held")
      })
    )
  }
})
