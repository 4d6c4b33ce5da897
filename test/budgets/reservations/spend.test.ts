import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import { makeAgent, tokenOf } from "../../support/agents.ts"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { badBodies, faults, problem, refuses, type Sent, make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

type Service = TestService["Service"]

const unknownId = "0198a5b0-7c00-7000-8000-00000000002a"
const reserve = "/api/spend/reserve"
const using = (tokens: object): Sent => [
  "POST",
  "/api/spend/reconcile",
  { body: { reservationId: unknownId, usage: { model: "loopback-1", ...tokens } } }
]

/** A tenant with a key, and a cap of 1 US dollar a month. */
const tenantWith = Effect.fnUntraced(function* (service: Service, cap: object = {}, scopes = ["spend:*", "budgets:*"]) {
  const tenantId = yield* makeTenant(service.database)
  const { key } = yield* makeKey(service, scopes, { tenantId })
  const owner = (yield* makeKey(service, ["*:*"], { tenantId })).key
  const made = yield* make(
    service,
    "/api/budgets/caps",
    { name: "monthly", unit: "usd", limit: 1, period: "month", ...cap },
    owner
  )
  const call = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    service.call(method, path, { key, headers, ...(body === undefined ? {} : { body }) })
  return { tenantId, key, owner, capId: made.id as string, call }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("spend", (it) => {
  refusesStrangers(it, [
    {
      name: "reserve",
      method: "POST",
      path: reserve,
      body: { amountUsd: 1 },
      capability: "spend:write",
      systemOnly: false
    },
    { name: "list", method: "GET", path: "/api/spend/reservations", capability: "spend:read", systemOnly: false }
  ])

  refuses(it, [
    ...badBodies(
      "a reserve of",
      reserve,
      [{ amountUsd: 0 }, "amountUsd"],
      [{ amountUsd: -1 }, "amountUsd"],
      [{ amountUsd: 0.0000000001 }, "amountUsd"],
      [{ amountUsd: 8_388_608 }, "amountUsd"],
      ['{"amountUsd":1e999}', "amountUsd"],
      [{ amountUsd: "1" }, "amountUsd"],
      [{ amountUsd: 1, tokens: -1 }, "tokens"],
      [{ amountUsd: 1, tokens: 1.5 }, "tokens"],
      [{ amountUsd: 1, ttlSeconds: 4 }, "ttlSeconds"],
      [{ amountUsd: 1, ttlSeconds: 86_401 }, "ttlSeconds"],
      [{ amountUsd: 1, agentId: "no id" }, "agentId"],
      [{ amountUsd: 1, model: "" }, "model"],
      [{ amountUsd: 1, model: "a\0b" }, "model"],
      [{ amountUsd: 1, metadata: { a: "x".repeat(5000) } }, "metadata"],
      [{ amountUsd: 1, other: 1 }, "other"],
      [{ amountUsd: 1, estimate: { model: "m", inputTokens: 1, maxOutputTokens: 1 } }, "estimate"],
      [{ model: "other", estimate: { model: "m", inputTokens: 1, maxOutputTokens: 1 } }, "model"]
    ),
    [
      "a usage with more read from a cache than there is",
      using({ inputTokens: 10, outputTokens: 0, cacheReadTokens: 11 }),
      faults("payload.usage.inputTokens")
    ],
    [
      "a usage with more read from and written to a cache than there is",
      using({ inputTokens: 10, outputTokens: 0, cacheReadTokens: 5, cacheWriteTokens: 6 }),
      faults("payload.usage.inputTokens")
    ],
    [
      "a usage with more reasoning than output",
      using({ inputTokens: 0, outputTokens: 10, reasoningTokens: 11 }),
      faults("payload.usage.outputTokens")
    ],
    [
      "an estimate whose model has no price",
      ["POST", reserve, { body: { estimate: { model: "nobody's", inputTokens: 10, maxOutputTokens: 10 } } }],
      problem(400, "price-unknown")
    ],
    [
      "a request without its body says that it is missing",
      ["POST", "/api/budgets/caps"],
      problem(400, "validation-failed", { errors: [{ path: ["payload"], message: "Required" }] })
    ]
  ])

  it.effect("404: a reserve for an application that there is not, or no more", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call } = yield* tenantWith(service)
      const reserveFor = (applicationId: number) => call("POST", reserve, { amountUsd: 0.01, applicationId })
      assertProblem(yield* reserveFor(2_000_000_000), 404, "application-not-found")
      const { id } = yield* make(service, "/api/applications", { name: "An application that spends" })
      assert.strictEqual((yield* reserveFor(id)).status, 201)
      assert.strictEqual((yield* service.call("DELETE", `/api/applications/${id}`)).status, 204)
      assertProblem(yield* reserveFor(id), 404, "application-not-found")
    })
  )

  it.effect("an estimate of no tokens costs nothing", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const estimate = { model: "loopback-1", inputTokens: 0, maxOutputTokens: 0 }
      const free = yield* service.call("POST", reserve, { body: { estimate } })
      assert.deepStrictEqual([free.status, free.body.amountUsd], [201, 0], free.text)
    })
  )

  it.effect("404: an agent that is unknown or of another tenant, a plan that is unknown", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call } = yield* tenantWith(service)
      const { id } = yield* makeAgent(service)
      for (const agentId of [unknownId, id]) {
        assertProblem(yield* call("POST", reserve, { amountUsd: 0.1, agentId }), 404, "agent-not-found")
      }
      const planId = unknownId
      assertProblem(yield* call("POST", reserve, { amountUsd: 0.1, planId }), 404, "plan-not-found")
    })
  )

  it.effect("402: says why, with the figures of the first cap and all that govern", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, capId } = yield* tenantWith(service)
      const deny = (amountUsd: number) => call("POST", reserve, { amountUsd })
      const tooLarge = yield* deny(2)
      assertProblem(tooLarge, 402, "budget-denied")
      assert.deepInclude(tooLarge.body, {
        reason: "exceeds-limit",
        capId,
        limit: 1,
        spent: 0,
        reserved: 0,
        headroom: 1
      })
      assert.strictEqual(tooLarge.body.caps[0].capId, capId)
      const open = yield* call("POST", reserve, { amountUsd: 0.8 })
      assert.strictEqual((yield* deny(0.3)).body.reason, "in-flight")
      yield* call("POST", "/api/spend/reconcile", { reservationId: open.body.id, actualUsd: 0.8 })
      assert.strictEqual((yield* deny(0.3)).body.reason, "exhausted")
      assert.strictEqual((yield* call("POST", reserve, { amountUsd: 0.2 })).status, 201)
    })
  )

  it.effect(
    "402: a caller that may not read budgets learns what its tenant's cap refused it for, and when it resets",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { call, capId } = yield* tenantWith(service, {}, ["spend:write"])
        const { body } = yield* call("POST", reserve, { amountUsd: 2 })
        const { caps, resetsAt } = body
        const figures = { unit: "usd", requested: 2, limit: 1, spent: 0, reserved: 0, headroom: 1 }
        assert.deepInclude(body, { capId, capName: "monthly", reason: "exceeds-limit", ...figures })
        assert.deepStrictEqual(caps, [{ capId, resetsAt }])
        assert.strictEqual(
          body.detail,
          `The cap "monthly" has no room: the amount is more than it ever allows. Asked for: $2.00; limit: $1.00; spent: $0.00; reserved: $0.00; resets: ${resetsAt}.`
        )
      })
  )

  it.effect("402: the text of a refusal is in the cap's unit, and says how a window or a lasting cap goes on", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const [cap, asked, text] of [
        [
          { name: "few", unit: "requests", limit: 1, period: "total" },
          {},
          "Asked for: 1 request; limit: 1 request; spent: 0 requests; reserved: 1 request; never resets."
        ],
        [
          { name: "words", unit: "tokens", limit: 1500, period: "rolling", windowSeconds: 60 },
          { tokens: 2000 },
          "Asked for: 2,000 tokens; limit: 1,500 tokens; spent: 0 tokens; reserved: 0 tokens; counts: the last 60 seconds."
        ]
      ] as const) {
        const { call } = yield* tenantWith(service, { mode: "hard", ...cap }, ["spend:write"])
        const body = { amountUsd: 0.1, ...asked }
        if (cap.unit === "requests") assert.strictEqual((yield* call("POST", reserve, body)).status, 201)
        const refused = yield* call("POST", reserve, body)
        assertProblem(refused, 402, "budget-denied")
        assert.include(refused.body.detail, text)
      }
    })
  )

  it.effect("a cap over all tenants binds a tenant, which sees no figures of it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, owner } = yield* tenantWith(service)
      const model = crypto.randomUUID()
      const all = { name: "everybody", unit: "requests", limit: 1, period: "total", scope: { model }, tenantId: null }
      const { id } = yield* make(service, "/api/budgets/caps", all)
      const first = yield* call("POST", reserve, { amountUsd: 0.1, model })
      assert.strictEqual(first.status, 201, first.text)
      const denied = yield* call("POST", reserve, { amountUsd: 0.1, model })
      assertProblem(denied, 402, "budget-denied")
      assert.strictEqual(denied.body.capId, id)
      assert.doesNotHaveAnyKeys(denied.body, ["capName", "unit", "requested", "limit", "spent", "reserved", "headroom"])
      assert.match(denied.body.detail, /^A budget cap has no room: [^.]+\.$/)
      const listed = yield* service.call("GET", "/api/budgets/caps?limit=200", { key: owner })
      assert.isFalse(listed.body.items.some((cap: { readonly id: string }) => cap.id === id))
      assertProblem(yield* service.call("GET", `/api/budgets/caps/${id}`, { key: owner }), 404, "cap-not-found")
    })
  )

  it.effect("why a cap over all tenants has no room does not tell a tenant where its limit is", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call } = yield* tenantWith(service, { limit: 1000 })
      const model = crypto.randomUUID()
      const all = { name: "everybody", unit: "usd", limit: 1, period: "total", scope: { model }, tenantId: null }
      yield* make(service, "/api/budgets/caps", all)
      const held = yield* make(service, reserve, { amountUsd: 0.2, model })
      const reasons = Effect.forEach([0.9, 1.000000001, 5], (amountUsd) =>
        Effect.map(call("POST", reserve, { amountUsd, model }), ({ body }) => body.reason)
      )
      assert.deepStrictEqual(yield* reasons, ["in-flight", "in-flight", "in-flight"])
      const settled = { reservationId: held.id, actualUsd: 0.2 }
      assert.strictEqual((yield* service.call("POST", "/api/spend/reconcile", { body: settled })).status, 200)
      assert.deepStrictEqual(yield* reasons, ["exhausted", "exhausted", "exhausted"])
      assert.strictEqual(
        (yield* service.call("POST", reserve, { body: { amountUsd: 5, model } })).body.reason,
        "exceeds-limit"
      )
    })
  )

  it.effect("a reservation that was released or has expired is settled once more, late, and charged in full", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call } = yield* tenantWith(service)
      const { body } = yield* call("POST", reserve, { amountUsd: 0.5 })
      for (let again = 0; again < 2; again++) {
        assert.strictEqual((yield* call("DELETE", `/api/spend/reservations/${body.id}`)).status, 204)
      }
      const settled = yield* call("POST", "/api/spend/reconcile", { reservationId: body.id, actualUsd: 1.5 })
      assert.deepInclude(settled.body.charge, { amountUsd: 1.5, overrunUsd: 1, late: true })
      const status = yield* call("GET", "/api/budgets/caps-status")
      assert.deepInclude(status.body.items[0], { spent: 1.5, headroom: 0, state: "over" })
      assertProblem(yield* call("DELETE", `/api/spend/reservations/${body.id}`), 409, "reservation-settled")
      assertProblem(yield* call("POST", reserve, { amountUsd: 0.1 }), 402, "budget-denied")
    })
  )

  it.effect("an expired reservation is in nobody's way, and ends by itself", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call } = yield* tenantWith(service)
      const { body } = yield* call("POST", reserve, { amountUsd: 1, ttlSeconds: 5 })
      yield* asSuperuser(
        service.database,
        (sql) =>
          sql`UPDATE budget_reservations SET expires_at = now() - interval '1 second' WHERE id = ${body.id}::text::uuid`
      )
      const next = yield* call("POST", reserve, { amountUsd: 1 })
      assert.strictEqual(next.status, 201, next.text)
      assert.strictEqual((yield* call("GET", `/api/spend/reservations/${body.id}`)).body.state, "expired")
    })
  )

  it.effect("extends an open reservation, and no other", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call } = yield* tenantWith(service)
      const { body } = yield* call("POST", reserve, { amountUsd: 0.5, ttlSeconds: 10 })
      const path = `/api/spend/reservations/${body.id}/extend`
      const extended = yield* call("POST", path, { ttlSeconds: 1000 })
      assert.isAbove(Date.parse(extended.body.expiresAt), Date.parse(body.expiresAt))
      yield* call("DELETE", `/api/spend/reservations/${body.id}`)
      assertProblem(yield* call("POST", path, { ttlSeconds: 1000 }), 409, "reservation-not-open")
    })
  )

  it.effect("403: another principal's reservation, without budgets:write; 404: another tenant's", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, tenantId } = yield* tenantWith(service)
      const { body } = yield* call("POST", reserve, { amountUsd: 0.5 })
      const other = (yield* makeKey(service, ["spend:*"], { tenantId })).key
      const stranger = (yield* makeKey(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })).key
      const settle = { reservationId: body.id, actualUsd: 0.1 }
      const forbidden = yield* service.call("POST", "/api/spend/reconcile", { key: other, body: settle })
      assertProblem(forbidden, 403, "forbidden")
      assert.deepStrictEqual(forbidden.body.missing, ["budgets:write"])
      for (const [method, path, given] of [
        ["POST", "/api/spend/reconcile", settle],
        ["DELETE", `/api/spend/reservations/${body.id}`, undefined],
        ["GET", `/api/spend/reservations/${body.id}`, undefined],
        ["POST", `/api/spend/reservations/${body.id}/extend`, { ttlSeconds: 60 }]
      ] as const) {
        const answer = yield* service.call(method, path, {
          key: stranger,
          ...(given === undefined ? {} : { body: given })
        })
        assertProblem(answer, 404, "reservation-not-found")
      }
    })
  )

  // Invariant L6
  it.effect("repeats the answer under an Idempotency-Key, and moves nothing again", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call } = yield* tenantWith(service)
      const headers = { "idempotency-key": crypto.randomUUID() }
      const first = yield* call("POST", reserve, { amountUsd: 0.4 }, headers)
      const again = yield* Effect.all(
        Array.from({ length: 5 }, () => call("POST", reserve, { amountUsd: 0.4 }, headers)),
        { concurrency: 5 }
      )
      for (const answer of again) {
        assert.deepStrictEqual([answer.status, answer.text], [201, first.text])
        assert.strictEqual(answer.headers.get("idempotency-replayed"), "true")
        assert.strictEqual(answer.headers.get("location"), first.headers.get("location"))
      }
      assert.isNull(first.headers.get("idempotency-replayed"))
      assertProblem(yield* call("POST", reserve, { amountUsd: 0.5 }, headers), 422, "idempotency-key-reused")
      const status = yield* call("GET", "/api/budgets/caps-status")
      assert.strictEqual(status.body.items[0].reserved, 0.4)
      const settle = { reservationId: first.body.id, actualUsd: 0.1 }
      const settleHeaders = { "idempotency-key": crypto.randomUUID() }
      const settled = yield* call("POST", "/api/spend/reconcile", settle, settleHeaders)
      const repeated = yield* call("POST", "/api/spend/reconcile", settle, settleHeaders)
      assert.deepStrictEqual([repeated.status, repeated.body], [200, settled.body])
      assert.strictEqual(repeated.headers.get("idempotency-replayed"), "true")
    })
  )

  it.effect("repeats the answer under a key when the agent was suspended since", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, owner, tenantId } = yield* tenantWith(service)
      const { id: agentId } = yield* makeAgent(service, { tenantId })
      const headers = { "idempotency-key": crypto.randomUUID() }
      const body = { amountUsd: 0.4, agentId }
      const first = yield* call("POST", reserve, body, headers)
      assert.strictEqual(first.status, 201, first.text)
      const suspended = yield* service.call("PATCH", `/api/agents/${agentId}`, {
        key: owner,
        body: { status: "suspended" }
      })
      assert.strictEqual(suspended.status, 200, suspended.text)
      const again = yield* call("POST", reserve, body, headers)
      assert.deepStrictEqual([again.status, again.text], [201, first.text])
      assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
      const other = { ...body, amountUsd: 0.5 }
      assertProblem(yield* call("POST", reserve, other, headers), 422, "idempotency-key-reused")
      assertProblem(yield* call("POST", reserve, body), 409, "agent-not-active")
    })
  )

  it.effect("a key in use by many at once makes one reservation", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call } = yield* tenantWith(service)
      const headers = { "idempotency-key": crypto.randomUUID() }
      const answers = yield* Effect.all(
        Array.from({ length: 20 }, () => call("POST", reserve, { amountUsd: 0.4 }, headers)),
        { concurrency: 20 }
      )
      assert.strictEqual(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1)
      assert.strictEqual((yield* call("GET", "/api/budgets/caps-status")).body.items[0].reserved, 0.4)
    })
  )

  it.effect("a refusal frees the key", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, capId, key } = yield* tenantWith(service, { limit: 0 })
      const headers = { "idempotency-key": crypto.randomUUID() }
      assertProblem(yield* call("POST", reserve, { amountUsd: 0.4 }, headers), 402, "budget-denied")
      yield* service.call("PUT", `/api/budgets/caps/${capId}`, { key, body: { name: "more", limit: 1 } })
      assert.strictEqual((yield* call("POST", reserve, { amountUsd: 0.4 }, headers)).status, 201)
    })
  )

  it.effect("refunds at most the charge, and nobody its own", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, tenantId } = yield* tenantWith(service)
      const { body } = yield* call("POST", reserve, { amountUsd: 0.5 })
      const settled = yield* call("POST", "/api/spend/reconcile", { reservationId: body.id, actualUsd: 0.5 })
      const refund = { chargeId: settled.body.charge.id, amountUsd: 0.3, reason: "credited" }
      assertProblem(yield* call("POST", "/api/spend/refunds", refund), 403, "forbidden")
      const { key: other } = yield* makeKey(service, ["budgets:write"], { tenantId })
      const made = yield* service.call("POST", "/api/spend/refunds", { key: other, body: refund })
      assert.strictEqual(made.status, 201, made.text)
      const more = yield* service.call("POST", "/api/spend/refunds", { key: other, body: refund })
      assertProblem(more, 409, "refund-exceeds-charge")
      assert.strictEqual(more.body.refundableUsd, 0.2)
      assert.strictEqual((yield* call("GET", "/api/budgets/caps-status")).body.items[0].spent, 0.2)
    })
  )

  it.effect("a cap of mode approval holds, and an approver lets it go on by a grant of what is short", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, capId, tenantId } = yield* tenantWith(service, { mode: "approval" })
      const held = yield* call("POST", reserve, { amountUsd: 1.25 })
      assert.deepStrictEqual([held.status, held.body.state], [202, "held"], held.text)
      const before = yield* call("GET", "/api/budgets/caps-status")
      assert.deepInclude(before.body.items[0], { reserved: 0, held: 1.25, headroom: 1 })
      const { key: approver } = yield* makeKey(service, ["budgets:approve", "budgets:write", "spend:read"], {
        tenantId
      })
      const approve = (key: string, body: object) =>
        service.call("POST", `/api/budgets/approvals/${held.body.id}/approve`, { key, body })
      const pending = yield* service.call("GET", "/api/budgets/approvals", { key: approver })
      assert.deepStrictEqual(
        [pending.body.items.length, pending.body.items[0].reservation.id, pending.body.items[0].caps[0].capId],
        [1, held.body.id, capId]
      )
      const { key: own } = yield* tenantWith(service)
      assertProblem(yield* approve(own, {}), 404, "reservation-not-found")
      assertProblem(yield* call("POST", `/api/budgets/approvals/${held.body.id}/approve`, {}), 403, "forbidden")
      assertProblem(yield* approve(approver, {}), 409, "still-no-headroom")
      const approved = yield* approve(approver, { override: true, reason: "once" })
      assert.deepInclude(approved.body, { state: "open", decisionReason: "once" })
      assert.deepStrictEqual((yield* approve(approver, { override: true, reason: "once" })).body, approved.body)
      const after = yield* call("GET", "/api/budgets/caps-status")
      assert.deepInclude(after.body.items[0], {
        reserved: 1.25,
        held: 0,
        grants: 0.25,
        headroom: 0,
        state: "exhausted"
      })
      const denied = yield* call("POST", reserve, { amountUsd: 1 })
      const no = yield* service.call("POST", `/api/budgets/approvals/${denied.body.id}/deny`, {
        key: approver,
        body: { reason: "no" }
      })
      assert.deepInclude(no.body, { state: "denied", decisionReason: "no" })
      assertProblem(
        yield* approve(approver, {}).pipe(
          Effect.andThen(
            service.call("POST", `/api/budgets/approvals/${denied.body.id}/approve`, { key: approver, body: {} })
          )
        ),
        409,
        "reservation-not-held"
      )
    })
  )

  it.effect("an agent spends for itself alone, and sees its own reservations alone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const ceiling = { scopeCeiling: ["spend:*"] }
      const one = yield* makeAgent(service, ceiling)
      const other = yield* makeAgent(service, ceiling)
      const tokens = yield* Effect.forEach([one, other], (agent) => tokenOf(service, agent))
      const call = (at: number, method: string, path: string, body?: unknown) =>
        service.call(method, path, {
          key: null,
          headers: { authorization: `Bearer ${tokens[at]?.accessToken}` },
          ...(body === undefined ? {} : { body })
        })
      const reserved = yield* call(0, "POST", reserve, { amountUsd: 0.01 })
      assert.strictEqual(reserved.status, 201, reserved.text)
      const path = `/api/spend/reservations/${reserved.body.id}`
      assert.strictEqual((yield* call(0, "GET", path)).body.agentId, one.id)
      assertProblem(yield* call(0, "POST", reserve, { amountUsd: 0.01, agentId: other.id }), 403, "forbidden")
      assertProblem(yield* call(1, "GET", path), 404, "reservation-not-found")
      assertProblem(yield* call(1, "DELETE", path), 404, "reservation-not-found")
      assert.deepStrictEqual((yield* call(1, "GET", "/api/spend/reservations")).body.items, [])
    })
  )
})
