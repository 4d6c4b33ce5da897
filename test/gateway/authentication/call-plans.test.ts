import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, configure, costNanoUsd, model, provider } from "../../support/gateway.ts"
import { assertNoDrift, makeSetting, silence } from "../../support/plans.ts"
import { assertProblem } from "../../support/problem.ts"
import { startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"

const complete = "/api/llm/complete"
const costUsd = costNanoUsd / 1e9

const setting = Effect.fnUntraced(function* (agent: object = {}) {
  const service = yield* TestService
  const standIn = yield* startProvider(openAiVendor)
  yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
  const made = yield* makeSetting(service, [{}], agent)
  const native = (body: object) =>
    service.call("POST", complete, {
      key: made.key,
      body: { model: "gpt", messages: [{ role: "user", content: "Hi" }], maxTokens: 30, ...body }
    })
  return { ...made, native, service, standIn }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("calls under a plan", (it) => {
  it.effect("are charged from the plan's hold, on every route alike", () =>
    Effect.gen(function* () {
      const { capIds, figures, key, native, service, utilization, start } = yield* setting()
      const { id } = yield* start({ taskType: "summaries", budgetUsd: 0.001 })
      const leftUsd = (1_000_000 - 2 * costNanoUsd) / 1e9
      const answer = yield* native({ planId: id })
      assert.strictEqual(answer.status, 200, answer.text)
      assert.strictEqual(answer.body.planId, id)
      const wire = yield* ask(service, key, { max_tokens: 20 }, { "x-plan-id": id })
      assert.strictEqual(wire.status, 200, wire.text)
      assert.strictEqual(wire.headers.get("x-budget-remaining-usd"), String(leftUsd))
      assert.deepInclude(yield* figures(id), {
        spentUsd: 2 * costUsd,
        reservedUsd: 0,
        remainingUsd: leftUsd
      })
      // The plan's budget is what the cap has kept free, before and after: nothing is charged twice.
      assert.deepInclude(yield* utilization(capIds[0]), {
        spent: 2 * costUsd,
        reserved: leftUsd
      })
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("are denied where the plan has no room, though its caps have", () =>
    Effect.gen(function* () {
      const { key, native, service, standIn, start } = yield* setting()
      const { id } = yield* start({ budgetUsd: 0.0001 })
      const denied = yield* native({ planId: id, maxTokens: 1000 })
      assertProblem(denied, 402, "budget-denied")
      assert.strictEqual(denied.body.planId, id)
      const wire = yield* ask(service, key, { max_tokens: 1000 }, { "x-plan-id": id })
      assert.deepStrictEqual([wire.status, wire.body.error.code], [402, "request_exceeds_budget"])
      assert.isEmpty(standIn.requests)
    }).pipe(Effect.scoped)
  )

  it.effect("send a limit that fits into the plan where none was asked for", () =>
    Effect.gen(function* () {
      const { native, standIn, start } = yield* setting()
      const { id } = yield* start({ budgetUsd: 0.0012 })
      const answer = yield* native({ planId: id, maxTokens: undefined })
      assert.strictEqual(answer.status, 200, answer.text)
      const sent: number = standIn.requests[0]?.body.max_tokens
      assert.isTrue(sent > 0 && sent * 10_000 < 1_200_000, String(sent))
    }).pipe(Effect.scoped)
  )

  it.effect("have the plan's agent and task type, and no other's", () =>
    Effect.gen(function* () {
      const { agentId, key, native, service, start } = yield* setting({ defaultTaskType: "extraction" })
      const summaries = yield* start({ taskType: "summaries" })
      assert.strictEqual((yield* native({ planId: summaries.id, agentId, taskType: "summaries" })).status, 200)
      const wrong = yield* native({ planId: summaries.id, taskType: "extraction" })
      assertProblem(wrong, 400, "validation-failed")
      assert.deepStrictEqual(wrong.body.errors[0].path, ["payload", "taskType"])
      const wire = yield* ask(service, key, {}, { "x-plan-id": summaries.id, "x-task-type": "extraction" })
      assert.deepStrictEqual([wire.status, wire.body.error.code], [400, "task_type_not_allowed"])
      // The agent's default is none of a plan without a task type.
      const untyped = yield* start()
      assert.strictEqual((yield* native({ planId: untyped.id })).status, 200)
      const other = yield* makeSetting(service)
      const { id: foreign } = yield* other.start()
      for (const answer of [
        yield* native({ planId: foreign }),
        yield* native({ planId: foreign, agentId }),
        yield* native({ planId: agentId }),
        yield* service.call("POST", complete, {
          body: { model: "gpt", messages: [{ role: "user", content: "Hi" }], agentId, planId: foreign }
        })
      ]) {
        assertProblem(answer, 404, "plan-not-found")
      }
      assert.strictEqual((yield* ask(service, key, {}, { "x-plan-id": foreign })).status, 404)
      assert.strictEqual((yield* ask(service, key, {}, { "x-plan-id": "none" })).status, 400)
    }).pipe(Effect.scoped)
  )

  it.effect("are refused once the plan is not active, and settle late when it ended meanwhile", () =>
    Effect.gen(function* () {
      const { figures, key, native, planCall, service, standIn, utilization, start } = yield* setting()
      const done = yield* start()
      assert.strictEqual((yield* planCall(done.id, "complete")).status, 200)
      const refused = yield* native({ planId: done.id })
      assertProblem(refused, 409, "plan-not-active")
      assert.strictEqual(refused.body.planStatus, "completed")
      const wire = yield* ask(service, key, {}, { "x-plan-id": done.id })
      assert.deepStrictEqual([wire.status, wire.headers.get("x-should-retry")], [409, "false"])
      const silent = yield* start()
      yield* silence(service.database, silent.id, 130)
      assert.strictEqual((yield* native({ planId: silent.id })).body.planStatus, "suspended")
      assert.isEmpty(standIn.requests)

      const aborted = yield* start({ budgetUsd: 0.01 })
      standIn.answer = (request, response) => {
        void Effect.runPromise(planCall(aborted.id, "abort")).then(() => openAiVendor(request, response))
      }
      assert.strictEqual((yield* native({ planId: aborted.id })).status, 200)
      assert.deepInclude(yield* figures(aborted.id), { status: "aborted", spentUsd: costUsd, reservedUsd: 0 })
      yield* planCall(silent.id, "abort")
      assert.deepInclude(yield* utilization(), { spent: costUsd, reserved: 0 })
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )
})
