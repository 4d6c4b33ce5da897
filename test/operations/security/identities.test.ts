import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { identityKinds } from "../../../src/operations/security/domain.ts"
import { makeAgent, makeKeyPair, registerKey } from "../../support/agents.ts"
import { makeTenant } from "../../support/authority.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the functions of identities", (it) => {
  for (const kind of identityKinds) {
    const name = `${kind.replaceAll("-", "_")}_identities`
    it.effect(`${name} is planned with the statement that reads it, so that a page reads its rows alone`, () =>
      Effect.gen(function* () {
        const { database } = yield* TestService
        const plan = yield* asSuperuser(
          database,
          (sql) => sql<{ readonly "QUERY PLAN": string }>`
            EXPLAIN SELECT i.* FROM ${sql(name)}(now(), now(), true) i WHERE i.id > new_id() ORDER BY i.id LIMIT 10`
        )
        const called = plan.flatMap((row) => /Function Scan on (?!unnest|e\b)\w+/.exec(row["QUERY PLAN"]) ?? [])
        assert.deepStrictEqual([...called], [])
      })
    )
  }

  it.effect("agent_key_identities counts the live keys with the same thumbprint, for rules alone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const keyPair = makeKeyPair()
      const ids: Array<string> = []
      for (let place = 0; place < 2; place++) {
        const agent = yield* makeAgent(service, { tenantId: yield* makeTenant(service.database) })
        ids.push((yield* registerKey(service, agent.id, keyPair)).id)
      }
      const shared = (forRules: boolean) =>
        asSuperuser(
          service.database,
          (sql) => sql<{ readonly sharedWith: number }>`
            SELECT i.shared_with AS "sharedWith" FROM agent_key_identities(now(), now(), ${forRules}) i
            WHERE i.id = ANY (${ids}::uuid[])`
        )
      assert.deepStrictEqual(yield* shared(true), [{ sharedWith: 1 }, { sharedWith: 1 }])
      assert.deepStrictEqual(yield* shared(false), [{ sharedWith: 0 }, { sharedWith: 0 }])
    })
  )
})
