import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, configure, costNanoUsd, model, outlive, provider, usageRows } from "../../support/gateway.ts"
import { assertNoDrift, makeSetting } from "../../support/plans.ts"
import { type Answerer, json, sse, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { openAiVendor } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

const costUsd = costNanoUsd / 1e9

const failing: Answerer = (_, response) => json(response, 500, { error: { message: "No luck." } })
const usage = { prompt_tokens: 10, completion_tokens: 0, total_tokens: 10 }
/** What an empty answer with this usage costs. */
const emptyNanoUsd = 10 * 2000
const empty: Answerer = ({ body }, response) => {
  if (body.stream !== true) return json(response, 200, { choices: [], usage })
  sse(response, [{ choices: [], usage }, "data: [DONE]\n\n"])
  response.end()
}

/** As large as its request allows: what it costs is what it was bounded by. */
const greedy: Answerer = ({ body }, response) => {
  const limit: number = body.max_tokens ?? body.max_completion_tokens ?? 90_000
  json(response, 200, {
    choices: [{ index: 0, message: { role: "assistant", content: "Noon." }, finish_reason: "stop" }],
    usage: { prompt_tokens: 5, completion_tokens: limit, total_tokens: 5 + limit }
  })
}

const setting = Effect.fnUntraced(function* (
  caps: ReadonlyArray<object>,
  answers: readonly [Answerer, ...ReadonlyArray<Answerer>],
  routing: object = {}
) {
  const service = yield* TestService
  const standIns = yield* Effect.forEach(answers, startProvider)
  const ids = standIns.map((_, index) => `p${index + 1}`)
  const providers = standIns.map((one, index) => provider(ids[index] ?? "", one))
  const models = [model("gpt", ids), model("other", ids.toReversed())]
  yield* configure(service, providers, models, routing)
  const made = yield* makeSetting(service, caps)
  const { call, key } = made
  const reserve = Effect.fnUntraced(function* (body: object = {}) {
    const answer = yield* call("POST", "/api/spend/reserve", { amountUsd: 0.05, tokens: 5000, ...body })
    assert.strictEqual(answer.status, 201, answer.text)
    return answer.body.id as string
  })
  const stateOf = (id: string) => Effect.map(call("GET", `/api/spend/reservations/${id}`), ({ body }) => body)
  const asked = (id: string, body: object = {}, headers: Record<string, string> = {}) =>
    ask(service, key, body, { "x-reservation-id": id, ...headers })
  /** A call that is held, and whose reservation is approved. */
  const approved = Effect.fnUntraced(function* (body: object = { max_tokens: 30 }) {
    const held = yield* ask(service, key, body)
    assert.deepStrictEqual([held.status, held.body.error.code], [402, "approval_required"], held.text)
    const id = held.headers.get("x-reservation-id") ?? ""
    const path = `/api/budgets/approvals/${id}/approve`
    assert.strictEqual((yield* service.call("POST", path, { body: { override: true } })).status, 200)
    return id
  })
  const limitsSent = () => standIns.map(({ requests }) => requests.map(({ body }) => body.max_tokens as unknown))
  const states = Effect.map(
    asSuperuser(
      service.database,
      (sql) => sql<{ readonly state: string }>`
        SELECT state FROM budget_reservations WHERE tenant_id = ${made.tenantId} AND origin <> 'plan' ORDER BY id`
    ),
    (rows) => rows.map(({ state }) => state)
  )
  return { ...made, approved, asked, limitsSent, reserve, service, standIns, stateOf, states }
})

const [first, second] = [0, 1] as const

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("an earlier reservation", (it) => {
  it.effect("bounds every attempt of its call, and moves to the target that answers", () =>
    Effect.gen(function* () {
      const { asked, capIds, limitsSent, reserve, service, stateOf, states, utilization } = yield* setting(
        [
          { mode: "soft", scope: { provider: "p1" } },
          { mode: "soft", scope: { provider: "p2" } }
        ],
        [failing, greedy]
      )
      const id = yield* reserve()
      const answer = yield* asked(id)
      assert.deepStrictEqual([answer.status, answer.headers.get("x-reservation-id")], [200, id], answer.text)
      const limits = limitsSent()
      assert.deepStrictEqual(limits[first], limits[second])
      assert.isTrue(Number(limits[second]) > 4900 && Number(limits[second]) <= 5000, String(limits[second]))
      const settled = yield* stateOf(id)
      assert.deepInclude(settled, { state: "settled", provider: "p2" })
      assert.isAtMost(settled.actualUsd, 0.05)
      assert.deepStrictEqual(yield* states, ["settled"])
      assert.deepInclude(yield* utilization(capIds[first]), { spent: 0, reserved: 0 })
      assert.deepInclude(yield* utilization(capIds[second]), { spent: settled.actualUsd, reserved: 0 })
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  for (const amountUsd of [0.5, 0.05]) {
    it.effect(`of ${amountUsd} leaves the next attempt what one that was charged has left`, () =>
      Effect.gen(function* () {
        const { asked, limitsSent, reserve, service, stateOf, states, tenantId } = yield* setting([], [empty, greedy])
        const id = yield* reserve({ amountUsd })
        const answer = yield* asked(id)
        assert.strictEqual(answer.status, 200, answer.text)
        assert.deepInclude(yield* stateOf(id), {
          state: "settled",
          amountUsd,
          actualUsd: emptyNanoUsd / 1e9
        })
        assert.isNumber(limitsSent()[second]?.[0])
        assert.deepStrictEqual(yield* states, ["settled", "settled"])
        const rows = yield* usageRows(service, tenantId)
        assert.deepStrictEqual(
          rows.map(({ provider }) => provider),
          ["p1", "p2"]
        )
        assert.isAtMost(
          rows.reduce((sum, { cost }) => sum + Number(cost), 0),
          amountUsd * 1e9
        )
        yield* assertNoDrift(service.database)
      }).pipe(Effect.scoped)
    )
  }

  it.effect("bounds repetitions at one target, and fallbacks to another model", () =>
    Effect.gen(function* () {
      let fails = 1
      const { asked, key, limitsSent, reserve, service, standIns, stateOf, states } = yield* setting(
        [],
        [(request, response) => (fails-- > 0 ? empty(request, response) : openAiVendor(request, response)), failing],
        { retries: 1 }
      )
      const id = yield* reserve()
      const answer = yield* asked(id)
      assert.strictEqual(answer.status, 200, answer.text)
      const [limits = []] = limitsSent()
      assert.lengthOf(limits, 2)
      assert.isTrue(Number(limits[1]) <= Number(limits[0]))
      assert.deepInclude(yield* stateOf(id), { state: "settled", actualUsd: emptyNanoUsd / 1e9 })
      assert.deepStrictEqual(yield* states, ["settled", "settled"])
      const next = yield* reserve()
      standIns[first]!.answer = (request, response) =>
        (request.body.model === "gpt" ? failing : openAiVendor)(request, response)
      const fellBack = yield* service.call("POST", "/api/llm/complete", {
        key,
        body: {
          model: "gpt",
          fallbacks: ["other"],
          messages: [{ role: "user", content: "Hi" }],
          reservationId: next
        }
      })
      assert.deepStrictEqual([fellBack.status, fellBack.body.reservationId], [200, next], fellBack.text)
      assert.deepInclude(yield* stateOf(next), { state: "settled", model: "other", provider: "p1", actualUsd: costUsd })
      for (const sent of limitsSent().flat()) assert.isNumber(sent)
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("that was approved is used by the target that works, once", () =>
    Effect.gen(function* () {
      const { approved, asked, capIds, key, service, stateOf, utilization } = yield* setting(
        [{ mode: "approval", limit: 0 }],
        [failing, openAiVendor]
      )
      const id = yield* approved()
      const answer = yield* asked(id, { max_tokens: 30 })
      assert.deepStrictEqual([answer.status, answer.headers.get("x-reservation-id")], [200, id], answer.text)
      assert.deepInclude(yield* stateOf(id), {
        state: "settled",
        origin: "gateway",
        provider: "p2",
        actualUsd: costUsd
      })
      assert.deepInclude(yield* utilization(capIds[0]), { spent: costUsd, reserved: 0 })
      const again = yield* asked(id, { max_tokens: 30 })
      assert.strictEqual(again.status, 409)
      assert.strictEqual((yield* ask(service, key, { max_tokens: 30 })).status, 402)
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("is its caller's again where no attempt was charged, as it was", () =>
    Effect.gen(function* () {
      const { approved, asked, capIds, service, standIns, stateOf, tenantId, utilization } = yield* setting(
        [{ mode: "approval", limit: 0 }],
        [failing]
      )
      const id = yield* approved({ max_tokens: 60 })
      const before = yield* stateOf(id)
      for (const stream of [false, true]) {
        const failed = yield* asked(id, { max_tokens: 30, stream })
        assert.strictEqual(failed.status, 500, failed.text)
        const { expiresAt, ...rest } = yield* stateOf(id)
        const { expiresAt: expiredAt, ...had } = before
        assert.deepStrictEqual(rest, had)
        assert.isAtLeast(Date.parse(expiresAt), Date.parse(expiredAt))
        assert.deepInclude(yield* utilization(capIds[0]), { spent: 0, reserved: before.amountUsd })
      }
      assert.deepStrictEqual(
        (yield* usageRows(service, tenantId)).map(({ cost, method, status }) => [Number(cost), method, status]),
        [
          [0, "released", 500],
          [0, "released", 500]
        ]
      )
      standIns[0]!.answer = openAiVendor
      const answer = yield* asked(id, { max_tokens: 30 })
      assert.strictEqual(answer.status, 200, answer.text)
      assert.deepInclude(yield* stateOf(id), { state: "settled", actualUsd: costUsd })
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("that was approved is not spent on another cap, nor its approval by another call", () =>
    Effect.gen(function* () {
      const { approved, asked, capIds, key, service, standIns, stateOf, utilization } = yield* setting(
        [{ mode: "approval", limit: 0, scope: { provider: "p1" } }],
        [failing, failing]
      )
      const id = yield* approved()
      const failed = yield* asked(id, { max_tokens: 30 })
      assert.strictEqual(failed.status, 500, failed.text)
      const { amountUsd } = yield* stateOf(id)
      assert.deepInclude(yield* utilization(capIds[0]), { spent: 0, reserved: amountUsd })
      assert.strictEqual((yield* ask(service, key, { max_tokens: 30 })).status, 402)
      standIns[1]!.answer = openAiVendor
      assert.strictEqual((yield* asked(id, { max_tokens: 30 })).status, 200)
      assert.deepInclude(yield* stateOf(id), { state: "settled", provider: "p2", actualUsd: costUsd })
      // Nothing was spent at the provider that it was approved for, and nothing more may be.
      assert.deepInclude(yield* utilization(capIds[0]), { spent: 0, reserved: 0, headroom: 0 })
      assert.strictEqual((yield* ask(service, key, { max_tokens: 30 })).status, 402)
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("that was approved serves the next attempt with what one that was charged leaves", () =>
    Effect.gen(function* () {
      const { approved, asked, capIds, key, service, standIns, stateOf, states, utilization } = yield* setting(
        [{ mode: "approval", limit: 0 }],
        [empty, openAiVendor]
      )
      const id = yield* approved({ max_tokens: 300 })
      const answer = yield* asked(id, {})
      assert.strictEqual(answer.status, 200, answer.text)
      assert.deepInclude(yield* stateOf(id), { state: "settled", actualUsd: emptyNanoUsd / 1e9 })
      const spent = (emptyNanoUsd + costNanoUsd) / 1e9
      assert.deepInclude(yield* utilization(capIds[0]), { spent, reserved: 0, headroom: 0 })
      assert.deepStrictEqual(yield* states, ["settled", "settled"])
      // Where no other attempt follows, or none answers, what is left is nobody's.
      standIns[1]!.answer = failing
      const unlucky = yield* approved({ max_tokens: 300 })
      const failed = yield* asked(unlucky, {})
      assert.strictEqual(failed.status, 500, failed.text)
      assert.deepStrictEqual(yield* states, ["settled", "settled", "settled", "released"])
      assert.deepInclude(yield* utilization(capIds[0]), { spent: spent + emptyNanoUsd / 1e9, reserved: 0, headroom: 0 })
      assert.strictEqual((yield* ask(service, key, { max_tokens: 30 })).status, 402)
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("that was approved as one request is not held again for a second one", () =>
    Effect.gen(function* () {
      const { approved, asked, service, standIns, states } = yield* setting(
        [{ unit: "requests", mode: "approval", limit: 0 }],
        [empty, openAiVendor]
      )
      const failed = yield* asked(yield* approved({ max_tokens: 300 }), { max_tokens: 30 })
      assert.deepStrictEqual([failed.status, failed.body.error.code], [502, "provider-unavailable"], failed.text)
      assert.isEmpty(standIns[second]?.requests)
      assert.deepStrictEqual(yield* states, ["settled"])
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("counts on the caps of each target, and on its own once it is returned", () =>
    Effect.gen(function* () {
      const { asked, call, capIds, reserve, service, standIns, stateOf, tenantId, utilization } = yield* setting(
        [
          { scope: { provider: "p2" }, limit: 0.01 },
          { scope: { provider: "p1" } },
          { scope: { model: "elsewhere" } },
          { unit: "tokens", limit: 5010 },
          { unit: "requests", limit: 2 }
        ],
        [failing, openAiVendor]
      )
      const id = yield* reserve({ model: "elsewhere", tokens: 10 })
      const had = { tokens: 10, model: "elsewhere", state: "open", origin: "api" }
      const denied = yield* asked(id, { max_tokens: 30 })
      assert.deepStrictEqual([denied.status, denied.body.error.code], [402, "request_exceeds_budget"], denied.text)
      assert.isEmpty(standIns[1]?.requests)
      assert.deepInclude(yield* stateOf(id), had)
      const reserved = [0, 0, 0.05, 10, 1]
      for (const [index, one] of reserved.entries()) {
        assert.deepInclude(yield* utilization(capIds[index]), { spent: 0, reserved: one })
      }
      const changed = yield* call("PUT", `/api/budgets/caps/${capIds[0]}`, {
        name: "a cap",
        unit: "usd",
        period: "month",
        limit: 1,
        scope: { provider: "p2" }
      })
      assert.strictEqual(changed.status, 200, changed.text)
      assert.strictEqual((yield* asked(id, { max_tokens: 30 })).status, 200)
      for (const [index, spent] of [costUsd, 0, 0, 120, 1].entries()) {
        assert.deepInclude(yield* utilization(capIds[index]), { spent, reserved: 0 })
      }
      // Its time goes on when it is returned.
      standIns[1]!.answer = failing
      const late = yield* reserve({ tokens: 10 })
      assert.strictEqual((yield* asked(late, { max_tokens: 30 })).status, 500)
      yield* outlive(service, tenantId)
      yield* eventually(stateOf(late), ({ state }) => state === "expired")
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("is returned under its Idempotency-Key, and when its caller leaves between two attempts", () =>
    Effect.gen(function* () {
      let wasAsked: (() => void) | undefined
      const busy: Answerer = (_, response) => {
        json(response, 429, { error: { message: "Later." } }, { "retry-after": "9" })
        wasAsked?.()
      }
      const { approved, asked, key, service, standIns, stateOf } = yield* setting(
        [{ mode: "approval", limit: 0 }],
        [failing],
        { retries: 1 }
      )
      const id = yield* approved()
      const keyed = { "idempotency-key": id }
      const failed = yield* asked(id, { max_tokens: 30 }, keyed)
      assert.strictEqual(failed.status, 500, failed.text)
      assert.deepInclude(yield* stateOf(id), { state: "open", origin: "api" })
      standIns[0]!.answer = busy
      yield* Effect.promise(async () => {
        const controller = new AbortController()
        const asking = new Promise<void>((resolve) => (wasAsked = resolve))
        const response = fetch(`${service.url}/v1/chat/completions`, {
          method: "POST",
          signal: controller.signal,
          headers: { "x-api-key": key, "content-type": "application/json", "x-reservation-id": id, ...keyed },
          body: JSON.stringify({
            model: "gpt",
            messages: [{ role: "user", content: "What time is it?" }],
            max_tokens: 30
          })
        }).catch(() => undefined)
        await asking
        controller.abort()
        await response
      })
      yield* eventually(stateOf(id), ({ origin, state }) => state === "open" && origin === "api")
      standIns[0]!.answer = openAiVendor
      const answer = yield* asked(id, { max_tokens: 30 }, keyed)
      assert.strictEqual(answer.status, 200, answer.text)
      const again = yield* asked(id, { max_tokens: 30 }, keyed)
      assert.strictEqual(again.status, 409)
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("is used once, however many try at once and whatever fails first", () =>
    Effect.gen(function* () {
      const { asked, reserve, service, stateOf, tenantId } = yield* setting([{}], [failing, openAiVendor])
      const id = yield* reserve()
      const answers = yield* Effect.forEach(Array.from({ length: 8 }), () => asked(id, { max_tokens: 30 }), {
        concurrency: 8
      })
      assert.deepStrictEqual(
        answers.map(({ status }) => status).toSorted((a, b) => a - b),
        [200, ...Array.from({ length: 7 }, () => 409)]
      )
      assert.deepInclude(yield* stateOf(id), { state: "settled", actualUsd: costUsd })
      assert.lengthOf(yield* usageRows(service, tenantId), 1)
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("of a plan moves and is returned within it, and is released where the plan ends meanwhile", () =>
    Effect.gen(function* () {
      const { asked, capIds, figures, planCall, draw, service, standIns, start, stateOf, utilization } = yield* setting(
        [{}, { scope: { provider: "p2" }, limit: 1 }, { unit: "requests", limit: 100 }],
        [failing, failing]
      )
      const plan = yield* start({ taskType: "summaries", budgetUsd: 0.02 })
      const id: string = (yield* draw(plan.id, 0.005)).body.id
      assert.strictEqual((yield* asked(id, { max_tokens: 30 })).status, 500)
      assert.deepInclude(yield* stateOf(id), { state: "open", origin: "api", planId: plan.id })
      assert.deepInclude(yield* figures(plan.id), { spentUsd: 0, reservedUsd: 0.005 })
      assert.deepInclude(yield* utilization(capIds[second]), { spent: 0, reserved: 0 })
      yield* assertNoDrift(service.database)
      standIns[first]!.answer = empty
      standIns[second]!.answer = openAiVendor
      assert.strictEqual((yield* asked(id)).status, 200)
      const spentUsd = (emptyNanoUsd + costNanoUsd) / 1e9
      assert.deepInclude(yield* figures(plan.id), { spentUsd, reservedUsd: 0, remainingUsd: 0.02 - spentUsd })
      assert.deepInclude(yield* utilization(capIds[first]), { spent: spentUsd, reserved: 0.02 - spentUsd })
      assert.deepInclude(yield* utilization(capIds[second]), { spent: costUsd, reserved: 0 })
      yield* assertNoDrift(service.database)

      const over: string = (yield* draw(plan.id, 0.005)).body.id
      standIns[first]!.answer = failing
      standIns[second]!.answer = (request, response) =>
        void Effect.runPromise(planCall(plan.id, "abort")).then(() => failing(request, response))
      assert.strictEqual((yield* asked(over, { max_tokens: 30 })).status, 500)
      assert.deepInclude(yield* stateOf(over), { state: "released" })
      assert.deepInclude(yield* utilization(capIds[first]), { spent: spentUsd, reserved: 0 })
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("is charged where its provider may have answered, and where its process was killed", () =>
    Effect.gen(function* () {
      const { asked, reserve, service, standIns, stateOf, tenantId } = yield* setting([{}], [failing, failing])
      standIns[second]!.answer = (_, response) => void response.destroy()
      const id = yield* reserve()
      assert.strictEqual((yield* asked(id, { max_tokens: 30 })).status, 502)
      assert.deepInclude(yield* stateOf(id), { state: "settled", actualUsd: 0.05 })
      const killed = yield* reserve()
      standIns[second]!.answer = (_, response) => {
        const swept = Effect.andThen(
          outlive(service, tenantId),
          eventually(stateOf(killed), ({ state }) => state === "settled")
        )
        void Effect.runPromise(swept).then(() => response.destroy())
      }
      yield* asked(killed, { max_tokens: 30 })
      assert.deepInclude(yield* stateOf(killed), { state: "settled", actualUsd: 0.05 })
      const again = yield* asked(killed, { max_tokens: 30 })
      assert.deepStrictEqual([again.status, again.body.error.code], [409, "reservation_managed"], again.text)
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )
})
