import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { bearer, makeAccount, signIn } from "../../support/accounts.ts"
import { makeAgent, tokenOf } from "../../support/agents.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { type Call, sharedServiceLayer, TestService } from "../../support/service.ts"

const path = "/api/budgets/caps"
const scopeCeiling = ["budgets:*", "spend:*"]
const whole = { name: "a cap", unit: "usd", limit: 10, period: "month", mode: "hard" }

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "an agent that may write budgets",
  (it) => {
    const set = Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const agent = yield* makeAgent(service, { scopeCeiling, tenantId })
      const { accessToken } = yield* tokenOf(service, agent)
      const capOn = (scope: object) => make(service, path, { ...whole, scope, tenantId })
      const asAgent = (method: string, at: string, call: Call = {}) =>
        service.call(method, `${path}/${at}`, bearer(accessToken, call))
      return { service, tenantId, agent, accessToken, capOn, asAgent }
    })

    const loosenings: ReadonlyArray<readonly [string, string, string, object | undefined]> = [
      ["raises it", "PUT", "", { name: "a cap", limit: 10.01 }],
      ["pauses it", "PUT", "", { name: "a cap", limit: 10, status: "paused" }],
      ["lets it hold in the place of denying", "PUT", "", { name: "a cap", limit: 10, mode: "approval" }],
      ["lets it only warn", "PUT", "", { name: "a cap", limit: 10, mode: "soft" }],
      ["deletes it", "DELETE", "", undefined],
      ["grants itself more", "POST", "/grants", { amount: 1, reason: "more", expiresAt: null }]
    ]
    for (const [what, method, suffix, body] of loosenings) {
      it.effect(`403: ${what}, be the cap its own, another's, everybody's or each one's; others may`, () =>
        Effect.gen(function* () {
          const { agent, asAgent, capOn, service, tenantId } = yield* set
          const { key } = yield* makeKey(service, ["budgets:write"], { tenantId })
          const call = body === undefined ? {} : { body }
          const other = yield* makeAgent(service, { tenantId })
          const scopes = [{}, { agentId: agent.id }, { agentId: other.id }, { agentId: "each" }, { model: "a-model" }]
          for (const scope of scopes) {
            const cap = yield* capOn(scope)
            assertProblem(yield* asAgent(method, `${cap.id}${suffix}`, call), 403, "forbidden")
            assert.deepStrictEqual((yield* service.call("GET", `${path}/${cap.id}`)).body, cap)
            assert.isEmpty((yield* service.call("GET", `${path}/${cap.id}/grants`)).body.items)
            const byKey = yield* service.call(method, `${path}/${cap.id}${suffix}`, { key, ...call })
            assert.isBelow(byKey.status, 300, byKey.text)
          }
        })
      )
    }

    it.effect("tightens a cap of its own, and ends what was granted on it", () =>
      Effect.gen(function* () {
        const { agent, asAgent, capOn, service } = yield* set
        const cap = yield* capOn({ agentId: agent.id })
        const lower = yield* asAgent("PUT", cap.id, { body: { name: "lower", limit: 9, mode: "hard" } })
        assert.strictEqual(lower.status, 200, lower.text)
        const granted = yield* make(service, `${path}/${cap.id}/grants`, { amount: 1, reason: "more", expiresAt: null })
        assert.strictEqual((yield* asAgent("DELETE", `${cap.id}/grants/${granted.id}`)).status, 204)
      })
    )

    it.effect("makes caps on itself, and 403: binds anybody else with one, new or there", () =>
      Effect.gen(function* () {
        const { accessToken, agent, asAgent, capOn, service, tenantId } = yield* set
        const other = yield* makeAgent(service, { tenantId })
        const create = (scope: object) =>
          service.call("POST", path, bearer(accessToken, { body: { ...whole, limit: 0, scope } }))
        const own = yield* create({ agentId: agent.id })
        assert.strictEqual(own.status, 201, own.text)
        for (const scope of [{}, { agentId: other.id }, { agentId: "each" }, { model: "a-model" }]) {
          assertProblem(yield* create(scope), 403, "forbidden")
          const cap = yield* capOn(scope)
          assertProblem(yield* asAgent("PUT", cap.id, { body: { name: "a cap", limit: 0 } }), 403, "forbidden")
          const granted = yield* make(service, `${path}/${cap.id}/grants`, {
            amount: 1,
            reason: "more",
            expiresAt: null
          })
          assertProblem(yield* asAgent("DELETE", `${cap.id}/grants/${granted.id}`), 403, "forbidden")
        }
      })
    )

    it.effect("approves nothing that it spends, whoever asked for it, nor raises a cap by that", () =>
      Effect.gen(function* () {
        const { agent, capOn, accessToken, service, tenantId } = yield* set
        const cap = yield* capOn({ agentId: agent.id })
        yield* service.call("PUT", `${path}/${cap.id}`, { body: { name: "a cap", limit: 10, mode: "approval" } })
        const { key } = yield* makeKey(service, ["spend:write"], { tenantId })
        const body = { agentId: agent.id, amountUsd: 11 }
        const held = yield* service.call("POST", "/api/spend/reserve", { key, body })
        assert.strictEqual(held.status, 202, held.text)
        const approve = (call: Call) => service.call("POST", `/api/budgets/approvals/${held.body.id}/approve`, call)
        for (const asked of [{}, { override: true }]) {
          assertProblem(yield* approve(bearer(accessToken, { body: asked })), 403, "forbidden")
        }
        assert.isEmpty((yield* service.call("GET", `${path}/${cap.id}/grants`)).body.items)
        const approver = yield* makeKey(service, ["budgets:*"], { tenantId })
        const approved = yield* approve({ key: approver.key, body: { override: true } })
        assert.strictEqual(approved.status, 200, approved.text)
      })
    )

    it.effect("is one thing, and a person who may write budgets another", () =>
      Effect.gen(function* () {
        const { capOn, service } = yield* set
        const session = yield* signIn(service, yield* makeAccount(service, ["budgets:write"]))
        const cap = yield* capOn({})
        const raised = yield* service.call(
          "PUT",
          `${path}/${cap.id}`,
          bearer(session, { body: { name: "a cap", limit: 11 } })
        )
        assert.strictEqual(raised.status, 200, raised.text)
      })
    )
  }
)
