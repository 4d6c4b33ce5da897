import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { registration } from "../../support/agents.ts"
import { makeKey, refusesStrangers } from "../../support/authority.ts"
import { assertNoDrift, makeSetting, silence } from "../../support/plans.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { auditOf, badBodies, refuses, make } from "../../support/scenarios.ts"
import { serviceLayer, sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const unknownId = "0198a5b0-7c00-7000-8000-00000000002a"
const key = (text: string) => ({ "idempotency-key": text })
const anyPlan = `/api/agents/${unknownId}/plans/${unknownId}`

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("plans", (it) => {
  refusesStrangers(it, [
    {
      name: "start",
      method: "POST",
      path: `/api/agents/${unknownId}/plans`,
      body: { budgetUsd: 1 },
      capability: "plans:write",
      systemOnly: false
    },
    {
      name: "list",
      method: "GET",
      path: `/api/agents/${unknownId}/plans`,
      capability: "plans:read",
      systemOnly: false
    },
    { name: "list all", method: "GET", path: "/api/plans", capability: "plans:read", systemOnly: false },
    { name: "get", method: "GET", path: anyPlan, capability: "plans:read", systemOnly: false },
    {
      name: "extend",
      method: "POST",
      path: `${anyPlan}/extend`,
      body: { additionalUsd: 1 },
      capability: "plans:write",
      systemOnly: false
    },
    { name: "complete", method: "POST", path: `${anyPlan}/complete`, capability: "plans:write", systemOnly: false },
    { name: "abort", method: "POST", path: `${anyPlan}/abort`, capability: "plans:write", systemOnly: false },
    { name: "heartbeat", method: "POST", path: `${anyPlan}/heartbeat`, capability: "plans:write", systemOnly: false }
  ])

  it.effect("of all agents of a tenant are listed, by status and agent, and none of another tenant", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { agentId, call, planCall, start } = yield* makeSetting(service, [])
      const other = yield* make(service, "/api/agents", registration(), (yield* makeSetting(service, [])).key)
      const { id: first } = yield* start()
      const { id: second } = yield* start()
      yield* planCall(first, "complete")
      const idsOf = (query: string) =>
        Effect.map(call("GET", `/api/plans${query}`), ({ body }): ReadonlyArray<string> =>
          body.items.map(({ id }: { readonly id: string }) => id)
        )
      assert.deepStrictEqual(yield* idsOf(""), [second, first])
      assert.deepStrictEqual(yield* idsOf("?status=active"), [second])
      assert.deepStrictEqual(yield* idsOf(`?status=completed&agentId=${agentId}`), [first])
      assert.deepStrictEqual(yield* idsOf(`?agentId=${other.id}`), [])
      assert.deepStrictEqual(yield* idsOf(`?tenantId=${other.tenantId}`), [])
    })
  )

  it.effect("201: starts, draws, settles, and completes; the cap holds the budget and is charged once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { agentId, call, collection, draw, figures, planCall, settle, utilization } = yield* makeSetting(service)
      const started = yield* call("POST", collection, { budgetUsd: 5, taskType: "extraction", name: "March" })
      assert.strictEqual(started.status, 201, started.text)
      const { id } = started.body
      assert.strictEqual(started.headers.get("location"), `${collection}/${id}`)
      assert.deepInclude(started.body, {
        agentId,
        taskType: "extraction",
        name: "March",
        status: "active",
        budgetUsd: 5,
        spentUsd: 0,
        reservedUsd: 0,
        remainingUsd: 5,
        heartbeatSeconds: 120,
        expiresAt: null,
        endedAt: null
      })
      assert.deepStrictEqual(yield* utilization(), { headroom: 5, reserved: 5, spent: 0 })
      const drawn = yield* draw(id, 2)
      assert.strictEqual(drawn.status, 201, drawn.text)
      assert.strictEqual(drawn.body.planId, id)
      assert.strictEqual(drawn.body.caps.length, 1)
      assert.strictEqual(drawn.body.caps[0].headroom, 3)
      assert.isString(drawn.body.caps[0].resetsAt)
      assert.deepStrictEqual(yield* utilization(), { headroom: 5, reserved: 5, spent: 0 })
      assert.deepInclude(yield* figures(id), { reservedUsd: 2, remainingUsd: 3 })
      assert.strictEqual((yield* settle(drawn.body.id, 0.5)).status, 200)
      assert.deepStrictEqual(yield* utilization(), { headroom: 5, reserved: 4.5, spent: 0.5 })
      assert.deepInclude(yield* figures(id), { spentUsd: 0.5, reservedUsd: 0, remainingUsd: 4.5 })
      const completed = yield* planCall(id, "complete")
      assert.strictEqual(completed.status, 200, completed.text)
      assert.deepInclude(completed.body, { status: "completed", spentUsd: 0.5, remainingUsd: 0 })
      assert.isString(completed.body.endedAt)
      assert.deepStrictEqual(yield* utilization(), { headroom: 9.5, reserved: 0, spent: 0.5 })
      assert.deepStrictEqual((yield* planCall(id, "complete")).body, completed.body)
      assertProblem(yield* planCall(id, "abort"), 409, "plan-not-active")
      const list = yield* call("GET", `${collection}?status=completed`)
      assert.deepStrictEqual(list.body, { items: [completed.body], nextCursor: null })
    })
  )

  it.effect("402: a start without room on a cap of any mode but soft changes nothing", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const mode of ["hard", "approval"]) {
        const { call, capIds, collection, utilization } = yield* makeSetting(service, [
          { limit: 20 },
          { limit: 4, mode }
        ])
        const denied = yield* call("POST", collection, { budgetUsd: 5 })
        assertProblem(denied, 402, "budget-denied")
        assert.deepInclude(denied.body, { capId: capIds[1], reason: "exceeds-limit", limit: 4, headroom: 4 })
        assert.strictEqual(denied.body.caps.length, 2)
        assert.strictEqual((yield* utilization()).reserved, 0)
        assert.strictEqual((yield* call("POST", collection, { budgetUsd: 4 })).status, 201)
        assert.strictEqual((yield* utilization()).reserved, 4)
      }
      const { start, utilization } = yield* makeSetting(service, [{ limit: 4, mode: "soft" }])
      yield* start({ budgetUsd: 5 })
      assert.strictEqual((yield* utilization()).reserved, 5)
    })
  )

  it.effect("holds on long caps in US dollars that name agents and task types, and asks the others call by call", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const held = [
        {},
        { period: "week" },
        { period: "total" },
        { period: "rolling", windowSeconds: 604_800 },
        { scope: { agentId: "each" } },
        { scope: { taskType: "extraction" } },
        { status: "paused", limit: 0 }
      ]
      const other = [
        { period: "day" },
        { period: "rolling", windowSeconds: 604_799 },
        { scope: { model: "large" } },
        { unit: "requests" },
        { unit: "tokens", limit: 1000 }
      ]
      const strange = [{ scope: { taskType: "summaries" } }]
      const { capIds, draw, planCall, settle, utilization, start } = yield* makeSetting(service, [
        ...held,
        ...other,
        ...strange
      ])
      const reserved = () =>
        Effect.forEach(capIds, (capId) => Effect.map(utilization(capId), ({ reserved }) => reserved))
      const spent = () => Effect.forEach(capIds, (capId) => Effect.map(utilization(capId), ({ spent }) => spent))
      const { id } = yield* start({ taskType: "extraction" })
      assert.deepStrictEqual(yield* reserved(), [5, 5, 5, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0])
      const drawn = yield* draw(id, 2, { model: "large", tokens: 100 })
      assert.deepStrictEqual(yield* reserved(), [5, 5, 5, 5, 5, 5, 5, 2, 2, 2, 1, 100, 0])
      yield* settle(drawn.body.id, 1)
      assert.deepStrictEqual(yield* reserved(), [4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0])
      assert.deepStrictEqual(yield* spent(), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 100, 0])
      yield* planCall(id, "complete")
      assert.deepStrictEqual(yield* reserved(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    })
  )

  it.effect("402: a call that the plan or another governing cap has no room for moves neither", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { capIds, draw, figures, utilization, start } = yield* makeSetting(service, [
        {},
        { period: "day", limit: 3 }
      ])
      const { id } = yield* start()
      const byCap = yield* draw(id, 4)
      assertProblem(byCap, 402, "budget-denied")
      assert.deepInclude(byCap.body, { capId: capIds[1], reason: "exceeds-limit", limit: 3 })
      assert.notProperty(byCap.body, "planId")
      const byPlan = yield* draw(id, 6)
      assertProblem(byPlan, 402, "budget-denied")
      assert.deepInclude(byPlan.body, { planId: id, capId: null, reason: "exceeds-limit", limit: 5, headroom: 5 })
      assert.deepInclude(yield* figures(id), { reservedUsd: 0, remainingUsd: 5 })
      assert.strictEqual((yield* utilization(capIds[1])).reserved, 0)
      assert.strictEqual((yield* draw(id, 3)).status, 201)
      assert.strictEqual((yield* utilization(capIds[1])).reserved, 3)
    })
  )

  it.effect("400: a task type that the agent is not allowed, and a call with another than its plan's", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, collection, draw, start } = yield* makeSetting(service)
      assert.deepStrictEqual(faultPaths(yield* call("POST", collection, { budgetUsd: 1, taskType: "painting" })), [
        "payload.taskType"
      ])
      const { id } = yield* start({ taskType: "extraction" })
      assert.deepStrictEqual(faultPaths(yield* draw(id, 1, { taskType: "summaries" })), ["payload.taskType"])
      const drawn = yield* draw(id, 1, { taskType: "extraction" })
      assert.strictEqual(drawn.status, 201, drawn.text)
      const silent = yield* draw(id, 1)
      const stored = yield* call("GET", `/api/spend/reservations/${silent.body.id}`)
      assert.strictEqual(stored.body.taskType, "extraction")
      const untyped = yield* start({ budgetUsd: 1 })
      assert.deepStrictEqual(faultPaths(yield* draw(untyped.id, 1, { taskType: "extraction" })), ["payload.taskType"])
      assert.strictEqual((yield* draw(untyped.id, 1)).status, 201)
    })
  )

  it.effect("takes any task type where the agent lists none, and else the agent's default", () =>
    Effect.gen(function* () {
      const free = yield* makeSetting(yield* TestService, [], { allowedTaskTypes: [] })
      assert.strictEqual((yield* free.start({ taskType: "painting" })).taskType, "painting")
      const { start } = yield* makeSetting(yield* TestService, [], { defaultTaskType: "summaries" })
      assert.strictEqual((yield* start()).taskType, "summaries")
    })
  )

  it.effect("404: a plan of another agent or tenant, or of nobody", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const mine = yield* makeSetting(service)
      const other = yield* makeSetting(service)
      const { id } = yield* mine.start()
      const { id: colleague } = yield* make(service, "/api/agents", registration(), mine.key)
      for (const [plan, agent] of [
        [id, colleague],
        [unknownId, mine.agentId]
      ]) {
        const path = `/api/agents/${agent}/plans/${plan}`
        assertProblem(yield* mine.call("GET", path), 404, "plan-not-found")
        assertProblem(yield* mine.call("POST", `${path}/extend`, { additionalUsd: 1 }), 404, "plan-not-found")
        for (const action of ["complete", "abort", "heartbeat"]) {
          assertProblem(yield* mine.call("POST", `${path}/${action}`), 404, "plan-not-found")
        }
        assertProblem(yield* mine.draw(plan ?? "", 1, { agentId: agent }), 404, "plan-not-found")
      }
      assertProblem(yield* other.call("GET", `${mine.collection}/${id}`), 404, "agent-not-found")
      assertProblem(yield* other.call("POST", `${mine.collection}/${id}/abort`), 404, "agent-not-found")
      assertProblem(yield* other.draw(id, 1), 404, "plan-not-found")
      assert.strictEqual((yield* mine.draw(id, 1, { agentId: mine.agentId })).status, 201)
    })
  )

  it.effect("409: an agent that is not active starts nothing", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { agentId, call, collection, start } = yield* makeSetting(service)
      yield* start({ budgetUsd: 1 })
      yield* call("PATCH", `/api/agents/${agentId}`, { status: "suspended" })
      assertProblem(yield* call("POST", collection, { budgetUsd: 1 }), 409, "agent-not-active")
    })
  )

  refuses(
    it,
    badBodies(
      "a start of",
      `/api/agents/${unknownId}/plans`,
      [{}, "budgetUsd"],
      [{ budgetUsd: 0 }, "budgetUsd"],
      [{ budgetUsd: -1 }, "budgetUsd"],
      [{ budgetUsd: 0.0000000001 }, "budgetUsd"],
      [{ budgetUsd: 8_388_608 }, "budgetUsd"],
      [{ budgetUsd: 1, heartbeatSeconds: 4 }, "heartbeatSeconds"],
      [{ budgetUsd: 1, expiresInSeconds: 0 }, "expiresInSeconds"],
      [{ budgetUsd: 1, name: " " }, "name"],
      [{ budgetUsd: 1, taskType: "a\0b" }, "taskType"],
      [{ budgetUsd: 1, other: 1 }, "other"]
    )
  )

  it.effect("extends on all governing caps or on none: 400 says what each has left", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const setting = yield* makeSetting(service, [{ limit: 20 }, { limit: 7, period: "total" }])
      const { capIds, figures, planCall, utilization, start } = setting
      const { id } = yield* start()
      const denied = yield* planCall(id, "extend", { additionalUsd: 3 })
      assertProblem(denied, 400, "budget-denied")
      assert.deepInclude(denied.body, { capId: capIds[1] })
      assert.deepStrictEqual(
        denied.body.caps.map(({ capId, headroom }: { capId: string; headroom: number }) => [capId, headroom]),
        [
          [capIds[0], 15],
          [capIds[1], 2]
        ]
      )
      assert.deepInclude(yield* figures(id), { budgetUsd: 5, remainingUsd: 5 })
      assert.strictEqual((yield* utilization()).reserved, 5)
      const extended = yield* planCall(id, "extend", { additionalUsd: 2, reason: "more invoices" })
      assert.strictEqual(extended.status, 200, extended.text)
      assert.deepInclude(extended.body, { budgetUsd: 7, remainingUsd: 7 })
      assert.strictEqual((yield* utilization()).reserved, 7)
      assert.strictEqual((yield* utilization(capIds[1])).headroom, 0)
      const free = yield* makeSetting(service, [])
      const plan = yield* free.start()
      const path = faultPaths(yield* free.planCall(plan.id, "extend", { additionalUsd: 8_388_607 }))
      assert.deepStrictEqual(path, ["payload.additionalUsd"])
    })
  )

  it.effect("an extension asks caps that came after the start too, for all that the plan has left", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, capIds, draw, planCall, settle, utilization, start } = yield* makeSetting(service)
      const { id } = yield* start()
      const early = yield* draw(id, 1)
      const body = { name: "later", unit: "usd", limit: 5, period: "total" }
      const { body: cap } = yield* call("POST", "/api/budgets/caps", body)
      assertProblem(yield* planCall(id, "extend", { additionalUsd: 2 }), 400, "budget-denied")
      assert.strictEqual((yield* planCall(id, "extend", { additionalUsd: 1 })).status, 200)
      assert.deepInclude(yield* utilization(cap.id), { reserved: 5, spent: 0 })
      assert.deepInclude(yield* utilization(), { reserved: 6, spent: 0 })
      // What a call of before gives back is not taken from the new cap without asking it.
      const settled = yield* settle(early.body.id, 0.25)
      assert.strictEqual(settled.status, 200, settled.text)
      assert.deepInclude(yield* utilization(cap.id), { reserved: 5, spent: 0 })
      assert.deepInclude(yield* utilization(capIds[0]), { reserved: 5, spent: 0.25 })
    })
  )

  it.effect("409: complete with open calls; what has expired is none", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { draw, planCall, settle, utilization, start } = yield* makeSetting(service)
      const { id } = yield* start()
      const drawn = yield* draw(id, 2)
      assertProblem(yield* planCall(id, "complete"), 409, "plan-has-open-reservations")
      yield* settle(drawn.body.id, 2)
      assert.strictEqual((yield* planCall(id, "complete")).status, 200)
      assert.deepStrictEqual(yield* utilization(), { headroom: 8, reserved: 0, spent: 2 })
    })
  )

  it.effect("abort releases what is open; a late settle is charged, to the cap and to the plan", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, draw, figures, planCall, settle, utilization, start } = yield* makeSetting(service)
      const { id } = yield* start()
      const first = yield* draw(id, 2)
      const second = yield* draw(id, 1)
      yield* settle(second.body.id, 1)
      const aborted = yield* planCall(id, "abort")
      assert.strictEqual(aborted.status, 200, aborted.text)
      assert.deepInclude(aborted.body, { status: "aborted", spentUsd: 1, reservedUsd: 0, remainingUsd: 0 })
      assert.deepStrictEqual(yield* utilization(), { headroom: 9, reserved: 0, spent: 1 })
      assert.strictEqual((yield* call("GET", `/api/spend/reservations/${first.body.id}`)).body.state, "released")
      const late = yield* settle(first.body.id, 1.5)
      assert.strictEqual(late.status, 200, late.text)
      assert.deepInclude(late.body.charge, { late: true, amountUsd: 1.5 })
      assert.deepStrictEqual(yield* utilization(), { headroom: 7.5, reserved: 0, spent: 2.5 })
      assert.strictEqual((yield* figures(id)).spentUsd, 2.5)
      assert.strictEqual((yield* planCall(id, "abort")).status, 200)
      assertProblem(yield* planCall(id, "complete"), 409, "plan-not-active")
      assertProblem(yield* draw(id, 1), 409, "plan-not-active")
      const extended = yield* planCall(id, "extend", { additionalUsd: 1 })
      assertProblem(extended, 409, "plan-not-active")
      assert.strictEqual(extended.body.planStatus, "aborted")
      assertProblem(yield* planCall(id, "heartbeat"), 409, "plan-not-active")
    })
  )

  it.effect("a missed heartbeat suspends, the next one revives, and two missed end it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { draw, figures, planCall, settle, utilization, start } = yield* makeSetting(service)
      const { heartbeatBy, id } = yield* start()
      yield* silence(service.database, id, 150)
      const refused = yield* draw(id, 1)
      assertProblem(refused, 409, "plan-not-active")
      assert.strictEqual(refused.body.planStatus, "suspended")
      assertProblem(yield* planCall(id, "extend", { additionalUsd: 1 }), 409, "plan-not-active")
      assert.deepInclude(yield* figures(id), { status: "suspended", remainingUsd: 5 })
      assert.strictEqual((yield* utilization()).reserved, 5)
      const beat = yield* planCall(id, "heartbeat")
      assert.strictEqual(beat.status, 200, beat.text)
      assert.deepStrictEqual(Object.keys(beat.body), ["heartbeatBy"])
      assert.isAbove(Date.parse(beat.body.heartbeatBy), Date.parse(heartbeatBy) - 1000)
      assert.strictEqual((yield* planCall(id, "heartbeat")).status, 200)
      // The sweep of each second may have come in between and recorded the suspension; nothing waits for it.
      const actions = (yield* auditOf("Plan", id)).filter((action) => action !== "PlanSuspended")
      assert.deepStrictEqual(actions, ["PlanResumed", "PlanStarted"])
      const drawn = yield* draw(id, 1)
      assert.strictEqual(drawn.status, 201, drawn.text)
      yield* silence(service.database, id, 300)
      assertProblem(yield* planCall(id, "heartbeat"), 409, "plan-not-active")
      assertProblem(yield* planCall(id, "complete"), 409, "plan-not-active")
      assert.deepInclude(yield* figures(id), { status: "expired", remainingUsd: 0 })
      assert.strictEqual((yield* settle(drawn.body.id, 0.5)).body.charge.late, true)
    })
  )

  it.effect("a missed heartbeat is recorded once, and so is the one that revives", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { draw, planCall, start } = yield* makeSetting(service)
      const { id } = yield* start()
      yield* silence(service.database, id, 150)
      yield* eventually(auditOf("Plan", id), (actions) => actions.includes("PlanSuspended"))
      for (let beat = 0; beat < 2; beat++) assert.strictEqual((yield* planCall(id, "heartbeat")).status, 200)
      assert.deepStrictEqual(yield* auditOf("Plan", id), ["PlanResumed", "PlanSuspended", "PlanStarted"])
      assert.strictEqual((yield* draw(id, 1)).status, 201)
    })
  )

  it.effect("a suspended plan ends without a request, and its budget is available again", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { start, utilization } = yield* makeSetting(service)
      const { id } = yield* start()
      yield* silence(service.database, id, 150)
      yield* eventually(auditOf("Plan", id), (actions) => actions.includes("PlanSuspended"))
      yield* silence(service.database, id, 150)
      const actions = yield* eventually(auditOf("Plan", id), (actions) => actions.includes("PlanExpired"))
      assert.deepStrictEqual(actions, ["PlanExpired", "PlanSuspended", "PlanStarted"])
      assert.strictEqual((yield* utilization()).reserved, 0)
    })
  )

  // Invariant L9
  it.effect("nothing is refused because of a plan that is over", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, collection, start } = yield* makeSetting(service)
      for (const reuse of [
        call("POST", collection, { budgetUsd: 10 }),
        call("POST", "/api/spend/reserve", { amountUsd: 10 })
      ]) {
        const { id } = yield* start({ budgetUsd: 10, expiresInSeconds: 60 })
        yield* silence(service.database, id, 60)
        const again = yield* reuse
        assert.strictEqual(again.status, 201, again.text)
        if ("status" in again.body) yield* call("POST", `${collection}/${again.body.id}/abort`)
      }
    })
  )

  it.effect("409: a plan's own reservation is managed by the plan", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, draw, settle, start } = yield* makeSetting(service)
      const { id } = yield* start()
      yield* draw(id, 1)
      const list = yield* call("GET", `/api/spend/reservations?planId=${id}`)
      assert.deepStrictEqual(
        list.body.items.map(({ origin, state }: { origin: string; state: string }) => [origin, state]).toSorted(),
        [
          ["api", "open"],
          ["plan", "open"]
        ]
      )
      for (const answer of [
        yield* settle(id, 1),
        yield* call("DELETE", `/api/spend/reservations/${id}`),
        yield* call("POST", `/api/spend/reservations/${id}/extend`, { ttlSeconds: 60 })
      ]) {
        assertProblem(answer, 409, "reservation-managed")
        assert.strictEqual(answer.body.origin, "plan")
      }
    })
  )

  it.effect("an approval draws on the plan, and finds one that has ended so", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { draw, figures, planCall, start } = yield* makeSetting(service, [
        {},
        { period: "day", limit: 0, mode: "approval" }
      ])
      const approve = (id: string) =>
        service.call("POST", `/api/budgets/approvals/${id}/approve`, { body: { override: true } })
      const { id } = yield* start()
      const held = yield* draw(id, 2)
      assert.strictEqual(held.status, 202, held.text)
      assert.strictEqual((yield* figures(id)).reservedUsd, 0)
      const approved = yield* approve(held.body.id)
      assert.strictEqual(approved.status, 200, approved.text)
      assert.strictEqual((yield* figures(id)).reservedUsd, 2)
      const later = yield* draw(id, 1)
      yield* planCall(id, "abort")
      assertProblem(yield* approve(later.body.id), 409, "plan-not-active")
    })
  )

  // Invariant L6
  it.effect("a repetition under a key answers the same and changes once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, collection, draw, figures, planCall, utilization } = yield* makeSetting(service)
      const twice = Effect.fnUntraced(function* (path: string, body?: unknown) {
        const answers = yield* Effect.all([call("POST", path, body, key(path)), call("POST", path, body, key(path))], {
          concurrency: 2
        })
        const [one, other] = answers
        assert.strictEqual(one.text, other.text)
        assert.strictEqual(one.status, other.status)
        const replays = answers.map(({ headers }) => headers.get("idempotency-replayed"))
        assert.sameMembers(replays, ["true", null])
        return one.body
      })
      const { id } = yield* twice(collection, { budgetUsd: 5 })
      assert.strictEqual((yield* utilization()).reserved, 5)
      yield* twice(`${collection}/${id}/extend`, { additionalUsd: 1 })
      assert.deepInclude(yield* figures(id), { budgetUsd: 6 })
      yield* twice(`${collection}/${id}/heartbeat`)
      const drawn = yield* draw(id, 1, {})
      assert.strictEqual(drawn.status, 201)
      const other = yield* call("POST", collection, { budgetUsd: 4 }, key(collection))
      assertProblem(other, 422, "idempotency-key-reused")
      const denied = () => call("POST", `${collection}/${id}/extend`, { additionalUsd: 100 }, key("denied"))
      assertProblem(yield* denied(), 400, "budget-denied")
      assertProblem(yield* denied(), 400, "budget-denied")
      yield* twice(`${collection}/${id}/abort`)
      assertProblem(yield* planCall(id, "complete"), 409, "plan-not-active")
      const draws = yield* Effect.forEach(
        [1, 2],
        () => call("POST", "/api/spend/reserve", { planId: id, amountUsd: 1 }, key("a draw on what has ended")),
        { concurrency: 2 }
      )
      for (const answer of draws) assertProblem(answer, 409, "plan-not-active")
    })
  )

  it.effect("a repetition under a key answers the same when the agent was suspended since", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { agentId, call, collection } = yield* makeSetting(service)
      const start = call("POST", collection, { budgetUsd: 5 }, key("start"))
      const started = yield* start
      const change = (action: string, body?: unknown) =>
        call("POST", `${collection}/${started.body.id}/${action}`, body, key(action))
      const extend = change("extend", { additionalUsd: 1 })
      const heartbeat = change("heartbeat")
      const answers = [started, yield* extend, yield* heartbeat]
      yield* call("PATCH", `/api/agents/${agentId}`, { status: "suspended" })
      const again = [yield* start, yield* extend, yield* heartbeat]
      assert.deepStrictEqual(
        again.map(({ status, text }) => [status, text]),
        answers.map(({ status, text }) => [status, text])
      )
      assert.deepStrictEqual(
        answers.map(({ status }) => status),
        [201, 200, 200]
      )
      assertProblem(yield* call("POST", collection, { budgetUsd: 5 }, key("other")), 409, "agent-not-active")
    })
  )

  it.effect("a repeated draw draws once and shows the same caps", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, figures, start } = yield* makeSetting(service)
      const { id } = yield* start()
      const draw = call("POST", "/api/spend/reserve", { planId: id, amountUsd: 1 }, { "idempotency-key": "one draw" })
      const [first, second] = [yield* draw, yield* draw]
      assert.strictEqual(first.status, 201, first.text)
      assert.deepStrictEqual(second.body, first.body)
      assert.strictEqual((yield* figures(id)).reservedUsd, 1)
    })
  )

  it.effect("an agent starts and draws on plans of its own alone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { agentId, call, collection, key, start } = yield* makeSetting(service, [{}], {
        scopeCeiling: ["plans:*", "spend:*"]
      })
      const issued = yield* call("POST", `/api/agents/${agentId}/credentials`, {})
      const other = yield* make(service, "/api/agents", registration(), key)
      const as = (method: string, path: string, body?: unknown) =>
        service.call(method, path, {
          key: null,
          headers: { authorization: `Bearer ${issued.body.accessToken}` },
          ...(body === undefined ? {} : { body })
        })
      const started = yield* as("POST", collection, { budgetUsd: 2 })
      assert.strictEqual(started.status, 201, started.text)
      assert.strictEqual(
        (yield* as("POST", "/api/spend/reserve", { planId: started.body.id, amountUsd: 1 })).status,
        201
      )
      assertProblem(yield* as("POST", `/api/agents/${other.id}/plans`, { budgetUsd: 1 }), 404, "agent-not-found")
      const foreign = yield* make(service, `/api/agents/${other.id}/plans`, { budgetUsd: 1 }, key)
      assertProblem(yield* as("GET", `/api/agents/${other.id}/plans/${foreign.id}`), 404, "agent-not-found")
      assertProblem(
        yield* as("POST", "/api/spend/reserve", { planId: foreign.id, amountUsd: 1 }),
        404,
        "plan-not-found"
      )
      assert.strictEqual((yield* as("GET", `${collection}/${(yield* start({ budgetUsd: 1 })).id}`)).status, 200)
    })
  )

  it.effect("a cap over all tenants is held on, and shown to nobody of one", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = { name: "of all", unit: "usd", limit: 1_000_000, period: "year", tenantId: null }
      const cap = yield* make(service, "/api/budgets/caps", body)
      const { start } = yield* makeSetting(service)
      const { key } = yield* makeKey(service, ["budgets:read"])
      const reserved = Effect.map(
        service.call("GET", `/api/budgets/caps-status?capId=${cap.id}`, { key }),
        ({ body: { items } }) => (items[0]?.reserved ?? 0) as number
      )
      const before = yield* reserved
      yield* start()
      assert.strictEqual(yield* reserved, before + 5)
      assert.strictEqual((yield* service.call("DELETE", `/api/budgets/caps/${cap.id}`)).status, 204)
    })
  )

  it.effect("every counter is what was written", () =>
    Effect.gen(function* () {
      yield* assertNoDrift((yield* TestService).database)
    })
  )
})

layer(serviceLayer({ Budgets__RequireCap: "true" }), { excludeTestServices: true, timeout: "60 seconds" })(
  "plans where a cap is required",
  (it) => {
    it.effect("402: a plan that no cap governs", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { call, collection } = yield* makeSetting(service, [])
        assertProblem(yield* call("POST", collection, { budgetUsd: 5 }), 402, "budget-denied")
        const governed = yield* makeSetting(service, [{ period: "day" }])
        const { id } = yield* governed.start()
        assert.strictEqual((yield* governed.draw(id, 1)).status, 201)
      })
    )
  }
)
