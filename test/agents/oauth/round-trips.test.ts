import { assert, it } from "@effect/vitest"
import { Effect, Tracer } from "effect"
import { bearer, makeAccount, signIn } from "../../support/accounts.ts"
import { assertionOf, exchange, grant, makeAgent, type TestAgent, tokenOf } from "../../support/agents.ts"
import { makeDatabase } from "../../support/database.ts"
import { make } from "../../support/scenarios.ts"
import { startService, type TestService } from "../../support/service.ts"
import { makeSpans } from "../../support/spans.ts"

type Service = TestService["Service"]

/** Two replicas: one where things are made, and one whose caches have seen none of them. */
const replicas = Effect.gen(function* () {
  const database = yield* makeDatabase
  const { tracer, workOf } = makeSpans()
  const here = yield* startService(database, settings)
  const cold = yield* Effect.provideService(startService(database, settings), Tracer.Tracer, tracer)
  /** The statements that a grant takes there: one to look, one to mint. */
  const statementsOf = Effect.fnUntraced(function* (agent: TestAgent, path: string, members: object = {}) {
    const body = { agentId: agent.id, clientAssertion: yield* assertionOf(here, agent), ...members }
    const { answer, work } = yield* workOf(cold, "POST", path, { key: null, body })
    assert.strictEqual(answer.status, 200, answer.text)
    // The span of a statement is named by the database that it is sent to.
    return work.filter((name) => name === database.database).length
  })
  return { here, statementsOf }
})
const settings = { Api__PublicUrl: "http://127.0.0.1:11402" }

/** A token at the end of a chain, and the agent that may take it further. */
const makeChain = Effect.fnUntraced(function* (service: Service) {
  const [first, second, third] = [yield* makeAgent(service), yield* makeAgent(service), yield* makeAgent(service)]
  for (const one of [second, third]) yield* grant(service, one, first)
  const { accessToken } = yield* tokenOf(service, first)
  return { third, subjectToken: (yield* exchange(service, second, accessToken)).accessToken }
})

it.live("a token takes two round trips to the database where nothing is known yet, and one afterwards", () =>
  Effect.gen(function* () {
    const { here, statementsOf } = yield* replicas
    const agent = yield* makeAgent(here)
    assert.strictEqual(yield* statementsOf(agent, "/api/agents/token"), 2)
    // The notification of the agent's creation empties the cache once, and may arrive after the first token.
    const first = yield* statementsOf(agent, "/api/agents/token")
    assert.strictEqual(first === 1 ? 1 : yield* statementsOf(agent, "/api/agents/token"), 1)
  })
)

it.live("an exchange takes two, however long the chain", () =>
  Effect.gen(function* () {
    const { here, statementsOf } = yield* replicas
    const { subjectToken, third } = yield* makeChain(here)
    for (let time = 0; time < 2; time++) {
      assert.strictEqual(yield* statementsOf(third, "/api/agents/token/exchange", { subjectToken }), 2)
    }
  })
)

it.live("an exchange for an account takes two", () =>
  Effect.gen(function* () {
    const { here, statementsOf } = yield* replicas
    const account = yield* makeAccount(here, ["llm:complete"])
    const agent = yield* makeAgent(here)
    const subject = { subject: account.id, subjectType: "user", scopes: ["llm:complete"] }
    yield* make(here, `/api/agents/${agent.id}/delegations`, subject)
    const session = yield* signIn(here, account)
    const asked = yield* here.call("POST", "/api/auth/subject-token", bearer(session, { body: { agentId: agent.id } }))
    const { subjectToken } = asked.body
    assert.strictEqual(yield* statementsOf(agent, "/api/agents/token/exchange", { subjectToken }), 2)
  })
)
