import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ApplicationId } from "../../../src/applications/applications/domain.ts"
import { type Role } from "../../../src/applications/roles/domain.ts"
import { makeKey, refusesStrangers } from "../../support/authority.ts"
import { clientOf } from "../../support/client.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

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

  it.effect("create 400: bad values and members that a caller does not set", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* application("Strict")
      const good = { name: "ok", applicationId, capabilities: ["a:read"] }
      const { name: _name, ...nameless } = good
      const { capabilities: _capabilities, ...bare } = good
      const bodies = [
        nameless,
        bare,
        { ...good, name: " " },
        { ...good, name: "x".repeat(101) },
        { ...good, description: "x".repeat(1001) },
        { ...good, applicationId: "1" },
        { ...good, applicationId: 0 },
        { ...good, capabilities: ["read"] },
        { ...good, capabilities: ["A:read"] },
        { ...good, capabilities: ["a:read:more"] },
        { ...good, capabilities: ["a:b*"] },
        { ...good, capabilities: "a:read" },
        { ...good, capabilities: Array.from({ length: 201 }, (_, index) => `a${index}:read`) },
        { ...good, builtIn: true }
      ]
      for (const body of bodies) {
        const answer = yield* service.call("POST", "/api/roles", { body })
        assertProblem(answer, 400, "validation-failed")
      }
    })
  )

  it.effect("create 400: a role of application-manager with a capability of another application", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answer = yield* service.call("POST", "/api/roles", {
        body: { name: "Foreign", applicationId: manager, capabilities: ["plans:read", "invoices:read", "plans:bake"] }
      })
      assert.deepStrictEqual(faultPaths(answer), ["payload.capabilities.1", "payload.capabilities.2"])
    })
  )

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

  it.effect("create 404: an unknown application", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answer = yield* service.call("POST", "/api/roles", {
        body: { name: "Lost", applicationId: unknownId, capabilities: [] }
      })
      assertProblem(answer, 404, "application-not-found")
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

  it.effect("list 400: a bad limit, cursor or application", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const query of [
        "limit=0",
        "limit=1001",
        "cursor=x",
        "applicationId=x",
        "applicationId=0",
        "application=1"
      ]) {
        assert.strictEqual((yield* service.call("GET", `/api/roles?${query}`)).status, 400, query)
      }
    })
  )

  it.effect("get 200, 400, 404", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const role = yield* make({ name: "Read", applicationId: yield* application("Read"), capabilities: ["a:b"] })
      assert.deepStrictEqual(yield* clientOf(service).roles.get({ params: { id: role.id } }), role)
      assert.strictEqual((yield* service.call("GET", "/api/roles/x")).status, 400)
      const unknown = yield* service.call("GET", `/api/roles/${unknownId}`)
      assertProblem(unknown, 404, "role-not-found")
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

  it.effect("update 400: bad values, and for application-manager a capability of another application", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const role = yield* make({ name: "Patched", applicationId: manager, capabilities: ["plans:read"] })
      const bodies = [{ name: "" }, { capabilities: ["x"] }, { builtIn: true }, { capabilities: ["invoices:read"] }]
      for (const body of bodies) {
        const answer = yield* service.call("PATCH", `/api/roles/${role.id}`, { body })
        assertProblem(answer, 400, "validation-failed")
      }
      assert.strictEqual((yield* service.call("PATCH", "/api/roles/x", { body: {} })).status, 400)
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

  it.effect("update 404: an unknown role", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answer = yield* service.call("PATCH", `/api/roles/${unknownId}`, { body: { name: "x" } })
      assertProblem(answer, 404, "role-not-found")
    })
  )

  it.effect("update 409: a name that the application has", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* application("Renamed")
      yield* make({ name: "First", applicationId, capabilities: [] })
      const second = yield* make({ name: "Second", applicationId, capabilities: [] })
      const answer = yield* service.call("PATCH", `/api/roles/${second.id}`, { body: { name: "First" } })
      assertProblem(answer, 409, "role-name-taken")
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
      const log = yield* service.call("GET", `/api/audit-logs?entityType=Role&entityId=${id}`)
      assert.strictEqual(log.body.items[0].actionType, "RoleDeleted")
    })
  )

  it.effect("delete 400: a bad id", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      assert.strictEqual((yield* service.call("DELETE", "/api/roles/x")).status, 400)
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
