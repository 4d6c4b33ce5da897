import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { refusesStrangers } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import {
  auditOf,
  badQueries,
  each,
  faults,
  patching,
  problem,
  read,
  refuses,
  type Scenario,
  type Sent
} from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const path = "/api/applications"
const unknownId = 2_000_000_000

const make = Effect.fnUntraced(function* (body: object) {
  const service = yield* TestService
  const { status, text, body: application } = yield* service.call("POST", "/api/applications", { body })
  assert.strictEqual(status, 201, text)
  return application
})

const creating = (members: object): Sent => ["POST", path, { body: { name: "ok", ...members } }]
const updating = patching(path)

const notFound = problem(404, "application-not-found")
const builtIn = problem(409, "application-built-in")

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("applications over HTTP", (it) => {
  it.effect("create 201: active, with a slug made from the name", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body, headers, status } = yield* service.call("POST", "/api/applications", {
        body: { name: "Billing Portal" }
      })
      assert.strictEqual(status, 201)
      assert.strictEqual(headers.get("location"), `/api/applications/${body.id}`)
      assert.hasAllKeys(body, ["id", "name", "slug", "description", "status", "createdAt", "updatedAt"])
      assert.deepInclude(body, { name: "Billing Portal", slug: "billing-portal", description: "", status: "active" })
    })
  )

  it.effect("create 201: keeps the slug and the description that it is given", () =>
    Effect.gen(function* () {
      const application = yield* make({ name: "Given", slug: "given", description: "for a test" })
      assert.deepInclude(application, { slug: "given", description: "for a test" })
    })
  )

  it.effect("create 201: a made slug that is taken gets a number, and no id is lost", () =>
    Effect.gen(function* () {
      const made = yield* Effect.forEach(Array.from({ length: 3 }), () => make({ name: "Twin" }))
      assert.deepStrictEqual(
        made.map(({ slug }) => slug),
        ["twin", "twin-2", "twin-3"]
      )
      assert.strictEqual(made[2]!.id - made[0]!.id, 2)
      const more = yield* Effect.forEach(Array.from({ length: 6 }), () => make({ name: "Twin" }), {
        concurrency: "unbounded"
      })
      assert.sameMembers(
        more.map(({ slug }) => slug),
        ["twin-4", "twin-5", "twin-6", "twin-7", "twin-8", "twin-9"]
      )
      assert.strictEqual((yield* make({ name: "Application Manager" })).slug, "application-manager-2")
    })
  )

  refuses(
    it,
    [
      ["create without a name", ["POST", path, { body: {} }], faults("payload.name")],
      ["create with an empty name", creating({ name: "" }), faults("payload.name")],
      ["create with a name of 101 characters", creating({ name: "x".repeat(101) }), faults("payload.name")],
      ["create with a slug in upper case", creating({ slug: "UPPER" }), faults("payload.slug")],
      ["create with null for a slug", creating({ slug: null }), faults("payload.slug")],
      ["create with a long description", creating({ description: "x".repeat(1001) }), faults("payload.description")],
      ["create with NUL in a description", creating({ description: "a\0b" }), faults("payload.description")],
      ["create with a status, which a caller does not set", creating({ status: "active" }), faults("payload.status")],
      ["create with builtIn, which a caller does not set", creating({ builtIn: true }), faults("payload.builtIn")],
      ...badQueries(path, "limit=0", "limit=201", "cursor=x", "cursor=IngiCg", "status=gone", "state=active"),
      ...each(["x", "0", "-1", "1.5", "2147483648"], (id) => [
        `get of the bad id ${id}`,
        ["GET", `${path}/${id}`],
        faults("params.id")
      ]),
      ["get of an unknown application", ["GET", `${path}/${unknownId}`], notFound],
      ["update with builtIn, which a caller does not set", updating({ builtIn: true }), faults("payload.builtIn")],
      ["update with a status that is none", updating({ status: "gone" }), faults("payload.status")],
      ["update with a bad slug", updating({ slug: "-x" }), faults("payload.slug")],
      ["update with null for a description", updating({ description: null }), faults("payload.description")],
      ["update with a slug that is taken", updating({ slug: "llm-gateway" }), problem(409, "application-slug-taken")],
      ["update of a bad id", ["PATCH", `${path}/x`, { body: {} }], faults("params.id")],
      ["update of an unknown application", ["PATCH", `${path}/${unknownId}`, { body: { name: "x" } }], notFound],
      ["delete of a bad id", ["DELETE", `${path}/x`], faults("params.id")]
    ],
    {
      given: make({ name: "Strict" }),
      unchanged: ({ id }) => Effect.all([read(`${path}/${id}`), auditOf("Application", id)])
    }
  )

  refuses(
    it,
    [1, 2].flatMap((id): ReadonlyArray<Scenario<unknown>> => [
      [
        `update of the slug of the built-in application ${id}`,
        ["PATCH", `${path}/${id}`, { body: { slug: "other" } }],
        builtIn
      ],
      [
        `update of the status of the built-in application ${id}`,
        ["PATCH", `${path}/${id}`, { body: { status: "suspended" } }],
        builtIn
      ],
      [`delete of the built-in application ${id}`, ["DELETE", `${path}/${id}`], builtIn]
    ]),
    { given: Effect.void, unchanged: () => read(`${path}?limit=2`) }
  )

  it.effect("create 409: a slug asked for that is taken, for all but one of concurrent requests", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answers = yield* Effect.forEach(
        Array.from({ length: 6 }),
        () => service.call("POST", "/api/applications", { body: { name: "Contested", slug: "contested" } }),
        { concurrency: "unbounded" }
      )
      const refused = answers.filter(({ status }) => status !== 201)
      assert.lengthOf(refused, 5)
      for (const answer of refused) assertProblem(answer, 409, "application-slug-taken")
    })
  )

  it.effect("list 200: the built-in ones first, page by page, filtered by status", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const first = yield* service.call("GET", "/api/applications?limit=2")
      assert.strictEqual(first.status, 200)
      assert.deepStrictEqual(
        first.body.items.map(({ slug }: { readonly slug: string }) => slug),
        ["application-manager", "llm-gateway"]
      )
      assert.notProperty(first.body.items[0], "builtIn")
      const application = yield* make({ name: "Listed" })
      yield* service.call("PATCH", `/api/applications/${application.id}`, { body: { status: "rejected" } })
      const rejected = yield* service.call("GET", "/api/applications?status=rejected")
      assert.deepStrictEqual(
        rejected.body.items.map(({ id }: { readonly id: number }) => id),
        [application.id]
      )
      assert.isNull(rejected.body.nextCursor)
      const ids: Array<number> = []
      for (let cursor = first.body.nextCursor; cursor !== null;) {
        const next = yield* service.call("GET", `/api/applications?limit=200&cursor=${cursor}`)
        ids.push(...next.body.items.map(({ id }: { readonly id: number }) => id))
        cursor = next.body.nextCursor
      }
      assert.include(ids, application.id)
      assert.notInclude(ids, first.body.items[1].id)
    })
  )

  it.effect("get 200", () =>
    Effect.gen(function* () {
      const application = yield* make({ name: "Read" })
      assert.deepStrictEqual(yield* read(`${path}/${application.id}`), application)
    })
  )

  it.effect("update 200: changes what is given and stamps it; the same again changes nothing", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const application = yield* make({ name: "Before" })
      const path = `/api/applications/${application.id}`
      const changes = { name: "After", slug: "after", description: "changed", status: "suspended" }
      const { body, status } = yield* service.call("PATCH", path, { body: { ...application, ...changes } })
      assert.strictEqual(status, 200)
      assert.deepStrictEqual(body, { ...application, ...changes, updatedAt: body.updatedAt })
      assert.isAbove(Date.parse(body.updatedAt), Date.parse(application.updatedAt))
      assert.deepStrictEqual((yield* service.call("PATCH", path, { body: {} })).body, body)
      assert.deepStrictEqual((yield* service.call("PATCH", path, { body })).body, body)
      const log = yield* service.call("GET", `/api/audit-logs?entityType=Application&entityId=${application.id}`)
      assert.deepStrictEqual(
        log.body.items.map(({ actionType, applicationId }: Record<string, unknown>) => [actionType, applicationId]),
        [
          ["ApplicationUpdated", application.id],
          ["ApplicationCreated", application.id]
        ]
      )
    })
  )

  it.effect("update 200: a built-in application takes a description", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const described = yield* service.call("PATCH", `${path}/2`, { body: { description: "All models" } })
      assert.strictEqual(described.status, 200)
      assert.strictEqual(described.body.description, "All models")
    })
  )

  it.effect("delete 204: then it is gone, its slug free", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* make({ name: "Gone", slug: "gone" })
      const deleted = yield* service.call("DELETE", `/api/applications/${id}`)
      assert.strictEqual(deleted.status, 204)
      assert.strictEqual(deleted.text, "")
      const again = yield* service.call("DELETE", `/api/applications/${id}`)
      assertProblem(again, 404, "application-not-found")
      yield* make({ name: "Gone", slug: "gone" })
      assert.deepStrictEqual(yield* auditOf("Application", id), ["ApplicationDeleted", "ApplicationCreated"])
    })
  )

  it.effect("delete 409: while a role or an API key belongs to it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* make({ name: "In use" })
      const role = yield* service.call("POST", "/api/roles", {
        body: { name: "Reader", applicationId: id, capabilities: ["things:read"] }
      })
      const refused = yield* service.call("DELETE", `/api/applications/${id}`)
      assertProblem(refused, 409, "application-in-use")
      yield* service.call("DELETE", `/api/roles/${role.body.id}`)
      assert.strictEqual((yield* service.call("DELETE", `/api/applications/${id}`)).status, 204)
      const other = yield* make({ name: "With a key" })
      yield* service.call("POST", "/api/api-keys", {
        body: { name: "of an application", scopes: [], applicationId: other.id }
      })
      assert.strictEqual((yield* service.call("DELETE", `/api/applications/${other.id}`)).status, 409)
    })
  )

  refusesStrangers(it, [
    { name: "list", method: "GET", path: "/api/applications", capability: "applications:read", systemOnly: true },
    {
      name: "get",
      method: "GET",
      path: `/api/applications/${unknownId}`,
      capability: "applications:read",
      systemOnly: true
    },
    {
      name: "create",
      method: "POST",
      path: "/api/applications",
      capability: "applications:write",
      systemOnly: true,
      body: { name: "Refused" }
    },
    {
      name: "update",
      method: "PATCH",
      path: `/api/applications/${unknownId}`,
      capability: "applications:write",
      systemOnly: true,
      body: {}
    },
    {
      name: "delete",
      method: "DELETE",
      path: `/api/applications/${unknownId}`,
      capability: "applications:write",
      systemOnly: true
    }
  ])
})
