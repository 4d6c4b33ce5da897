import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { makeDatabase } from "../../support/database.ts"
import { startService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

it.live("replicas that start at once make each built-in application and role once, as the system", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const replicas = yield* Effect.forEach([1, 2, 3], () => startService(database), { concurrency: "unbounded" })
    for (const { call } of replicas) {
      const applications = yield* call("GET", "/api/applications")
      assert.deepStrictEqual(
        applications.body.items.map(({ slug, status }: Record<string, unknown>) => [slug, status]),
        [
          ["application-manager", "active"],
          ["llm-gateway", "active"]
        ]
      )
      const roles = yield* call("GET", "/api/roles")
      assert.deepStrictEqual(
        roles.body.map(({ name }: { readonly name: string }) => name),
        ["Administrator", "Operator", "Viewer"]
      )
      const [administrator, operator, viewer] = roles.body
      assert.deepStrictEqual(administrator.capabilities, ["*:*"])
      assert.deepStrictEqual(viewer.capabilities, ["*:read"])
      assert.include(operator.capabilities, "configuration:rollback")
      assert.include(operator.capabilities, "llm:complete")
      assert.isEmpty(
        operator.capabilities.filter((capability: string) => /^(tenants|accounts|api-keys|roles|\*):/.test(capability))
      )
      const applicationIds = applications.body.items.map(({ id }: { readonly id: number }) => id)
      assert.deepStrictEqual(
        [administrator, operator, viewer].map((role) => role.applicationId),
        [applicationIds[0], applicationIds[0], applicationIds[0]]
      )
    }
    for (const [entityType, actions] of [
      ["Application", ["ApplicationCreated", "ApplicationCreated"]],
      ["Role", ["RoleCreated", "RoleCreated", "RoleCreated"]]
    ] as const) {
      const log = yield* replicas[0]!.call("GET", `/api/audit-logs?entityType=${entityType}`)
      assert.deepStrictEqual(
        log.body.items.map(({ actionType, userId }: Record<string, unknown>) => [actionType, userId]),
        actions.map((action) => [action, "system"])
      )
    }
  }).pipe(Effect.scoped)
)

it.live("a later start makes nothing and uses up no id", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    yield* Effect.scoped(startService(database))
    yield* Effect.scoped(startService(database))
    const { call } = yield* startService(database)
    const application = yield* call("POST", "/api/applications", { body: { name: "Third" } })
    assert.strictEqual(application.body.id, 3)
    const role = yield* call("POST", "/api/roles", {
      body: { name: "Fourth", applicationId: application.body.id, capabilities: [] }
    })
    assert.strictEqual(role.body.id, 4)
  }).pipe(Effect.scoped)
)

it.live("a start of a later version gives built-in roles the capabilities that it adds, as the system", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    yield* Effect.scoped(startService(database))
    yield* asSuperuser(database, (sql) => sql`UPDATE roles SET capabilities = '{agents:read}' WHERE name = 'Operator'`)
    const { call } = yield* startService(database)
    const { body: roles } = yield* call("GET", "/api/roles")
    assert.include(roles[1].capabilities, "llm:complete")
    const log = yield* call("GET", "/api/audit-logs?actionType=RoleUpdated")
    assert.deepStrictEqual(
      log.body.items.map(({ userId, entityId }: Record<string, unknown>) => [userId, entityId]),
      [["system", String(roles[1].id)]]
    )
  }).pipe(Effect.scoped)
)
