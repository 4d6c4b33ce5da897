import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import { makeAccount } from "../../support/accounts.ts"
import {
  askToken,
  assertInvalidClient,
  assertionOf,
  exchange,
  grant,
  makeAgent,
  tokenOf
} from "../../support/agents.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { faults, read, refuses, type Refusal, type Sent } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const pathOf = (agentId: string) => `/api/agents/${agentId}/delegations`

const pair = Effect.gen(function* () {
  const service = yield* TestService
  return { service, subject: yield* makeAgent(service), agent: yield* makeAgent(service) }
})

const nobody = crypto.randomUUID()
const granting =
  (members: object) =>
  ({ agent, subject }: Effect.Success<typeof pair>): Sent => [
    "POST",
    pathOf(agent.id),
    { body: { subject: subject.id, subjectType: "agent", scopes: ["llm:complete"], ...members } }
  ]
const invalid = (member: string): Refusal => ({
  status: 400,
  check: (answer) => {
    assertProblem(answer, 400, "delegation-invalid")
    assert.deepStrictEqual(answer.body.errors, [{ path: ["payload", member], message: answer.body.detail }])
  }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("delegation grants", (it) => {
  it.effect("201: made for an agent, an account of the tenant and one of the whole installation", () =>
    Effect.gen(function* () {
      const { agent, service, subject } = yield* pair
      const subjects = [
        { subjectType: "agent", subject: subject.id },
        { subjectType: "user", subject: (yield* makeAccount(service, [], { tenantId: agent.tenantId })).id },
        { subjectType: "user", subject: (yield* makeAccount(service)).id }
      ]
      for (const about of subjects) {
        const body = { ...about, scopes: ["llm:complete"], expiresAt: "2099-12-31T23:59:59.000Z", reason: "invoices" }
        const made = yield* service.call("POST", pathOf(agent.id), { body })
        assert.strictEqual(made.status, 201, made.text)
        const { createdAt, id, ...rest } = made.body
        assert.strictEqual(made.headers.get("location"), `${pathOf(agent.id)}/${id}`)
        assert.isAtMost(Date.parse(createdAt), Date.now())
        assert.deepStrictEqual(rest, {
          ...body,
          agentId: agent.id,
          maxDepth: 5,
          status: "active",
          createdBy: "service-account",
          revokedAt: null,
          lastUsedAt: null
        })
      }
      const { body } = yield* service.call("GET", pathOf(agent.id))
      assert.deepStrictEqual(
        body.items.map(({ subjectType }: { readonly subjectType: string }) => subjectType),
        ["agent", "user", "user"]
      )
    })
  )

  it.effect("409: for an agent that is retired", () =>
    Effect.gen(function* () {
      const { agent, service, subject } = yield* pair
      assert.strictEqual((yield* service.call("DELETE", `/api/agents/${agent.id}`)).status, 204)
      const body = { subjectType: "agent", subject: subject.id, scopes: ["llm:complete"] }
      assertProblem(yield* service.call("POST", pathOf(agent.id), { body }), 409, "agent-not-active")
    })
  )

  refuses(
    it,
    [
      ["scopes beyond the ceiling", granting({ scopes: ["llm:complete", "tenants:write"] }), invalid("scopes")],
      ["scopes that are wider than the ceiling", granting({ scopes: ["llm:*"] }), invalid("scopes")],
      ["an expiry that is over", granting({ expiresAt: "2020-01-01T00:00:00Z" }), invalid("expiresAt")],
      ["itself as the subject", (given) => granting({ subject: given.agent.id })(given), invalid("subject")],
      ["an agent that is none", granting({ subject: nobody }), invalid("subject")],
      ["an account that is none", granting({ subjectType: "user", subject: nobody }), invalid("subject")],
      ["an agent as an account", granting({ subjectType: "user" }), invalid("subject")],
      [
        "an account that has no id's form",
        granting({ subjectType: "user", subject: "ada@example.com" }),
        invalid("subject")
      ],
      [
        "an external subject of a provider that is not registered",
        granting({ subjectType: "external", subject: "https://idp.example|user 42" }),
        invalid("subject")
      ],
      [
        "an external subject without its issuer",
        granting({ subjectType: "external", subject: "user-42" }),
        invalid("subject")
      ],
      [
        "an external subject without its sub",
        granting({ subjectType: "external", subject: "https://idp.example|" }),
        invalid("subject")
      ],
      ["no scope", granting({ scopes: [] }), faults("payload.scopes")],
      ["no subject", granting({ subject: "" }), faults("payload.subject")],
      ["a subject of no type", granting({ subjectType: "robot" }), faults("payload.subjectType")],
      ["a depth of nothing", granting({ maxDepth: 0 }), faults("payload.maxDepth")],
      ["a depth of 33", granting({ maxDepth: 33 }), faults("payload.maxDepth")]
    ],
    { given: pair, unchanged: ({ agent }) => read(pathOf(agent.id)) }
  )

  it.effect("another tenant's account is no subject, for a tenant's key as for the service account", () =>
    Effect.gen(function* () {
      const { agent, service } = yield* pair
      const foreign = yield* makeAccount(service, [], { tenantId: yield* makeTenant(service.database) })
      const { id: everywhere } = yield* makeAccount(service)
      const { key } = yield* makeKey(service, ["*:*"], { tenantId: agent.tenantId })
      const ask = (subject: string, by: string) =>
        service.call("POST", pathOf(agent.id), {
          key: by,
          body: { subject, subjectType: "user", scopes: ["llm:complete"] }
        })
      for (const by of [key, service.serviceKey]) {
        assertProblem(yield* ask(foreign.id, by), 400, "delegation-invalid")
        assert.strictEqual((yield* ask(everywhere, by)).status, 201)
      }
    })
  )

  it.effect("another tenant's agent is no subject, and its grants are 404", () =>
    Effect.gen(function* () {
      const { agent, service } = yield* pair
      const tenantId = yield* makeTenant(service.database)
      const foreign = yield* makeAgent(service, { tenantId })
      const body = { subject: foreign.id, subjectType: "agent", scopes: ["llm:complete"] }
      assertProblem(yield* service.call("POST", pathOf(agent.id), { body }), 400, "delegation-invalid")
      const { id } = yield* grant(service, agent, yield* makeAgent(service))
      const { key } = yield* makeKey(service, ["*:*"], { tenantId })
      for (const [method, path, sent] of [
        ["GET", pathOf(agent.id), undefined],
        ["POST", pathOf(agent.id), body],
        ["DELETE", `${pathOf(agent.id)}/${id}`, undefined]
      ] as const) {
        const answer = yield* service.call(method, path, { key, ...(sent === undefined ? {} : { body: sent }) })
        assertProblem(answer, 404, "agent-not-found")
      }
      const { body: kept } = yield* service.call("GET", pathOf(agent.id))
      assert.strictEqual(kept.items[0].status, "active")
    })
  )

  it.effect("204: revoked, and again; the grant of another agent is 404", () =>
    Effect.gen(function* () {
      const { agent, service, subject } = yield* pair
      const { id } = yield* grant(service, agent, subject)
      assertProblem(yield* service.call("DELETE", `${pathOf(subject.id)}/${id}`), 404, "delegation-not-found")
      for (let time = 0; time < 2; time++) {
        assert.strictEqual((yield* service.call("DELETE", `${pathOf(agent.id)}/${id}`)).status, 204)
      }
      const { body } = yield* service.call("GET", pathOf(agent.id))
      assert.strictEqual(body.items[0].status, "revoked")
      assert.isNotNull(body.items[0].revokedAt)
      const entries = yield* service.call("GET", `/api/audit-logs?actionType=DelegationRevoked&entityId=${id}`)
      assert.lengthOf(entries.body.items, 1)
    })
  )

  it.effect("the list says when a grant was used last, and a refused exchange is no use", () =>
    Effect.gen(function* () {
      const { agent, service, subject } = yield* pair
      const other = yield* makeAgent(service)
      for (const one of [agent, other]) yield* grant(service, one, subject)
      const { accessToken: subjectToken } = yield* tokenOf(service, subject)
      const clientAssertion = yield* assertionOf(service, other)
      yield* askToken(service, other.id, clientAssertion)
      const replayed = { agentId: other.id, clientAssertion, subjectToken }
      assertInvalidClient(yield* service.call("POST", "/api/agents/token/exchange", { key: null, body: replayed }))
      yield* exchange(service, agent, subjectToken)
      const usedAt = (agentId: string) =>
        Effect.map(service.call("GET", pathOf(agentId)), ({ body }) => body.items[0].lastUsedAt as string | null)
      yield* eventually(usedAt(agent.id), (at) => at !== null)
      assert.isNull(yield* usedAt(other.id))
    })
  )

  it.effect("pages hold every grant once", () =>
    Effect.gen(function* () {
      const { agent, service, subject } = yield* pair
      for (let count = 0; count < 5; count++) yield* grant(service, agent, subject)
      const seen: Array<string> = []
      for (let query = "?limit=2"; query !== "";) {
        const { body } = yield* service.call("GET", `${pathOf(agent.id)}${query}`)
        seen.push(...body.items.map(({ id }: { readonly id: string }) => id))
        query = body.nextCursor === null ? "" : `?limit=2&cursor=${body.nextCursor}`
      }
      assert.lengthOf(seen, 5)
      assert.strictEqual(new Set(seen).size, 5)
    })
  )
})
