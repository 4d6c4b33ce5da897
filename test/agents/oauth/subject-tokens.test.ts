import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import { makeOwnRole } from "../../support/accounts.ts"
import {
  askExchange,
  assertOAuthError,
  exchange,
  grant,
  introspect,
  isActive,
  makeAgent,
  type TestAgent
} from "../../support/agents.ts"
import { makeTenant } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

type Service = TestService["Service"]

const password = "seven grey herons at dawn"

/** An account, an Administrator unless told, its sign-in, and how it asks for a subject token. */
const makePerson = Effect.fnUntraced(function* (service: Service, members: object = {}) {
  const body = { email: `${crypto.randomUUID()}@example.org`, name: "Ada", password, roleIds: [1], ...members }
  const { id } = yield* make(service, "/api/accounts", body)
  const signedIn = yield* service.call("POST", "/api/auth/login", { key: null, body: { email: body.email, password } })
  const session = signedIn.body.token as string
  const ask = (agent: TestAgent) =>
    service.call("POST", "/api/auth/subject-token", {
      key: null,
      headers: { authorization: `Bearer ${session}` },
      body: { agentId: agent.id }
    })
  const subjectToken = (agent: TestAgent) => Effect.map(ask(agent), ({ body: answer }) => answer.subjectToken as string)
  const asItself = (method: string, path: string, sent?: unknown) =>
    service.call(method, path, {
      key: null,
      headers: { authorization: `Bearer ${session}` },
      ...(sent === undefined ? {} : { body: sent })
    })
  return { id: id as string, email: body.email, session, ask, subjectToken, asItself }
})

