import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { registration } from "../../support/agents.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const path = "/api/agents/templates"
const limits = {
  scopeCeiling: ["llm:complete"],
  maxCredentialTtlSeconds: 600,
  perTurnBudget: 0.5,
  allowedTaskTypes: ["extraction"],
  defaultTaskType: "extraction"
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("agent templates", (it) => {
  it.effect("201: made, found, listed, changed, deleted", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = registration({ ...limits, description: "for invoices" })
      const made = yield* service.call("POST", path, { body })
      assert.strictEqual(made.status, 201, made.text)
      assert.deepInclude(made.body, body)
      const at = `${path}/${made.body.id}`
      assert.strictEqual(made.headers.get("location"), at)
      assert.deepStrictEqual((yield* service.call("GET", at)).body, made.body)
      const list = yield* service.call("GET", `${path}?limit=200`)
      assert.deepInclude(list.body.items, made.body)
      const changed = yield* service.call("PATCH", at, { body: { maxCredentialTtlSeconds: 300 } })
      assert.deepInclude(changed.body, { ...body, maxCredentialTtlSeconds: 300 })
      assert.strictEqual((yield* service.call("DELETE", at)).status, 204)
      for (const method of ["GET", "DELETE"])
        assertProblem(yield* service.call(method, at), 404, "agent-template-not-found")
      assertProblem(yield* service.call("PATCH", at, { body: {} }), 404, "agent-template-not-found")
    })
  )

  it.effect("409: a name that a template of the tenant has, also by a change", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const first = yield* make(service, path, registration())
      const second = yield* make(service, path, registration())
      const again = yield* service.call("POST", path, { body: { name: first.name } })
      assertProblem(again, 409, "agent-template-name-taken")
      const renamed = yield* service.call("PATCH", `${path}/${second.id}`, { body: { name: first.name } })
      assertProblem(renamed, 409, "agent-template-name-taken")
      const tenantId = yield* makeTenant(service.database)
      yield* make(service, path, { name: first.name, tenantId })
    })
  )

  it.effect("409: deleted with agents in it, until all of them are retired", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id: templateId } = yield* make(service, path, registration(limits))
      const at = `${path}/${templateId}`
      const body = { ...registration(limits), templateId }
      const one = yield* make(service, "/api/agents", body)
      const other = yield* make(service, "/api/agents", { ...body, name: `${body.name} too` })
      for (const agent of [one, other]) {
        assertProblem(yield* service.call("DELETE", at), 409, "agent-template-in-use")
        assert.strictEqual((yield* service.call("GET", `/api/agents/${one.id}`)).body.templateId, templateId)
        assert.strictEqual((yield* service.call("DELETE", `/api/agents/${agent.id}`)).status, 204)
      }
      assert.strictEqual((yield* service.call("DELETE", at)).status, 204)
      const left = yield* service.call("GET", `/api/agents/${one.id}`)
      assert.deepInclude(left.body, { status: "retired", templateId: null, ...limits })
    })
  )

  for (const [what, members] of [
    ["a default task type that is not allowed", { defaultTaskType: "another" }],
    ["more scopes", { scopeCeiling: ["llm:complete", "agents:read"] }],
    ["wider scopes", { scopeCeiling: ["llm:*"] }],
    ["a longer life", { maxCredentialTtlSeconds: 601 }],
    ["a larger budget", { perTurnBudget: 0.500000001 }],
    ["no budget where the template has one", { perTurnBudget: null }]
  ] as const) {
    it.effect(`400: an agent of a template with ${what}, at its making and later`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { id: templateId } = yield* make(service, path, registration(limits))
        const body = { ...registration(limits), templateId, ...members }
        assertProblem(yield* service.call("POST", "/api/agents", { body }), 400, "agent-limits-invalid")
        const agent = yield* make(service, "/api/agents", { ...registration(limits), templateId })
        const changed = yield* service.call("PATCH", `/api/agents/${agent.id}`, { body: members })
        assertProblem(changed, 400, "agent-limits-invalid")
        assert.deepStrictEqual((yield* service.call("GET", `/api/agents/${agent.id}`)).body, agent)
      })
    )
  }

  it.effect("a tenant's caller sees and changes its tenant's templates alone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["*:*"], { tenantId })
      const foreign = yield* make(service, path, registration())
      const own = yield* make(service, path, registration(), key)
      assert.strictEqual(own.tenantId, tenantId)
      const list = yield* service.call("GET", path, { key })
      assert.deepStrictEqual(list.body.items, [own])
      for (const [method, body] of [
        ["GET", undefined],
        ["PATCH", { name: "mine" }],
        ["DELETE", undefined]
      ] as const) {
        const call = { key, ...(body === undefined ? {} : { body }) }
        assertProblem(yield* service.call(method, `${path}/${foreign.id}`, call), 404, "agent-template-not-found")
      }
      const using = registration({ templateId: foreign.id })
      assertProblem(yield* service.call("POST", "/api/agents", { key, body: using }), 404, "agent-template-not-found")
      const named = yield* service.call("POST", path, { key, body: registration({ tenantId }) })
      assertProblem(named, 403, "forbidden")
    })
  )
})
