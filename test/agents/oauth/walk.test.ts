import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as jose from "jose"
import { exchange, grant, introspect, isActive, issuerOf, makeAgent, tokenOf } from "../../support/agents.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("an agent's way", (it) => {
  it.effect("from its key to a token, on somebody's behalf, and to the end of it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const one = yield* makeAgent(service)
      const other = yield* makeAgent(service, {}, "EdDSA")
      const own = yield* tokenOf(service, one)
      assert.sameMembers([...own.scopes], ["llm:complete", "agents:read"])
      assert.isTrue(yield* isActive(service, own.accessToken))

      const { body: grantMade } = { body: yield* grant(service, other, one) }
      assert.strictEqual(grantMade.status, "active")
      const delegated = yield* exchange(service, other, own.accessToken)
      assert.deepStrictEqual(delegated.scopes, ["llm:complete"])
      const { body } = yield* introspect(service, delegated.accessToken)
      assert.deepInclude(body, { active: true, sub: `agent:${one.id}`, client_id: other.id, scope: "llm:complete" })
      assert.deepStrictEqual(body.act, { sub: `agent:${other.id}` })

      const call = { key: null, headers: { authorization: `Bearer ${own.accessToken}` } }
      const itself = yield* service.call("GET", `/api/agents/${one.id}`, call)
      assert.strictEqual(itself.status, 200, itself.text)
      assert.strictEqual((yield* service.call("GET", `/api/agents/${other.id}`, call)).status, 404)

      const ended = yield* service.call("DELETE", `/api/agents/credentials/${own.credentialId}`)
      assert.strictEqual(ended.status, 204, ended.text)
      assert.isFalse(yield* isActive(service, own.accessToken))
      assert.isFalse(yield* isActive(service, delegated.accessToken))
      assert.strictEqual((yield* service.call("GET", `/api/agents/${one.id}`, call)).status, 401)
    })
  )

  it.effect("RFC9068 §2 its token is a JWT that anybody verifies with the published keys", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const { accessToken, credentialId } = yield* tokenOf(service, agent)
      const { body: keys, headers } = yield* service.call("GET", "/.well-known/jwks.json", { key: null })
      assert.strictEqual(headers.get("cache-control"), "public, max-age=300")
      const { payload, protectedHeader } = yield* Effect.promise(() =>
        jose.jwtVerify(accessToken, jose.createLocalJWKSet(keys), { typ: "at+jwt" })
      )
      assert.strictEqual(protectedHeader.kid, keys.keys[0].kid)
      assert.deepInclude(payload, { sub: `agent:${agent.id}`, client_id: agent.id, jti: credentialId })
      assert.strictEqual(payload.aud, payload.iss)
    })
  )

  it.effect("RFC9068 §2.2 its claims are the credential's, and introspection tells the same", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const issuer = yield* Effect.promise(() => issuerOf(service))
      const agent = yield* makeAgent(service, {
        allowedTaskTypes: ["extraction"],
        defaultTaskType: "extraction",
        perTurnBudget: 0.25,
        maxCredentialTtlSeconds: 600
      })
      const subject = yield* makeAgent(service)
      yield* grant(service, agent, subject)
      const delegated = yield* exchange(service, agent, (yield* tokenOf(service, subject)).accessToken)
      const { exp, iat, nbf, ...claims } = jose.decodeJwt(delegated.accessToken)
      assert.deepStrictEqual<unknown>(claims, {
        iss: issuer,
        aud: issuer,
        sub: `agent:${subject.id}`,
        act: { sub: `agent:${agent.id}` },
        client_id: agent.id,
        agent_id: agent.id,
        tenant_id: agent.tenantId,
        jti: delegated.credentialId,
        scope: "llm:complete",
        allowed_task_types: ["extraction"],
        default_task_type: "extraction",
        per_turn_budget: 0.25
      })
      assert.strictEqual(nbf, iat)
      assert.isAtMost((exp ?? 0) - (iat ?? 0), 600)
      assert.strictEqual((exp ?? 0) * 1000, Date.parse(delegated.expiresAt))
      const { active, credential_id, delegation_id, token_type, ...told } = (yield* introspect(
        service,
        delegated.accessToken
      )).body
      assert.deepStrictEqual(told, { ...claims, exp, iat, nbf })
      assert.deepStrictEqual([active, credential_id, token_type], [true, delegated.credentialId, "Bearer"])
      assert.isString(delegation_id)
    })
  )
})
