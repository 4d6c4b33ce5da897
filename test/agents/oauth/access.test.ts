import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { grant, introspect, isActive, makeAgent, makeKeyPair, tokenOf } from "../../support/agents.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

type Service = TestService["Service"]

const scopeCeiling = ["agents:read", "agents:write", "api-keys:write", "dashboard:read"]

const as = (service: Service, token: string) => (method: string, path: string, body?: unknown) =>
  service.call(method, path, {
    key: null,
    headers: { authorization: `Bearer ${token}` },
    ...(body === undefined ? {} : { body })
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("an agent as a caller", (it) => {
  it.effect("is let in with its granted scopes, for itself alone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const one = yield* makeAgent(service, { scopeCeiling })
      const other = yield* makeAgent(service, { scopeCeiling })
      const { accessToken } = yield* tokenOf(service, one, { requestedScopes: ["agents:read"] })
      const call = as(service, accessToken)
      const list = yield* call("GET", "/api/agents")
      assert.deepStrictEqual(
        list.body.items.map(({ id }: { readonly id: string }) => id),
        [one.id]
      )
      for (const path of ["", "/credentials", "/keys", "/delegations"]) {
        assert.strictEqual((yield* call("GET", `/api/agents/${one.id}${path}`)).status, 200, path)
        assertProblem(yield* call("GET", `/api/agents/${other.id}${path}`), 404, "agent-not-found")
      }
      const forbidden = yield* call("DELETE", `/api/agents/${one.id}`)
      assertProblem(forbidden, 403, "forbidden")
      assert.deepStrictEqual(forbidden.body.missing, ["agents:write"])
      // Of the installation, and the agent is a tenant's.
      assertProblem(yield* call("GET", "/api/tenants"), 403, "forbidden")
    })
  )

  it.effect("makes no authority, whatever its scopes: what it made would outlive its credential", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service, { scopeCeiling })
      const { accessToken } = yield* tokenOf(service, agent)
      const call = as(service, accessToken)
      const { algorithm, kid, publicKeyPem } = makeKeyPair()
      for (const [method, path, body] of [
        ["POST", "/api/agents", { name: "another" }],
        ["PATCH", `/api/agents/${agent.id}`, { maxCredentialTtlSeconds: 86_400 }],
        ["POST", `/api/agents/${agent.id}/credentials`, {}],
        ["POST", `/api/agents/${agent.id}/keys`, { algorithm, kid, publicKeyPem }],
        ["POST", "/api/api-keys", { name: "a key", scopes: ["dashboard:read"] }]
      ] as const) {
        assertProblem(yield* call(method, path, body), 403, "forbidden")
      }
    })
  )

  it.effect("revokes its own credential, and no other's", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const one = yield* makeAgent(service, { scopeCeiling })
      const mine = yield* tokenOf(service, one)
      const theirs = yield* tokenOf(service, yield* makeAgent(service))
      const call = as(service, mine.accessToken)
      assert.strictEqual((yield* call("DELETE", `/api/agents/credentials/${theirs.credentialId}`)).status, 204)
      assert.isTrue(yield* isActive(service, theirs.accessToken))
      assert.strictEqual((yield* call("DELETE", `/api/agents/credentials/${mine.credentialId}`)).status, 204)
      assertProblem(yield* call("GET", `/api/agents/${one.id}`), 401, "unauthenticated")
    })
  )

  it.effect("a ceiling that comes down holds for credentials that live", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service, { scopeCeiling })
      const { accessToken } = yield* tokenOf(service, agent)
      yield* service.call("PATCH", `/api/agents/${agent.id}`, { body: { scopeCeiling: ["agents:read"] } })
      assert.strictEqual((yield* introspect(service, accessToken)).body.scope, "agents:read")
    })
  )

  it.effect("RFC7662 §2.2 what is not live is exactly { active: false }", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const live = yield* tokenOf(service, agent)
      const revoked = yield* tokenOf(service, agent)
      yield* service.call("DELETE", `/api/agents/credentials/${revoked.credentialId}`)
      const foreign = yield* makeKey(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })
      const [header = "", payload = "", signature = ""] = live.accessToken.split(".")
      for (const token of ["", "x", "a.b.c", revoked.accessToken, `${header}.${payload}.${signature.slice(2)}`]) {
        const answer = yield* introspect(service, token)
        assert.strictEqual(answer.text, '{"active":false}')
        assert.strictEqual(answer.headers.get("cache-control"), "no-store")
      }
      assert.strictEqual((yield* introspect(service, live.accessToken, foreign.key)).text, '{"active":false}')
      const able = yield* makeKey(service, ["agents:introspect"])
      assert.strictEqual((yield* introspect(service, live.accessToken, able.key)).body.active, true)
    })
  )

  it.effect("RFC7662 §2.1 asks with a form as well, and may hint at the type of the token", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { accessToken } = yield* tokenOf(service, yield* makeAgent(service))
      const asForm = (members: Record<string, string>) =>
        service.call("POST", "/api/agents/introspect", {
          body: new URLSearchParams(members).toString(),
          headers: { "content-type": "application/x-www-form-urlencoded" }
        })
      const asked = yield* asForm({ token: accessToken, token_type_hint: "access_token" })
      assert.deepStrictEqual(asked.body, (yield* introspect(service, accessToken)).body)
      assert.strictEqual(asked.body.active, true)
      assert.strictEqual((yield* asForm({ token: "malformed" })).text, '{"active":false}')
      assertProblem(yield* asForm({ token_type_hint: "access_token" }), 400, "validation-failed")
    })
  )

  it.effect("a tenant's caller reaches its tenant's agents alone, and names no tenant", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["*:*"], { tenantId })
      const foreign = yield* makeAgent(service)
      const own = yield* make(service, "/api/agents", { name: "own" }, key)
      assert.strictEqual(own.tenantId, tenantId)
      const named = yield* service.call("POST", "/api/agents", { key, body: { name: "named", tenantId } })
      assertProblem(named, 403, "forbidden")
      for (const path of ["", "/credentials", "/keys", "/delegations"]) {
        const answer = yield* service.call("GET", `/api/agents/${foreign.id}${path}`, { key })
        assertProblem(answer, 404, "agent-not-found")
      }
      const { accessToken, credentialId } = yield* tokenOf(service, foreign)
      assert.strictEqual(
        (yield* service.call("DELETE", `/api/agents/credentials/${credentialId}`, { key })).status,
        204
      )
      assert.isTrue(yield* isActive(service, accessToken))
      const granted = yield* service.call("POST", `/api/agents/${foreign.id}/delegations`, {
        key,
        body: { subject: own.id, subjectType: "agent", scopes: ["llm:complete"] }
      })
      assertProblem(granted, 404, "agent-not-found")
    })
  )

  it.effect("of a delegated token acts as itself, with the delegated scopes", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const subject = yield* makeAgent(service)
      const actor = yield* makeAgent(service)
      yield* grant(service, actor, subject, { scopes: ["agents:read"] })
      const { accessToken: subjectToken } = yield* tokenOf(service, subject)
      const { body } = yield* service.call("GET", "/api/auth/me", {
        key: null,
        headers: { authorization: `Bearer ${subjectToken}` }
      })
      assert.deepInclude(body, { principal: `agent:${subject.id}` })
    })
  )
})
