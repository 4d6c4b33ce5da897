import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, refusesStrangers } from "../../support/authority.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

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
      assert.strictEqual((yield* make({ name: "日本" })).slug, "tenant")
    })
  )

  it.effect("create 400: names every fault", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const deep = JSON.parse(`${"[".repeat(40)}${"]".repeat(40)}`)
      const bodies = [
        {},
        { name: " " },
        { name: "x".repeat(101) },
        { name: "a\0b" },
        { name: "ok", slug: "Not a slug" },
        { name: "ok", slug: "a" },
        { name: "ok", settings: [] },
        { name: "ok", settings: null },
        { name: "ok", settings: { text: "a\0b" } },
        { name: "ok", settings: { "a\0b": 1 } },
        { name: "ok", settings: { deep } },
        { name: "ok", settings: { text: "x".repeat(20_000) } },
        { name: "ok", status: "suspended" }
      ]
      for (const body of bodies) {
        const answer = yield* service.call("POST", "/api/tenants", { body })
        assertProblem(answer, 400, "validation-failed")
      }
      const lone = yield* service.call("POST", "/api/tenants", { body: `{"name":"ok","settings":{"a":"\\ud800"}}` })
      assert.strictEqual(lone.status, 400)
      const nested = `{"name":"ok","settings":{"a":${"[".repeat(200_000)}${"]".repeat(200_000)}}}`
      assert.strictEqual((yield* service.call("POST", "/api/tenants", { body: nested })).status, 400)
      const both = yield* service.call("POST", "/api/tenants", { body: { name: "", slug: "-" } })
      assert.sameMembers([...new Set(faultPaths(both))], ["payload.name", "payload.slug"])
    })
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

  it.effect("list 400: a bad limit, cursor, status or parameter", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const query of [
        "limit=0",
        "limit=201",
        "limit=x",
        "cursor=!!",
        "cursor=IjEi",
        "status=gone",
        "state=active"
      ]) {
        assert.strictEqual((yield* service.call("GET", `/api/tenants?${query}`)).status, 400, query)
      }
    })
  )

  it.effect("get 200, 400, 404", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenant = yield* make({ name: "Read" })
      const { body, status } = yield* service.call("GET", `/api/tenants/${tenant.id}`)
      assert.strictEqual(status, 200)
      assert.deepStrictEqual(body, tenant)
      assert.strictEqual((yield* service.call("GET", "/api/tenants/7")).status, 400)
      const unknown = yield* service.call("GET", `/api/tenants/${unknownId}`)
      assertProblem(unknown, 404, "tenant-not-found")
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

  it.effect("update 400: an unknown member, a bad value, a bad id", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenant = yield* make({ name: "Strict" })
      for (const body of [{ colour: "red" }, { status: "gone" }, { name: "" }, { settings: { a: "\0" } }, []]) {
        const answer = yield* service.call("PATCH", `/api/tenants/${tenant.id}`, { body })
        assert.strictEqual(answer.status, 400, JSON.stringify(body))
      }
      assert.strictEqual((yield* service.call("PATCH", "/api/tenants/x", { body: {} })).status, 400)
    })
  )

  it.effect("update 404: an unknown tenant", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answer = yield* service.call("PATCH", `/api/tenants/${unknownId}`, { body: { name: "x" } })
      assertProblem(answer, 404, "tenant-not-found")
    })
  )

  it.effect("update 409: a slug that is taken", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* make({ name: "First", slug: "first-come" })
      const second = yield* make({ name: "Second" })
      const answer = yield* service.call("PATCH", `/api/tenants/${second.id}`, {
        body: { slug: "first-come" }
      })
      assertProblem(answer, 409, "tenant-slug-taken")
    })
  )

  it.effect("update 409: the default tenant keeps its slug and its status, and takes another name", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenant = yield* defaultTenant
      assert.strictEqual(tenant.slug, "default")
      for (const body of [{ slug: "other" }, { status: "suspended" }, { name: "x", status: "suspended" }]) {
        const answer = yield* service.call("PATCH", `/api/tenants/${tenant.id}`, { body })
        assertProblem(answer, 409, "tenant-default")
      }
      const renamed = yield* service.call("PATCH", `/api/tenants/${tenant.id}`, {
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
