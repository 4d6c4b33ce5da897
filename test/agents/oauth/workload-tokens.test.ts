import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as jose from "jose"
import {
  askExchange,
  assertOAuthError,
  exchange,
  grant,
  introspect,
  isActive,
  issuerOf,
  makeAgent,
  type TestAgent
} from "../../support/agents.ts"
import { makeTenant } from "../../support/authority.ts"
import { makeIssuer, type TestIssuer } from "../../support/issuer.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { serviceLayer, TestService } from "../../support/service.ts"

type Service = TestService["Service"]

const path = "/api/identity-providers"
const sub = "repo:acme/shop:ref:refs/heads/main"

const grantFor = (service: Service, agent: TestAgent, issuer: TestIssuer, members: object = {}) =>
  make(service, `/api/agents/${agent.id}/delegations`, {
    subject: `${issuer.issuer}|${sub}`,
    subjectType: "external",
    scopes: ["llm:complete"],
    ...members
  })

/** A workload's issuer, registered for its subject, and an agent that may act for it. */
const makeWorkload = Effect.fnUntraced(function* (service: Service, members: object = {}) {
  const issuer = yield* makeIssuer
  const body = { kind: "workload", issuer: issuer.issuer, subjects: ["another", sub], ...members }
  const provider = yield* make(service, path, body)
  const agent = yield* makeAgent(service)
  const aud = yield* Effect.promise(() => issuerOf(service))
  const sign = (claims: object = {}, header: object = {}) =>
    Effect.promise(() => issuer.sign({ sub, aud, ...claims }, header))
  return { issuer, providerId: provider.id as string, agent, sign, aud }
})

const refused = Effect.fnUntraced(function* (service: Service, agent: TestAgent, token: string) {
  assertOAuthError(yield* askExchange(service, agent, token), 400, "invalid_request")
})

