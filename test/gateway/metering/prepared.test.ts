import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeAgent, tokenOf } from "../../support/agents.ts"
import { makeKey } from "../../support/authority.ts"
import { ask, charges, configure, costNanoUsd, counters, model, outlive, provider } from "../../support/gateway.ts"
import { assertNoDrift, makeSetting } from "../../support/plans.ts"
import { assertProblem } from "../../support/problem.ts"
import { startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

const complete = "/api/llm/complete"
const costUsd = costNanoUsd / 1e9

const setting = Effect.fnUntraced(function* (caps: ReadonlyArray<object> = [{}]) {
  const service = yield* TestService
  const standIn = yield* startProvider(openAiVendor)
  yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
  const made = yield* makeSetting(service, caps)
  const native = (reservationId: string, body: object = {}, key = made.key) =>
    service.call("POST", complete, {
      key,
      body: { model: "gpt", messages: [{ role: "user", content: "Hi" }], maxTokens: 30, reservationId, ...body }
    })
  const reserve = Effect.fnUntraced(function* (body: object = {}) {
    const answer = yield* made.call("POST", "/api/spend/reserve", { amountUsd: 0.01, ...body })
    assert.strictEqual(answer.status, 201, answer.text)
    return answer.body.id as string
  })
  const stateOf = (id: string) => Effect.map(made.call("GET", `/api/spend/reservations/${id}`), ({ body }) => body)
  return { ...made, native, reserve, service, standIn, stateOf }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a prepared reservation", (it) => {
  it.effect("is what the call is charged to, and the gateway's from then on", () =>
    Effect.gen(function* () {
      const { call, key, native, reserve, service, utilization, stateOf } = yield* setting()
      const first = yield* reserve()
      const answer = yield* native(first)
      assert.strictEqual(answer.status, 200, answer.text)
      assert.strictEqual(answer.body.reservationId, first)
      assert.deepInclude(yield* stateOf(first), {
        origin: "gateway",
        state: "settled",
        actualUsd: costUsd,
        model: "gpt",
        provider: "oa"
      })
      const second = yield* reserve()
      const wire = yield* ask(service, key, { max_tokens: 30 }, { "x-reservation-id": second })
      assert.strictEqual(wire.headers.get("x-reservation-id"), second, wire.text)
      assert.strictEqual(wire.headers.get("x-budget-remaining-usd"), String(10 - (2 * costNanoUsd) / 1e9))
      assert.deepInclude(yield* utilization(), { spent: 2 * costUsd, reserved: 0 })
      // Once is once.
      const again = yield* native(first)
      assertProblem(again, 409, "reservation-managed")
      const third = yield* ask(service, key, {}, { "x-reservation-id": second })
      assert.deepStrictEqual([third.status, third.headers.get("x-should-retry")], [409, "false"])
      assertProblem(
        yield* call("POST", "/api/spend/reconcile", { reservationId: first, actualUsd: 1 }),
        409,
        "reservation-managed"
      )
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("counts on the caps that govern the call, whatever it was reserved for", () =>
    Effect.gen(function* () {
      const { call, capIds, key, native, reserve, service, utilization, tenantId } = yield* setting([
        {},
        { scope: { model: "each" } },
        { scope: { model: "other" } },
        { scope: { provider: "oa" }, limit: 0.02 },
        { unit: "tokens", limit: 10_000 }
      ])
      const id = yield* reserve({ model: "other", amountUsd: 0.01 })
      assert.deepInclude(yield* utilization(capIds[2]), { reserved: 0.01 })
      assert.strictEqual((yield* native(id)).status, 200)
      for (const cap of [0, 3]) assert.deepInclude(yield* utilization(capIds[cap]), { spent: costUsd, reserved: 0 })
      const { items } = (yield* call("GET", `/api/budgets/caps-status?capId=${capIds[1]}`)).body
      assert.sameDeepMembers(
        items.map(({ reserved, spent }: { reserved: number; spent: number }) => ({ reserved, spent })),
        [
          { reserved: 0, spent: 0 },
          { reserved: 0, spent: costUsd }
        ]
      )
      assert.deepInclude(yield* utilization(capIds[2]), { spent: 0, reserved: 0 })
      assert.deepInclude(yield* utilization(capIds[4]), { spent: 120, reserved: 0 })
      // Where only what is in flight is in the way, it is of use to come again.
      const inFlight = yield* reserve({ provider: "oa", amountUsd: 0.015 })
      const early = yield* reserve({ model: "other", amountUsd: 0.01 })
      const later = yield* ask(service, key, { max_tokens: 30 }, { "x-reservation-id": early })
      assert.deepStrictEqual([later.status, later.headers.get("retry-after")], [429, "1"])
      for (const id of [inFlight, early]) {
        assert.strictEqual((yield* call("DELETE", `/api/spend/reservations/${id}`)).status, 204)
      }
      // A cap that the reservation does not hold lets no more in than it has room for.
      const larger = yield* reserve({ model: "other", amountUsd: 0.03 })
      const denied = yield* native(larger)
      assertProblem(denied, 402, "budget-denied")
      assert.strictEqual(denied.body.capId, capIds[3])
      const entries = yield* call("GET", `/api/audit-logs?actionType=SpendRefused&entityId=${capIds[3]}`)
      assert.match(entries.body.items[0].reason, /the amount is more than it ever allows/)
      assert.deepInclude(yield* utilization(capIds[0]), { spent: costUsd, reserved: 0.03 })
      // What was reserved ahead is of no use against a cap in tokens that is full.
      const cap = { name: "few", unit: "tokens", limit: 100, period: "total" }
      const made = yield* service.call("POST", "/api/budgets/caps", { body: { ...cap, tenantId } })
      assert.strictEqual(made.status, 201)
      const full = yield* native(yield* reserve({ amountUsd: 0.01, tokens: 10 }))
      assertProblem(full, 402, "budget-denied")
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("must be large enough, and sets the limit that is sent where none was asked for", () =>
    Effect.gen(function* () {
      const { native, reserve, standIn, stateOf } = yield* setting([])
      const small = yield* reserve({ amountUsd: 0.001 })
      const refused = yield* native(small, { maxTokens: 1000 })
      assertProblem(refused, 409, "reservation-too-small")
      assert.isAbove(refused.body.estimateUsd, 0.01)
      assert.deepInclude(yield* stateOf(small), { state: "open", origin: "api" })
      assert.strictEqual((yield* native(small, { maxTokens: undefined })).status, 200)
      const sent: number = standIn.requests[0]?.body.max_tokens
      assert.isTrue(sent > 0 && sent * 10_000 < 1_000_000, String(sent))
    }).pipe(Effect.scoped)
  )

  it.effect("holds for all attempts of its call together, as the budget of an agent's turn does", () =>
    Effect.gen(function* () {
      const { capIds, key, reserve, service, standIn, utilization } = yield* setting()
      const targets = Array.from({ length: 8 }, (_, index) => `broken-${index}`)
      const broken = yield* startProvider((_, response) => void response.destroy())
      yield* configure(
        service,
        [provider("oa", standIn), ...targets.map((id) => provider(id, broken))],
        [model("gpt", [...targets, "oa"])]
      )
      // An attempt that may have been answered is charged in full; there are eight of them before one that answers.
      const id = yield* reserve({ amountUsd: 0.001 })
      const refused = yield* ask(service, key, { max_tokens: 30 }, { "x-reservation-id": id })
      assert.deepStrictEqual([refused.status, refused.body.error.code], [502, "provider-unavailable"], refused.text)
      assert.isAtMost((yield* utilization(capIds[0])).spent, 0.001)
      assert.isBelow(broken.requests.length, targets.length)
      assert.isEmpty(standIn.requests)

      const sent = broken.requests.length
      const agent = yield* makeAgent(service, { perTurnBudget: 0.001 })
      const { accessToken } = yield* tokenOf(service, agent)
      const turn = yield* service.call("POST", "/v1/chat/completions", {
        key: null,
        headers: { authorization: `Bearer ${accessToken}` },
        body: { model: "gpt", max_tokens: 30, messages: [{ role: "user", content: "Hi" }] }
      })
      assert.deepStrictEqual([turn.status, turn.body.error.code], [502, "provider-unavailable"], turn.text)
      assert.isBelow(broken.requests.length - sent, targets.length)
      const { body } = yield* service.call("GET", `/api/usage?agentId=${agent.id}`)
      const costs: ReadonlyArray<number> = body.items.map(({ costUsd }: { readonly costUsd: number }) => costUsd)
      assert.isAbove(costs.length, 0)
      assert.isAtMost(
        costs.reduce((sum, cost) => sum + cost, 0),
        0.001
      )
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("is of use to whoever made it alone, for the agent and the plan that it was made for", () =>
    Effect.gen(function* () {
      const { agentId, figures, native, reserve, service, start, tenantId } = yield* setting()
      const id = yield* reserve()
      const { key: other } = yield* makeKey(service, ["*:*"], { tenantId })
      assertProblem(yield* native(id, {}, other), 403, "forbidden")
      const { key: foreign } = yield* makeKey(service, ["*:*"])
      assert.strictEqual((yield* native(id, {}, foreign)).status, 404)
      assertProblem(yield* native(agentId), 404, "reservation-not-found")
      assert.strictEqual((yield* native("none")).status, 400)
      const agent = yield* makeAgent(service)
      assert.strictEqual((yield* native(id, { agentId: agent.id })).status, 404)
      assertProblem(yield* native(id, { agentId }), 403, "forbidden")
      const forAgent = yield* reserve({ agentId })
      assert.strictEqual((yield* native(forAgent)).status, 200)
      const plan = yield* start({ taskType: "summaries", budgetUsd: 0.01 })
      const drawn = yield* reserve({ planId: plan.id, amountUsd: 0.005 })
      const another = yield* start({ taskType: "summaries" })
      assertProblem(yield* native(drawn, { planId: another.id }), 404, "plan-not-found")
      assertProblem(yield* native(id, { planId: plan.id }), 403, "forbidden")
      const answer = yield* native(drawn)
      assert.strictEqual(answer.body.planId, plan.id, answer.text)
      assert.deepInclude(yield* figures(plan.id), { spentUsd: costUsd, reservedUsd: 0 })
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("is none when it was released, or its time is over", () =>
    Effect.gen(function* () {
      const { call, native, reserve, service, stateOf, tenantId } = yield* setting()
      const released = yield* reserve()
      assert.strictEqual((yield* call("DELETE", `/api/spend/reservations/${released}`)).status, 204)
      const refused = yield* native(released)
      assertProblem(refused, 409, "reservation-not-open")
      assert.strictEqual(refused.body.state, "released")
      const late = yield* reserve()
      yield* outlive(service, tenantId)
      assert.strictEqual((yield* native(late)).status, 409)
      yield* eventually(stateOf(late), ({ state }) => state === "expired")
    }).pipe(Effect.scoped)
  )

  it.effect("that was held is of use once somebody approved it, and costs nothing if it is not used", () =>
    Effect.gen(function* () {
      const { capIds, key, native, service, utilization, stateOf, tenantId } = yield* setting([
        { mode: "approval", limit: 0 }
      ])
      const held = yield* ask(service, key, { max_tokens: 30 })
      assert.deepStrictEqual([held.status, held.body.error.code], [402, "approval_required"])
      const id = held.headers.get("x-reservation-id") ?? ""
      const same = yield* service.call("POST", complete, {
        key,
        body: { model: "gpt", messages: [{ role: "user", content: "Hi" }], maxTokens: 30, reservationId: id }
      })
      assertProblem(same, 402, "approval-required")
      assert.strictEqual(same.body.reservationId, id)
      const approve = (one: string) =>
        service.call("POST", `/api/budgets/approvals/${one}/approve`, { body: { override: true } })
      assert.strictEqual((yield* approve(id)).status, 200)
      const answer = yield* ask(service, key, { max_tokens: 30 }, { "x-reservation-id": id })
      assert.strictEqual(answer.status, 200, answer.text)
      assert.deepInclude(yield* stateOf(id), { state: "settled", origin: "gateway", actualUsd: costUsd })

      const unused = (yield* ask(service, key, { max_tokens: 3000 })).headers.get("x-reservation-id") ?? ""
      assert.strictEqual((yield* approve(unused)).status, 200)
      yield* outlive(service, tenantId)
      yield* eventually(stateOf(unused), ({ state }) => state === "expired")
      assert.deepInclude(yield* utilization(capIds[0]), { spent: costUsd, reserved: 0 })
      assertProblem(yield* native(unused), 409, "reservation-not-open")
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("was held by a full cap in requests, whatever the model costs, and is of use once approved", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(openAiVendor)
      const free = { prices: { inputUsdPerMTok: 0, outputUsdPerMTok: 0 } }
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"]), model("gratis", ["oa"], free)])
      const { key } = yield* makeSetting(service, [{ unit: "requests", mode: "approval", limit: 1 }])
      assert.strictEqual((yield* ask(service, key)).status, 200)
      for (const name of ["gpt", "gratis"]) {
        const held = yield* ask(service, key, { model: name })
        assert.deepStrictEqual([held.status, held.body.error.code], [402, "approval_required"], held.text)
        const id = held.headers.get("x-reservation-id") ?? ""
        const path = `/api/budgets/approvals/${id}/approve`
        assert.strictEqual((yield* service.call("POST", path, { body: { override: true } })).status, 200)
        const answer = yield* ask(service, key, { model: name }, { "x-reservation-id": id })
        assert.strictEqual(answer.status, 200, answer.text)
      }
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("is used once, however many try at once", () =>
    Effect.gen(function* () {
      const { key, reserve, service, tenantId } = yield* setting()
      const id = yield* reserve()
      const answers = yield* Effect.forEach(
        Array.from({ length: 8 }),
        () => ask(service, key, { max_tokens: 30 }, { "x-reservation-id": id }),
        { concurrency: 8 }
      )
      assert.deepStrictEqual(
        answers.map(({ status }) => status).toSorted((a, b) => a - b),
        [200, ...Array.from({ length: 7 }, () => 409)]
      )
      assert.lengthOf(yield* charges(service, tenantId), 1)
      const [counter] = yield* counters(service, tenantId)
      assert.deepStrictEqual(counter, { spent: String(costNanoUsd), reserved: "0" })
    }).pipe(Effect.scoped)
  )
})
