import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as jose from "jose"
import { makeAccount, signIn } from "../../support/accounts.ts"
import {
  askExchange,
  askToken,
  assertionOf,
  assertOAuthError,
  exchange,
  grant,
  introspect,
  isActive,
  makeAgent,
  registerKey,
  makeKeyPair,
  sign,
  type TestAgent,
  tokenOf
} from "../../support/agents.ts"
import { makeTenant } from "../../support/authority.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

type Service = TestService["Service"]

const dice = (index: number, salt: number) => (index * 7919 + salt * 104_729) % 97

/** Agents of which each may act for the first, and the first's token. */
const makeChain = Effect.fnUntraced(function* (service: Service, length: number, members: object = {}) {
  const first = yield* makeAgent(service)
  const others = yield* Effect.forEach(Array.from({ length }), () => makeAgent(service))
  const grants = yield* Effect.forEach(others, (other) => grant(service, other, first, members))
  return { first, others, grantIds: grants.map(({ id }) => id as string), root: yield* tokenOf(service, first) }
})

const at = <A>(list: ReadonlyArray<A>, index: number): A => list[index] ?? assert.fail(`nothing at ${index}`)
const pair = (service: Service) =>
  Effect.map(makeChain(service, 1), ({ first, grantIds, others, root }) => ({
    first,
    root,
    other: at(others, 0),
    grantId: at(grantIds, 0)
  }))