layer(serviceLayer({ IdentityProviders__AllowPrivateAddresses: "true" }), {
  excludeTestServices: true,
  timeout: "60 seconds"
})("a token of a workload", (it) => {
  it.effect("is exchanged under a grant: its user stays the subject, with the scopes of the grant", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { agent, issuer, providerId, sign } = yield* makeWorkload(service)
      yield* grantFor(service, agent, issuer)
      const exp = Math.floor(Date.now() / 1000) + 120
      const { accessToken, expiresIn, scopes } = yield* exchange(service, agent, yield* sign({ exp }))
      assert.deepStrictEqual(scopes, ["llm:complete"])
      assert.isAtMost(expiresIn, 120)
      const subject = `idp:${providerId}:${sub}`
      const claims = jose.decodeJwt(accessToken)
      assert.deepInclude(claims, { sub: subject, client_id: agent.id, act: { sub: `agent:${agent.id}` } })
      assert.deepInclude((yield* introspect(service, accessToken)).body, { active: true, sub: subject })
      // On behalf of it again, by another agent that has a grant for the workload too.
      const second = yield* makeAgent(service)
      yield* refused(service, second, accessToken)
      yield* grantFor(service, second, issuer)
      const again = yield* exchange(service, second, accessToken)
      assert.strictEqual(jose.decodeJwt(again.accessToken).sub, subject)
    }).pipe(Effect.scoped)
  )

  it.effect("that ends after the last moment there is, or before the first, is refused like others", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { agent, issuer, sign } = yield* makeWorkload(service)
      yield* grantFor(service, agent, issuer)
      for (const exp of [1e15, 1e300, -1e15, 253_402_300_800]) {
        yield* refused(service, agent, yield* sign({ exp }))
      }
      for (const iat of [-1e15, -1e300]) {
        assert.strictEqual((yield* askExchange(service, agent, yield* sign({ iat }))).status, 200)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("ends with its provider, its place in the list of subjects, and its grant, at once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const end of [
        (at: string) => service.call("PATCH", at, { body: { status: "disabled" } }),
        (at: string) => service.call("PATCH", at, { body: { subjects: ["another"] } }),
        (at: string) => service.call("DELETE", at)
      ]) {
        const { agent, issuer, providerId, sign } = yield* makeWorkload(service)
        yield* grantFor(service, agent, issuer)
        const { accessToken } = yield* exchange(service, agent, yield* sign())
        assert.isTrue(yield* isActive(service, accessToken))
        assert.isBelow((yield* end(`${path}/${providerId}`)).status, 300)
        assert.isFalse(yield* isActive(service, accessToken))
        yield* refused(service, agent, yield* sign())
      }
      const { agent, issuer, sign } = yield* makeWorkload(service)
      const { id } = yield* grantFor(service, agent, issuer)
      const { accessToken } = yield* exchange(service, agent, yield* sign())
      yield* service.call("DELETE", `/api/agents/${agent.id}/delegations/${id}`)
      assert.isFalse(yield* isActive(service, accessToken))
      yield* refused(service, agent, yield* sign())
    }).pipe(Effect.scoped)
  )

  it.effect("for the clientId of its provider is exchanged as well", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { agent, issuer, sign } = yield* makeWorkload(service, { clientId: "application-manager" })
      yield* grantFor(service, agent, issuer)
      yield* exchange(service, agent, yield* sign({ aud: ["another", "application-manager"] }))
      yield* exchange(service, agent, yield* sign())
      yield* refused(service, agent, yield* sign({ aud: "another" }))
    }).pipe(Effect.scoped)
  )

  it.effect.each([
    ["for another audience", { aud: "https://another.example" }, {}],
    ["for nobody", { aud: undefined }, {}],
    ["of a subject that is not listed", { sub: "repo:evil/shop:ref:refs/heads/main" }, {}],
    ["of a subject that only begins like one that is", { sub: `${sub}2` }, {}],
    ["of an issuer that is not registered", { iss: "https://unknown.example" }, {}],
    ["that expired", { exp: 1 }, {}],
    ["without an end", { exp: undefined }, {}],
    ["of a key that is not published", {}, { kid: "another" }],
    ["of another type", {}, { typ: "secevent+jwt" }]
  ] as const)("%s: 400", ([, claims, header]) =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { agent, issuer, sign } = yield* makeWorkload(service)
      yield* grantFor(service, agent, issuer)
      yield* refused(service, agent, yield* sign(claims, header))
    }).pipe(Effect.scoped)
  )

  it.effect("without a grant, signed by nobody, of a provider without subjects, or of another tenant: 400", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { agent, aud, issuer, sign } = yield* makeWorkload(service)
      yield* refused(service, agent, yield* sign())
      yield* grantFor(service, agent, issuer)
      const payload = { iss: issuer.issuer, sub, aud, exp: 4_102_444_800, iat: 1 }
      yield* refused(service, agent, new jose.UnsecuredJWT(payload).encode())
      const empty = yield* makeWorkload(service, { subjects: [] })
      yield* grantFor(service, empty.agent, empty.issuer)
      yield* refused(service, empty.agent, yield* empty.sign())
      const foreign = yield* makeWorkload(service, { tenantId: yield* makeTenant(service.database) })
      assertProblem(
        yield* service.call("POST", `/api/agents/${foreign.agent.id}/delegations`, {
          body: { subject: `${foreign.issuer.issuer}|${sub}`, subjectType: "external", scopes: ["llm:complete"] }
        }),
        400,
        "delegation-invalid"
      )
      yield* refused(service, foreign.agent, yield* foreign.sign())
    }).pipe(Effect.scoped)
  )

  it.effect("of a login provider, or with a grant for an agent alone: 400", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const issuer = yield* makeIssuer
      yield* make(service, path, { kind: "login", issuer: issuer.issuer, clientId: "a client" })
      const { agent } = yield* makeWorkload(service)
      yield* grant(service, agent, yield* makeAgent(service))
      const aud = yield* Effect.promise(() => issuerOf(service))
      yield* refused(service, agent, yield* Effect.promise(() => issuer.sign({ sub, aud })))
    }).pipe(Effect.scoped)
  )
})
