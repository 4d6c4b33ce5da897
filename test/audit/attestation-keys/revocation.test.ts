import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as jose from "jose"
import { bearer, makeAccount, signIn } from "../../support/accounts.ts"
import { askExchange, assertOAuthError, exchange, isActive, makeAgent, tokenOf } from "../../support/agents.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

const path = "/api/attestation/keys"
const publicUrl = "http://127.0.0.1:11402"

const kidOf = (token: string) => jose.decodeProtectedHeader(token).kid ?? ""
const kids = (service: Service) =>
  Effect.map(service.call("GET", "/.well-known/jwks.json", { key: null }), ({ body }) =>
    (body as jose.JSONWebKeySet).keys.map(({ kid }) => kid)
  )
const idOf = (service: Service, keyId: string) =>
  Effect.map(
    service.call("GET", `${path}?limit=200`),
    ({ body }) => body.items.find((key: { readonly keyId: string }) => key.keyId === keyId).id as string
  )
const end = (service: Service, id: string, body: object) => service.call("DELETE", `${path}/${id}`, { body })

layer(serviceLayer({ Api__PublicUrl: publicUrl }), { excludeTestServices: true, timeout: "60 seconds" })(
  "the end of a key that signs tokens",
  (it) => {
    const other = Effect.flatMap(TestService, ({ replica }) => replica)

    it.effect("204: a compromised key's tokens are refused here from the answer on, elsewhere within a second", () =>
      Effect.gen(function* () {
        const here = yield* TestService
        const there = yield* other
        const agent = yield* makeAgent(here)
        const { accessToken } = yield* tokenOf(here, agent)
        for (const replica of [here, there]) assert.isTrue(yield* isActive(replica, accessToken))
        const id = yield* idOf(here, kidOf(accessToken))
        const answer = yield* end(here, id, { reason: "compromised", compromisedAt: "2026-01-01T00:00:00Z" })
        assert.strictEqual(answer.status, 204, answer.text)
        assert.isFalse(yield* isActive(here, accessToken))
        const headers = { authorization: `Bearer ${accessToken}` }
        assert.strictEqual((yield* here.call("GET", "/api/auth/me", { key: null, headers })).status, 401)
        yield* eventually(isActive(there, accessToken), (active) => !active)

        for (const replica of [here, there]) {
          yield* eventually(kids(replica), (published) => !published.includes(kidOf(accessToken)))
          const fresh = yield* tokenOf(replica, agent)
          assert.notStrictEqual(kidOf(fresh.accessToken), kidOf(accessToken))
          for (const verifier of [here, there]) {
            assert.isTrue(yield* isActive(verifier, fresh.accessToken))
            assert.include(yield* kids(verifier), kidOf(fresh.accessToken))
          }
        }

        assert.strictEqual((yield* end(here, id, { reason: "compromised" })).status, 204)
        const { body } = yield* here.call("GET", `${path}/${id}`)
        assert.deepInclude(body, { status: "compromised", compromisedAt: "2026-01-01T00:00:00.000Z" })
        const { body: entries } = yield* here.call("GET", `/api/audit-logs?entityId=${id}`)
        assert.deepStrictEqual(
          entries.items.map(({ actionType }: { readonly actionType: string }) => actionType),
          ["AttestationKeyCompromised", "AttestationKeyCreated"]
        )
      })
    )

    it.effect("a replica that is told of nothing refuses them all the same, as soon as anything else", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { accessToken } = yield* tokenOf(service, yield* makeAgent(service))
        assert.isTrue(yield* isActive(service, accessToken))
        yield* asSuperuser(
          service.database,
          (sql) => sql`UPDATE attestation_keys SET status = 'compromised' WHERE key_id = ${kidOf(accessToken)}`
        )
        yield* eventually(isActive(service, accessToken), (active) => !active)
        yield* asSuperuser(
          service.database,
          (sql) => sql`SELECT pg_notify('application_manager', 'attestation_keys_changed ')`
        )
        yield* eventually(kids(service), (published) => !published.includes(kidOf(accessToken)))
      })
    )

    it.effect("a subject token that it signed lets nobody act for the account any more", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const account = yield* makeAccount(service, ["llm:complete"])
        const agent = yield* makeAgent(service)
        const subject = { subject: account.id, subjectType: "user", scopes: ["llm:complete"] }
        yield* make(service, `/api/agents/${agent.id}/delegations`, subject)
        const asked = bearer(yield* signIn(service, account), { body: { agentId: agent.id } })
        const { body } = yield* service.call("POST", "/api/auth/subject-token", asked)
        yield* exchange(service, agent, body.subjectToken)
        yield* end(service, yield* idOf(service, kidOf(body.subjectToken)), { reason: "compromised" })
        assertOAuthError(yield* askExchange(service, agent, body.subjectToken), 400, "invalid_request")
        const { body: again } = yield* service.call("POST", "/api/auth/subject-token", asked)
        yield* exchange(service, agent, again.subjectToken)
      })
    )

    it.effect(
      "400 and 404: another reason, none, a moment that is not over or not for the reason, a key that is none",
      () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const { accessToken } = yield* tokenOf(service, yield* makeAgent(service))
          const id = yield* idOf(service, kidOf(accessToken))
          for (const body of [
            {},
            { reason: "bored" },
            { reason: "compromised", compromisedAt: "2090-01-01T00:00:00Z" },
            { reason: "compromised", compromisedAt: "yesterday" },
            { reason: "superseded", compromisedAt: "2026-01-01T00:00:00Z" }
          ]) {
            assertProblem(yield* end(service, id, body), 400, "validation-failed")
          }
          assert.isTrue(yield* isActive(service, accessToken))
          const nobody = "0198a5b0-7c00-7000-8000-00000000002a"
          assertProblem(yield* end(service, nobody, { reason: "superseded" }), 404, "attestation-key-not-found")
        })
    )
  }
)