const refused = Effect.fnUntraced(function* (service: Service, agent: TestAgent, subjectToken: string) {
  assertOAuthError(yield* askExchange(service, agent, subjectToken), 400, "invalid_request")
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("an exchange", (it) => {
  it.effect("RFC8693 §4.1 sub stays the subject, act nests the prior actors", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { first, others, root } = yield* makeChain(service, 2)
      const once = yield* exchange(service, at(others, 0), root.accessToken)
      const twice = yield* exchange(service, at(others, 1), once.accessToken)
      const claims = jose.decodeJwt(twice.accessToken)
      const act = { sub: `agent:${at(others, 1).id}`, act: { sub: `agent:${at(others, 0).id}` } }
      assert.deepInclude(claims, { sub: `agent:${first.id}`, act, client_id: at(others, 1).id })
      assert.deepStrictEqual((yield* introspect(service, twice.accessToken)).body.act, act)
    })
  )

  it.effect("RFC8693 §2.2.1 the answer names the type of the token", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { other, root } = yield* pair(service)
      const { body } = yield* askExchange(service, other, root.accessToken)
      assert.strictEqual(body.issuedTokenType, "urn:ietf:params:oauth:token-type:access_token")
      assert.notProperty(body, "refreshToken")
    })
  )

  it.effect("RFC8693 §2.1 scopes are what request, subject, grant and ceiling have in common", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const first = yield* makeAgent(service, { scopeCeiling: ["llm:*", "plans:read"] })
      const other = yield* makeAgent(service, { scopeCeiling: ["*:read", "llm:complete", "llm:embed"] })
      yield* grant(service, other, first, { scopes: ["llm:complete", "plans:read", "budgets:read"] })
      const { accessToken } = yield* tokenOf(service, first)
      const all = yield* exchange(service, other, accessToken)
      assert.sameMembers([...all.scopes], ["llm:complete", "plans:read"])
      const less = yield* exchange(service, other, accessToken, { requestedScopes: ["llm:*", "budgets:read"] })
      assert.deepStrictEqual(less.scopes, ["llm:complete"])
      const none = yield* askExchange(service, other, accessToken, { requestedScopes: ["budgets:read"] })
      assertOAuthError(none, 400, "invalid_scope")
      assertOAuthError(yield* askExchange(service, other, accessToken, { requestedScopes: [] }), 400, "invalid_scope")
    })
  )

  it.effect("RFC8693 §2.2.1 the token ends no later than the subject's and the grant", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { first, other } = yield* pair(service)
      const short = yield* make(service, `/api/agents/${first.id}/credentials`, { ttlSeconds: 90 })
      const exchanged = yield* exchange(service, other, short.accessToken)
      assert.isAtMost(Date.parse(exchanged.expiresAt), Date.parse(short.expiresAt))
      const third = yield* makeAgent(service)
      const expiresAt = new Date(Date.now() + 30_000).toISOString()
      yield* grant(service, third, first, { expiresAt })
      const granted = yield* exchange(service, third, short.accessToken)
      assert.isAtMost(Date.parse(granted.expiresAt), Date.parse(expiresAt))
    })
  )

  it.effect("RFC8693 §2.2.2 a subject token that is none is invalid_request", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { other, root } = yield* pair(service)
      for (const token of ["", "a.b.c", "amt_session", root.accessToken.slice(0, -4), `${root.accessToken}A`]) {
        yield* refused(service, other, token)
      }
      yield* exchange(service, other, root.accessToken)
    })
  )

  it.effect(
    "RFC8693 §2.2.2 a token that names a live credential, or a sign-in, is believed by our signature alone",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { other, root } = yield* pair(service)
        const account = yield* makeAccount(service, ["llm:complete"])
        yield* signIn(service, account)
        const subject = { subject: account.id, subjectType: "user", scopes: ["llm:complete"] }
        yield* make(service, `/api/agents/${other.id}/delegations`, subject)
        const [session] = yield* asSuperuser(
          service.database,
          (sql) => sql<{ readonly id: string }>`SELECT id FROM account_sessions WHERE account_id = ${account.id}`
        )
        const claims = jose.decodeJwt(root.accessToken)
        const stranger = makeKeyPair("EdDSA")
        const kid = jose.decodeProtectedHeader(root.accessToken).kid
        const ofAccount = { ...claims, sub: `account:${account.id}`, aud: other.id, sid: session?.id ?? "" }
        const [, payload] = root.accessToken.split(".")
        const none = Buffer.from(JSON.stringify({ alg: "none", typ: "at+jwt" })).toString("base64url")
        for (const token of [
          yield* sign(stranger, claims, { typ: "at+jwt", kid }),
          yield* sign(stranger, claims, { typ: "at+jwt" }),
          yield* sign(stranger, ofAccount, { typ: "subject+jwt", kid }),
          `${none}.${payload}.`
        ]) {
          yield* refused(service, other, token)
        }
        yield* exchange(service, other, root.accessToken)
      })
  )

  it.effect("RFC8693 §1.1 without a grant from the subject to the agent: refused", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { root } = yield* pair(service)
      yield* refused(service, yield* makeAgent(service), root.accessToken)
    })
  )

  it.effect("RFC8693 §1.1 a revoked grant: refused, and what was minted under it ends", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { grantId, other, root } = yield* pair(service)
      const { accessToken } = yield* exchange(service, other, root.accessToken)
      yield* service.call("DELETE", `/api/agents/${other.id}/delegations/${grantId}`)
      assert.isFalse(yield* isActive(service, accessToken))
      assert.isTrue(yield* isActive(service, root.accessToken))
      yield* refused(service, other, root.accessToken)
    })
  )

  it.effect("RFC8693 §1.1 a revoked ancestor: refused at the next hop, and all below ends", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { others, root } = yield* makeChain(service, 3)
      const once = yield* exchange(service, at(others, 0), root.accessToken)
      const twice = yield* exchange(service, at(others, 1), once.accessToken)
      yield* service.call("DELETE", `/api/agents/credentials/${root.credentialId}`)
      for (const { accessToken } of [root, once, twice]) assert.isFalse(yield* isActive(service, accessToken))
      yield* refused(service, at(others, 2), twice.accessToken)
    })
  )

  it.effect("a suspended agent in the middle of a chain stops all below, until it is active again", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { others, root } = yield* makeChain(service, 2)
      const middle = at(others, 0)
      const once = yield* exchange(service, middle, root.accessToken)
      const twice = yield* exchange(service, at(others, 1), once.accessToken)
      yield* service.call("PATCH", `/api/agents/${middle.id}`, { body: { status: "suspended" } })
      assert.isFalse(yield* isActive(service, twice.accessToken))
      assert.isTrue(yield* isActive(service, root.accessToken))
      yield* service.call("PATCH", `/api/agents/${middle.id}`, { body: { status: "active" } })
      assert.isTrue(yield* isActive(service, twice.accessToken))
    })
  )

  it.effect("a ceiling that comes down anywhere in a chain holds for all below it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { first, others, root } = yield* makeChain(service, 3, { scopes: ["llm:complete", "agents:read"] })
      const once = yield* exchange(service, at(others, 0), root.accessToken)
      const twice = yield* exchange(service, at(others, 1), once.accessToken)
      const scopeOf = (token: string) => Effect.map(introspect(service, token), ({ body }) => body.scope as string)
      assert.strictEqual(yield* scopeOf(twice.accessToken), "llm:complete agents:read")
      for (const [agent, left] of [
        [first, ["agents:read"]],
        [at(others, 0), ["llm:complete"]]
      ] as const) {
        const ceiling = (scopeCeiling: ReadonlyArray<string>) =>
          service.call("PATCH", `/api/agents/${agent.id}`, { body: { scopeCeiling } })
        yield* ceiling(left)
        for (const { accessToken } of [once, twice]) assert.strictEqual(yield* scopeOf(accessToken), left.join(" "))
        const next = yield* exchange(service, at(others, 2), twice.accessToken)
        assert.deepStrictEqual(next.scopes, left)
        yield* ceiling(["llm:complete", "agents:read"])
      }
    })
  )

  it.effect("a key that is revoked with what it minted ends all below; without, only the next mint", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { first, other, root } = yield* pair(service)
      const second = makeKeyPair()
      const { id: secondId } = yield* registerKey(service, first.id, second)
      const { accessToken } = yield* exchange(service, other, root.accessToken)
      yield* service.call("DELETE", `/api/agents/${first.id}/keys/${secondId}?revokeCredentials=true`)
      assert.isTrue(yield* isActive(service, accessToken))
      yield* service.call("DELETE", `/api/agents/${first.id}/keys/${first.keyId}`)
      assert.isTrue(yield* isActive(service, accessToken))
      yield* service.call("DELETE", `/api/agents/${first.id}/keys/${first.keyId}?revokeCredentials=true`)
      assert.isFalse(yield* isActive(service, root.accessToken))
      assert.isFalse(yield* isActive(service, accessToken))
    })
  )

  it.effect("a loop is refused: to itself, to one in the chain, back to the subject", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { first, others, root } = yield* makeChain(service, 2)
      const [one, two] = [at(others, 0), at(others, 1)]
      const once = yield* exchange(service, one, root.accessToken)
      const twice = yield* exchange(service, two, once.accessToken)
      yield* refused(service, first, root.accessToken)
      yield* refused(service, one, once.accessToken)
      yield* refused(service, one, twice.accessToken)
      yield* refused(service, first, twice.accessToken)
    })
  )

  it.effect("the fifth agent of a chain is let in, the sixth is refused", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { others, root } = yield* makeChain(service, 6)
      let token = root.accessToken
      for (const agent of others.slice(0, 5)) token = (yield* exchange(service, agent, token)).accessToken
      yield* refused(service, at(others, 5), token)
    })
  )

  it.effect("maxDepth of a grant holds for everything below it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { first, others, root } = yield* makeChain(service, 1, { maxDepth: 1 })
      const deep = yield* makeAgent(service)
      yield* grant(service, deep, first)
      const { accessToken } = yield* exchange(service, at(others, 0), root.accessToken)
      yield* refused(service, deep, accessToken)
      yield* exchange(service, deep, root.accessToken)
    })
  )

  it.effect("an agent of another tenant is refused", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { first, root } = yield* pair(service)
      const foreign = yield* makeAgent(service, { tenantId: yield* makeTenant(service.database) })
      yield* refused(service, foreign, root.accessToken)
      const body = { subject: first.id, subjectType: "agent", scopes: ["llm:complete"] }
      const answer = yield* service.call("POST", `/api/agents/${foreign.id}/delegations`, { body })
      assert.strictEqual(answer.status, 400, answer.text)
    })
  )

  it.effect("RFC7523 §3 (7) a jti that the exchange used is used at the token endpoint too", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { other, root } = yield* pair(service)
      const clientAssertion = yield* assertionOf(service, other)
      const body = { agentId: other.id, clientAssertion, subjectToken: root.accessToken }
      const call = { key: null, body }
      assert.strictEqual((yield* service.call("POST", "/api/agents/token/exchange", call)).status, 200)
      assert.strictEqual((yield* service.call("POST", "/api/agents/token/exchange", call)).status, 401)
      assert.strictEqual((yield* askToken(service, other.id, clientAssertion)).status, 401)
    })
  )

  it.effect("nothing grows along random chains, and revoking any link ends all below", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const every = ["llm:complete", "llm:embed", "plans:read", "plans:write", "agents:read"]
      for (let round = 0; round < 15; round++) {
        const some = (salt: number) => [
          "llm:complete",
          ...every.filter((_, index) => dice(index + round, salt) % 3 > 0)
        ]
        const first = yield* makeAgent(service, { scopeCeiling: every, maxCredentialTtlSeconds: 600 + round })
        const chain = [yield* tokenOf(service, first, { requestedScopes: some(1) })]
        const links = [{ agentId: first.id, grantId: undefined as string | undefined }]
        for (let hop = 0; hop < 4; hop++) {
          const ttl = 60 + dice(hop, round) * 10
          const scopeCeiling = some(hop + 2)
          const agent = yield* makeAgent(service, { scopeCeiling, maxCredentialTtlSeconds: ttl })
          const members = { scopes: some(hop + 7).filter((scope) => scopeCeiling.includes(scope)) }
          const { id: grantId } = yield* grant(service, agent, first, members)
          links.push({ agentId: agent.id, grantId })
          chain.push(yield* exchange(service, agent, at(chain, hop).accessToken))
          const [above, below] = [at(chain, hop), at(chain, hop + 1)]
          assert.includeMembers([...above.scopes], [...below.scopes])
          assert.isAtMost(Date.parse(below.expiresAt), Date.parse(above.expiresAt))
        }
        const cut = round % chain.length
        const { agentId, grantId } = at(links, cut)
        if (round < 5) yield* service.call("DELETE", `/api/agents/credentials/${at(chain, cut).credentialId}`)
        else if (round < 10 && grantId !== undefined) {
          yield* service.call("DELETE", `/api/agents/${agentId}/delegations/${grantId}`)
        } else yield* service.call("PATCH", `/api/agents/${agentId}`, { body: { status: "suspended" } })
        const active = yield* Effect.forEach(chain, ({ accessToken }) => isActive(service, accessToken))
        assert.deepStrictEqual(
          active,
          chain.map((_, index) => index < cut)
        )
      }
    })
  )
})