const mayActFor = (service: Service, agent: TestAgent, subject: string, members: object = {}) =>
  make(service, `/api/agents/${agent.id}/delegations`, {
    subject,
    subjectType: "user",
    scopes: ["llm:complete"],
    ...members
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a subject token of an account",
  (it) => {
    it.effect("RFC8693 §4.1 lets the agent act for the account: sub stays the account", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const person = yield* makePerson(service)
        const agent = yield* makeAgent(service)
        yield* mayActFor(service, agent, person.id)
        const issued = yield* person.ask(agent)
        assert.deepInclude(issued.body, { expiresIn: 300 })
        const delegated = yield* exchange(service, agent, issued.body.subjectToken)
        assert.isAtMost(Date.parse(delegated.expiresAt), Date.parse(issued.body.expiresAt))
        const { body } = yield* introspect(service, delegated.accessToken)
        assert.deepInclude(body, { sub: `account:${person.id}`, client_id: agent.id, scope: "llm:complete" })
        assert.deepStrictEqual(body.act, { sub: `agent:${agent.id}` })

        const next = yield* makeAgent(service)
        yield* mayActFor(service, next, person.id)
        const deeper = yield* exchange(service, next, delegated.accessToken)
        yield* service.call("PATCH", `/api/accounts/${person.id}`, { body: { status: "suspended" } })
        assert.isFalse(yield* isActive(service, delegated.accessToken))
        assert.isFalse(yield* isActive(service, deeper.accessToken))
      })
    )

    it.effect("what the account may no longer do, nobody does for it any more", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const role = yield* makeOwnRole(service, ["llm:*", "agents:*"])
        const person = yield* makePerson(service, { roleIds: [role] })
        const agent = yield* makeAgent(service)
        yield* mayActFor(service, agent, person.id, { scopes: ["llm:complete", "agents:read"] })
        const { accessToken } = yield* exchange(service, agent, yield* person.subjectToken(agent))
        const next = yield* makeAgent(service)
        yield* mayActFor(service, next, person.id, { scopes: ["llm:complete", "agents:read"] })
        const deeper = yield* exchange(service, next, accessToken)
        assert.strictEqual((yield* introspect(service, deeper.accessToken)).body.scope, "llm:complete agents:read")
        yield* service.call("PATCH", `/api/roles/${role}`, { body: { capabilities: ["agents:read"] } })
        for (const token of [accessToken, deeper.accessToken]) {
          assert.strictEqual((yield* introspect(service, token)).body.scope, "agents:read")
        }
      })
    )

    it.effect("RFC8693 §2.2.2 is good for that agent alone, under a grant, and while the account is live", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const person = yield* makePerson(service)
        const agent = yield* makeAgent(service)
        const other = yield* makeAgent(service)
        const token = yield* person.subjectToken(agent)
        assertOAuthError(yield* askExchange(service, agent, token), 400, "invalid_request")
        for (const one of [agent, other]) yield* mayActFor(service, one, person.id)
        assertOAuthError(yield* askExchange(service, other, token), 400, "invalid_request")
        assertOAuthError(yield* askExchange(service, agent, person.session), 400, "invalid_request")
        yield* exchange(service, agent, token)
        yield* service.call("PATCH", `/api/accounts/${person.id}`, { body: { status: "suspended" } })
        assertOAuthError(yield* askExchange(service, agent, token), 400, "invalid_request")
      })
    )

    const ends: ReadonlyArray<
      readonly [
        string,
        (service: Service, person: Effect.Success<ReturnType<typeof makePerson>>) => Effect.Effect<unknown>
      ]
    > = [
      ["a sign-out", (_, { asItself }) => asItself("POST", "/api/auth/logout")],
      [
        "an end by another sign-in",
        Effect.fnUntraced(function* (service, { email }) {
          const body = { email, password }
          const { body: other } = yield* service.call("POST", "/api/auth/login", { key: null, body })
          const headers = { authorization: `Bearer ${other.token}` }
          yield* service.call("DELETE", "/api/auth/sessions", { key: null, headers })
        })
      ],
      [
        "a change of the account's roles",
        (service, { id }) => service.call("PATCH", `/api/accounts/${id}`, { body: { roleIds: [] } })
      ],
      [
        "the end of its trial user's session",
        Effect.fnUntraced(function* (service, { id }) {
          const { body: account } = yield* service.call("GET", `/api/accounts/${id}`)
          const { body: sessions } = yield* service.call(
            "GET",
            `/api/sessions?userId=${account.trialUserId}&active=true`
          )
          for (const session of sessions) yield* service.call("DELETE", `/api/sessions/${session.id}`)
        })
      ],
      ["the removal of the account", (service, { id }) => service.call("DELETE", `/api/accounts/${id}`)]
    ]
    for (const [what, end] of ends) {
      it.effect(`ends with its sign-in: ${what} ends it, and all that was done by it`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const user = { firstName: "Ada", lastName: "Lovelace", email: `${crypto.randomUUID()}@example.org` }
          const { id: trialUserId } = yield* make(service, "/api/trial-users", user)
          const person = yield* makePerson(service, { trialUserId })
          const [agent, next] = [yield* makeAgent(service), yield* makeAgent(service)]
          for (const one of [agent, next]) yield* mayActFor(service, one, person.id)
          const subjectToken = yield* person.subjectToken(agent)
          const once = yield* exchange(service, agent, subjectToken)
          const twice = yield* exchange(service, next, once.accessToken)
          assert.isTrue(yield* isActive(service, twice.accessToken))
          yield* end(service, person)
          for (const { accessToken } of [once, twice]) assert.isFalse(yield* isActive(service, accessToken))
          assertOAuthError(yield* askExchange(service, agent, subjectToken), 400, "invalid_request")
          assertOAuthError(yield* askExchange(service, next, once.accessToken), 400, "invalid_request")
        })
      )
    }

    it.effect("ends with its own sign-in alone, not with another one of the account", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const person = yield* makePerson(service)
        const agent = yield* makeAgent(service)
        yield* mayActFor(service, agent, person.id)
        const { accessToken } = yield* exchange(service, agent, yield* person.subjectToken(agent))
        const body = { email: person.email, password }
        const { body: other } = yield* service.call("POST", "/api/auth/login", { key: null, body })
        const headers = { authorization: `Bearer ${other.token}` }
        yield* service.call("POST", "/api/auth/logout", { key: null, headers })
        assert.isTrue(yield* isActive(service, accessToken))
      })
    )

    it.effect("lets nobody in, and is given to accounts alone, for agents that they may see", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const person = yield* makePerson(service)
        const agent = yield* makeAgent(service)
        const token = yield* person.subjectToken(agent)
        const headers = { authorization: `Bearer ${token}` }
        assertProblem(yield* service.call("GET", "/api/auth/me", { key: null, headers }), 401, "unauthenticated")
        assert.isFalse(yield* isActive(service, token))
        const byKey = yield* service.call("POST", "/api/auth/subject-token", { body: { agentId: agent.id } })
        assertProblem(byKey, 403, "forbidden")
        assertProblem(yield* person.ask({ ...agent, id: crypto.randomUUID() }), 404, "agent-not-found")
        const foreign = yield* makeAgent(service, { tenantId: yield* makeTenant(service.database) })
        yield* grant(service, agent, yield* makeAgent(service))
        assert.strictEqual((yield* person.ask(foreign)).status, 200)
      })
    )
  }
)
