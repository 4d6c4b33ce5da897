import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ApplicationId } from "../../../src/applications/applications/domain.ts"
import { type Role } from "../../../src/applications/roles/domain.ts"
import { makeKey, refusesStrangers } from "../../support/authority.ts"
import { clientOf } from "../../support/client.ts"
import { assertProblem } from "../../support/problem.ts"
import { auditOf, badQueries, faults, patching, problem, read, refuses, type Sent } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const path = "/api/roles"
const unknownId = 2_000_000_000
const manager = ApplicationId.make(1)

const application = Effect.fnUntraced(function* (name: string) {
  const { applications } = clientOf(yield* TestService)
  return (yield* applications.create({ payload: { name } })).body.id
})

const make = Effect.fnUntraced(function* (payload: typeof Role.jsonCreate.Type) {
  const { roles } = clientOf(yield* TestService)
  return (yield* roles.create({ payload })).body
})

/** Of one application; the answer is the second, the other is called First. */
const twoRoles = Effect.gen(function* () {
  const applicationId = yield* application("Strict")
  yield* make({ name: "First", applicationId, capabilities: [] })
  return yield* make({ name: "Second", applicationId, capabilities: ["a:read"] })
})
type MadeRole = typeof Role.json.Type

/** The roles of the application, and what was done to the one. */
const unchanged = ({ applicationId, id }: MadeRole) =>
  Effect.all([read(`${path}?applicationId=${applicationId}`), auditOf("Role", id)])
const creating =
  (members: object) =>
  ({ applicationId }: MadeRole): Sent => [
    "POST",
    path,
    { body: { name: "ok", applicationId, capabilities: ["a:read"], ...members } }
  ]
const updating = patching(path)

