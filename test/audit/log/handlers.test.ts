import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { insertEntries } from "../../support/audit.ts"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { badQueries, each, faults, problem, refuses } from "../../support/scenarios.ts"
import { serviceKey, sharedServiceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"
import { walkCursors } from "../../support/walk.ts"

const path = "/api/audit-logs"
const unknown = "0198a5b0-7c00-7000-8000-00000000002a"
const read = { capability: "audit-logs:read", systemOnly: false }
const members = [
  "id",
  "sequence",
  "occurredAt",
  "actionType",
  "entityType",
  "entityId",
  "userId",
  "actorType",
  "tenantId",
  "applicationId",
  "outcome",
  "reason",
  "count",
  "ipAddress",
  "userAgent",
  "traceId"
]

interface Entry extends Readonly<Record<string, unknown>> {
  readonly id: string
  readonly count: number
  readonly traceId: string | null
}

const list = Effect.fnUntraced(function* (query: string, key = serviceKey) {
  const service = yield* TestService
  const listed = yield* service.call("GET", `${path}?${query}`, { key })
  assert.strictEqual(listed.status, 200, listed.text)
  return listed.body.items as ReadonlyArray<Entry>
})
const listIds = (query: string, key?: string) => Effect.map(list(query, key), (items) => items.map(({ id }) => id))

/** An entity of its own, so that a test finds its entries and no others. */
let made = 0
const anEntity = () => `entity ${++made}`

const createUser = Effect.gen(function* () {
  const service = yield* TestService
  const body = { firstName: "Ada", lastName: "Lovelace", email: `${++made}@example.com` }
  return (yield* service.call("POST", "/api/trial-users", { body })).body
})

const detailOf = Effect.fnUntraced(function* (query: string) {
  const service = yield* TestService
  const [entry] = yield* list(query)
  const got = yield* service.call("GET", `${path}/${entry?.id}`)
  assert.strictEqual(got.status, 200, got.text)
  return { entry, detail: got.body }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the audit log over HTTP", (it) => {
  refusesStrangers(it, [
    { name: "list", method: "GET", path, ...read },
    { name: "types", method: "GET", path: `${path}/types`, ...read },
    { name: "get", method: "GET", path: `${path}/${unknown}`, ...read }
  ])

  it.effect("200: list answers an envelope of entries without their changes", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const user = yield* createUser
      const listed = yield* service.call("GET", `${path}?entityType=TrialUser&entityId=${user.id}`)
      assert.hasAllKeys(listed.body, ["items", "nextCursor"])
      assert.isNull(listed.body.nextCursor)
      const [entry] = listed.body.items
      assert.hasAllKeys(entry, members)
      assert.deepInclude(entry, { actionType: "UserCreated", entityType: "TrialUser", entityId: String(user.id) })
      assert.deepInclude(entry, { userId: "service-account", actorType: "service-account", tenantId: null })
      assert.deepInclude(entry, { applicationId: null, outcome: "success", reason: null, count: 1 })
      assert.match(entry.id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      assert.match(entry.occurredAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    })
  )

  it.effect("200: an entry says from where, with what and in which trace the request came", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
      const created = yield* service.call("POST", "/api/trial-users", {
        body: { firstName: "Ada", lastName: "Lovelace", email: "traced@example.com" },
        headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01`, "user-agent": "a-test/1.0" }
      })
      const [entry] = yield* list(`entityType=TrialUser&entityId=${created.body.id}`)
      assert.deepInclude(entry, { ipAddress: "127.0.0.1", userAgent: "a-test/1.0", traceId })
    })
  )

  const tenant = "0198a5b0-7c00-7000-8000-0000000000aa"
  const filters: ReadonlyArray<readonly [string, string, object, object]> = [
    ["actionType", "RoleUpdated", { action_type: "RoleUpdated" }, { action_type: "UserCreated" }],
    ["entityType", "Role", { entity_type: "Role" }, { entity_type: "Session" }],
    ["userId", "api-key:7", { user_id: "api-key:7" }, { user_id: "api-key:70" }],
    ["tenantId", tenant, { tenant_id: tenant }, { tenant_id: null }],
    ["outcome", "success", { outcome: "success" }, { outcome: "denied" }],
    ["outcome", "denied", { outcome: "denied" }, { outcome: "failed" }],
    ["outcome", "failed", { outcome: "failed" }, { outcome: "success" }],
    [
      "startDate",
      "2026-01-01T00:00:00Z",
      { occurred_at: "2026-01-01T00:00:00.001Z" },
      { occurred_at: "2026-01-01T00:00:00Z" }
    ],
    [
      "endDate",
      "2026-01-01T00:00:00Z",
      { occurred_at: "2025-12-31T23:59:59.999Z" },
      { occurred_at: "2026-01-01T00:00:00Z" }
    ]
  ]
  for (const [filter, value, inside, outside] of filters) {
    it.effect(`200: list filters by ${filter}=${value}`, () =>
      Effect.gen(function* () {
        const { database } = yield* TestService
        const entity_id = anEntity()
        const [id] = yield* insertEntries(database, [
          { entity_id, ...inside },
          { entity_id, ...outside }
        ])
        assert.strictEqual((yield* listIds(`entityId=${entity_id}`)).length, 2)
        assert.deepStrictEqual(yield* listIds(`entityId=${entity_id}&${filter}=${encodeURIComponent(value)}`), [id])
      })
    )
  }

  it.effect("200: list filters by all at once", () =>
    Effect.gen(function* () {
      const { database } = yield* TestService
      const entity_id = anEntity()
      const wanted = {
        occurred_at: "2026-01-01T12:00:00.000Z",
        action_type: "RoleUpdated",
        entity_type: "Role",
        entity_id,
        user_id: "api-key:7",
        tenant_id: tenant,
        outcome: "failed"
      }
      const [id] = yield* insertEntries(database, [
        wanted,
        { ...wanted, occurred_at: "2026-01-02T00:00:00.000Z" },
        { ...wanted, occurred_at: "2026-01-01T00:00:00.000Z" },
        { ...wanted, action_type: "RoleCreated" },
        { ...wanted, entity_type: "Session" },
        { ...wanted, entity_id: `${entity_id}0` },
        { ...wanted, user_id: "service-account" },
        { ...wanted, tenant_id: null },
        { ...wanted, outcome: "denied" }
      ])
      const query = new URLSearchParams({
        actionType: "RoleUpdated",
        entityType: "Role",
        entityId: entity_id,
        userId: "api-key:7",
        tenantId: tenant,
        outcome: "failed",
        startDate: "2026-01-01T00:00:00Z",
        endDate: "2026-01-02T00:00:00Z"
      })
      assert.deepStrictEqual(yield* listIds(String(query)), [id])
    })
  )

  it.effect("200: startDate and endDate exclude the moment itself, wherever its clock stands", () =>
    Effect.gen(function* () {
      const { database } = yield* TestService
      const entity_id = anEntity()
      const [before, , after] = yield* insertEntries(database, [
        { entity_id, occurred_at: "2026-03-31T21:59:59.999Z" },
        { entity_id, occurred_at: "2026-03-31T22:00:00.000Z" },
        { entity_id, occurred_at: "2026-03-31T22:00:00.001Z" }
      ])
      for (const moment of ["2026-03-31T22:00:00Z", "2026-04-01T00:00:00+02:00", "2026-03-31T22:00:00.000000000Z"]) {
        const date = encodeURIComponent(moment)
        assert.deepStrictEqual(yield* listIds(`entityId=${entity_id}&startDate=${date}`), [after])
        assert.deepStrictEqual(yield* listIds(`entityId=${entity_id}&endDate=${date}`), [before])
      }
    })
  )

  it.effect("200: list is newest first", () =>
    Effect.gen(function* () {
      const { database } = yield* TestService
      const entity_id = anEntity()
      const days = ["2026-02-02", "2026-02-03", "2026-02-01", "2020-01-01", "2050-01-01"]
      const ids = yield* insertEntries(
        database,
        days.map((day) => ({ entity_id, occurred_at: `${day}T00:00:00Z` }))
      )
      const byDay = [4, 1, 0, 2, 3].map((index) => ids[index])
      assert.deepStrictEqual(yield* listIds(`entityId=${entity_id}`), byDay)
    })
  )

  it.effect("200: list is walked to its end by cursor while entries are added, each exactly once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const entity_id = anEntity()
      const at = (second: number) => ({ entity_id, occurred_at: `2026-05-01T00:00:0${second}Z` })
      const old = yield* insertEntries(service.database, [at(1), at(2), at(2), at(2), at(2), at(2), at(3)])
      const between = insertEntries(service.database, [at(2), at(3), at(4)])
      const pages = yield* walkCursors(service, `${path}?entityId=${entity_id}&limit=2`, { between })
      const seen = pages.flat()
      assert.deepStrictEqual(seen.filter((id) => old.includes(String(id))).toSorted(), old.toSorted())
      assert.strictEqual(new Set(seen).size, seen.length)
      assert.isTrue(pages.slice(0, -1).every((page) => page.length === 2))
    })
  )

  it.effect("200: the last page has no next one, also when it is full", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const entity_id = anEntity()
      yield* insertEntries(service.database, [{ entity_id }, { entity_id }, { entity_id }, { entity_id }])
      const pages = yield* walkCursors(service, `${path}?entityId=${entity_id}&limit=2`)
      assert.deepStrictEqual(
        pages.map((page) => page.length),
        [2, 2]
      )
      assert.deepStrictEqual(yield* walkCursors(service, `${path}?entityId=nothing`), [[]])
    })
  )

  it.effect("200: a page has 50 entries unless limit says otherwise, 200 at most", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const entity_id = anEntity()
      yield* asSuperuser(
        service.database,
        (sql) => sql`
          INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, outcome)
          SELECT '2026-06-01', 'UserCreated', 'TrialUser', ${entity_id}, 'system', 'system', 'success'
          FROM generate_series(1, 205)`
      )
      assert.strictEqual((yield* list(`entityId=${entity_id}`)).length, 50)
      assert.strictEqual((yield* list(`entityId=${entity_id}&limit=200`)).length, 200)
    })
  )

  const cursors = [
    "x",
    "",
    btoa("{}"),
    btoa(`["2026-01-01T00:00:00Z","${unknown}"]`),
    btoa(`{"occurredAt":"today","id":"${unknown}"}`),
    btoa('{"occurredAt":"2026-01-01T00:00:00Z","id":"1"}')
  ]
  refuses(it, [
    ...badQueries(
      path,
      "tenantId=default",
      "outcome=ok",
      "startDate=yesterday",
      "startDate=2026-01-01",
      "endDate=2026-02-30T00:00:00Z",
      "endDate=",
      "limit=0",
      "limit=201",
      "actor=me",
      ...cursors.map((cursor) => `cursor=${cursor}`)
    ),
    ["get of an unknown entry", ["GET", `${path}/${unknown}`], problem(404, "audit-entry-not-found")],
    ...each(["1", "abc", `${unknown}0`, "type"], (id) => [
      `get of the id ${id}`,
      ["GET", `${path}/${id}`],
      faults("params.id")
    ])
  ])

  it.effect("200: get answers the entry with what changed, before and after", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* createUser
      const { body: updated } = yield* service.call("PATCH", `/api/trial-users/${created.id}`, {
        body: { lastName: "King" }
      })
      yield* service.call("DELETE", `/api/trial-users/${created.id}`)
      const query = `entityType=TrialUser&entityId=${created.id}`
      yield* eventually(list(`${query}&actionType=UserCreated`), ([entry]) => entry?.sequence !== null)
      const made = yield* detailOf(`${query}&actionType=UserCreated`)
      const { hash, ...rest } = made.detail
      assert.deepStrictEqual(rest, { ...made.entry, changes: { before: null, after: created } })
      assert.hasAllKeys(rest, [...members, "changes"])
      const exported = yield* service.call("GET", `/api/audit-logs/export?${query}&actionType=UserCreated`)
      assert.deepInclude(JSON.parse(exported.text.split("\n")[0] ?? ""), { hash, sequence: rest.sequence })
      const changed = yield* detailOf(`${query}&actionType=UserUpdated`)
      assert.deepStrictEqual(changed.detail.changes, { before: created, after: updated })
      const removed = yield* detailOf(`${query}&actionType=UserDeleted`)
      assert.deepStrictEqual(removed.detail.changes, { before: updated, after: null })
    })
  )

  it.effect("200: the changes of a key have neither its secret nor the digest of it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id, key } = yield* makeKey(service, ["sessions:read"])
      yield* service.call("PATCH", `/api/api-keys/${id}`, { body: { name: "renamed" } })
      const { detail } = yield* detailOf(`entityId=${id}&actionType=ApiKeyUpdated`)
      assert.deepInclude(detail.changes.after, { id, name: "renamed", start: key.slice(0, 16) })
      for (const side of [detail.changes.before, detail.changes.after]) {
        assert.doesNotHaveAnyKeys(side, ["key", "secret", "secretSha256", "publicId"])
      }
      assert.notInclude(JSON.stringify(detail), key.slice(16))
    })
  )

  it.effect("200: ending a user's sessions is recorded with the change that ended them", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const user = yield* createUser
      const opened = yield* service.call("POST", "/api/sessions", { body: { trialUserId: user.id, ipAddress: "::1" } })
      yield* service.call("PATCH", `/api/trial-users/${user.id}`, { body: { isActive: false } })
      const [ended] = yield* list(`entityType=Session&entityId=${opened.body.id}`)
      const [updated] = yield* list(`entityType=TrialUser&entityId=${user.id}`)
      assert.deepInclude(ended, { actionType: "SessionEnded" })
      assert.strictEqual(ended?.traceId, updated?.traceId)
      const { detail } = yield* detailOf(`entityType=Session&entityId=${opened.body.id}`)
      assert.deepStrictEqual(detail.changes, { before: opened.body, after: { ...opened.body, isActive: false } })
    })
  )

  it.effect("200: a forbidden call is recorded with its caller, its target and its reason", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { id, key } = yield* makeKey(service, ["sessions:read"], { tenantId })
      assertProblem(yield* service.call("GET", path, { key }), 403, "forbidden")
      const [entry] = yield* list(`userId=${encodeURIComponent(`api-key:${id}`)}`)
      assert.deepInclude(entry, {
        actionType: "AccessForbidden",
        outcome: "denied",
        entityId: "auditLogs.list",
        count: 1
      })
      assert.deepInclude(entry, { tenantId, reason: "The caller lacks audit-logs:read." })
    })
  )

  it.effect("200: like refusals are counted, not written one by one, and none is lost when a replica stops", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { database } = service
      const { id, key } = yield* makeKey(service, ["audit-logs:read"])
      assert.strictEqual((yield* service.call("DELETE", `/api/api-keys/${id}`)).status, 204)
      const target = key.slice(0, "amk_".length + 12)
      yield* Effect.scoped(
        Effect.gen(function* () {
          const replica = yield* startService(database)
          for (let count = 0; count < 7; count++) {
            assertProblem(yield* replica.call("GET", path, { key }), 401, "unauthenticated")
          }
          assert.deepStrictEqual(
            (yield* list(`entityId=${target}`)).map((entry) => entry.count),
            [1]
          )
        })
      )
      const counts = (yield* list(`entityId=${target}`)).map((entry) => entry.count)
      assert.deepStrictEqual(counts.toSorted(), [1, 6])
    })
  )

  it.effect("200: a tenant's caller sees the entries of its tenant only, whatever it filters by", () =>
    Effect.gen(function* () {
      const { database, ...service } = yield* TestService
      const [tenantId, foreign] = [yield* makeTenant(database), yield* makeTenant(database)]
      const entity_id = anEntity()
      const ids = yield* insertEntries(database, [
        { entity_id, tenant_id: tenantId },
        { entity_id, tenant_id: foreign },
        { entity_id, tenant_id: null }
      ])
      const { key } = yield* makeKey({ database, ...service }, ["audit-logs:read"], { tenantId })
      assert.deepStrictEqual(yield* listIds(`entityId=${entity_id}`, key), [ids[0]])
      assert.deepStrictEqual(yield* listIds(`entityId=${entity_id}&tenantId=${tenantId}`, key), [ids[0]])
      assert.deepStrictEqual(yield* listIds(`entityId=${entity_id}&tenantId=${foreign}`, key), [])
      const everything = yield* list("limit=200", key)
      assert.isTrue(everything.every((entry) => entry.tenantId === tenantId))
      assert.sameMembers([...(yield* listIds(`entityId=${entity_id}`))], ids)
    })
  )

  it.effect("404: get of another tenant's entry, and of one without a tenant, by a tenant's caller", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const [own, foreign, none] = yield* insertEntries(service.database, [
        { tenant_id: tenantId },
        { tenant_id: yield* makeTenant(service.database) },
        { tenant_id: null }
      ])
      const { key } = yield* makeKey(service, ["audit-logs:read"], { tenantId })
      assert.strictEqual((yield* service.call("GET", `${path}/${own}`, { key })).status, 200)
      for (const id of [foreign, none]) {
        assertProblem(yield* service.call("GET", `${path}/${id}`, { key }), 404, "audit-entry-not-found")
        assert.strictEqual((yield* service.call("GET", `${path}/${id}`)).status, 200)
      }
    })
  )

  it.effect("200: types lists every action that was ever written, with its entity, in order", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const fresh = yield* startService(service.database)
      const user = yield* createUser
      const session = { trialUserId: user.id, ipAddress: "192.0.2.1" }
      const opened = yield* fresh.call("POST", "/api/sessions", { body: session })
      yield* fresh.call("DELETE", `/api/sessions/${opened.body.id}`)
      yield* fresh.call("DELETE", `/api/trial-users/${user.id}`)
      const { id } = yield* makeKey(service, [])
      yield* fresh.call("POST", `/api/api-keys/${id}/rotate`, { body: {} })
      yield* fresh.call("DELETE", `/api/api-keys/${id}`)
      const { body, status } = yield* service.call("GET", `${path}/types`)
      assert.strictEqual(status, 200)
      const types: ReadonlyArray<{ readonly actionType: string; readonly entityType: string }> = body
      const written = yield* asSuperuser(
        service.database,
        (sql) => sql`
          SELECT DISTINCT action_type AS "actionType", entity_type AS "entityType" FROM audit_entries
          WHERE trace_id IS NOT NULL`
      )
      assert.isAtLeast(written.length, 8)
      assert.includeDeepMembers([...types], [...written])
      assert.deepStrictEqual(
        types.map((type) => type.actionType),
        types.map((type) => type.actionType).toSorted()
      )
      for (const { actionType, entityType } of types) {
        assert.match(actionType, /^([A-Z][a-z]+)+$/)
        assert.match(entityType, /^([A-Z][a-z]+)+$/)
      }
    })
  )
})
