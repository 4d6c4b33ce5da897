import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as jose from "jose"
import {
  askToken,
  assertionOf,
  assertOAuthError,
  exchange,
  grant,
  introspect,
  makeAgent,
  registration,
  tokenOf
} from "../../support/agents.ts"
import { makeKey } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { during } from "../../support/races.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const templates = "/api/agents/templates"
const scopeCeiling = ["llm:complete", "agents:read"]
const limits = { scopeCeiling, maxCredentialTtlSeconds: 600, perTurnBudget: 0.5 }
const narrow = { scopeCeiling: ["llm:*"], maxCredentialTtlSeconds: 120, perTurnBudget: 0.1 }

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a template that is narrowed", (it) => {
  const bound = Effect.gen(function* () {
    const service = yield* TestService
    const { id } = yield* make(service, templates, registration(limits))
    const agent = yield* makeAgent(service, { ...limits, templateId: id })
    const change = (members: object) => service.call("PATCH", `${templates}/${id}`, { body: members })
    return { service, agent, change, templateId: id as string }
  })

  it.effect("bounds scopes, life and budget of what its agents get from then on, and of what they have", () =>
    Effect.gen(function* () {
      const { agent, change, service } = yield* bound
      const before = yield* tokenOf(service, agent)
      assert.strictEqual(before.expiresIn, 600)
      yield* change(narrow)
      const after = yield* tokenOf(service, agent)
      assert.deepStrictEqual(after.scopes, ["llm:complete"])
      assert.isAtMost(after.expiresIn, 120)
      assert.strictEqual(jose.decodeJwt(after.accessToken).per_turn_budget, 0.1)
      const told = (yield* introspect(service, before.accessToken)).body
      assert.deepInclude(told, { active: true, scope: "llm:complete", per_turn_budget: 0.1 })
      const own = yield* service.call("GET", `/api/agents/${agent.id}`)
      assert.deepInclude(own.body, limits, "the agent's own limits stay as they were given")
    })
  )

  it.effect("refuses scopes and lives beyond it, by assertion as by hand", () =>
    Effect.gen(function* () {
      const { agent, change, service } = yield* bound
      yield* change(narrow)
      const members = { requestedScopes: ["agents:read"] }
      const asked = yield* askToken(service, agent.id, yield* assertionOf(service, agent), members)
      assertOAuthError(asked, 400, "invalid_scope")
      const byHand = (body: object) => service.call("POST", `/api/agents/${agent.id}/credentials`, { body })
      assertOAuthError(yield* byHand(members), 400, "invalid_scope")
      assertOAuthError(yield* byHand({ ttlSeconds: 121 }), 400, "invalid_request")
      assert.deepStrictEqual((yield* byHand({ ttlSeconds: 120 })).body.scopes, ["llm:complete"])
    })
  )

  it.effect("bounds exchanges, of its agents and of whoever acts for them", () =>
    Effect.gen(function* () {
      const { agent, change, service } = yield* bound
      const other = yield* makeAgent(service, { scopeCeiling })
      yield* grant(service, other, agent, { scopes: scopeCeiling })
      yield* grant(service, agent, other, { scopes: scopeCeiling })
      const { accessToken } = yield* tokenOf(service, agent)
      const delegated = yield* exchange(service, other, accessToken)
      assert.deepStrictEqual(delegated.scopes, scopeCeiling)
      yield* change(narrow)
      assert.strictEqual((yield* introspect(service, delegated.accessToken)).body.scope, "llm:complete")
      assert.deepStrictEqual((yield* exchange(service, other, accessToken)).scopes, ["llm:complete"])
      const own = yield* tokenOf(service, other)
      const exchanged = yield* exchange(service, agent, own.accessToken)
      assert.deepStrictEqual(exchanged.scopes, ["llm:complete"])
      assert.isAtMost(exchanged.expiresIn, 120)
    })
  )

  it.effect("bounds a mint that was looking at it before", () =>
    Effect.gen(function* () {
      const { agent, service, templateId } = yield* bound
      yield* tokenOf(service, agent)
      const assertion = yield* assertionOf(service, agent)
      const answer = yield* during(
        service.database,
        (sql) => sql`
          UPDATE agent_templates SET scope_ceiling = '{llm:complete}', updated_at = updated_at + interval '1 second'
          WHERE id = ${templateId}`,
        askToken(service, agent.id, assertion)
      )
      assert.deepStrictEqual(answer.body.scopes, ["llm:complete"], answer.text)
    })
  )

  it.effect("leaves its agents what they had once it is widened again, and stands in the way of no other change", () =>
    Effect.gen(function* () {
      const { agent, change, service } = yield* bound
      yield* change({ scopeCeiling: [] })
      const none = yield* askToken(service, agent.id, yield* assertionOf(service, agent))
      assertOAuthError(none, 400, "invalid_scope")
      const renamed = yield* service.call("PATCH", `/api/agents/${agent.id}`, { body: { description: "new" } })
      assert.strictEqual(renamed.status, 200, renamed.text)
      yield* change(limits)
      assert.deepStrictEqual((yield* tokenOf(service, agent)).scopes, scopeCeiling)
    })
  )

  it.effect("is left by whoever could make the agent without one: with every scope of the agent", () =>
    Effect.gen(function* () {
      const { agent, change, service } = yield* bound
      yield* change(narrow)
      const leave = (key: string) =>
        service.call("PATCH", `/api/agents/${agent.id}`, { key, body: { templateId: null } })
      const less = yield* makeKey(service, ["agents:*", "llm:embed"], { tenantId: agent.tenantId })
      const refused = yield* leave(less.key)
      assertProblem(refused, 403, "forbidden")
      assert.deepStrictEqual(refused.body.missing, ["llm:complete"])
      assert.deepStrictEqual((yield* tokenOf(service, agent)).scopes, ["llm:complete"])
      const enough = yield* makeKey(service, ["agents:*", "llm:complete"], { tenantId: agent.tenantId })
      const left = yield* leave(enough.key)
      assert.strictEqual(left.status, 200, left.text)
      assert.deepStrictEqual((yield* tokenOf(service, agent)).scopes, scopeCeiling)
    })
  )
})
