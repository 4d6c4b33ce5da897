import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { makeExpiredKey, makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { auditOf, badQueries, each, faults, patching, problem, refuses, type Sent } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { forgedCursor, walkCursors } from "../../support/walk.ts"

const path = "/api/api-keys"
const unknown = "0198a5b0-7c00-7000-8000-00000000002a"
const read = { capability: "api-keys:read", systemOnly: false }
const write = { capability: "api-keys:write", systemOnly: false }
const manager = ["api-keys:*", "sessions:read"]
const viewMembers = [
  "id",
  "name",
  "start",
  "scopes",
  "tenantId",
  "applicationId",
  "status",
  "createdAt",
  "createdBy",
  "lastUsedAt",
  "expiresAt",
  "rotatedFrom",
  "synthetic"
]

const get = Effect.fnUntraced(function* (id: string) {
  const got = yield* (yield* TestService).call("GET", `${path}/${id}`)
  assert.strictEqual(got.status, 200, got.text)
  return got.body
})

const keyAudit = (id: string) => auditOf("ApiKey", id)
/** A key as it is shown, and what was done to it. */
const unchanged = ({ id }: { readonly id: string }) => Effect.all([get(id), keyAudit(id)])
const given = Effect.flatMap(TestService, (service) => makeKey(service, []))
const creating = (members: object): Sent => ["POST", path, { body: { name: "a key", scopes: [], ...members } }]
const updating = patching(path)

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("API keys over HTTP", (it) => {
  refusesStrangers(it, [
    { name: "list", method: "GET", path, ...read },
    { name: "get", method: "GET", path: `${path}/${unknown}`, ...read },
    { name: "create", method: "POST", path, body: { name: "a key", scopes: [] }, ...write },
    { name: "update", method: "PATCH", path: `${path}/${unknown}`, body: {}, ...write },
    { name: "rotate", method: "POST", path: `${path}/${unknown}/rotate`, body: {}, ...write },
    { name: "revoke", method: "DELETE", path: `${path}/${unknown}`, ...write }
  ])

  const byId = [
    ["get", "GET", "", undefined],
    ["update", "PATCH", "", { name: "another" }],
    ["rotate", "POST", "/rotate", {}],
    ["revoke", "DELETE", "", undefined]
  ] as const
  const badIds = ["1", "abc", `${unknown}0`, unknown.replaceAll("-", "")]
  for (const [name, method, rest, body] of byId) {
    refuses(it, [
      [`${name} of an unknown key`, [method, `${path}/${unknown}${rest}`, { body }], problem(404, "api-key-not-found")],
      ...each(badIds, (id) => [
        `${name} of the malformed id ${id}`,
        [method, `${path}/${id}${rest}`, { body }],
        faults("params.id")
      ])
    ])

    it.effect(`404: ${name} of another tenant's key, and of a system key, by a tenant's caller`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const caller = yield* makeKey(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })
        const foreign = yield* makeKey(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })
        const system = yield* makeKey(service, ["*:*"])
        for (const { id, key } of [foreign, system]) {
          const answer = yield* service.call(method, `${path}/${id}${rest}`, { body, key: caller.key })
          assertProblem(answer, 404, "api-key-not-found")
          assert.strictEqual((yield* get(id)).status, "active")
          assert.strictEqual((yield* service.call("GET", path, { key })).status, 200)
        }
      })
    )

    it.effect(`2xx: ${name} of any tenant's key by a system key`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const caller = yield* makeKey(service, manager)
        const theirs = yield* makeKey(service, ["sessions:read"], { tenantId: yield* makeTenant(service.database) })
        const answer = yield* service.call(method, `${path}/${theirs.id}${rest}`, { body, key: caller.key })
        assert.oneOf(answer.status, [200, 201, 204], answer.text)
      })
    )
  }

  const stronger = byId.filter(([name]) => name !== "get")
  for (const [name, method, rest, body] of stronger) {
    it.effect(`403: ${name} of a key with more scopes than the caller, naming those it lacks`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const caller = yield* makeKey(service, manager)
        const other = yield* makeKey(service, ["trial-users:write", "sessions:read", "*:read"])
        const answer = yield* service.call(method, `${path}/${other.id}${rest}`, { body, key: caller.key })
        assertProblem(answer, 403, "forbidden")
        assert.deepStrictEqual(answer.body.missing, ["trial-users:write", "*:read"])
        assert.deepInclude(yield* get(other.id), { name: "a key", status: "active", expiresAt: null })
        assert.deepStrictEqual(yield* keyAudit(other.id), ["ApiKeyCreated"])
      })
    )
  }

  it.effect("201: create answers the key, in this one answer, with its address in Location", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = { name: "nightly import", scopes: ["sessions:read", "*:write"] }
      const created = yield* service.call("POST", path, { body })
      assert.strictEqual(created.status, 201)
      assert.strictEqual(created.headers.get("location"), `${path}/${created.body.id}`)
      assert.hasAllKeys(created.body, [...viewMembers, "key"])
      const { key, ...view } = created.body
      assert.match(key, /^amk_[0-9A-Za-z]{61}$/)
      assert.strictEqual(view.start, key.slice(0, 16))
      assert.deepInclude(view, { ...body, status: "active", createdBy: "service-account" })
      assert.deepInclude(view, {
        tenantId: null,
        applicationId: null,
        lastUsedAt: null,
        expiresAt: null,
        rotatedFrom: null
      })
      assert.match(view.id, /^[0-9a-f]{8}-[0-9a-f]{4}-7/)
      assert.deepStrictEqual(yield* get(view.id), view)
      assert.deepStrictEqual(yield* keyAudit(view.id), ["ApiKeyCreated"])
    })
  )

  it.effect("201: create removes repeated scopes and keeps their order", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const scopes = ["sessions:write", "sessions:read", "sessions:write"]
      const created = yield* service.call("POST", path, { body: { name: "a key", scopes } })
      assert.deepStrictEqual(created.body.scopes, ["sessions:write", "sessions:read"])
    })
  )

  it.effect("201: a key without scopes is known and may do nothing", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* makeKey(service, [])
      assertProblem(yield* service.call("GET", path, { key }), 403, "forbidden")
    })
  )

  refuses(it, [
    ["create with nothing", ["POST", path, { body: {} }], faults("payload.name", "payload.scopes")],
    ["create with a blank name", creating({ name: " " }), faults("payload.name")],
    ["create with a name of 101 characters", creating({ name: "n".repeat(101) }), faults("payload.name")],
    ["create with a scope without an action", creating({ scopes: ["sessions"] }), faults("payload.scopes.0")],
    ["create with a scope in upper case", creating({ scopes: ["Sessions:Read"] }), faults("payload.scopes.0")],
    [
      "create with a scope of no resource of ours",
      creating({ scopes: ["sessions:read", "invoices:read"] }),
      faults("payload.scopes.1")
    ],
    [
      "create with an action that its resource has not",
      creating({ scopes: ["sessions:approve"] }),
      faults("payload.scopes.0")
    ],
    ["create with 201 scopes", creating({ scopes: Array(201).fill("sessions:read") }), faults("payload.scopes")],
    ["create with scopes as text", creating({ scopes: "sessions:read" }), faults("payload.scopes")],
    ["create with a malformed tenant", creating({ tenantId: "default" }), faults("payload.tenantId")],
    ["create with a malformed application", creating({ applicationId: "1" }), faults("payload.applicationId")],
    ["create with a malformed expiry", creating({ expiresAt: "tomorrow" }), faults("payload.expiresAt")],
    ["create with a key of one's own choice", creating({ key: "amk_mine" }), faults("payload.key")],
    ["create for an unknown tenant", creating({ tenantId: unknown }), problem(404, "tenant-not-found")],
    [
      "create for an unknown application",
      creating({ applicationId: 2147483647 }),
      problem(404, "application-not-found")
    ],
    [
      "create with an expiry that is over",
      creating({ expiresAt: "2020-01-01T00:00:00Z" }),
      problem(400, "expires-in-the-past")
    ],
    ...badQueries(
      path,
      "tenantId=default",
      "limit=0",
      "limit=201",
      "limit=all",
      "cursor=x",
      "cursor=",
      "status=active"
    ),
    ["list with a cursor of a text", ["GET", `${path}?cursor=${forgedCursor(path, "x")}`], faults("query.cursor")],
    ["list with a cursor of a number", ["GET", `${path}?cursor=${forgedCursor(path, 1)}`], faults("query.cursor")]
  ])

  it.effect("403: create with more scopes than one's own names the missing ones", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* makeKey(service, ["api-keys:write", "sessions:*"])
      const scopes = ["sessions:read", "trial-users:read", "*:read", "sessions:*", "*:*"]
      const answer = yield* service.call("POST", path, { key, body: { name: "a key", scopes } })
      assertProblem(answer, 403, "forbidden")
      assert.deepStrictEqual(answer.body.missing, ["trial-users:read", "*:read", "*:*"])
    })
  )

  it.effect("201: create with scopes that one's own cover", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id, key } = yield* makeKey(service, ["api-keys:write", "sessions:*", "*:read"])
      const made = yield* makeKey(service, ["sessions:write", "trial-users:read", "sessions:*", "*:read"], { by: key })
      assert.strictEqual((yield* get(made.id)).createdBy, `api-key:${id}`)
    })
  )

  it.effect("201: a tenant's caller makes keys of its tenant, whether it names it or not", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, manager, { tenantId })
      assert.strictEqual((yield* makeKey(service, ["sessions:read"], { by: key })).tenantId, tenantId)
      assert.strictEqual((yield* makeKey(service, ["sessions:read"], { by: key, tenantId })).tenantId, tenantId)
    })
  )

  it.effect("403: a tenant's caller makes no key of another tenant, whether it exists or not, and no system key", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* makeKey(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })
      for (const tenantId of [yield* makeTenant(service.database), unknown, null]) {
        const body = { name: "a key", scopes: ["sessions:read"], tenantId }
        assertProblem(yield* service.call("POST", path, { key, body }), 403, "forbidden")
      }
    })
  )

  it.effect("200: a system key acts across tenants", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* makeKey(service, ["api-keys:*", "trial-users:read"])
      const [one, other] = [yield* makeTenant(service.database), yield* makeTenant(service.database)]
      for (const tenantId of [one, other]) {
        const made = yield* makeKey(service, ["trial-users:read"], { by: key, tenantId })
        assert.strictEqual(made.tenantId, tenantId)
        const listed = yield* service.call("GET", `${path}?tenantId=${tenantId}`, { key })
        assert.deepStrictEqual(
          listed.body.items.map((item: { readonly id: string }) => item.id),
          [made.id]
        )
      }
      assert.strictEqual((yield* service.call("GET", "/api/trial-users", { key })).status, 200)
    })
  )

  it.effect("200: a tenant's list shows only its own keys, whatever it filters by", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [tenantId, foreign] = [yield* makeTenant(service.database), yield* makeTenant(service.database)]
      const mine = [yield* makeKey(service, ["api-keys:read"], { tenantId }), yield* makeKey(service, [], { tenantId })]
      yield* makeKey(service, [], { tenantId: foreign })
      const key = mine[0]?.key ?? ""
      const list = (query: string) =>
        Effect.map(service.call("GET", `${path}${query}`, { key }), ({ body }) =>
          body.items.map((item: { readonly id: string }) => item.id)
        )
      assert.deepStrictEqual(
        yield* list(""),
        mine.map(({ id }) => id)
      )
      assert.deepStrictEqual(
        yield* list(`?tenantId=${tenantId}`),
        mine.map(({ id }) => id)
      )
      assert.deepStrictEqual(yield* list(`?tenantId=${foreign}`), [])
    })
  )

  it.effect("200: list shows each key as get does, in the order of their making", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const made = [yield* makeKey(service, [], { tenantId }), yield* makeKey(service, ["*:*"], { tenantId })]
      const views = [yield* get(made[0]?.id ?? ""), yield* get(made[1]?.id ?? "")]
      const listed = yield* service.call("GET", `${path}?tenantId=${tenantId}`)
      assert.deepStrictEqual(listed.body, { items: views, nextCursor: null })
      assert.hasAllKeys(views[0], viewMembers)
    })
  )

  it.effect("200: list is walked to its end by cursor while keys are added, each exactly once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const made: Array<string> = []
      const addOne = Effect.suspend(() => Effect.map(makeKey(service, [], { tenantId }), ({ id }) => made.push(id)))
      for (let count = 0; count < 5; count++) yield* addOne
      let more = 2
      const between = Effect.suspend(() => (more-- > 0 ? addOne : Effect.void))
      const pages = yield* walkCursors(service, `${path}?tenantId=${tenantId}&limit=2`, { between })
      assert.deepStrictEqual(
        pages.map((page) => page.length),
        [2, 2, 2, 1]
      )
      assert.deepStrictEqual(pages.flat(), made)
    })
  )

  const changes: ReadonlyArray<readonly [string, unknown]> = [
    ["name", "another name"],
    ["scopes", ["dashboard:read"]],
    ["expiresAt", "2099-01-01T00:00:00.000Z"]
  ]
  for (const [member, value] of changes) {
    it.effect(`200: update changes ${member} and nothing else`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { id } = yield* makeKey(service, ["sessions:read"])
        const before = yield* get(id)
        const updated = yield* service.call("PATCH", `${path}/${id}`, { body: { [member]: value } })
        assert.strictEqual(updated.status, 200, updated.text)
        assert.deepStrictEqual(updated.body, { ...before, [member]: value })
        assert.deepStrictEqual(yield* get(id), updated.body)
        assert.deepStrictEqual(yield* keyAudit(id), ["ApiKeyUpdated", "ApiKeyCreated"])
      })
    )
  }

  it.effect("403: a key that expires makes none that outlives it; 201 within its own time", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const expiresAt = "2099-01-01T00:00:00.000Z"
      const { key } = yield* makeKey(service, ["api-keys:write"], { expiresAt })
      for (const later of [undefined, null, "2099-01-01T00:00:00.001Z"]) {
        const body = { name: "a heir", scopes: [], ...(later === undefined ? {} : { expiresAt: later }) }
        assertProblem(yield* service.call("POST", path, { key, body }), 403, "forbidden")
      }
      const within = yield* service.call("POST", path, { key, body: { name: "a heir", scopes: [], expiresAt } })
      assert.strictEqual(within.status, 201, within.text)
    })
  )

  it.effect("200: update with null takes the expiry away", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* makeKey(service, [], { expiresAt: "2099-01-01T00:00:00.000Z" })
      const updated = yield* service.call("PATCH", `${path}/${id}`, { body: { expiresAt: null } })
      assert.strictEqual(updated.body.expiresAt, null)
    })
  )

  it.effect("200: update ignores what the server sets, changes nothing then and writes no audit entry", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* makeKey(service, ["sessions:read"])
      const before = yield* get(id)
      const set = { ...before, id: unknown, start: "x", tenantId: unknown, applicationId: 7, status: "revoked" }
      for (const body of [{}, before, { ...set, createdAt: null, createdBy: "me", lastUsedAt: 1, rotatedFrom: true }]) {
        const updated = yield* service.call("PATCH", `${path}/${id}`, { body })
        assert.strictEqual(updated.status, 200, updated.text)
        assert.deepStrictEqual(updated.body, before)
      }
      assert.deepStrictEqual(yield* keyAudit(id), ["ApiKeyCreated"])
    })
  )

  it.effect("200: changed scopes count from the answer on", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id, key } = yield* makeKey(service, ["sessions:read"])
      assert.strictEqual((yield* service.call("GET", "/api/sessions", { key })).status, 200)
      yield* service.call("PATCH", `${path}/${id}`, { body: { scopes: ["trial-users:read"] } })
      assertProblem(yield* service.call("GET", "/api/sessions", { key }), 403, "forbidden")
      assert.strictEqual((yield* service.call("GET", "/api/trial-users", { key })).status, 200)
    })
  )

  it.effect("400: an expiry in the past, which could not be taken back; the key goes on", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id, key } = yield* makeKey(service, ["api-keys:read"])
      const before = yield* get(id)
      for (const expiresAt of ["2020-01-01T00:00:00.000Z", before.createdAt]) {
        const refused = yield* service.call("PATCH", `${path}/${id}`, { body: { name: "other", expiresAt } })
        assertProblem(refused, 400, "expires-in-the-past")
      }
      assert.deepStrictEqual({ ...(yield* get(id)), lastUsedAt: null }, { ...before, lastUsedAt: null })
      assert.strictEqual((yield* service.call("GET", path, { key })).status, 200)
    })
  )

  refuses(
    it,
    [
      ["update with a blank name", updating({ name: "" }), faults("payload.name")],
      ["update with null for a name", updating({ name: null }), faults("payload.name")],
      ["update with an unknown scope", updating({ scopes: ["sessions:fly"] }), faults("payload.scopes.0")],
      ["update with null for scopes", updating({ scopes: null }), faults("payload.scopes")],
      ["update with a malformed expiry", updating({ expiresAt: "2026-13-01T00:00:00Z" }), faults("payload.expiresAt")],
      ["update with an unknown member", updating({ secret: "x" }), faults("payload.secret")]
    ],
    { given, unchanged }
  )

  it.effect("403: update to more scopes than one's own names the missing ones", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id, key } = yield* makeKey(service, manager)
      const scopes = [...manager, "trial-users:read"]
      const answer = yield* service.call("PATCH", `${path}/${id}`, { key, body: { scopes } })
      assertProblem(answer, 403, "forbidden")
      assert.deepStrictEqual(answer.body.missing, ["trial-users:read"])
      assert.deepStrictEqual((yield* get(id)).scopes, manager)
    })
  )

  it.effect("201: rotate makes a key with the same rights; the old one works a day longer unless said otherwise", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const old = yield* makeKey(service, ["api-keys:read"], {
        tenantId,
        name: "old",
        expiresAt: "2099-01-01T00:00:00.000Z"
      })
      const rotated = yield* service.call("POST", `${path}/${old.id}/rotate`, { body: {} })
      assert.strictEqual(rotated.status, 201, rotated.text)
      const { key, ...view } = rotated.body
      assert.strictEqual(rotated.headers.get("location"), `${path}/${view.id}`)
      assert.notStrictEqual(view.id, old.id)
      assert.notStrictEqual(key, old.key)
      const same = { name: "old", scopes: ["api-keys:read"], tenantId, expiresAt: "2099-01-01T00:00:00.000Z" }
      assert.deepInclude(view, { ...same, rotatedFrom: old.id, status: "active" })
      const before = yield* get(old.id)
      assert.strictEqual(before.status, "active")
      assert.strictEqual(Date.parse(before.expiresAt) - Date.parse(view.createdAt), 86_400_000)
      for (const working of [old.key, key]) {
        assert.strictEqual((yield* service.call("GET", path, { key: working })).status, 200)
      }
      assert.deepStrictEqual(yield* keyAudit(view.id), ["ApiKeyRotated"])
    })
  )

  it.effect("201: rotate with a grace of 0 ends the old key before it answers", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const old = yield* makeKey(service, ["api-keys:read"])
      assert.strictEqual((yield* service.call("GET", path, { key: old.key })).status, 200)
      const rotated = yield* service.call("POST", `${path}/${old.id}/rotate`, { body: { graceSeconds: 0 } })
      assertProblem(yield* service.call("GET", path, { key: old.key }), 401, "unauthenticated")
      assert.strictEqual((yield* service.call("GET", path, { key: rotated.body.key })).status, 200)
      assert.strictEqual((yield* get(old.id)).status, "revoked")
    })
  )

  it.effect("201: rotate keeps no key alive longer than it had", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const soon = DateTime.formatIso(DateTime.add(yield* DateTime.now, { hours: 1 }))
      const old = yield* makeKey(service, [], { expiresAt: soon })
      const rotated = yield* service.call("POST", `${path}/${old.id}/rotate`, { body: { graceSeconds: 604_800 } })
      assert.strictEqual(rotated.body.expiresAt, soon)
      assert.strictEqual((yield* get(old.id)).expiresAt, soon)
    })
  )

  it.effect("201: a caller may rotate its own key", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const old = yield* makeKey(service, manager)
      const answer = yield* service.call("POST", `${path}/${old.id}/rotate`, {
        key: old.key,
        body: { graceSeconds: 0 }
      })
      assert.strictEqual(answer.status, 201)
      assert.strictEqual((yield* service.call("GET", path, { key: answer.body.key })).status, 200)
    })
  )

  it.effect("409: of many rotations without grace at the same time one is served", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* makeKey(service, [])
      const rotation = service.call("POST", `${path}/${id}/rotate`, { body: { graceSeconds: 0 } })
      const answers = yield* Effect.all(
        Array.from({ length: 6 }, () => rotation),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(answers.map((answer) => answer.status).toSorted(), [201, 409, 409, 409, 409, 409])
    })
  )

  for (const graceSeconds of [-1, 0.5, 604_801, "0", null]) {
    const rotate = ({ id }: { readonly id: string }): Sent => [
      "POST",
      `${path}/${id}/rotate`,
      { body: { graceSeconds } }
    ]
    refuses(it, [[`rotate with a grace of ${JSON.stringify(graceSeconds)}`, rotate, faults("payload.graceSeconds")]], {
      given,
      unchanged
    })
  }

  const ended = {
    revoked: Effect.gen(function* () {
      const service = yield* TestService
      const key = yield* makeKey(service, [])
      yield* service.call("DELETE", `${path}/${key.id}`)
      return key
    }),
    expired: Effect.flatMap(TestService, (service) => makeExpiredKey(service, []))
  }
  const inactive = problem(409, "api-key-inactive")
  for (const [status, make] of Object.entries(ended)) {
    refuses(
      it,
      [
        [`update of a key that is ${status}`, updating({ name: "x", expiresAt: null }), inactive],
        [`rotate of a key that is ${status}`, ({ id }) => ["POST", `${path}/${id}/rotate`, { body: {} }], inactive]
      ],
      {
        given: Effect.gen(function* () {
          const key = yield* make
          assert.strictEqual((yield* get(key.id)).status, status)
          return key
        }),
        unchanged
      }
    )
  }

  it.effect("409: a key that was rotated keeps the end it got: neither update nor rotate moves it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const old = yield* makeKey(service, manager)
      yield* service.call("POST", `${path}/${old.id}/rotate`, { key: old.key, body: {} })
      const { expiresAt } = yield* get(old.id)
      for (const key of [old.key, service.serviceKey]) {
        const later = yield* service.call("PATCH", `${path}/${old.id}`, { key, body: { expiresAt: null } })
        assertProblem(later, 409, "api-key-rotated")
        const again = yield* service.call("POST", `${path}/${old.id}/rotate`, { key, body: {} })
        assertProblem(again, 409, "api-key-rotated")
      }
      assert.strictEqual((yield* get(old.id)).expiresAt, expiresAt)
      assert.strictEqual((yield* service.call("DELETE", `${path}/${old.id}`)).status, 204)
    })
  )

  it.effect("403: no key puts off its own expiry; it may bring it forward, and another caller may put it off", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id, key } = yield* makeKey(service, manager, { expiresAt: "2098-01-01T00:00:00.000Z" })
      for (const expiresAt of [null, "2099-01-01T00:00:00.000Z"]) {
        assertProblem(yield* service.call("PATCH", `${path}/${id}`, { key, body: { expiresAt } }), 403, "forbidden")
      }
      const sooner = yield* service.call("PATCH", `${path}/${id}`, {
        key,
        body: { expiresAt: "2097-01-01T00:00:00.000Z" }
      })
      assert.strictEqual(sooner.status, 200, sooner.text)
      assert.strictEqual((yield* service.call("PATCH", `${path}/${id}`, { body: { expiresAt: null } })).status, 200)
    })
  )

  it.effect("204: revoke ends the key before it answers, leaves the row, and again changes nothing", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id, key } = yield* makeKey(service, ["api-keys:read"])
      assert.strictEqual((yield* service.call("GET", path, { key })).status, 200)
      for (let count = 0; count < 3; count++) {
        const revoked = yield* service.call("DELETE", `${path}/${id}`)
        assert.strictEqual(revoked.status, 204)
        assert.strictEqual(revoked.text, "")
        assertProblem(yield* service.call("GET", path, { key }), 401, "unauthenticated")
      }
      assert.strictEqual((yield* get(id)).status, "revoked")
      assert.deepStrictEqual(yield* keyAudit(id), ["ApiKeyRevoked", "ApiKeyCreated"])
    })
  )

  it.effect("204: revoke of an expired key", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* makeExpiredKey(service, [])
      assert.strictEqual((yield* service.call("DELETE", `${path}/${id}`)).status, 204)
      assert.strictEqual((yield* get(id)).status, "revoked")
    })
  )

  it.effect("each key is revoked on its own", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [one, other] = [yield* makeKey(service, ["api-keys:read"]), yield* makeKey(service, ["api-keys:read"])]
      yield* service.call("DELETE", `${path}/${one.id}`)
      assert.strictEqual((yield* service.call("GET", path, { key: other.key })).status, 200)
    })
  )

  it.effect("what a key did is recorded under its name and its tenant", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { id, key } = yield* makeKey(service, manager, { tenantId })
      const made = yield* makeKey(service, ["sessions:read"], { by: key })
      const listed = yield* service.call("GET", `/api/audit-logs?entityId=${made.id}`)
      assert.deepInclude(listed.body.items[0], { userId: `api-key:${id}`, actorType: "api-key", tenantId })
    })
  )
})
