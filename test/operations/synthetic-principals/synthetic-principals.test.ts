import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as jose from "jose"
import { makeAgent, tokenOf } from "../../support/agents.ts"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { foldAll } from "../../support/insights.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { type Answer, serviceLayer, sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

const path = "/api/synthetic-principals"
const hours = (count: number) => new Date(Date.now() + count * 3_600_000).toISOString()

const setting = Effect.gen(function* () {
  const service = yield* TestService
  const tenantId = yield* makeTenant(service.database)
  const { key } = yield* makeKey(service, ["*:*"], { tenantId })
  const call = (method: string, at: string, body?: unknown) =>
    service.call(method, at, body === undefined ? { key } : { key, body })
  return { service, tenantId, key, call }
})

interface Made {
  readonly id: string
  readonly key: string
  readonly start: string
}

const make = Effect.fnUntraced(function* (service: Service, key: string, members: object = {}) {
  const body = { kind: "test", name: "a test", scopes: ["*:*"], expiresAt: hours(1), ...members }
  const answer = yield* service.call("POST", path, { key, body })
  assert.strictEqual(answer.status, 201, answer.text)
  assert.strictEqual(answer.headers.get("location"), `${path}/${answer.body.id}`)
  return answer.body as Made
})

const makeCanary = (service: Service, key: string) =>
  make(service, key, { kind: "canary", name: "in the wiki", scopes: ["trial-users:read"], expiresAt: null })

/** An API key of the right form that nobody has. */
const unknownKey = Effect.fnUntraced(function* (service: Service) {
  const { id, key } = yield* makeKey(service, [])
  yield* asSuperuser(service.database, (sql) => sql`DELETE FROM api_keys WHERE id = ${id}`)
  return key
})

/** Charges a cent, as a caller of /api/spend does. */
const spend = Effect.fnUntraced(function* (service: Service, key: string, members: object = {}) {
  const reserved = yield* service.call("POST", "/api/spend/reserve", {
    key,
    body: { amountUsd: 1, model: "gpt-5", provider: "openai", ...members }
  })
  assert.strictEqual(reserved.status, 201, reserved.text)
  const settled = yield* service.call("POST", "/api/spend/reconcile", {
    key,
    body: { reservationId: reserved.body.id, actualUsd: 0.01 }
  })
  assert.strictEqual(settled.status, 200, settled.text)
})

/** The sum of a report's items, and that of the points of their series. */
const costs = (body: {
  readonly items: ReadonlyArray<{
    readonly costUsd: number
    readonly series: ReadonlyArray<{ readonly costUsd: number }>
  }>
}) =>
  [body.items, body.items.flatMap(({ series }) => series)].map((parts) =>
    parts.reduce((sum, { costUsd }) => sum + costUsd, 0).toFixed(4)
  )

