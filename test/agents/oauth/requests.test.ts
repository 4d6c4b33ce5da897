import { assert, it, layer } from "@effect/vitest"
import { Effect, Tracer } from "effect"
import { askToken, assertionOf, assertOAuthError, makeAgent, registration, tokenOf } from "../../support/agents.ts"
import { makeDatabase } from "../../support/database.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, startService, TestService } from "../../support/service.ts"
import { makeSpans } from "../../support/spans.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a request for a token", (it) => {
  for (const endpoint of ["/api/agents/token", "/api/agents/token/exchange"]) {
    it.effect(`RFC6749 §5.2 at ${endpoint} a member that is missing or mistyped is invalid_request`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const agent = yield* makeAgent(service)
        const clientAssertion = yield* assertionOf(service, agent)
        const whole = {
          agentId: agent.id,
          clientAssertion,
          ...(endpoint.endsWith("exchange") ? { subjectToken: "x" } : {})
        }
        const { agentId: _, ...withoutAgent } = whole
        const { clientAssertion: __, ...withoutAssertion } = whole
        for (const body of [
          {},
          [],
          withoutAgent,
          withoutAssertion,
          { ...whole, agentId: 7 },
          { ...whole, clientAssertion: null },
          { ...whole, requestedScopes: "llm:complete" },
          { ...whole, requestedScopes: [7] },
          { ...whole, clientAssertion: "a\u0000b" },
          "{",
          '{"agentId":'
        ]) {
          const answer = yield* service.call("POST", endpoint, { key: null, body })
          assertOAuthError(answer, 400, "invalid_request")
        }
        // None of them has used the assertion up.
        assert.strictEqual((yield* askToken(service, agent.id, clientAssertion)).status, 200)
      })
    )
  }

  it.effect(
    "RFC6749 §3.3 scopes beyond the ceiling, none, or of no service are invalid_scope, and nothing is issued",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const agent = yield* makeAgent(service)
        for (const requestedScopes of [
          [],
          ["tenants:write"],
          ["llm:*"],
          ["*:*"],
          ["not a scope"],
          ["llm:complete", "llm:embed"]
        ]) {
          const answer = yield* askToken(service, agent.id, yield* assertionOf(service, agent), { requestedScopes })
          assertOAuthError(answer, 400, "invalid_scope")
        }
        const { body } = yield* service.call("GET", `/api/agents/${agent.id}/credentials`)
        assert.isEmpty(body.items)
        const granted = yield* tokenOf(service, agent, { requestedScopes: ["agents:read", "agents:read"] })
        assert.deepStrictEqual(granted.scopes, ["agents:read"])
      })
  )

  it.effect("an agent with an empty ceiling gets no token, and none by hand", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service, { scopeCeiling: [] })
      assertOAuthError(yield* askToken(service, agent.id, yield* assertionOf(service, agent)), 400, "invalid_scope")
      const byHand = yield* service.call("POST", `/api/agents/${agent.id}/credentials`, { body: {} })
      assertOAuthError(byHand, 400, "invalid_scope")
    })
  )

  it.effect("a retired agent stays retired, and its name is free", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* make(service, "/api/agents", registration())
      const at = `/api/agents/${agent.id}`
      for (let time = 0; time < 2; time++) assert.strictEqual((yield* service.call("DELETE", at)).status, 204)
      const revived = yield* service.call("PATCH", at, { body: { status: "active" } })
      assert.strictEqual(revived.status, 409, revived.text)
      assert.strictEqual((yield* service.call("GET", at)).body.status, "retired")
      yield* make(service, "/api/agents", registration({ name: agent.name }))
    })
  )
})

it.live("a token costs two round trips at most", () =>
  Effect.gen(function* () {
    const { tracer, workOf } = makeSpans()
    const database = yield* makeDatabase
    const service = yield* startService(database).pipe(Effect.provideService(Tracer.Tracer, tracer))
    const agent = yield* makeAgent(service)
    const statements: Array<number> = []
    for (let time = 0; time < 2; time++) {
      const body = { agentId: agent.id, clientAssertion: yield* assertionOf(service, agent) }
      const { answer, work } = yield* workOf(service, "POST", "/api/agents/token", { key: null, body })
      assert.strictEqual(answer.status, 200, answer.text)
      statements.push(work.filter((name) => name === database.database).length)
    }
    assert.isAtMost(statements[0] ?? 9, 2)
    assert.isAtLeast(statements[1] ?? 0, 1, "the statement of the mint is seen")
    assert.isAtMost(statements[1] ?? 9, 2)
  })
)
