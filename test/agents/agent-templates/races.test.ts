import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { registration } from "../../support/agents.ts"
import { assertProblem } from "../../support/problem.ts"
import { during, type Sql } from "../../support/races.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const path = "/api/agents"
const ceiling = ["llm:complete", "agents:read"]

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "an agent that is made from a template",
  (it) => {
    const made = Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* make(service, `${path}/templates`, registration({ scopeCeiling: ceiling }))
      const body = registration({ templateId: id, scopeCeiling: ceiling })
      return { id: id as string, register: service.call("POST", path, { body }), service }
    })

    it.effect("404: the template is being deleted", () =>
      Effect.gen(function* () {
        const { id, register, service } = yield* made
        const answer = yield* during(
          service.database,
          (sql) => sql`DELETE FROM agent_templates WHERE id = ${id}`,
          register
        )
        assertProblem(answer, 404, "agent-template-not-found")
      })
    )

    it.effect("400: the template is being narrowed, and bounds it already", () =>
      Effect.gen(function* () {
        const { id, register, service } = yield* made
        const narrow = (sql: Sql) => sql`UPDATE agent_templates SET scope_ceiling = '{llm:complete}' WHERE id = ${id}`
        assertProblem(yield* during(service.database, narrow, register), 400, "agent-limits-invalid")
      })
    )

    it.effect("a change of an agent waits likewise, and its template is not deleted beneath it", () =>
      Effect.gen(function* () {
        const { id, register, service } = yield* made
        const agent = (yield* register).body
        const patch = service.call("PATCH", `${path}/${agent.id}`, {
          body: { scopeCeiling: ceiling, description: "new" }
        })
        const narrow = (sql: Sql) => sql`UPDATE agent_templates SET scope_ceiling = '{llm:complete}' WHERE id = ${id}`
        assertProblem(yield* during(service.database, narrow, patch), 400, "agent-limits-invalid")
      })
    )

    it.effect("whatever races, no answer is a fault of the service, and no agent names a template that is gone", () =>
      Effect.gen(function* () {
        const { service } = yield* made
        for (let round = 0; round < 8; round++) {
          const { id, register } = yield* made
          const first = (yield* register).body
          const answers = yield* Effect.all(
            [
              service.call("POST", path, { body: registration({ templateId: id }) }),
              service.call("DELETE", `${path}/templates/${id}`),
              service.call("PATCH", `${path}/${first.id}`, { body: { description: `${round}` } }),
              service.call("PATCH", `${path}/${first.id}`, { body: { templateId: null } }),
              service.call("DELETE", `${path}/templates/${id}`),
              service.call("POST", path, { body: registration({ templateId: id }) })
            ],
            { concurrency: "unbounded" }
          )
          for (const { status, text } of answers) assert.isBelow(status, 500, text)
          const there = (yield* service.call("GET", `${path}/templates/${id}`)).status === 200
          const { body } = yield* service.call("GET", `${path}?limit=200`)
          const users = body.items.filter(({ templateId }: { readonly templateId: string | null }) => templateId === id)
          if (!there) assert.deepStrictEqual(users, [])
        }
      })
    )
  }
)
