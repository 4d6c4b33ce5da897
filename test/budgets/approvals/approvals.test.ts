import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import { bearer, makeAccount, otherPassphrase, signIn } from "../../support/accounts.ts"
import { makeAgent, makeKeyPair, registration, tokenOf } from "../../support/agents.ts"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { type Call, serviceLayer, sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const unknownId = "0198a5b0-7c00-7000-8000-00000000002a"
const approve = (id: string) => `/api/budgets/approvals/${id}/approve`
const deny = (id: string) => `/api/budgets/approvals/${id}/deny`

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("/api/budgets/approvals", (it) => {
  refusesStrangers(it, [
    { name: "list", method: "GET", path: "/api/budgets/approvals", capability: "budgets:approve", systemOnly: false },
    {
      name: "approve",
      method: "POST",
      path: approve(unknownId),
      body: {},
      capability: "budgets:approve",
      systemOnly: false
    },
    {
      name: "deny",
      method: "POST",
      path: deny(unknownId),
      body: { reason: "no" },
      capability: "budgets:approve",
      systemOnly: false
    }
  ])

  /** A tenant whose cap of mode approval is 1 US dollar, who asks, and who approves. */
  const setting = Effect.fnUntraced(function* (cap: object = {}) {
    const service = yield* TestService
    const tenantId = yield* makeTenant(service.database)
    const owner = (yield* makeKey(service, ["*:*"], { tenantId })).key
    const asking = (yield* makeKey(service, ["spend:*"], { tenantId })).key
    const approver = yield* makeKey(service, ["budgets:approve", "budgets:write", "spend:read"], { tenantId })
    const body = { name: "asks", unit: "usd", limit: 1, period: "total", mode: "approval", ...cap }
    const { id: capId } = yield* make(service, "/api/budgets/caps", body, owner)
    const post = (path: string, given: unknown, call: Call = { key: approver.key }) =>
      service.call("POST", path, { body: given, ...call })
    const hold = Effect.fnUntraced(function* (amountUsd = 1.5, call: Call = { key: asking }) {
      const held = yield* post("/api/spend/reserve", { amountUsd }, call)
      assert.deepStrictEqual([held.status, held.body.state], [202, "held"], held.text)
      return held.body.id as string
    })
    const utilization = Effect.map(
      service.call("GET", `/api/budgets/caps-status?capId=${capId}`, { key: owner }),
      ({ body: { items } }) => items[0]
    )
    return { service, tenantId, owner, asking, approver, capId: capId as string, post, hold, utilization }
  })

  it.effect("approves at most a ceiling, on what there is or by a grant of exactly what is short", () =>
    Effect.gen(function* () {
      const { approver, hold, post, utilization } = yield* setting()
      const within = yield* post(approve(yield* hold()), { ceilingUsd: 0.75 })
      assert.strictEqual(within.status, 200, within.text)
      assert.deepInclude(within.body, { state: "open", amountUsd: 0.75, decidedBy: `api-key:${approver.id}` })
      assert.deepInclude(yield* utilization, { reserved: 0.75, grants: 0 })
      const beyond = yield* post(approve(yield* hold()), { ceilingUsd: 0.5, override: true })
      assert.deepInclude(beyond.body, { state: "open", amountUsd: 0.5 })
      assert.deepInclude(yield* utilization, { reserved: 1.25, grants: 0.25, headroom: 0 })
      const above = yield* post(approve(yield* hold(1)), { ceilingUsd: 3, override: true })
      assert.deepInclude(above.body, { state: "open", amountUsd: 1 })
    })
  )

  it.effect("403: an override by whoever may not write budgets", () =>
    Effect.gen(function* () {
      const { hold, post, service, utilization, tenantId } = yield* setting()
      const { key } = yield* makeKey(service, ["budgets:approve"], { tenantId })
      const id = yield* hold()
      const refused = yield* post(approve(id), { override: true }, { key })
      assertProblem(refused, 403, "forbidden")
      assert.deepStrictEqual(refused.body.missing, ["budgets:write"])
      assertProblem(yield* post(approve(id), {}, { key }), 409, "still-no-headroom")
      assert.deepInclude(yield* utilization, { reserved: 0, grants: 0, held: 1.5 })
    })
  )

  it.effect(
    "409: an override over all tenants by a tenant's caller, which raises nothing; a system caller raises it",
    () =>
      Effect.gen(function* () {
        const { asking, capId, post, service, utilization } = yield* setting()
        const model = crypto.randomUUID()
        const all = {
          name: "all",
          unit: "usd",
          limit: 1,
          period: "total",
          mode: "approval",
          tenantId: null,
          scope: { model }
        }
        const { id: allId } = yield* make(service, "/api/budgets/caps", all)
        const grants = Effect.map(service.call("GET", `/api/budgets/caps/${allId}/grants`), ({ body }) => body.items)
        const held = yield* post("/api/spend/reserve", { amountUsd: 1.5, model }, { key: asking })
        assert.strictEqual(held.status, 202, held.text)
        const { id } = held.body
        const refused = yield* post(approve(id), { override: true })
        assertProblem(refused, 409, "still-no-headroom")
        assert.strictEqual(refused.body.capId, allId)
        assert.deepStrictEqual(yield* grants, [])
        assert.deepInclude(yield* utilization, { reserved: 0, grants: 0, held: 1.5 })
        const raised = yield* post(approve(id), { override: true }, {})
        assert.strictEqual(raised.status, 200, raised.text)
        assert.deepStrictEqual(
          (yield* grants).map(({ amount }: { readonly amount: number }) => amount),
          [0.5]
        )
        assert.deepInclude(yield* utilization, { capId, reserved: 1.5, grants: 0.5 })
      })
  )

  it.effect("403: an override by an agent, which its own caps bind", () =>
    Effect.gen(function* () {
      const { asking, hold, post, service, utilization, tenantId } = yield* setting()
      const agent = yield* makeAgent(service, { scopeCeiling: ["budgets:*"], tenantId })
      const { accessToken } = yield* tokenOf(service, agent)
      const bearer = { key: null, headers: { authorization: `Bearer ${accessToken}` } }
      const held = yield* post("/api/spend/reserve", { amountUsd: 1.5, agentId: agent.id }, { key: asking })
      assert.strictEqual(held.status, 202, held.text)
      assertProblem(yield* post(approve(held.body.id), { override: true }, bearer), 403, "forbidden")
      assertProblem(yield* post(approve(yield* hold()), { override: true }, bearer), 404, "reservation-not-found")
      assert.deepInclude(yield* utilization, { reserved: 0, grants: 0 })
    })
  )

  it.effect("a held reserve that is repeated has its first answer, whatever was approved of it", () =>
    Effect.gen(function* () {
      const { asking, post } = yield* setting()
      const headers = { "idempotency-key": crypto.randomUUID() }
      const ask = () =>
        post("/api/spend/reserve", { amountUsd: 1.5, tokens: 7, ttlSeconds: 60 }, { key: asking, headers })
      const held = yield* ask()
      assert.strictEqual((yield* post(approve(held.body.id), { ceilingUsd: 0.5 })).status, 200)
      const again = yield* ask()
      assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
      assert.deepStrictEqual([again.status, again.body], [held.status, held.body])
    })
  )

  it.effect("an approval that is repeated has its first answer, although the agent is suspended meanwhile", () =>
    Effect.gen(function* () {
      const { asking, post, service, tenantId } = yield* setting()
      const agent = yield* makeAgent(service, { tenantId })
      const held = yield* post("/api/spend/reserve", { amountUsd: 1.5, agentId: agent.id }, { key: asking })
      const headers = { "idempotency-key": crypto.randomUUID() }
      const { key } = yield* makeKey(service, ["budgets:approve"], { tenantId })
      const decide = () => post(approve(held.body.id), { ceilingUsd: 0.5 }, { key, headers })
      const first = yield* decide()
      assert.strictEqual(first.status, 200, first.text)
      const suspended = yield* service.call("PATCH", `/api/agents/${agent.id}`, { body: { status: "suspended" } })
      assert.strictEqual(suspended.status, 200, suspended.text)
      const again = yield* decide()
      assert.strictEqual(again.headers.get("idempotency-replayed"), "true", again.text)
      assert.deepStrictEqual([again.status, again.body], [first.status, first.body])
    })
  )

  it.effect("403: by whom the requester is, made, or was made by, over any number of steps; a system caller may", () =>
    Effect.gen(function* () {
      const { hold, owner, post, service, tenantId } = yield* setting()
      const scopes = ["budgets:approve", "budgets:write", "spend:*", "api-keys:*", "agents:*"]
      const first = yield* makeKey(service, scopes, { tenantId })
      const second = yield* makeKey(service, scopes, { by: first.key })
      const third = yield* makeKey(service, scopes, { by: second.key })
      const beside = yield* makeKey(service, scopes, { by: owner })
      const id = yield* hold(1.5, { key: second.key })
      for (const { key } of [first, second, third]) {
        assertProblem(yield* post(approve(id), { override: true }, { key }), 403, "forbidden")
        assertProblem(yield* post(deny(id), { reason: "no" }, { key }), 403, "forbidden")
      }
      for (const [key, mayDecide] of [
        [second.key, false],
        [beside.key, true],
        [service.serviceKey, true]
      ] as const) {
        const { body } = yield* service.call("GET", `/api/budgets/approvals?tenantId=${tenantId}`, { key })
        assert.deepInclude(body.items[0], { mayDecide })
      }
      const ofThird = yield* hold(1.5, { key: third.key })
      assertProblem(yield* post(approve(ofThird), { override: true }, { key: first.key }), 403, "forbidden")
      const approved = yield* post(approve(ofThird), { override: true }, { key: beside.key })
      assert.strictEqual(approved.status, 200, approved.text)
      assert.strictEqual((yield* post(approve(id), { override: true }, {})).status, 200)

      const agent = yield* makeAgent(service, { scopeCeiling: ["spend:*"], tenantId })
      const { accessToken } = yield* tokenOf(service, agent)
      const bearer = { key: null, headers: { authorization: `Bearer ${accessToken}` } }
      yield* asSuperuser(
        service.database,
        (sql) => sql`UPDATE agents SET created_by = ${`api-key:${first.id}`} WHERE id = ${agent.id}`
      )
      const ofAgent = yield* hold(1.5, bearer)
      assertProblem(yield* post(approve(ofAgent), { override: true }, { key: first.key }), 403, "forbidden")
      assert.strictEqual((yield* post(approve(ofAgent), { override: true }, { key: beside.key })).status, 200)
    })
  )

  it.effect("403: by the successor of the requester's key, or by whoever rotated it", () =>
    Effect.gen(function* () {
      const { hold, post, service, tenantId } = yield* setting()
      const scopes = ["budgets:approve", "spend:*", "api-keys:*"]
      const old = yield* makeKey(service, scopes, { tenantId })
      const rotator = yield* makeKey(service, scopes, { tenantId })
      const rotated = yield* service.call("POST", `/api/api-keys/${old.id}/rotate`, { key: rotator.key, body: {} })
      assert.strictEqual(rotated.status, 201, rotated.text)
      const id = yield* hold(1.5, { key: old.key })
      for (const key of [rotated.body.key, rotator.key]) {
        assertProblem(yield* post(deny(id), { reason: "no" }, { key }), 403, "forbidden")
      }
      const ofSuccessor = yield* hold(1.5, { key: rotated.body.key })
      assertProblem(yield* post(deny(ofSuccessor), { reason: "no" }, { key: old.key }), 403, "forbidden")
    })
  )

  it.effect("403: by a key of the same creator, but for those of the service account; the charge neither refunds", () =>
    Effect.gen(function* () {
      const { hold, owner, post, service, asking, approver } = yield* setting()
      const one = yield* makeKey(service, ["spend:*"], { by: owner })
      const other = yield* makeKey(service, ["budgets:approve", "budgets:write", "api-keys:*"], { by: owner })
      const below = yield* makeKey(service, ["budgets:approve"], { by: other.key })
      const id = yield* hold(1.5, { key: one.key })
      for (const { key } of [other, below]) {
        assertProblem(yield* post(deny(id), { reason: "no" }, { key }), 403, "forbidden")
      }
      assert.strictEqual((yield* post(deny(id), { reason: "no" }, { key: approver.key })).status, 200)
      const charge = Effect.fnUntraced(function* (key: string) {
        const { body } = yield* post("/api/spend/reserve", { amountUsd: 0.1 }, { key })
        const settled = yield* post("/api/spend/reconcile", { reservationId: body.id, actualUsd: 0.1 }, { key })
        return { chargeId: settled.body.charge.id, amountUsd: 0.1, reason: "credited" }
      })
      const ofOne = yield* charge(one.key)
      assertProblem(yield* post("/api/spend/refunds", ofOne, { key: other.key }), 403, "forbidden")
      assert.strictEqual((yield* post("/api/spend/refunds", ofOne, { key: approver.key })).status, 201)
      const ofAsking = yield* charge(asking)
      assert.strictEqual((yield* post("/api/spend/refunds", ofAsking, { key: other.key })).status, 201)
    })
  )

  it.effect("403: by whoever reset the requester's password, even after the requester is deleted", () =>
    Effect.gen(function* () {
      const { hold, post, service, tenantId, approver } = yield* setting()
      const requester = yield* makeAccount(service, ["spend:*"], { tenantId })
      const resetter = yield* makeKey(service, ["budgets:approve", "accounts:*", "spend:*"], { tenantId })
      const password = otherPassphrase
      const patch = { key: resetter.key, body: { password } }
      const reset = yield* service.call("PATCH", `/api/accounts/${requester.id}`, patch)
      assert.strictEqual(reset.status, 200, reset.text)
      const id = yield* hold(1.5, bearer(yield* signIn(service, { email: requester.email, password })))
      yield* service.call("DELETE", `/api/accounts/${requester.id}`)
      assertProblem(yield* post(deny(id), { reason: "no" }, { key: resetter.key }), 403, "forbidden")
      assert.strictEqual((yield* post(deny(id), { reason: "no" }, { key: approver.key })).status, 200)
    })
  )

  it.effect("403: by whoever registered a key of the requesting agent, or was issued its credential", () =>
    Effect.gen(function* () {
      const { hold, post, service, tenantId } = yield* setting()
      const scopes = ["budgets:approve", "agents:*", "spend:*"]
      const [registrar, issuer, stranger] = [
        yield* makeKey(service, scopes, { tenantId }),
        yield* makeKey(service, scopes, { tenantId }),
        yield* makeKey(service, scopes, { tenantId })
      ]
      const { id: agentId } = yield* make(service, "/api/agents", registration({ scopeCeiling: ["spend:*"], tenantId }))
      const { algorithm, kid, publicKeyPem } = makeKeyPair()
      yield* make(service, `/api/agents/${agentId}/keys`, { algorithm, kid, publicKeyPem }, registrar.key)
      const { accessToken } = yield* make(service, `/api/agents/${agentId}/credentials`, {}, issuer.key)
      const id = yield* hold(1.5, { key: null, headers: { authorization: `Bearer ${accessToken}` } })
      for (const { key } of [registrar, issuer]) {
        assertProblem(yield* post(deny(id), { reason: "no" }, { key }), 403, "forbidden")
      }
      assert.strictEqual((yield* post(deny(id), { reason: "no" }, { key: stranger.key })).status, 200)
    })
  )

  it.effect("404: another tenant's; 409: one that is not held", () =>
    Effect.gen(function* () {
      const { asking, hold, post } = yield* setting()
      const other = yield* setting()
      const id = yield* hold()
      for (const path of [approve(id), approve(unknownId)]) {
        assertProblem(yield* other.post(path, {}), 404, "reservation-not-found")
      }
      assertProblem(yield* other.post(deny(id), { reason: "no" }), 404, "reservation-not-found")
      const open = yield* post("/api/spend/reserve", { amountUsd: 0.5 }, { key: asking })
      assertProblem(yield* post(approve(open.body.id), {}), 409, "reservation-not-held")
      assertProblem(yield* post(deny(open.body.id), { reason: "no" }), 409, "reservation-not-held")
    })
  )

  it.effect("again answers the same, on any replica; another approver of what is decided gets 409", () =>
    Effect.gen(function* () {
      const { hold, post, service, tenantId } = yield* setting()
      const replica = yield* service.replica
      const { key: other } = yield* makeKey(service, ["budgets:approve", "budgets:write"], { tenantId })
      const [approved, denied] = [yield* hold(), yield* hold()]
      const body = { override: true, reason: "once" }
      const first = yield* post(approve(approved), body)
      assert.deepStrictEqual((yield* post(approve(approved), body)).body, first.body)
      assertProblem(yield* post(approve(approved), body, { key: other }), 409, "reservation-not-held")
      const no = yield* post(deny(denied), { reason: "no" })
      assert.deepStrictEqual((yield* post(deny(denied), { reason: "no" })).body, no.body)
      const elsewhere = yield* replica.call("GET", `/api/spend/reservations/${denied}`)
      assert.deepStrictEqual(elsewhere.body, no.body)
    }).pipe(Effect.scoped)
  )

  it.effect("many approvers at once let it go on once", () =>
    Effect.gen(function* () {
      const { approver, hold, post, service, utilization, tenantId } = yield* setting()
      const keys = [approver.key]
      for (let made = 0; made < 3; made++) {
        keys.push((yield* makeKey(service, ["budgets:approve", "budgets:write"], { tenantId })).key)
      }
      const id = yield* hold()
      const answers = yield* Effect.all(
        [...keys, ...keys].map((key) => post(approve(id), { override: true }, { key })),
        { concurrency: "unbounded" }
      )
      const approved = answers.filter(({ status }) => status === 200)
      assert.strictEqual(new Set(approved.map(({ body }) => body.decidedBy)).size, 1)
      assert.isTrue(answers.every(({ status }) => status === 200 || status === 409))
      assert.deepInclude(yield* utilization, { reserved: 1.5, grants: 0.5, held: 0 })
    })
  )

  it.effect("lists what each cap lacks, in its unit and as it is now, and whether an approval may raise it", () =>
    Effect.gen(function* () {
      const { approver, asking, owner, post, service } = yield* setting({ limit: 2 })
      const cap = { period: "total", limit: 1, mode: "approval" }
      const made = Effect.fnUntraced(function* (body: object, key?: string) {
        return (yield* make(service, "/api/budgets/caps", { ...cap, ...body }, key)).id as string
      })
      const model = crypto.randomUUID()
      const scope = { model }
      const tokens = yield* made({ name: "tokens", unit: "tokens", limit: 100, scope }, owner)
      const soft = yield* made({ name: "soft", unit: "requests", mode: "soft", limit: 0, scope }, owner)
      const paused = yield* made({ name: "paused", unit: "requests", limit: 0, status: "paused", scope }, owner)
      const everybody = yield* made({ name: "everybody", unit: "usd", scope, tenantId: null })
      const held = yield* post("/api/spend/reserve", { amountUsd: 1.5, tokens: 250, model }, { key: asking })
      assert.strictEqual(held.status, 202, held.text)
      const later = yield* made({ name: "later and hard", unit: "usd", limit: 0.5, mode: "hard", scope }, owner)
      const listed = Effect.fnUntraced(function* (key: string) {
        const { body } = yield* service.call("GET", "/api/budgets/approvals", { key })
        const item = body.items.find((one: { reservation: { id: string } }) => one.reservation.id === held.body.id)
        return new Map<string, object>(item.caps.map((one: { readonly capId: string }) => [one.capId, one]))
      })
      const caps = yield* listed(approver.key)
      assert.deepInclude(caps.get(tokens), { requested: 250, short: 150, hasRoom: false, mayRaise: true })
      assert.deepInclude(caps.get(soft), { short: 0, hasRoom: true, mayRaise: false })
      assert.deepInclude(caps.get(later), { requested: 1.5, short: 1, hasRoom: false, mayRaise: false })
      assert.isFalse(caps.has(paused))
      // Of a cap over all tenants a tenant's approver learns that it has no room, and nothing else.
      const isFull = { capId: everybody, hasRoom: false, mayRaise: false, resetsAt: null }
      assert.deepStrictEqual(caps.get(everybody), isFull)
      const ofSystem = (yield* listed(service.serviceKey)).get(everybody)
      assert.deepInclude(ofSystem, { name: "everybody", short: 0.5, mayRaise: true })
      // What it lacks is what an approval that raises nothing is refused for.
      const refused = yield* post(approve(held.body.id), { override: true })
      assertProblem(refused, 409, "still-no-headroom")
      assert.deepInclude(refused.body, {
        capId: later,
        capName: "later and hard",
        unit: "usd",
        requested: 1.5,
        limit: 0.5,
        spent: 0,
        headroom: 0.5
      })
      assert.match(
        refused.body.detail,
        /^The cap "later and hard" has no room: .*limit: \$0\.50;.*No approval raises it/
      )
    })
  )

  it.effect("lists what waits, for its tenant's approvers and with what they may see of the caps that govern it", () =>
    Effect.gen(function* () {
      const { approver, capId, hold, owner, service, utilization } = yield* setting({ period: "month" })
      const stranger = yield* setting()
      const all = { name: "everybody", unit: "usd", limit: 8_000_000, period: "total", tenantId: null }
      const { id: allId } = yield* make(service, "/api/budgets/caps", all)
      const ids = [yield* hold(), yield* hold()]
      const { periodEnd } = yield* utilization
      const pending = Effect.fnUntraced(function* (key: string) {
        const { body } = yield* service.call("GET", "/api/budgets/approvals?limit=1", { key })
        assert.deepStrictEqual([body.items[0].reservation.id, body.items[0].reservation.state], [ids[1], "held"])
        assert.match(body.items[0].reservation.createdBy, /^api-key:/)
        const caps: Array<{ readonly capId: string; readonly name?: string; readonly resetsAt: string | null }> =
          body.items[0].caps
        return caps
      })
      const ofAll = { capId: allId, hasRoom: true, mayRaise: false, resetsAt: null }
      const figures = { unit: "usd", limit: 1, spent: 0, reserved: 0, headroom: 1, requested: 1.5, short: 0.5 }
      const asks = {
        capId,
        name: "asks",
        mode: "approval",
        scope: {},
        ...figures,
        hasRoom: false,
        mayRaise: true,
        resetsAt: periodEnd
      }
      for (const key of [owner, approver.key]) assert.sameDeepMembers(yield* pending(key), [asks, ofAll])
      assert.include(
        (yield* pending(service.serviceKey)).map((cap) => cap.name),
        "everybody"
      )
      yield* service.call("DELETE", `/api/budgets/caps/${allId}`)
      const listed = yield* service.call("GET", "/api/budgets/approvals?limit=1", { key: approver.key })
      const cursor = encodeURIComponent(listed.body.nextCursor)
      const rest = yield* service.call("GET", `/api/budgets/approvals?cursor=${cursor}`, { key: approver.key })
      assert.strictEqual(rest.body.items[0].reservation.id, ids[0])
      const others = yield* service.call("GET", "/api/budgets/approvals", { key: stranger.approver.key })
      assert.deepStrictEqual(others.body.items, [])
    })
  )
})

layer(serviceLayer({ Budgets__HoldSeconds: "60" }), { excludeTestServices: true, timeout: "60 seconds" })(
  "Budgets:HoldSeconds",
  (it) => {
    it.effect("is how long a held reservation waits before it expires by itself", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const tenantId = yield* makeTenant(service.database)
        const { key } = yield* makeKey(service, ["*:*"], { tenantId })
        const cap = { name: "asks", unit: "usd", limit: 0, period: "total", mode: "approval" }
        yield* make(service, "/api/budgets/caps", cap, key)
        const body = { amountUsd: 1, ttlSeconds: 5 }
        const held = yield* service.call("POST", "/api/spend/reserve", { key, body })
        assert.deepInclude(held.body, { state: "held", remainingTtlSeconds: 60 })
        const path = `/api/spend/reservations/${held.body.id}`
        const { createdAt, expiresAt } = (yield* service.call("GET", path, { key })).body
        assert.strictEqual(Date.parse(expiresAt) - Date.parse(createdAt), 60_000)
        yield* asSuperuser(
          service.database,
          (sql) => sql`
            UPDATE budget_reservations SET expires_at = expires_at - interval '61 seconds' WHERE id = ${held.body.id}`
        )
        yield* eventually(service.call("GET", path, { key }), (answer) => answer.body.state === "expired")
        const { key: approver } = yield* makeKey(service, ["budgets:approve"], { tenantId })
        const late = yield* service.call("POST", approve(held.body.id), { key: approver, body: {} })
        assertProblem(late, 409, "reservation-not-held")
      })
    )
  }
)