const noRole = problem(404, "role-not-found")
const noApplication = problem(404, "application-not-found")
const nameTaken = problem(409, "role-name-taken")

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("roles over HTTP", (it) => {
  it.effect("create 201: with its capabilities in order, once each", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* application("Created")
      const { body, headers, status } = yield* service.call("POST", "/api/roles", {
        body: {
          name: "Clerk",
          description: "Files invoices",
          applicationId,
          capabilities: ["invoices:write", "invoices:*", "*:read", "invoices:write", "b_c.d-e:x"]
        }
      })
      assert.strictEqual(status, 201)
      assert.strictEqual(headers.get("location"), `/api/roles/${body.id}`)
      assert.deepStrictEqual(body, {
        id: body.id,
        name: "Clerk",
        description: "Files invoices",
        applicationId,
        capabilities: ["invoices:write", "invoices:*", "*:read", "b_c.d-e:x"]
      })
      const bare = yield* make({ name: "Nobody", applicationId, capabilities: [] })
      assert.deepInclude(bare, { description: "", capabilities: [] })
      const many = Array.from({ length: 200 }, (_, index) => `thing-${index}:read`)
      assert.deepStrictEqual((yield* make({ name: "Many", applicationId, capabilities: many })).capabilities, many)
    })
  )

  it.effect("create 201: one name in two applications", () =>
    Effect.gen(function* () {
      for (const name of ["Left", "Right"]) {
        yield* make({ name: "Same", applicationId: yield* application(name), capabilities: [] })
      }
    })
  )

  refuses(
    it,
    [
      ["create without a name", creating({ name: undefined }), faults("payload.name")],
      ["create without capabilities", creating({ capabilities: undefined }), faults("payload.capabilities")],
      ["create with a blank name", creating({ name: " " }), faults("payload.name")],
      ["create with a name of 101 characters", creating({ name: "x".repeat(101) }), faults("payload.name")],
      ["create with a long description", creating({ description: "x".repeat(1001) }), faults("payload.description")],
      ["create with text for an application", creating({ applicationId: "1" }), faults("payload.applicationId")],
      ["create with the application 0", creating({ applicationId: 0 }), faults("payload.applicationId")],
      ["create with an action alone", creating({ capabilities: ["read"] }), faults("payload.capabilities.0")],
      ["create with upper case", creating({ capabilities: ["A:read"] }), faults("payload.capabilities.0")],
      ["create with two colons", creating({ capabilities: ["a:read:more"] }), faults("payload.capabilities.0")],
      ["create with a star in a word", creating({ capabilities: ["a:b*"] }), faults("payload.capabilities.0")],
      ["create with text for capabilities", creating({ capabilities: "a:read" }), faults("payload.capabilities")],
      [
        "create with 201 capabilities",
        creating({ capabilities: Array.from({ length: 201 }, (_, index) => `a${index}:read`) }),
        faults("payload.capabilities")
      ],
      ["create with builtIn, which a caller does not set", creating({ builtIn: true }), faults("payload.builtIn")],
      [
        "create of a role of application-manager with a capability of another application",
        creating({ applicationId: manager, capabilities: ["plans:read", "invoices:read", "plans:bake"] }),
        faults("payload.capabilities.1", "payload.capabilities.2")
      ],
      ["create for an unknown application", creating({ applicationId: unknownId }), noApplication],
      ["create with a name that the application has", creating({ name: "First" }), nameTaken],
      ["update with an empty name", updating({ name: "" }), faults("payload.name")],
      [
        "update with a capability without an action",
        updating({ capabilities: ["x"] }),
        faults("payload.capabilities.0")
      ],
      ["update with builtIn, which a caller does not set", updating({ builtIn: true }), faults("payload.builtIn")],
      ["update with a name that the application has", updating({ name: "First" }), nameTaken]
    ],
    { given: twoRoles, unchanged }
  )

  refuses(
    it,
    [
      [
        "update of a role of application-manager with a capability of another application",
        updating({ capabilities: ["invoices:read"] }),
        faults("payload.capabilities.0")
      ]
    ],
    { given: make({ name: "Patched", applicationId: manager, capabilities: ["plans:read"] }), unchanged }
  )

  refuses(it, [
    ...badQueries(path, "limit=0", "limit=1001", "cursor=x", "applicationId=x", "applicationId=0", "application=1"),
    ["get of a bad id", ["GET", `${path}/x`], faults("params.id")],
    ["get of an unknown role", ["GET", `${path}/${unknownId}`], noRole],
    ["update of a bad id", ["PATCH", `${path}/x`, { body: {} }], faults("params.id")],
    ["update of an unknown role", ["PATCH", `${path}/${unknownId}`, { body: { name: "x" } }], noRole],
    ["delete of a bad id", ["DELETE", `${path}/x`], faults("params.id")]
  ])

  it.effect("create 403: a role of application-manager needs what it gives; another application's does not", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* makeKey(service, ["roles:write", "plans:*"])
      const create = (body: object) => service.call("POST", "/api/roles", { key, body })
      const refused = yield* create({ name: "Above", applicationId: manager, capabilities: ["plans:read", "*:read"] })
      assert.strictEqual(refused.status, 403)
      assert.deepStrictEqual(refused.body.missing, ["*:read"])
      const within = yield* create({ name: "Within", applicationId: manager, capabilities: ["plans:read"] })
      assert.strictEqual(within.status, 201)
      const applicationId = yield* application("Free")
      assert.strictEqual((yield* create({ name: "Free", applicationId, capabilities: ["*:*"] })).status, 201)
    })
  )

  it.effect("create 404: an application that is deleted at the same time", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (let round = 0; round < 12; round++) {
        const applicationId = yield* application(`Race ${round}`)
        const [role, deletion] = yield* Effect.all(
          [
            service.call("POST", "/api/roles", { body: { name: "Racer", applicationId, capabilities: [] } }),
            service.call("DELETE", `/api/applications/${applicationId}`)
          ],
          { concurrency: "unbounded" }
        )
        assert.include(["201 409", "404 204"], `${role.status} ${deletion.status}`)
      }
    })
  )

  it.effect("create 409: a name that the application has, for all but one of concurrent requests", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* application("Contested role")
      const answers = yield* Effect.forEach(
        Array.from({ length: 6 }),
        () => service.call("POST", "/api/roles", { body: { name: "One", applicationId, capabilities: [] } }),
        { concurrency: "unbounded" }
      )
      const refused = answers.filter(({ status }) => status !== 201)
      assert.lengthOf(refused, 5)
      for (const answer of refused) assertProblem(answer, 409, "role-name-taken")
    })
  )

  it.effect("list 200: a bare array with a link to the next page, one application's when asked", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* application("Listed")
      const made = yield* Effect.forEach(["a", "b", "c"], (name) => make({ name, applicationId, capabilities: [] }))
      const { roles } = clientOf(service)
      const first = yield* roles.list({ query: { applicationId, limit: 2 } })
      assert.deepStrictEqual(first.body, made.slice(0, 2))
      const next = /^<([^>]+)>; rel="next"$/.exec(first.headers.link ?? "")?.[1] ?? ""
      const second = yield* service.call("GET", next)
      assert.deepStrictEqual(second.body, made.slice(2))
      assert.isNull(second.headers.get("link"))
      const none = yield* roles.list({ query: { applicationId: ApplicationId.make(unknownId) } })
      assert.deepStrictEqual(none.body, [])
      const all = yield* roles.list({ query: {} })
      assert.deepStrictEqual(
        all.body.slice(0, 3).map(({ name }) => name),
        ["Administrator", "Operator", "Viewer"]
      )
    })
  )

  it.effect("get 200", () =>
    Effect.gen(function* () {
      const role = yield* make({ name: "Read", applicationId: yield* application("Read"), capabilities: ["a:b"] })
      assert.deepStrictEqual(yield* clientOf(yield* TestService).roles.get({ params: { id: role.id } }), role)
    })
  )

  it.effect("update 200: answers the role, stays with its application, and is recorded once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* application("Updated")
      const role = yield* make({ name: "Before", applicationId, capabilities: ["a:read"] })
      const path = `/api/roles/${role.id}`
      const { body, status } = yield* service.call("PATCH", path, {
        body: {
          id: 7,
          applicationId: manager,
          name: "After",
          description: "changed",
          capabilities: ["b:read", "a:read", "b:read"]
        }
      })
      assert.strictEqual(status, 200)
      assert.deepStrictEqual(body, {
        id: role.id,
        name: "After",
        description: "changed",
        applicationId,
        capabilities: ["b:read", "a:read"]
      })
      for (const same of [{}, body, { capabilities: ["b:read", "a:read", "a:read"] }]) {
        assert.deepStrictEqual((yield* service.call("PATCH", path, { body: same })).body, body)
      }
      const log = yield* service.call("GET", `/api/audit-logs?entityType=Role&entityId=${role.id}`)
      assert.deepStrictEqual(
        log.body.items.map(({ actionType, applicationId: of }: Record<string, unknown>) => [actionType, of]),
        [
          ["RoleUpdated", applicationId],
          ["RoleCreated", applicationId]
        ]
      )
      const entry = yield* service.call("GET", `/api/audit-logs/${log.body.items[0].id}`)
      assert.deepStrictEqual(entry.body.changes, { before: role, after: body })
    })
  )

  it.effect("update and delete 403: of application-manager, without what the role has before and after", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* makeKey(service, ["roles:write", "plans:read"])
      const above = yield* make({ name: "Beyond", applicationId: manager, capabilities: ["plans:read", "agents:read"] })
      const equal = yield* make({ name: "Level", applicationId: manager, capabilities: ["plans:read"] })
      const patch = (id: number, body: object) => service.call("PATCH", `/api/roles/${id}`, { key, body })
      const lowered = yield* patch(above.id, { capabilities: ["plans:read"] })
      assert.strictEqual(lowered.status, 403)
      assert.deepStrictEqual(lowered.body.missing, ["agents:read"])
      assert.strictEqual((yield* patch(above.id, { description: "mine" })).status, 403)
      assert.strictEqual((yield* patch(equal.id, { capabilities: ["plans:*"] })).status, 403)
      assert.strictEqual((yield* patch(equal.id, { description: "mine" })).status, 200)
      assert.strictEqual((yield* service.call("DELETE", `/api/roles/${above.id}`, { key })).status, 403)
      assert.strictEqual((yield* service.call("DELETE", `/api/roles/${equal.id}`, { key })).status, 204)
      const { roles } = clientOf(service)
      assert.strictEqual((yield* roles.get({ params: { id: above.id } })).description, "")
    })
  )

  it.effect("update and delete 409: a built-in role", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const builtIn = yield* clientOf(service).roles.list({ query: { applicationId: manager, limit: 3 } })
      for (const { id } of builtIn.body) {
        const changed = yield* service.call("PATCH", `/api/roles/${id}`, { body: { description: "mine" } })
        const deleted = yield* service.call("DELETE", `/api/roles/${id}`)
        for (const answer of [changed, deleted]) {
          assertProblem(answer, 409, "role-built-in")
        }
      }
    })
  )

  it.effect("delete 204: then it is gone, its name free", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* application("Deleted")
      const { id } = yield* make({ name: "Gone", applicationId, capabilities: [] })
      assert.strictEqual((yield* service.call("DELETE", `/api/roles/${id}`)).status, 204)
      const again = yield* service.call("DELETE", `/api/roles/${id}`)
      assertProblem(again, 404, "role-not-found")
      yield* make({ name: "Gone", applicationId, capabilities: [] })
      assert.deepStrictEqual(yield* auditOf("Role", id), ["RoleDeleted", "RoleCreated"])
    })
  )

  refusesStrangers(it, [
    { name: "list", method: "GET", path: "/api/roles", capability: "roles:read", systemOnly: true },
    { name: "get", method: "GET", path: `/api/roles/${unknownId}`, capability: "roles:read", systemOnly: true },
    {
      name: "create",
      method: "POST",
      path: "/api/roles",
      capability: "roles:write",
      systemOnly: true,
      body: { name: "Refused", applicationId: unknownId, capabilities: [] }
    },
    {
      name: "update",
      method: "PATCH",
      path: `/api/roles/${unknownId}`,
      capability: "roles:write",
      systemOnly: true,
      body: {}
    },
    { name: "delete", method: "DELETE", path: `/api/roles/${unknownId}`, capability: "roles:write", systemOnly: true }
  ])
})
