import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertOAuthError, makeAgent, registration } from "../../support/agents.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { faults, problem, refuses, type Sent, make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const path = "/api/agents"
const nobody = "01890a5d-ac96-774b-bcce-b302099a8057"
const creating = (members: object): Sent => ["POST", path, { body: registration(members) }]

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("agents over HTTP", (it) => {
  it.effect("201: registered with defaults, active, in the default tenant", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answer = yield* service.call("POST", path, { body: { name: "plain agent" } })
      assert.strictEqual(answer.status, 201)
      assert.strictEqual(answer.headers.get("location"), `${path}/${answer.body.id}`)
      assert.deepInclude(answer.body, {
        name: "plain agent",
        description: "",
        ownerUserId: null,
        scopeCeiling: [],
        maxCredentialTtlSeconds: 3600,
        perTurnBudget: null,
        allowedTaskTypes: [],
        defaultTaskType: null,
        templateId: null,
        status: "active",
        createdBy: "service-account",
        lastSeenAt: null
      })
      const got = yield* service.call("GET", `${path}/${answer.body.id}`)
      assert.deepStrictEqual(got.body, answer.body)
    })
  )

  it.effect("201: every member as given, money to nine decimals", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const members = {
        description: "reads",
        ownerUserId: "user-42",
        maxCredentialTtlSeconds: 60,
        perTurnBudget: 0.000000001,
        allowedTaskTypes: ["a", "b"],
        defaultTaskType: "b"
      }
      assert.deepInclude(yield* make(service, path, registration(members)), members)
      for (const perTurnBudget of [8_388_607.999999999, 0.1, 1e-9, 1234.5]) {
        assert.deepInclude(yield* make(service, path, registration({ perTurnBudget })), { perTurnBudget })
      }
    })
  )

  refuses(it, [
    ["a life of 59 seconds", creating({ maxCredentialTtlSeconds: 59 }), faults("payload.maxCredentialTtlSeconds")],
    [
      "a life of more than a day",
      creating({ maxCredentialTtlSeconds: 86_401 }),
      faults("payload.maxCredentialTtlSeconds")
    ],
    ["a budget of nothing", creating({ perTurnBudget: 0 }), faults("payload.perTurnBudget")],
    ["a budget below nothing", creating({ perTurnBudget: -1 }), faults("payload.perTurnBudget")],
    ["a budget below the smallest amount", creating({ perTurnBudget: 0.0000000001 }), faults("payload.perTurnBudget")],
    ["a budget of eleven decimals", creating({ perTurnBudget: 0.12345678901 }), faults("payload.perTurnBudget")],
    ["a budget beyond any amount", creating({ perTurnBudget: 8_388_608 }), faults("payload.perTurnBudget")],
    ["a scope of no resource of ours", creating({ scopeCeiling: ["billing:pay"] }), faults("payload.scopeCeiling.0")],
    ["a blank name", creating({ name: " " }), faults("payload.name")],
    [
      "a default task type that is not allowed",
      creating({ allowedTaskTypes: ["a"], defaultTaskType: "b" }),
      problem(400, "agent-limits-invalid")
    ],
    ["a tenant that is none", creating({ tenantId: nobody }), problem(404, "tenant-not-found")],
    ["a template that is none", creating({ templateId: nobody }), problem(404, "agent-template-not-found")]
  ])

  it.effect("409: a name that a live agent of the tenant has; free again when that one is retired", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = registration()
      const { id } = yield* make(service, path, body)
      assertProblem(yield* service.call("POST", path, { body }), 409, "agent-name-taken")
      yield* make(service, path, { ...body, tenantId: yield* makeTenant(service.database) })
      assert.strictEqual((yield* service.call("DELETE", `${path}/${id}`)).status, 204)
      assert.strictEqual((yield* service.call("DELETE", `${path}/${id}`)).status, 204)
      yield* make(service, path, body)
      const revived = yield* service.call("PATCH", `${path}/${id}`, { body: { status: "active" } })
      assertProblem(revived, 409, "agent-not-active")
    })
  )

  it.effect("a template gives what is absent, and bounds what is given", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const limits = {
        scopeCeiling: ["llm:*"],
        maxCredentialTtlSeconds: 600,
        perTurnBudget: 0.5,
        allowedTaskTypes: ["a"],
        defaultTaskType: "a"
      }
      const template = yield* make(service, `${path}/templates`, registration(limits))
      const body = { templateId: template.id }
      assert.deepInclude(yield* make(service, path, { name: "from a template", ...body }), { ...limits, ...body })
      for (const beyond of [
        { scopeCeiling: ["*:*"] },
        { maxCredentialTtlSeconds: 601 },
        { perTurnBudget: 0.51 },
        { perTurnBudget: null }
      ]) {
        const refused = yield* service.call("POST", path, { body: { name: "beyond", ...body, ...beyond } })
        assertProblem(refused, 400, "agent-limits-invalid")
      }
      const bound = yield* make(service, path, { name: "bound", ...body })
      yield* service.call("PATCH", `${path}/templates/${template.id}`, { body: { scopeCeiling: [] } })
      const suspended = yield* service.call("PATCH", `${path}/${bound.id}`, { body: { status: "suspended" } })
      assert.strictEqual(suspended.status, 200, "a template that came down does not stand in the way of a suspension")
      const wider = yield* service.call("PATCH", `${path}/${bound.id}`, { body: { scopeCeiling: ["llm:read"] } })
      assertProblem(wider, 400, "agent-limits-invalid")
      const inUse = yield* service.call("DELETE", `${path}/templates/${template.id}`)
      assertProblem(inUse, 409, "agent-template-in-use")
      const foreign = { name: "foreign", ...body, tenantId: yield* makeTenant(service.database) }
      assertProblem(yield* service.call("POST", path, { body: foreign }), 404, "agent-template-not-found")
    })
  )

  it.effect("lists by status, owner and tenant, in pages", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const made = yield* Effect.forEach(["a", "b", "a"], (ownerUserId) =>
        make(service, path, registration({ tenantId, ownerUserId }))
      )
      yield* service.call("PATCH", `${path}/${made[0].id}`, { body: { status: "suspended" } })
      const ids = (query: string) =>
        Effect.map(service.call("GET", `${path}?tenantId=${tenantId}&${query}`), ({ body }) =>
          body.items.map(({ id }: { readonly id: string }) => id)
        )
      assert.deepStrictEqual(yield* ids("ownerUserId=a"), [made[0].id, made[2].id])
      assert.deepStrictEqual(yield* ids("status=suspended"), [made[0].id])
      const first = yield* service.call("GET", `${path}?tenantId=${tenantId}&limit=2`)
      assert.deepStrictEqual(yield* ids(`limit=2&cursor=${first.body.nextCursor}`), [made[2].id])
    })
  )

  it.effect("a credential by hand: 201, its scopes and life within the agent's, and the caller's", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* makeAgent(service, { maxCredentialTtlSeconds: 600 })
      const issue = (body: object, key?: string) =>
        service.call("POST", `${path}/${id}/credentials`, { body, ...(key === undefined ? {} : { key }) })
      const whole = yield* issue({})
      assert.strictEqual(whole.status, 201)
      assert.strictEqual(whole.headers.get("location"), `/api/agents/credentials/${whole.body.credentialId}`)
      assert.deepInclude(whole.body, { tokenType: "Bearer", expiresIn: 600, scopes: ["llm:complete", "agents:read"] })
      const less = yield* issue({ requestedScopes: ["llm:complete"], ttlSeconds: 60 })
      assert.deepInclude(less.body, { expiresIn: 60, scopes: ["llm:complete"] })
      assertOAuthError(yield* issue({ requestedScopes: ["llm:embed"] }), 400, "invalid_scope")
      assertOAuthError(yield* issue({ requestedScopes: [] }), 400, "invalid_scope")
      assertOAuthError(yield* issue({ requestedScopes: ["not a scope"] }), 400, "invalid_scope")
      assertOAuthError(yield* issue({ ttlSeconds: 601 }), 400, "invalid_request")
      for (const ttlSeconds of [0, -1, 1.5, "60"]) {
        assert.include(faultPaths(yield* issue({ ttlSeconds })), "payload.ttlSeconds")
      }
      const { key } = yield* makeKey(service, ["agents:write", "agents:read"])
      assert.deepStrictEqual((yield* issue({}, key)).body.missing, ["llm:complete"])
      assert.strictEqual((yield* issue({ requestedScopes: ["agents:read"] }, key)).status, 201)
      const { body } = yield* service.call("GET", `${path}/${id}/credentials`)
      assert.strictEqual(body.items.length, 3)
      assert.notInclude(JSON.stringify(body), whole.body.accessToken)
      yield* service.call("PATCH", `${path}/${id}`, { body: { status: "suspended" } })
      assertProblem(yield* issue({}), 409, "agent-not-active")
    })
  )
})
