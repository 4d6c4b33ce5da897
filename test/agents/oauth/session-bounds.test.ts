import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeAccount, signIn } from "../../support/accounts.ts"
import { exchange, makeAgent } from "../../support/agents.ts"
import { make } from "../../support/scenarios.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

const environment = { Auth__SessionIdleSeconds: "120", Auth__SessionLifetimeSeconds: "3600" }

layer(serviceLayer(environment), { excludeTestServices: true, timeout: "60 seconds" })(
  "the time of a subject token",
  (it) => {
    const signedIn = Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service, ["llm:complete"])
      const token = yield* signIn(service, account)
      const agent = yield* makeAgent(service)
      const subject = { subject: account.id, subjectType: "user", scopes: ["llm:complete"] }
      yield* make(service, `/api/agents/${agent.id}/delegations`, subject)
      const ask = service.call("POST", "/api/auth/subject-token", {
        key: null,
        headers: { authorization: `Bearer ${token}` },
        body: { agentId: agent.id }
      })
      return { service, account, agent, ask }
    })

    it.effect("is no longer than its sign-in may be idle", () =>
      Effect.gen(function* () {
        const { agent, ask, service } = yield* signedIn
        const { body } = yield* ask
        assert.strictEqual(body.expiresIn, 120)
        const { expiresAt } = yield* exchange(service, agent, body.subjectToken)
        assert.isAtMost(Date.parse(expiresAt), Date.parse(body.expiresAt))
      })
    )

    it.effect("ends no later than its sign-in, also when that was shortened since", () =>
      Effect.gen(function* () {
        const { account, agent, ask, service } = yield* signedIn
        const long = yield* ask
        yield* asSuperuser(
          service.database,
          (sql) => sql`
            UPDATE account_sessions SET expires_at = now() + interval '60 seconds' WHERE account_id = ${account.id}`
        )
        const short = yield* ask
        assert.isAtMost(short.body.expiresIn, 60)
        for (const { body } of [long, short]) {
          const { expiresIn } = yield* exchange(service, agent, body.subjectToken)
          assert.isAtMost(expiresIn, 60)
        }
      })
    )
  }
)
