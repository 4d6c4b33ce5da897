import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { registration } from "../../support/agents.ts"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { assertNoDrift } from "../../support/plans.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { faults, refuses, type Scenario, make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { walkCursors } from "../../support/walk.ts"

const path = "/api/budgets/caps"
const unknownId = "0198a5b0-7c00-7000-8000-00000000002a"
const least = { name: "a cap", unit: "usd", limit: 1, period: "month" }

const half = { measure: "spent", percent: 50 }

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(path, (it) => {
  refusesStrangers(it, [
    { name: "list", method: "GET", path, capability: "budgets:read", systemOnly: false },
    { name: "create", method: "POST", path, body: least, capability: "budgets:write", systemOnly: false },
    { name: "status", method: "GET", path: "/api/budgets/caps-status", capability: "budgets:read", systemOnly: false }
  ])

  const setting = Effect.gen(function* () {
    const service = yield* TestService
    const tenantId = yield* makeTenant(service.database)
    const { key } = yield* makeKey(service, ["*:*"], { tenantId })
    const call = (method: string, at: string, body?: unknown, headers: Record<string, string> = {}) =>
      service.call(method, at, { key, headers, ...(body === undefined ? {} : { body }) })
    const makeCap = (members: object = {}) => make(service, path, { ...least, ...members }, key)
    const reserve = (amountUsd: number, members: object = {}) =>
      call("POST", "/api/spend/reserve", { amountUsd, ...members })
    const utilization = (id: string) =>
      Effect.map(call("GET", `/api/budgets/caps-status?capId=${id}`), ({ body }) => body.items[0])
    return { service, tenantId, key, call, makeCap, reserve, utilization }
  })
  type Setting = Effect.Success<typeof setting>

  it.effect(
    "201: what is not said is the whole tenant, hard, in UTC, from the natural anchor, without thresholds",
    () =>
      Effect.gen(function* () {
        const { call, tenantId } = yield* setting
        const made = yield* call("POST", path, least)
        assert.strictEqual(made.status, 201, made.text)
        const { createdAt, id, updatedAt, ...cap } = made.body
        assert.deepStrictEqual(cap, {
          ...least,
          tenantId,
          scope: {},
          windowSeconds: null,
          timeZone: "UTC",
          anchor: 1,
          mode: "hard",
          alertThresholds: [],
          status: "active",
          version: 1
        })
        assert.strictEqual(createdAt, updatedAt)
        assert.strictEqual(made.headers.get("location"), `${path}/${id}`)
        assert.strictEqual(made.headers.get("etag"), '"1"')
        const got = yield* call("GET", `${path}/${id}`)
        assert.deepStrictEqual([got.body, got.headers.get("etag")], [made.body, '"1"'])
        assert.isNull((yield* call("POST", path, { ...least, period: "day" })).body.anchor)
      })
  )

  const faulty = (members: object, ...at: ReadonlyArray<string>): Scenario<Setting> => [
    JSON.stringify(members),
    ({ key }) => ["POST", path, { key, body: { ...least, ...members } }],
    faults(...at.map((member) => `payload.${member}`))
  ]
  refuses(
    it,
    [
      faulty({ limit: -1 }, "limit"),
      faulty({ limit: 0.0000000001 }, "limit"),
      faulty({ limit: 8_388_608 }, "limit"),
      faulty({ unit: "tokens", limit: 1.5 }, "limit"),
      faulty({ unit: "requests", limit: 9_007_199_254_740_992 }, "limit"),
      faulty({ unit: "euro" }, "unit"),
      faulty({ period: "fortnight" }, "period"),
      faulty({ period: "rolling" }, "windowSeconds"),
      faulty({ windowSeconds: 60 }, "windowSeconds"),
      faulty({ period: "rolling", windowSeconds: 0 }, "windowSeconds"),
      faulty({ timeZone: "Mars/Olympus" }, "timeZone"),
      faulty({ timeZone: "+02:00" }, "timeZone"),
      faulty({ anchor: 32 }, "anchor"),
      faulty({ period: "week", anchor: 8 }, "anchor"),
      faulty({ period: "day", anchor: 1 }, "anchor"),
      faulty({ mode: "gentle" }, "mode"),
      faulty({ scope: { colour: "red" } }, "scope.colour"),
      faulty({ scope: { agentId: "no id" } }, "scope.agentId"),
      faulty({ name: "" }, "name"),
      faulty({ alertThresholds: [{ measure: "hope", percent: 50 }] }, "alertThresholds.0.measure"),
      faulty({ alertThresholds: [{ measure: "spent", percent: 0 }] }, "alertThresholds.0.percent"),
      faulty({ alertThresholds: [half, half] }, "alertThresholds"),
      faulty({ version: 7 }, "version"),
      faulty({ unit: "tokens", limit: 0.5, period: "rolling", anchor: 3 }, "limit", "windowSeconds", "anchor")
    ],
    { given: setting, unchanged: ({ call }) => Effect.map(call("GET", path), ({ body }) => body) }
  )

  it.effect("tenants are named by system callers: a tenant's own get 403, and one that is none is 404", () =>
    Effect.gen(function* () {
      const { call, service, tenantId } = yield* setting
      assertProblem(yield* call("POST", path, { ...least, tenantId }), 403, "forbidden")
      assertProblem(yield* call("POST", path, { ...least, tenantId: null }), 403, "forbidden")
      for (const nobodys of [unknownId, "00000000-0000-0000-0000-000000000000"]) {
        const nobody = yield* service.call("POST", path, { body: { ...least, tenantId: nobodys } })
        assertProblem(nobody, 404, "tenant-not-found")
      }
      const body = { ...least, limit: 1_000_000 }
      assert.strictEqual((yield* service.call("POST", path, { body: { ...body, tenantId } })).body.tenantId, tenantId)
      const ofAll = (yield* service.call("POST", path, { body: { ...body, tenantId: null, mode: "soft" } })).body
      assert.isNull(ofAll.tenantId)
      assert.strictEqual((yield* service.call("DELETE", `${path}/${ofAll.id}`)).status, 204)
    })
  )

  it.effect("404: a scope of an agent, a key or an application that the tenant does not have", () =>
    Effect.gen(function* () {
      const { call, service, tenantId } = yield* setting
      const stranger = yield* setting
      const agentOf = (key: string) =>
        Effect.map(make(service, "/api/agents", registration(), key), ({ id }) => id as string)
      const keyOf = (tenant: string) => Effect.map(makeKey(service, ["spend:*"], { tenantId: tenant }), ({ id }) => id)
      const own = { agentId: yield* agentOf(stranger.key), apiKeyId: yield* keyOf(stranger.tenantId) }
      for (const [scope, slug] of [
        [{ agentId: unknownId }, "agent-not-found"],
        [{ agentId: own.agentId }, "agent-not-found"],
        [{ apiKeyId: unknownId }, "api-key-not-found"],
        [{ apiKeyId: own.apiKeyId }, "api-key-not-found"],
        [{ applicationId: 2_000_000_000 }, "application-not-found"]
      ] as const) {
        assertProblem(yield* call("POST", path, { ...least, scope }), 404, slug)
      }
      const global = { ...least, tenantId: null, mode: "soft", scope: { agentId: own.agentId } }
      assert.strictEqual((yield* service.call("POST", path, { body: global })).status, 201)
      assertProblem(
        yield* service.call("POST", path, { body: { ...global, scope: { agentId: unknownId } } }),
        404,
        "agent-not-found"
      )
      const made = yield* stranger.call("POST", path, { ...least, scope: { ...own, applicationId: "each" } })
      assert.strictEqual(made.status, 201, made.text)
      const misplaced = { ...least, tenantId, scope: own }
      assertProblem(yield* service.call("POST", path, { body: misplaced }), 404, "agent-not-found")
    })
  )

  it.effect("another tenant's cap is none: 404", () =>
    Effect.gen(function* () {
      const { makeCap } = yield* setting
      const stranger = yield* setting
      const { id } = yield* makeCap()
      for (const [method, at, body] of [
        ["GET", `${path}/${id}`, undefined],
        ["PUT", `${path}/${id}`, { name: "mine", limit: 0 }],
        ["DELETE", `${path}/${id}`, undefined],
        ["GET", `${path}/${id}/grants`, undefined],
        ["POST", `${path}/${id}/grants`, { amount: 1, reason: "mine" }],
        ["GET", `${path}/${id}/grants/${unknownId}`, undefined],
        ["DELETE", `${path}/${id}/grants/${unknownId}`, undefined]
      ] as const) {
        assertProblem(yield* stranger.call(method, at, body), 404, "cap-not-found")
      }
      assert.deepStrictEqual((yield* stranger.call("GET", path)).body.items, [])
      assert.deepStrictEqual((yield* stranger.call("GET", `/api/budgets/caps-status?capId=${id}`)).body.items, [])
    })
  )

  it.effect("lists a tenant's caps page by page", () =>
    Effect.gen(function* () {
      const { key, makeCap, service, tenantId } = yield* setting
      const stranger = yield* setting
      const ids: Array<string> = []
      for (let made = 0; made < 5; made++) ids.push((yield* makeCap()).id)
      yield* stranger.makeCap()
      assert.deepStrictEqual((yield* walkCursors(service, `${path}?limit=2`, { call: { key } })).flat(), ids)
      const ofTenant = yield* walkCursors(service, `${path}?limit=2&tenantId=${tenantId}`)
      assert.deepStrictEqual(ofTenant.flat(), ids)
      const others = yield* service.call("GET", `${path}?tenantId=${tenantId}`, { key: stranger.key })
      assert.deepStrictEqual(others.body.items, [])
    })
  )

  it.effect("finds caps by the agent that they name, and by a part of their names and scopes", () =>
    Effect.gen(function* () {
      const { call, makeCap } = yield* setting
      const agent = yield* call("POST", "/api/agents", { name: "Crawler" })
      assert.strictEqual(agent.status, 201, agent.text)
      const own = yield* makeCap({ name: "Crawler's month", scope: { agentId: agent.body.id } })
      const each = yield* makeCap({ name: "Each agent", scope: { agentId: "each" } })
      const small = yield* makeCap({ name: "One model", scope: { model: "small-model" } })
      const found = (query: string) =>
        Effect.map(call("GET", `${path}?${query}`), ({ body }) =>
          body.items.map(({ id }: { readonly id: string }) => id)
        )
      assert.deepStrictEqual(yield* found(`agentId=${agent.body.id}`), [own.id])
      assert.deepStrictEqual(yield* found("search=CRAWLER"), [own.id])
      assert.deepStrictEqual(yield* found("search=small-model"), [small.id])
      assert.deepStrictEqual(yield* found("sort=-createdAt"), [small.id, each.id, own.id])
      assert.deepStrictEqual(yield* found("sort=-name&search=e"), [small.id, each.id, own.id])
    })
  )

  it.effect("changes name, limit, mode, thresholds and status; what is absent of the last three stays", () =>
    Effect.gen(function* () {
      const { call, makeCap } = yield* setting
      const alertThresholds = [{ measure: "spent", percent: 80 }]
      const cap = yield* makeCap({ mode: "soft", alertThresholds })
      const renamed = yield* call("PUT", `${path}/${cap.id}`, { name: "another", limit: 2 })
      assert.deepInclude(renamed.body, { name: "another", limit: 2, mode: "soft", alertThresholds, version: 2 })
      assert.strictEqual(renamed.headers.get("etag"), '"2"')
      const all = { name: "third", limit: 3, mode: "approval", alertThresholds: [], status: "paused" }
      assert.deepInclude((yield* call("PUT", `${path}/${cap.id}`, all)).body, { ...all, version: 3 })
      // What was read may be written back: what the server sets is passed over, and nothing has changed.
      const read = (yield* call("GET", `${path}/${cap.id}`)).body
      const same = yield* call("PUT", `${path}/${cap.id}`, read)
      assert.deepStrictEqual([same.status, same.body], [200, read])
    })
  )

  it.effect("409: unit, scope, period, time zone and anchor stay as they were made", () =>
    Effect.gen(function* () {
      const { call, makeCap } = yield* setting
      const { id } = yield* makeCap({ scope: { model: "small" } })
      for (const [members, names] of [
        [{ unit: "tokens" }, ["unit"]],
        [{ scope: {} }, ["scope"]],
        [{ period: "year", anchor: 2 }, ["period", "anchor"]],
        [{ timeZone: "Europe/Berlin" }, ["timeZone"]],
        [{ windowSeconds: 60 }, ["windowSeconds"]]
      ] as const) {
        const refused = yield* call("PUT", `${path}/${id}`, { name: "a cap", limit: 1, ...members })
        assertProblem(refused, 409, "cap-immutable")
        assert.deepStrictEqual(refused.body.members, names)
      }
      const same = { scope: { model: "small" }, unit: "usd", period: "month", timeZone: "UTC", anchor: 1 }
      assert.strictEqual((yield* call("PUT", `${path}/${id}`, { name: "b", limit: 1, ...same })).status, 200)
      assert.deepStrictEqual(faultPaths(yield* call("PUT", `${path}/${id}`, { name: "b", limit: -1 })), [
        "payload.limit"
      ])
    })
  )

  it.effect("412: a change of another version; of many that name one, one is made", () =>
    Effect.gen(function* () {
      const { call, makeCap, service } = yield* setting
      const { id } = yield* makeCap()
      const put = (limit: number, version: string) =>
        call("PUT", `${path}/${id}`, { name: "a cap", limit }, { "if-match": version })
      assertProblem(yield* put(2, '"7"'), 412, "version-mismatch")
      const answers = yield* Effect.all(
        Array.from({ length: 8 }, (_, index) => put(index + 2, '"1"')),
        { concurrency: "unbounded" }
      )
      assert.sameMembers(
        answers.map(({ status }) => status),
        [200, ...Array.from({ length: 7 }, () => 412)]
      )
      assert.strictEqual((yield* put(100, "*")).body.version, 3)
      const replica = yield* service.replica
      assert.strictEqual((yield* replica.call("GET", `${path}/${id}`)).body.limit, 100)
    }).pipe(Effect.scoped)
  )

  it.effect("a change is everybody's at once, on any replica, and resets no usage", () =>
    Effect.gen(function* () {
      const { call, key, makeCap, reserve, service, utilization } = yield* setting
      const replica = yield* service.replica
      const elsewhere = replica.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 0.5 } })
      const { id } = yield* makeCap()
      assert.strictEqual((yield* elsewhere).status, 201)
      assert.strictEqual((yield* reserve(0.5)).status, 201)
      yield* call("PUT", `${path}/${id}`, { name: "less", limit: 0.25 })
      assertProblem(yield* elsewhere, 402, "budget-denied")
      assert.deepInclude(yield* utilization(id), { limit: 0.25, reserved: 1, headroom: 0 })
      yield* call("PUT", `${path}/${id}`, { name: "more", limit: 1.5 })
      assert.strictEqual((yield* elsewhere).status, 201)
      assertProblem(yield* reserve(0.1), 402, "budget-denied")
    }).pipe(Effect.scoped)
  )

  it.effect("204: one that is deleted governs nothing; what it counted stays and is settled", () =>
    Effect.gen(function* () {
      const { call, makeCap, reserve, service } = yield* setting
      const { id } = yield* makeCap()
      const { body } = yield* reserve(0.75)
      assertProblem(yield* reserve(0.5), 402, "budget-denied")
      assert.strictEqual((yield* call("DELETE", `${path}/${id}`)).status, 204)
      assertProblem(yield* call("DELETE", `${path}/${id}`), 404, "cap-not-found")
      assertProblem(yield* call("GET", `${path}/${id}`), 404, "cap-not-found")
      assert.strictEqual((yield* reserve(5)).status, 201)
      yield* call("POST", "/api/spend/reconcile", { reservationId: body.id, actualUsd: 0.5 })
      const [counter] = yield* asSuperuser(
        service.database,
        (sql) => sql`SELECT spent::text, reserved::text FROM budget_counters WHERE cap_id = ${id}`
      )
      assert.deepStrictEqual(counter, { spent: "500000000", reserved: "0" })
      yield* assertNoDrift(service.database)
    })
  )

  it.effect("how a cap stands: ok, a warning, exhausted, over", () =>
    Effect.gen(function* () {
      const { call, makeCap, reserve, utilization } = yield* setting
      const { id } = yield* makeCap({ period: "total" })
      const spend = Effect.fnUntraced(function* (reserved: number, actualUsd = reserved) {
        const { body } = yield* reserve(reserved)
        yield* call("POST", "/api/spend/reconcile", { reservationId: body.id, actualUsd })
        const { percentUsed, state } = yield* utilization(id)
        return [percentUsed, state]
      })
      assert.deepInclude(yield* utilization(id), { percentUsed: 0, state: "ok", headroom: 1, periodEnd: null, held: 0 })
      assert.deepStrictEqual(yield* spend(0.75), [75, "ok"])
      assert.deepStrictEqual(yield* spend(0.05), [80, "warning"])
      yield* call("PUT", `${path}/${id}`, { name: "b", limit: 1, alertThresholds: [{ measure: "spent", percent: 90 }] })
      assert.strictEqual((yield* utilization(id)).state, "ok")
      assert.deepStrictEqual(yield* spend(0.1), [90, "warning"])
      const { body } = yield* reserve(0.1)
      assert.deepInclude(yield* utilization(id), { state: "exhausted", headroom: 0, percentUsed: 90 })
      yield* call("POST", "/api/spend/reconcile", { reservationId: body.id, actualUsd: 0.6 })
      assert.deepInclude(yield* utilization(id), { state: "over", headroom: 0, percentUsed: 150 })
    })
  )

  it.effect("grants raise a cap for a while: bounded, attributed, ended by hand or by time", () =>
    Effect.gen(function* () {
      const { call, makeCap, reserve, service, utilization } = yield* setting
      const { id } = yield* makeCap({ period: "total" })
      const grants = `${path}/${id}/grants`
      for (const [members, at] of [
        [{ amount: 0 }, "payload.amount"],
        [{ amount: -1 }, "payload.amount"],
        [{ amount: 8_388_608 }, "payload.amount"],
        [{ reason: "" }, "payload.reason"],
        [{ expiresAt: "2020-01-01T00:00:00Z" }, "payload.expiresAt"]
      ] as const) {
        const refused = yield* call("POST", grants, { amount: 1, reason: "month end", ...members })
        assert.deepStrictEqual(faultPaths(refused), [at])
      }
      const expiresAt = "2999-01-01T00:00:00.000Z"
      const made = yield* call("POST", grants, { amount: 0.5, reason: "month end", expiresAt })
      assert.strictEqual(made.headers.get("location"), `${grants}/${made.body.id}`)
      assert.deepStrictEqual((yield* call("GET", `${grants}/${made.body.id}`)).body, made.body)
      assertProblem(yield* call("GET", `${grants}/${unknownId}`), 404, "grant-not-found")
      assert.deepInclude(made.body, { capId: id, amount: 0.5, reason: "month end", expiresAt, endedAt: null })
      assert.match(made.body.createdBy, /^api-key:/)
      const lasting = yield* make(service, grants, { amount: 0.25, reason: "for good" }, service.serviceKey)
      assert.deepInclude(yield* utilization(id), { limit: 1, grants: 0.75, headroom: 1.75 })
      assert.strictEqual((yield* reserve(1.75)).status, 201)

      yield* asSuperuser(
        service.database,
        (sql) => sql`UPDATE budget_grants SET expires_at = now() - interval '1 second' WHERE id = ${made.body.id}`
      )
      assert.deepInclude(yield* utilization(id), { grants: 0.25, headroom: 0, reserved: 1.75 })
      for (let again = 0; again < 2; again++) {
        assert.strictEqual((yield* call("DELETE", `${grants}/${lasting.id}`)).status, 204)
      }
      assert.deepInclude(yield* utilization(id), { grants: 0 })
      assertProblem(yield* call("DELETE", `${grants}/${unknownId}`), 404, "grant-not-found")
      const listed = yield* call("GET", grants)
      assert.deepStrictEqual(
        listed.body.items.map((grant: { readonly id: string; readonly endedAt: string | null }) => [
          grant.id,
          grant.endedAt !== null
        ]),
        [
          [made.body.id, false],
          [lasting.id, true]
        ]
      )
      const { id: requests } = yield* makeCap({ unit: "requests", limit: 1, mode: "soft" })
      const half = yield* call("POST", `${path}/${requests}/grants`, { amount: 0.5, reason: "half" })
      assert.deepStrictEqual(faultPaths(half), ["payload.amount"])
    })
  )
})