const basic = (user: string, password: string) => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`
})
const form = { "content-type": "application/x-www-form-urlencoded" }

/** Everywhere that somebody may try an API key, and the answer that a request with one gets. */
const doors: Readonly<Record<string, (service: Service, key: string) => Effect.Effect<Answer>>> = {
  "X-Api-Key": (service, key) => service.call("GET", "/api/agents", { key }),
  "a bearer token": (service, key) =>
    service.call("GET", "/api/agents", { key: null, headers: { authorization: `Bearer ${key}` } }),
  "Basic of the API": (service, key) => service.call("GET", "/api/agents", { key: null, headers: basic("me", key) }),
  "the caller itself": (service, key) => service.call("GET", "/api/auth/me", { key }),
  "chat completions": (service, key) =>
    service.call("POST", "/v1/chat/completions", { key: null, headers: { authorization: `Bearer ${key}` }, body: {} }),
  messages: (service, key) => service.call("POST", "/v1/messages", { key, body: {} }),
  responses: (service, key) =>
    service.call("POST", "/v1/responses", { key: null, headers: { authorization: `Bearer ${key}` }, body: {} }),
  models: (service, key) => service.call("GET", "/v1/models", { key }),
  "Basic of the gateway": (service, key) => service.call("GET", "/v1/models", { key: null, headers: basic(key, "") }),
  "native calls": (service, key) => service.call("POST", "/api/llm/complete", { key, body: {} }),
  introspection: (service, key) => service.call("POST", "/oauth2/introspect", { key, headers: form, body: "token=x" }),
  revocation: (service, key) => service.call("POST", "/oauth2/revoke", { key, headers: form, body: "token=x" }),
  "Basic of introspection": (service, key) =>
    service.call("POST", "/oauth2/introspect", {
      key: null,
      headers: { ...form, ...basic("a", key) },
      body: "token=x"
    }),
  "Basic of tokens": (service, key) =>
    service.call("POST", "/oauth2/token", {
      key: null,
      headers: { ...form, ...basic(key, "x") },
      body: "grant_type=client_credentials"
    }),
  "a client secret": (service, key) =>
    service.call("POST", "/oauth2/token", {
      key: null,
      headers: form,
      body: `grant_type=client_credentials&client_secret=${key}`
    }),
  "token exchange": (service, key) =>
    service.call("POST", "/oauth2/token", {
      key: null,
      headers: { ...form, ...basic("", key) },
      body: "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=x"
    }),
  events: (service, key) => service.call("GET", "/api/cloudevents/stream", { key })
}

/** An answer without what differs between any two. */
const comparable = ({ headers, status, text }: Answer) => ({
  status,
  text: text.replaceAll(/(?<="(?:traceId|request_id)":")[^"]+/g, "id"),
  headers: [...headers].filter(([name]) => !/^(?:date|x-request-id|request-id)$/.test(name))
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(path, (it) => {
  refusesStrangers(it, [
    { name: "list", method: "GET", path, capability: "synthetic-principals:read", systemOnly: false },
    {
      name: "create",
      method: "POST",
      path,
      capability: "synthetic-principals:write",
      systemOnly: false,
      body: { kind: "canary", name: "x", scopes: [] }
    }
  ])

  it.effect("201: its key is a caller that says what it is, in the audit log, too", () =>
    Effect.gen(function* () {
      const { call, key, service, tenantId } = yield* setting
      const labels = { suite: "checkout" }
      const made = yield* make(service, key, { kind: "monitor", name: "probe", expiresAt: hours(700), labels })
      assert.match(made.key, /^amk_/)
      const { body } = yield* call("GET", `${path}/${made.id}`)
      assert.deepInclude(body, {
        kind: "monitor",
        name: "probe",
        tenantId,
        labels,
        status: "active",
        synthetic: true,
        start: made.key.slice(0, 16)
      })
      assert.notProperty(body, "key")
      const me = yield* service.call("GET", "/api/auth/me", { key: made.key })
      assert.deepInclude(me.body, { principal: `synthetic:${made.id}`, kind: "synthetic", synthetic: true })
      assert.deepInclude((yield* call("GET", "/api/auth/me")).body, { kind: "api-key", synthetic: false })
      const cap = yield* service.call("POST", "/api/budgets/caps", {
        key: made.key,
        body: { name: "its cap", unit: "usd", limit: 5, period: "month" }
      })
      assert.strictEqual(cap.status, 201, cap.text)
      const { body: log } = yield* call("GET", `/api/audit-logs?entityId=${cap.body.id}`)
      assert.deepInclude(log.items[0], { userId: `synthetic:${made.id}`, actorType: "synthetic" })
      const { body: events } = yield* eventually(call("GET", "/api/cloudevents?limit=200"), ({ body }) =>
        body.items.some(({ subject }: { subject?: string }) => subject === `budget-cap/${cap.body.id}`)
      )
      const event = events.items.find(({ subject }: { subject?: string }) => subject === `budget-cap/${cap.body.id}`)
      assert.strictEqual(event.data.synthetic, true)
      assert.deepInclude((yield* call("GET", `/api/api-keys/${made.id}`)).body, { synthetic: true })
      for (const [method, at, change] of [
        ["PATCH", "", { expiresAt: null }],
        ["POST", "/rotate", {}],
        ["DELETE", "", undefined]
      ] as const) {
        assertProblem(yield* call(method, `/api/api-keys/${made.id}${at}`, change), 409, "api-key-synthetic")
      }
    })
  )

  it.effect("400: a monitor lives for 30 days at most, a test for a day, and only a canary for ever", () =>
    Effect.gen(function* () {
      const { call, key, service } = yield* setting
      const body = { name: "x", scopes: [] }
      for (const wrong of [
        { kind: "monitor" },
        { kind: "monitor", expiresAt: null },
        { kind: "monitor", expiresAt: hours(721) },
        { kind: "test" },
        { kind: "test", expiresAt: hours(25) }
      ]) {
        const answer = yield* call("POST", path, { ...body, ...wrong })
        assertProblem(answer, 400, "validation-failed")
        assert.deepStrictEqual(faultPaths(answer), ["payload.expiresAt"])
      }
      assertProblem(
        yield* call("POST", path, { ...body, kind: "test", expiresAt: hours(-1) }),
        400,
        "expires-in-the-past"
      )
      const { id } = yield* make(service, key)
      for (const expiresAt of [null, hours(25)]) {
        assertProblem(yield* call("PATCH", `${path}/${id}`, { expiresAt }), 400, "validation-failed")
      }
      const kept = yield* call("PATCH", `${path}/${id}`, { kind: "canary", synthetic: false, name: "renamed" })
      assert.deepInclude(kept.body, { kind: "test", synthetic: true, name: "renamed" })
      yield* makeCanary(service, key)
    })
  )

  it.effect("404: it is its tenant's alone, and never the installation's", () =>
    Effect.gen(function* () {
      const one = yield* setting
      const other = yield* setting
      const { id } = yield* make(one.service, one.key)
      assert.isEmpty((yield* other.call("GET", path)).body.items)
      for (const [method, at, body] of [
        ["GET", "", undefined],
        ["PATCH", "", { name: "mine" }],
        ["POST", "/reset", {}],
        ["DELETE", "", undefined]
      ] as const) {
        assertProblem(yield* other.call(method, `${path}/${id}${at}`, body), 404, "synthetic-principal-not-found")
      }
      assert.strictEqual((yield* one.call("GET", `${path}/${id}`)).status, 200)
      const body = { kind: "canary", name: "x", scopes: [], tenantId: null }
      assertProblem(yield* one.service.call("POST", path, { body }), 400, "validation-failed")
      const system = yield* one.service.call("POST", path, { body: { ...body, tenantId: one.tenantId } })
      assert.strictEqual(system.body.tenantId, one.tenantId)
    })
  )

  it.effect("401: it ends when its time is over", () =>
    Effect.gen(function* () {
      const { call, key, service } = yield* setting
      const made = yield* make(service, key)
      assert.strictEqual((yield* service.call("GET", "/api/agents", { key: made.key })).status, 200)
      const { body } = yield* call("PATCH", `${path}/${made.id}`, { expiresAt: hours(-1) })
      assert.strictEqual(body.status, "expired")
      assertProblem(yield* service.call("GET", "/api/agents", { key: made.key }), 401, "unauthenticated")
    })
  )

  it.effect("what its agents do is synthetic, and it acts through no others", () =>
    Effect.gen(function* () {
      const { call, key, service, tenantId } = yield* setting
      const made = yield* make(service, key)
      const asIt = (method: string, at: string, body?: unknown) =>
        service.call(method, at, body === undefined ? { key: made.key } : { key: made.key, body })
      const real = yield* makeAgent(service, { tenantId })
      const ceiling = { scopeCeiling: ["spend:write", "llm:complete", "agents:read"] }
      const agent = yield* asIt("POST", "/api/agents", { name: "its agent", ...ceiling })
      assert.strictEqual(agent.status, 201, agent.text)
      assert.strictEqual(agent.body.synthetic, true)
      const issued = yield* call("POST", `/api/agents/${agent.body.id}/credentials`, {})
      assert.strictEqual(issued.status, 201, issued.text)
      const token: string = issued.body.accessToken
      assert.strictEqual(jose.decodeJwt(token).synthetic, true)
      const introspected = yield* call("POST", "/api/agents/introspect", { token })
      assert.deepInclude(introspected.body, { active: true, synthetic: true })
      const headers = { authorization: `Bearer ${token}` }
      const me = yield* service.call("GET", "/api/auth/me", { key: null, headers })
      assert.deepInclude(me.body, { kind: "agent", synthetic: true })
      const ofReal = yield* tokenOf(service, real)
      assert.notProperty(jose.decodeJwt(ofReal.accessToken), "synthetic")
      for (const [at, body] of [
        [`/api/agents/${real.id}/credentials`, {}],
        [
          `/api/agents/${real.id}/delegations`,
          { subject: agent.body.id, subjectType: "agent", scopes: ["agents:read"], expiresAt: hours(0.5) }
        ]
      ] as const) {
        assertProblem(yield* asIt("POST", at, body), 403, "forbidden")
      }
      assertProblem(yield* asIt("DELETE", `/api/agents/${real.id}`), 403, "forbidden")
      assertProblem(
        yield* asIt("POST", "/api/api-keys", { name: "real", scopes: [], expiresAt: hours(0.5) }),
        403,
        "forbidden"
      )
      assertProblem(
        yield* asIt("POST", path, { kind: "test", name: "another", scopes: [], expiresAt: hours(0.5) }),
        403,
        "forbidden"
      )
      const delegated = yield* call("POST", `/api/agents/${real.id}/delegations`, {
        subject: agent.body.id,
        subjectType: "agent",
        scopes: ["agents:read"]
      })
      assertProblem(delegated, 400, "delegation-invalid")
    })
  )

  it.effect("what it spends is in no report, unless one asks for it", () =>
    Effect.gen(function* () {
      const { call, key, service, tenantId } = yield* setting
      const made = yield* make(service, key)
      const agent = yield* service.call("POST", "/api/agents", {
        key: made.key,
        body: { name: "its agent", scopeCeiling: ["spend:write"] }
      })
      const real = yield* makeAgent(service, { tenantId })
      const before = (yield* service.call("GET", "/api/dashboard/metrics")).body
      const beforeAll = (yield* service.call("GET", "/api/dashboard/metrics?includeSynthetic=true")).body
      yield* spend(service, key, { agentId: real.id })
      yield* spend(service, made.key, { agentId: real.id })
      // A real principal that spends for a synthetic agent does so for a test.
      yield* spend(service, key, { agentId: agent.body.id })
      const held = yield* service.call("POST", "/api/spend/reserve", { key: made.key, body: { amountUsd: 3 } })
      assert.strictEqual(held.status, 201, held.text)
      yield* foldAll(service.database)

      const { body: rows } = yield* call("GET", "/api/usage")
      assert.deepStrictEqual(
        rows.items.map(({ synthetic }: { synthetic: boolean }) => synthetic),
        [true, true, false]
      )
      const exported = yield* call("GET", "/api/usage/export")
      assert.deepStrictEqual(
        exported.text
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line).synthetic),
        [false, true, true]
      )
      const insights = (at: string) => Effect.map(call("GET", `/api/insights/${at}`), ({ body }) => body)
      assert.deepInclude((yield* insights("overview")).totals, { costUsd: 0.01, requests: 1 })
      assert.deepInclude((yield* insights("overview?includeSynthetic=true")).totals, { costUsd: 0.03, requests: 3 })
      assert.strictEqual((yield* insights("overview?includeSynthetic=true&model=gpt-5")).totals.costUsd, 0.03)
      assert.strictEqual((yield* insights("overview?model=gpt-5&provider=openai")).totals.costUsd, 0.01)
      const both = "overview?includeSynthetic=true&model=gpt-5&provider=openai"
      assert.strictEqual((yield* insights(both)).totals.costUsd, 0.03)
      for (const dimension of ["agent", "model", "day", "hour"]) {
        assert.deepStrictEqual(costs(yield* insights(`by-${dimension}`)), ["0.0100", "0.0100"], dimension)
        assert.deepStrictEqual(
          costs(yield* insights(`by-${dimension}?includeSynthetic=true`)),
          ["0.0300", "0.0300"],
          dimension
        )
      }
      const bill = (members: object) =>
        Effect.map(
          call("POST", "/api/insights/billing-report", {
            from: hours(-1),
            to: hours(1),
            format: "json",
            ...members
          }),
          ({ body }) => body.totals.costUsd
        )
      assert.strictEqual(yield* bill({}), 0.01)
      assert.strictEqual(yield* bill({ includeSynthetic: true }), 0.03)

      const after = (yield* service.call("GET", "/api/dashboard/metrics")).body
      const afterAll = (yield* service.call("GET", "/api/dashboard/metrics?includeSynthetic=true")).body
      // Other tests may spend beside this one, but only this one spends synthetically.
      assert.closeTo(
        afterAll.spendTodayUsd - after.spendTodayUsd,
        0.02 + beforeAll.spendTodayUsd - before.spendTodayUsd,
        1e-6
      )
      assert.closeTo(afterAll.openReservationsUsd - after.openReservationsUsd, 3, 1e-6)
      assert.isAbove(afterAll.agents, after.agents)
      const differences = yield* asSuperuser(service.database, (sql) => sql`SELECT * FROM usage_differences()`)
      assert.isEmpty(differences.filter((one) => one.tenantId === tenantId))
    })
  )

  it.effect("a reset ends what it made and keeps its key; a deletion ends its key, too", () =>
    Effect.gen(function* () {
      const { call, key, service } = yield* setting
      const made = yield* make(service, key, { kind: "monitor" })
      const asIt = Effect.fnUntraced(function* (at: string, body: unknown) {
        const answer = yield* service.call("POST", at, { key: made.key, body })
        assert.strictEqual(answer.status, 201, answer.text)
        return answer.body.id as string
      })
      const prepare = Effect.gen(function* () {
        const agent = yield* asIt("/api/agents", { name: "its agent", scopeCeiling: ["spend:write"] })
        const token = yield* call("POST", `/api/agents/${agent}/credentials`, {})
        assert.strictEqual(token.status, 201, token.text)
        const plan = yield* asIt(`/api/agents/${agent}/plans`, { budgetUsd: 1 })
        const cap = yield* asIt("/api/budgets/caps", { name: "its cap", unit: "usd", limit: 50, period: "month" })
        const reservation = yield* asIt("/api/spend/reserve", { amountUsd: 1 })
        const subscription = yield* asIt("/api/subscriptions", {
          provider: "openai",
          name: "its subscription",
          priceUsd: 1,
          quota: { unit: "requests", amount: 1 },
          period: "month"
        })
        const integration = yield* asIt("/api/integrations", {
          kind: "webhook",
          name: "its webhook",
          url: "https://example.com/hook",
          eventTypes: ["com.example.*"]
        })
        return { agent, token: token.body.accessToken as string, plan, cap, reservation, subscription, integration }
      })
      const assertPurged = Effect.fnUntraced(function* (of: Effect.Success<typeof prepare>) {
        const statusOf = (at: string) => Effect.map(call("GET", at), ({ status }) => status)
        for (const at of [
          `budgets/caps/${of.cap}`,
          `subscriptions/${of.subscription}`,
          `integrations/${of.integration}`
        ]) {
          assert.strictEqual(yield* statusOf(`/api/${at}`), 404, at)
        }
        assert.strictEqual((yield* call("GET", `/api/agents/${of.agent}`)).body.status, "retired")
        assert.strictEqual((yield* call("GET", `/api/agents/${of.agent}/plans/${of.plan}`)).body.status, "aborted")
        assert.strictEqual((yield* call("GET", `/api/spend/reservations/${of.reservation}`)).body.state, "released")
        const headers = { authorization: `Bearer ${of.token}` }
        assert.strictEqual((yield* service.call("GET", "/api/auth/me", { key: null, headers })).status, 401)
      })
      const kept = yield* call("POST", "/api/budgets/caps", { name: "a cap", unit: "usd", limit: 5, period: "month" })

      const first = yield* prepare
      const reset = yield* call("POST", `${path}/${made.id}/reset`, {})
      assert.strictEqual(reset.status, 200, reset.text)
      yield* assertPurged(first)
      const { body: entries } = yield* call("GET", `/api/audit-logs?entityId=${made.id}&limit=1`)
      const { body: entry } = yield* call("GET", `/api/audit-logs/${entries.items[0].id}`)
      assert.strictEqual(entry.actionType, "SyntheticPrincipalReset")
      assert.deepStrictEqual(entry.changes.after.purged, {
        integration: 1,
        plan: 1,
        reservation: 1,
        cap: 1,
        subscription: 1,
        agent: 1
      })

      const second = yield* prepare
      assert.strictEqual((yield* call("DELETE", `${path}/${made.id}`)).status, 204)
      yield* assertPurged(second)
      assertProblem(yield* service.call("GET", "/api/agents", { key: made.key }), 401, "unauthenticated")
      assertProblem(yield* call("GET", `${path}/${made.id}`), 404, "synthetic-principal-not-found")
      assert.isEmpty((yield* call("GET", path)).body.items)
      assert.strictEqual((yield* call("GET", `/api/budgets/caps/${kept.body.id}`)).status, 200)
    })
  )

  for (const [door, knock] of Object.entries(doors)) {
    it.effect(`401: a canary at ${door} is answered as a key that nobody has, and is noticed`, () =>
      Effect.gen(function* () {
        const { call, key, service } = yield* setting
        const { id, key: canary } = yield* makeCanary(service, key)
        const stranger = yield* knock(service, yield* unknownKey(service))
        const answer = yield* knock(service, canary)
        assert.strictEqual(answer.status, 401, answer.text)
        assert.deepStrictEqual(comparable(answer), comparable(stranger))
        const { body } = yield* call("GET", `/api/audit-logs?entityId=${id}&limit=200`)
        const touches = body.items.filter(({ actionType }: { actionType: string }) => actionType === "CanaryTouched")
        assert.lengthOf(touches, 1)
        assert.deepInclude(touches[0], { outcome: "denied", entityType: "SyntheticPrincipal" })
        // Stored before the answer, and not with the uses of other keys.
        assert.isNotNull((yield* call("GET", `${path}/${id}`)).body.lastUsedAt)
      })
    )
  }

  it.effect("a touched canary is an event of its tenant and a finding, until it is reset", () =>
    Effect.gen(function* () {
      const { call, key, service } = yield* setting
      const { id, key: canary } = yield* makeCanary(service, key)
      const untouched = yield* makeCanary(service, key)
      for (const _ of [1, 2, 3]) yield* service.call("GET", "/api/agents", { key: canary })
      const type = "com.application-manager.security.canary.touched"
      const { body: events } = yield* eventually(
        call("GET", `/api/cloudevents?types=${type}`),
        ({ body }) => body.items.length > 0
      )
      assert.lengthOf(events.items, 1)
      assert.deepInclude(events.items[0], { type, subject: `synthetic-principal/${id}` })
      const findings = Effect.gen(function* () {
        const { body: report } = yield* call("POST", "/api/security/reports", { kind: "keys" })
        const at = `/api/security/reports/${report.id}`
        yield* eventually(call("GET", at), ({ body }) => body.status === "completed")
        const { body } = yield* call("GET", `${at}/findings?rule=canary-touched`)
        return body.items as ReadonlyArray<{ readonly severity: string; readonly resource: { readonly id: string } }>
      })
      const found = yield* findings
      assert.deepStrictEqual(
        found.map(({ resource, severity }) => [severity, resource.id]),
        [["critical", id]]
      )
      const { body: inventory } = yield* call("GET", "/api/security/inventory?kind=synthetic-principal")
      assert.sameMembers(
        inventory.items.map((item: { id: string }) => item.id),
        [id, untouched.id]
      )
      const { body: keys } = yield* call("GET", "/api/security/inventory?kind=api-key")
      assert.notInclude(
        keys.items.map((item: { id: string }) => item.id),
        id
      )
      const reset = yield* call("POST", `${path}/${id}/reset`, {})
      assert.strictEqual(reset.body.lastUsedAt, null)
      assert.isEmpty(yield* findings)
    })
  )
})

layer(serviceLayer({ Api__RateLimit__Enabled: "true", Api__RateLimit__AnonymousPerMinute: "2" }), {
  excludeTestServices: true,
  timeout: 60_000
})("a network that has no attempts left", (it) => {
  it.effect("touches no canary unnoticed", () =>
    Effect.gen(function* () {
      const { call, key, service } = yield* setting
      const made = [yield* makeCanary(service, key), yield* makeCanary(service, key)]
      const wrong = yield* unknownKey(service)
      for (const status of [401, 401, 429]) {
        assert.strictEqual((yield* service.call("GET", "/api/agents", { key: wrong })).status, status)
      }
      for (const [index, { id, key: canary }] of made.entries()) {
        const at = index === 0 ? "/api/agents" : "/v1/models"
        assert.strictEqual((yield* service.call("GET", at, { key: canary })).status, 429)
        assert.isNotNull((yield* call("GET", `${path}/${id}`)).body.lastUsedAt)
        const { body } = yield* call("GET", `/api/audit-logs?actionType=CanaryTouched&entityId=${id}`)
        assert.lengthOf(body.items, 1)
      }
    })
  )
})
