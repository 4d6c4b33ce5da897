import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { repeatRow } from "../../support/ledger.ts"
import { assertNoDrift, makeSetting } from "../../support/plans.ts"
import { faultPaths } from "../../support/problem.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const most = 8_388_607.999999999
const mostTokens = Number.MAX_SAFE_INTEGER

/** A member as it stands in the text of an answer, where JSON.parse would round it. */
const written = (text: string, member: string): ReadonlyArray<string> =>
  Array.from(text.matchAll(new RegExp(`"${member}":(-?[0-9.]+)[,}]`, "g")), ([, digits]) => digits ?? "")

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("sums that no double holds", (it) => {
  // Invariant L21
  it.effect("are exact to the nano-dollar wherever they are answered", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const alertThresholds = [{ measure: "spent", percent: 300 }]
      const { call, capIds } = yield* makeSetting(service, [{ limit: most, mode: "soft", alertThresholds }])
      const [capId = ""] = capIds
      for (let times = 0; times < 3; times++) {
        const { body } = yield* call("POST", "/api/spend/reserve", { amountUsd: most })
        yield* call("POST", "/api/spend/reconcile", { reservationId: body.id, actualUsd: most })
      }
      yield* call("POST", "/api/spend/reserve", { amountUsd: most })
      const spent = "25165823.999999997"
      assert.notStrictEqual(String(Number(spent)), spent)
      const status = yield* call("GET", "/api/budgets/caps-status")
      assert.deepStrictEqual(written(status.text, "spent"), [spent])
      assert.deepStrictEqual(written(status.text, "reserved"), [String(most)])
      const alerts = yield* call("GET", "/api/budgets/alerts")
      assert.deepStrictEqual(written(alerts.text, "spent"), [spent])

      for (let times = 0; times < 4; times++) {
        yield* call("POST", `/api/budgets/caps/${capId}/grants`, { amount: most, reason: "much" })
      }
      yield* call("PUT", `/api/budgets/caps/${capId}`, { name: "a cap", limit: most, mode: "hard" })
      assert.deepStrictEqual(written((yield* call("GET", "/api/budgets/caps-status")).text, "grants"), [
        "33554431.999999996"
      ])
      const denied = yield* call("POST", "/api/spend/reserve", { amountUsd: most })
      const last = yield* call("POST", "/api/spend/reserve", { amountUsd: 0.000000001 })
      assert.strictEqual(denied.status, 201, denied.text)
      assert.strictEqual(last.status, 402, last.text)
      assert.deepStrictEqual(written(last.text, "limit"), ["41943039.999999995"])
      assert.deepStrictEqual(written(last.text, "spent"), [spent])
      assert.deepStrictEqual(written(last.text, "reserved"), ["16777215.999999998"])
      yield* assertNoDrift(service.database)
    })
  )

  it.effect("are exact in the headroom of a reservation, also where it is answered again", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, capIds } = yield* makeSetting(service, [{ limit: most }])
      for (let times = 0; times < 3; times++) {
        yield* call("POST", `/api/budgets/caps/${capIds[0]}/grants`, { amount: most, reason: "much" })
      }
      const headers = { "idempotency-key": "large" }
      const first = yield* call("POST", "/api/spend/reserve", { amountUsd: 0.000000001 }, headers)
      assert.deepStrictEqual(written(first.text, "headroom"), ["33554431.999999995"])
      assert.strictEqual(
        (yield* call("POST", "/api/spend/reserve", { amountUsd: 0.000000001 }, headers)).text,
        first.text
      )
    })
  )

  it.effect("are exact in tokens, of which grants that never end may add up to more than the database counts", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { call, capIds, tenantId } = yield* makeSetting(service, [{ unit: "tokens", limit: mostTokens }])
      const grant = { amount: mostTokens, reason: "much" }
      yield* call("POST", `/api/budgets/caps/${capIds[0]}/grants`, grant)
      const status = yield* call("GET", "/api/budgets/caps-status")
      assert.deepStrictEqual(written(status.text, "headroom"), ["18014398509481982"])
      yield* repeatRow(service.database, "budget_grants", tenantId, 1023)
      yield* call("POST", `/api/budgets/caps/${capIds[0]}/grants`, grant)
      const reserved = yield* call("POST", "/api/spend/reserve", { amountUsd: 1, tokens: 7 })
      assert.strictEqual(reserved.status, 201, reserved.text)
      assert.deepStrictEqual(written(reserved.text, "headroom"), ["9223372036854775800"])
    })
  )

  it.effect("are exact of a plan, whose calls may settle for more than it has", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { collection, call, draw, settle, start } = yield* makeSetting(service, [{ limit: most }])
      const { id } = yield* start({ budgetUsd: 3 })
      const calls = yield* Effect.forEach([1, 1, 1], (amountUsd) => draw(id, amountUsd))
      for (const { body } of calls) assert.strictEqual((yield* settle(body.id, most)).status, 200)
      const { text } = yield* call("GET", `${collection}/${id}`)
      assert.deepStrictEqual(written(text, "spentUsd"), ["25165823.999999997"])
      yield* assertNoDrift(service.database)
    })
  )

  it.effect("400: what costs more by its price than a request may name", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const dear = { inputUsdPerMTok: 1000, outputUsdPerMTok: 1000 }
      const written = yield* service.call("PUT", "/api/llm/admin/config", {
        body: {
          providers: [{ id: "one", dialect: "openai", baseUrl: "https://llm.example.com/v1" }],
          models: [{ id: "dear", kind: "chat", targets: [{ provider: "one", model: "m" }], prices: dear }]
        }
      })
      assert.strictEqual(written.status, 200, written.text)
      const { call } = yield* makeSetting(service, [])
      const many = 1_000_000_000_000
      const estimate = { model: "dear", inputTokens: many, maxOutputTokens: 1 }
      assert.deepStrictEqual(faultPaths(yield* call("POST", "/api/spend/reserve", { estimate })), ["payload.estimate"])
      const small = { model: "dear", inputTokens: 1000, maxOutputTokens: 0 }
      const reserved = yield* call("POST", "/api/spend/reserve", { estimate: small })
      assert.isAtLeast(reserved.body.amountUsd, 1)
      const usage = { model: "dear", inputTokens: many, outputTokens: 0 }
      const settled = yield* call("POST", "/api/spend/reconcile", { reservationId: reserved.body.id, usage })
      assert.deepStrictEqual(faultPaths(settled), ["payload.usage"])
    })
  )
})
