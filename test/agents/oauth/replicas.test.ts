import { assert, layer } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { bearer, makeAccount, signIn } from "../../support/accounts.ts"
import {
  askToken,
  assertionOf,
  exchange,
  grant,
  introspect,
  isActive,
  makeAgent,
  registration,
  type TestAgent,
  tokenOf
} from "../../support/agents.ts"
import { makeTenant } from "../../support/authority.ts"
import { make } from "../../support/scenarios.ts"
import { serviceLayer, startService, TestService } from "../../support/service.ts"

type Service = TestService["Service"]

/** What a token that was exchanged hangs on, by their ids. */
interface Chain {
  readonly actor: string
  readonly subject: string
  readonly grantId: string
  readonly credentialId: string
  readonly tenantId: string
}

const publicUrl = "http://127.0.0.1:11402"

/** Asks until the replica calls the token inactive, for as long as a replica may be behind: a second. */
const inactiveWithinASecond = (service: Service, token: string) =>
  isActive(service, token).pipe(
    Effect.repeat({ until: (active) => !active, schedule: Schedule.spaced("10 millis"), times: 100 }),
    Effect.map((active) => assert.isFalse(active, "the token is still active"))
  )

layer(serviceLayer({ Api__PublicUrl: publicUrl }), { excludeTestServices: true, timeout: "60 seconds" })(
  "agents on two replicas",
  (it) => {
    const other = Effect.flatMap(TestService, ({ replica }) => replica)

    it.effect("50 concurrent replays of one assertion yield exactly one credential", () =>
      Effect.gen(function* () {
        const here = yield* TestService
        const there = yield* other
        const agent = yield* makeAgent(here)
        for (let round = 0; round < 3; round++) {
          const assertion = yield* assertionOf(here, agent)
          const answers = yield* Effect.all(
            Array.from({ length: 50 }, (_, index) => askToken(index % 2 === 0 ? here : there, agent.id, assertion)),
            { concurrency: "unbounded" }
          )
          const statuses = answers.map(({ status }) => status)
          assert.deepStrictEqual(
            statuses.toSorted((a, b) => a - b),
            [200, ...Array.from({ length: 49 }, () => 401)]
          )
        }
        const { body } = yield* here.call("GET", `/api/agents/${agent.id}/credentials`)
        assert.strictEqual(body.items.length, 3)
      })
    )

    it.effect("50 concurrent uses of one assertion, as a token and as an exchange, yield exactly one credential", () =>
      Effect.gen(function* () {
        const here = yield* TestService
        const there = yield* other
        const subject = yield* makeAgent(here)
        const agent = yield* makeAgent(here)
        yield* grant(here, agent, subject)
        const { accessToken: subjectToken } = yield* tokenOf(here, subject)
        const clientAssertion = yield* assertionOf(here, agent)
        const body = { agentId: agent.id, clientAssertion }
        const answers = yield* Effect.all(
          Array.from({ length: 50 }, (_, index) => {
            const service = index % 2 === 0 ? here : there
            return index % 4 < 2
              ? service.call("POST", "/api/agents/token", { key: null, body })
              : service.call("POST", "/api/agents/token/exchange", { key: null, body: { ...body, subjectToken } })
          }),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(
          answers.map(({ status }) => status).toSorted((a, b) => a - b),
          [200, ...Array.from({ length: 49 }, () => 401)]
        )
        const { body: kept } = yield* here.call("GET", `/api/agents/${agent.id}/credentials`)
        assert.strictEqual(kept.items.length, 1)
      })
    )

    const ends: ReadonlyArray<
      readonly [string, (service: Service, agent: TestAgent, credentialId: string) => Effect.Effect<unknown>]
    > = [
      ["revocation", (service, _, id) => service.call("DELETE", `/api/agents/credentials/${id}`)],
      [
        "suspension",
        (service, { id }) => service.call("PATCH", `/api/agents/${id}`, { body: { status: "suspended" } })
      ],
      ["retirement", (service, { id }) => service.call("DELETE", `/api/agents/${id}`)],
      [
        "revocation of the key with what it minted",
        (service, { id, keyId }) => service.call("DELETE", `/api/agents/${id}/keys/${keyId}?revokeCredentials=true`)
      ]
    ]
    for (const [what, end] of ends) {
      it.effect(`a ${what} holds here before its answer, and within a second on the other replica`, () =>
        Effect.gen(function* () {
          const here = yield* TestService
          const there = yield* other
          const agent = yield* makeAgent(here)
          const { accessToken, credentialId } = yield* tokenOf(here, agent)
          assert.isTrue(yield* isActive(here, accessToken))
          assert.isTrue(yield* isActive(there, accessToken))
          yield* end(here, agent, credentialId)
          assert.isFalse(yield* isActive(here, accessToken))
          yield* inactiveWithinASecond(there, accessToken)
        })
      )
    }

    const endsOfChains: ReadonlyArray<readonly [string, (service: Service, chain: Chain) => Effect.Effect<unknown>]> = [
      [
        "revocation of the grant",
        (service, { actor, grantId }) => service.call("DELETE", `/api/agents/${actor}/delegations/${grantId}`)
      ],
      [
        "revocation of the subject's credential",
        (service, { credentialId }) => service.call("DELETE", `/api/agents/credentials/${credentialId}`)
      ],
      ["retirement of the subject", (service, { subject }) => service.call("DELETE", `/api/agents/${subject}`)],
      [
        "suspension of the tenant",
        (service, { tenantId }) => service.call("PATCH", `/api/tenants/${tenantId}`, { body: { status: "suspended" } })
      ]
    ]
    for (const [what, end] of endsOfChains) {
      it.effect(
        `a ${what} ends a delegated token here before its answer, and within a second on the other replica`,
        () =>
          Effect.gen(function* () {
            const here = yield* TestService
            const there = yield* other
            const tenantId = yield* makeTenant(here.database)
            const subject = yield* makeAgent(here, { tenantId })
            const actor = yield* makeAgent(here, { tenantId })
            const { id: grantId } = yield* grant(here, actor, subject)
            const { accessToken, credentialId } = yield* tokenOf(here, subject)
            const delegated = (yield* exchange(here, actor, accessToken)).accessToken
            assert.isTrue(yield* isActive(here, delegated))
            assert.isTrue(yield* isActive(there, delegated))
            yield* end(here, { actor: actor.id, subject: subject.id, grantId, credentialId, tenantId })
            assert.isFalse(yield* isActive(here, delegated))
            yield* inactiveWithinASecond(there, delegated)
          })
      )
    }

    it.effect(
      "a sign-out ends what was done for the account here before its answer, and within a second elsewhere",
      () =>
        Effect.gen(function* () {
          const here = yield* TestService
          const there = yield* other
          const account = yield* makeAccount(here, ["llm:complete"])
          const session = yield* signIn(here, account)
          const agent = yield* makeAgent(here)
          const subject = { subject: account.id, subjectType: "user", scopes: ["llm:complete"] }
          yield* make(here, `/api/agents/${agent.id}/delegations`, subject)
          const asked = yield* here.call(
            "POST",
            "/api/auth/subject-token",
            bearer(session, { body: { agentId: agent.id } })
          )
          const { accessToken } = yield* exchange(there, agent, asked.body.subjectToken)
          for (const service of [here, there]) assert.isTrue(yield* isActive(service, accessToken))
          yield* here.call("POST", "/api/auth/logout", bearer(session))
          assert.isFalse(yield* isActive(here, accessToken))
          yield* inactiveWithinASecond(there, accessToken)
        })
    )

    it.effect("a template that is narrowed bounds what its agents hold, here at once, within a second elsewhere", () =>
      Effect.gen(function* () {
        const here = yield* TestService
        const there = yield* other
        const scopeCeiling = ["llm:complete", "agents:read"]
        const template = yield* make(here, "/api/agents/templates", registration({ scopeCeiling }))
        const agent = yield* makeAgent(here, { templateId: template.id })
        const { accessToken } = yield* tokenOf(there, agent)
        const scopeOf = (service: Service) =>
          Effect.map(introspect(service, accessToken), ({ body }) => body.scope as string)
        assert.strictEqual(yield* scopeOf(there), "llm:complete agents:read")
        const body = { scopeCeiling: ["agents:read"] }
        yield* here.call("PATCH", `/api/agents/templates/${template.id}`, { body })
        assert.strictEqual(yield* scopeOf(here), "agents:read")
        const told = yield* scopeOf(there).pipe(
          Effect.repeat({
            until: (scope) => scope === "agents:read",
            schedule: Schedule.spaced("10 millis"),
            times: 100
          })
        )
        assert.strictEqual(told, "agents:read")
      })
    )

    it.effect("RFC9068 §4 a token for another issuer is none, though one of our keys signed it", () =>
      Effect.gen(function* () {
        const here = yield* TestService
        const elsewhere = yield* startService(here.database, { Api__PublicUrl: "https://elsewhere.example" })
        const agent = yield* makeAgent(here)
        const { accessToken } = yield* tokenOf(here, agent)
        assert.isTrue(yield* isActive(here, accessToken))
        assert.isFalse(yield* isActive(elsewhere, accessToken))
        const headers = { authorization: `Bearer ${accessToken}` }
        assert.strictEqual((yield* here.call("GET", "/api/auth/me", { key: null, headers })).status, 200)
        assert.strictEqual((yield* elsewhere.call("GET", "/api/auth/me", { key: null, headers })).status, 401)
      })
    )

    it.effect("a mint that races with the revocation of the key leaves nothing that lives", () =>
      Effect.gen(function* () {
        const here = yield* TestService
        const there = yield* other
        for (let round = 0; round < 5; round++) {
          const agent = yield* makeAgent(here)
          const assertions = yield* Effect.forEach(Array.from({ length: 10 }), () => assertionOf(here, agent))
          const [, ...answers] = yield* Effect.all(
            [
              here.call("DELETE", `/api/agents/${agent.id}/keys/${agent.keyId}?revokeCredentials=true`),
              ...assertions.map((assertion) => askToken(there, agent.id, assertion))
            ],
            { concurrency: "unbounded" }
          )
          for (const { body, status } of answers) {
            if (status === 200) assert.isFalse(yield* isActive(here, body.accessToken))
          }
        }
      })
    )

    it.effect("a credential that one replica issued by hand is known on the other", () =>
      Effect.gen(function* () {
        const here = yield* TestService
        const there = yield* other
        const { id } = yield* makeAgent(here)
        const { accessToken } = yield* make(here, `/api/agents/${id}/credentials`, {})
        assert.isTrue(yield* isActive(there, accessToken))
      })
    )
  }
)
