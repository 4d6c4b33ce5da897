import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, refusesStrangers } from "../support/authority.ts"
import { assertProblem } from "../support/problem.ts"
import { auditOf, badQueries, faults, patching, problem, read, refuses, type Sent } from "../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"

const path = "/api/tenants"
const unknownId = "0198a5b0-7c00-7000-8000-00000000002a"

const make = Effect.fnUntraced(function* (body: object) {
  const service = yield* TestService
  const { status, text, body: tenant } = yield* service.call("POST", "/api/tenants", { body })
  assert.strictEqual(status, 201, text)
  return tenant
})

const defaultTenant = Effect.gen(function* () {
  const service = yield* TestService
  const { body } = yield* service.call("GET", "/api/tenants?limit=1")
  return body.items[0]
})

const unchanged = ({ id }: { readonly id: string }) => Effect.all([read(`${path}/${id}`), auditOf("Tenant", id)])
const creating = (members: object): Sent => ["POST", path, { body: { name: "ok", ...members } }]
const updating = patching(path)

const notFound = problem(404, "tenant-not-found")
const isDefault = problem(409, "tenant-default")

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("tenants over HTTP", (it) => {
  it.effect("create 201: active, with a slug made from the name and no settings", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body, headers, status } = yield* service.call("POST", "/api/tenants", {
        body: { name: "Acme & Sons, Inc." }
      })
      assert.strictEqual(status, 201)
      assert.strictEqual(headers.get("location"), `/api/tenants/${body.id}`)
      assert.hasAllKeys(body, ["id", "name", "slug", "status", "settings", "createdAt"])
      assert.deepInclude(body, { name: "Acme & Sons, Inc.", slug: "acme-sons-inc", status: "active", settings: {} })
      assert.match(body.createdAt, /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/)
    })
  )

  it.effect("create 201: keeps the slug and the settings that it is given", () =>
    Effect.gen(function* () {
      const settings = { locale: "en", nested: { list: [1, 0.1, null, true, "ß"] } }
      const tenant = yield* make({ name: "Given", slug: "given-slug", settings })
      assert.deepInclude(tenant, { slug: "given-slug", settings })
    })
  )

  it.effect("create 201: a made slug that is taken gets a number, also for concurrent requests", () =>
    Effect.gen(function* () {
      const names = Array.from({ length: 12 }, () => ({ name: "Twin" }))
      const tenants = yield* Effect.forEach(names, make, { concurrency: "unbounded" })
      const slugs = tenants.map(({ slug }: { readonly slug: string }) => slug)
      const expected = names.map((_, index) => (index === 0 ? "twin" : `twin-${index + 1}`))
      assert.sameMembers(slugs, expected)
      const long = "x".repeat(100)
      assert.strictEqual((yield* make({ name: long })).slug, "x".repeat(63))
      assert.strictEqual((yield* make({ name: long })).slug, `${"x".repeat(59)}-2`)
      // Other tests make tenants without a Latin letter too.
      assert.match((yield* make({ name: "日本" })).slug, /^tenant(?:-\d+)?$/)
    })
  )

  const deep = JSON.parse(`${"[".repeat(40)}${"]".repeat(40)}`)
  const deeper = `{"name":"ok","settings":{"a":${"[".repeat(200_000)}${"]".repeat(200_000)}}}`
  const loneSurrogate = `{"name":"ok","settings":{"a":"\\ud800"}}`
  refuses(
    it,
    [
      ["create without a name", ["POST", path, { body: {} }], faults("payload.name")],
      ["create with a blank name", creating({ name: " " }), faults("payload.name")],
      ["create with a name of 101 characters", creating({ name: "x".repeat(101) }), faults("payload.name")],
      ["create with NUL in a name", creating({ name: "a\0b" }), faults("payload.name")],
      ["create with a slug that is none", creating({ slug: "Not a slug" }), faults("payload.slug")],
      ["create with a slug of one letter", creating({ slug: "a" }), faults("payload.slug")],
      ["create with a list for settings", creating({ settings: [] }), faults("payload.settings")],
      ["create with null for settings", creating({ settings: null }), faults("payload.settings")],
      ["create with a number of too many digits", creating({ settings: { a: [2 ** 53] } }), faults("payload.settings")],
      ["create with NUL in a setting", creating({ settings: { text: "a\0b" } }), faults("payload.settings")],
      ["create with NUL in a setting's name", creating({ settings: { "a\0b": 1 } }), faults("payload.settings")],
      ["create with deep settings", creating({ settings: { deep } }), faults("payload.settings")],
      ["create with settings of any depth", ["POST", path, { body: deeper }], problem(400, "malformed-json")],
      ["create with long settings", creating({ settings: { text: "x".repeat(20_000) } }), faults("payload.settings")],
      ["create with half a surrogate pair", ["POST", path, { body: loneSurrogate }], faults("payload.settings")],
      [
        "create with a status, which a caller does not set",
        creating({ status: "suspended" }),
        faults("payload.status")
      ],
      ["create names every fault", creating({ name: "", slug: "-" }), faults("payload.name", "payload.slug")],
      ...badQueries(path, "limit=0", "limit=201", "limit=x", "cursor=!!", "cursor=IjEi", "status=gone", "state=active"),
      ["get of a bad id", ["GET", `${path}/7`], faults("params.id")],
      ["get of an unknown tenant", ["GET", `${path}/${unknownId}`], notFound],
      ["update with an unknown member", updating({ colour: "red" }), faults("payload.colour")],
      ["update with a status that is none", updating({ status: "gone" }), faults("payload.status")],
      ["update with an empty name", updating({ name: "" }), faults("payload.name")],
      ["update with NUL in a setting", updating({ settings: { a: "\0" } }), faults("payload.settings")],
      ["update with a list", updating([]), faults("payload")],
      ["update with a slug that is taken", updating({ slug: "default" }), problem(409, "tenant-slug-taken")],
      ["update of a bad id", ["PATCH", `${path}/x`, { body: {} }], faults("params.id")],
      ["update of an unknown tenant", ["PATCH", `${path}/${unknownId}`, { body: { name: "x" } }], notFound]
    ],
    { given: make({ name: "Strict" }), unchanged }
  )

  refuses(
    it,
    [
      ["update of the default tenant's slug", updating({ slug: "other" }), isDefault],
      ["update of the default tenant's status", updating({ status: "suspended" }), isDefault],
      ["update of the default tenant's status and name", updating({ name: "x", status: "suspended" }), isDefault]
    ],
    { given: defaultTenant, unchanged }
  )

  it.effect("create 409: a slug asked for that is taken, for all but one of concurrent requests", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answers = yield* Effect.forEach(
        Array.from({ length: 8 }),
        () => service.call("POST", "/api/tenants", { body: { name: "Contested", slug: "contested" } }),
        { concurrency: "unbounded" }
      )
      const refused = answers.filter(({ status }) => status !== 201)
      assert.lengthOf(refused, 7)
      for (const answer of refused) assertProblem(answer, 409, "tenant-slug-taken")
    })
  )

  it.effect("list 200: pages in the order of making, filtered by status", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const made = yield* Effect.forEach(["one", "two", "three"], (name) => make({ name: `Listed ${name}` }))
      yield* service.call("PATCH", `/api/tenants/${made[1]!.id}`, { body: { status: "suspended" } })
      const seen: Array<string> = []
      let cursor: string | null = null
      do {
        const path: string = `/api/tenants?limit=2${cursor === null ? "" : `&cursor=${cursor}`}`
        const { body, status } = yield* service.call("GET", path)
        assert.strictEqual(status, 200)
        assert.isAtMost(body.items.length, 2)
        seen.push(...body.items.map(({ id }: { readonly id: string }) => id))
        cursor = body.nextCursor
      } while (cursor !== null)
      assert.deepStrictEqual(seen, seen.toSorted())
      assert.includeMembers(
        seen,
        made.map(({ id }) => id)
      )
      const suspended = yield* service.call("GET", "/api/tenants?status=suspended&limit=200")
      const ids = suspended.body.items.map(({ id }: { readonly id: string }) => id)
      assert.include(ids, made[1]!.id)
      assert.notInclude(ids, made[0]!.id)
      assert.isNull(suspended.body.nextCursor)
    })
  )

  it.effect("get 200", () =>
    Effect.gen(function* () {
      const tenant = yield* make({ name: "Read" })
      assert.deepStrictEqual(yield* read(`${path}/${tenant.id}`), tenant)
    })
  )

  it.effect("update 200: changes what is given, ignores what the server sets, and records it once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenant = yield* make({ name: "Before", settings: { a: 1, b: 2 } })
      const path = `/api/tenants/${tenant.id}`
      const changes = { name: "After", slug: "after-slug", settings: { c: 3 } }
      const { body, status } = yield* service.call("PATCH", path, {
        body: { ...tenant, id: unknownId, createdAt: "never", ...changes }
      })
      assert.strictEqual(status, 200)
      assert.deepStrictEqual(body, { ...tenant, ...changes })
      for (const same of [{}, { settings: { c: 3 } }, { name: "After" }]) {
        assert.deepStrictEqual((yield* service.call("PATCH", path, { body: same })).body, body)
      }
      const log = yield* service.call("GET", `/api/audit-logs?entityType=Tenant&entityId=${tenant.id}`)
      assert.deepStrictEqual(
        log.body.items.map(({ actionType }: { readonly actionType: string }) => actionType),
        ["TenantUpdated", "TenantCreated"]
      )
      const entry = yield* service.call("GET", `/api/audit-logs/${log.body.items[0].id}`)
      assert.deepStrictEqual(entry.body.changes, { before: tenant, after: body })
    })
  )

  it.effect("update 200: suspension holds at once, and so does its end", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenant = yield* make({ name: "Suspended" })
      const { key } = yield* makeKey(service, ["api-keys:read"], { tenantId: tenant.id })
      const attempt = Effect.map(service.call("GET", "/api/api-keys", { key }), ({ status }) => status)
      const suspend = (status: string) => service.call("PATCH", `/api/tenants/${tenant.id}`, { body: { status } })
      assert.strictEqual(yield* attempt, 200)
      assert.strictEqual((yield* suspend("suspended")).body.status, "suspended")
      assert.strictEqual(yield* attempt, 401)
      assert.strictEqual((yield* suspend("active")).body.status, "active")
      assert.strictEqual(yield* attempt, 200)
    })
  )

  it.effect("update 200: the default tenant takes another name", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenant = yield* defaultTenant
      assert.strictEqual(tenant.slug, "default")
      const renamed = yield* service.call("PATCH", `${path}/${tenant.id}`, {
        body: { name: "Home", slug: "default", status: "active" }
      })
      assert.strictEqual(renamed.status, 200)
      assert.strictEqual(renamed.body.name, "Home")
    })
  )

  refusesStrangers(it, [
    { name: "list", method: "GET", path: "/api/tenants", capability: "tenants:read", systemOnly: true },
    { name: "get", method: "GET", path: `/api/tenants/${unknownId}`, capability: "tenants:read", systemOnly: true },
    {
      name: "create",
      method: "POST",
      path: "/api/tenants",
      capability: "tenants:write",
      systemOnly: true,
      body: { name: "Refused" }
    },
    {
      name: "update",
      method: "PATCH",
      path: `/api/tenants/${unknownId}`,
      capability: "tenants:write",
      systemOnly: true,
      body: {}
    }
  ])
})
