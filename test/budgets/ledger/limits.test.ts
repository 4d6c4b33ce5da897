import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey } from "../../support/authority.ts"
import { repeatRow } from "../../support/ledger.ts"
import { assertNoDrift, makeSetting } from "../../support/plans.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { serviceLayer, TestService } from "../../support/service.ts"

const most = 8_388_607.999999999

layer(serviceLayer({ Budgets__MaxCaps: "3" }), { excludeTestServices: true, timeout: "60 seconds" })(
  "what the ledger bounds",
  (it) => {
    it.effect("409: more caps than a tenant may have, also when many are made at once", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { call, capIds } = yield* makeSetting(service)
        const body = { name: "one more", unit: "usd", limit: 1, period: "month" }
        const made = yield* Effect.all(
          Array.from({ length: 6 }, () => call("POST", "/api/budgets/caps", body)),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(made.map(({ status }) => status).toSorted(), [201, 201, 409, 409, 409, 409])
        const refused = made.find(({ status }) => status === 409)!
        assertProblem(refused, 409, "too-many-caps")
        assert.strictEqual(refused.body.maximum, 3)
        assert.strictEqual((yield* call("DELETE", `/api/budgets/caps/${capIds[0]}`)).status, 204)
        assert.strictEqual((yield* call("POST", "/api/budgets/caps", body)).status, 201)
        assert.strictEqual((yield* call("GET", "/api/budgets/caps")).body.items.length, 3)
      })
    )

    it.effect("409: a charge beyond what a counter holds; what was reserved is charged", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { call, settle, tenantId } = yield* makeSetting(service, [{ mode: "soft" }])
        const first = yield* call("POST", "/api/spend/reserve", { amountUsd: 1 })
        assert.strictEqual((yield* settle(first.body.id, most)).status, 200)
        yield* repeatRow(service.database, "budget_entries", tenantId, 1098)
        const { body } = yield* call("POST", "/api/spend/reserve", { amountUsd: 1 })
        assertProblem(yield* settle(body.id, most), 409, "counter-full")
        assert.strictEqual((yield* settle(body.id, 1)).status, 200)
        yield* assertNoDrift(service.database)
      })
    )

    it.effect("tells how caps stand page by page, each counter once", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { call, capIds } = yield* makeSetting(service, [
          { scope: { userId: "each" }, limit: 1 },
          { name: "last" }
        ])
        yield* Effect.forEach(
          Array.from({ length: 120 }, (_, index) => index),
          (index) => call("POST", "/api/spend/reserve", { amountUsd: 0.01, userId: `user ${index}` }),
          { concurrency: 16, discard: true }
        )
        const sizes: Array<number> = []
        const seen: Array<string> = []
        for (let query = "", more = true; more;) {
          const { body, status, text } = yield* call("GET", `/api/budgets/caps-status${query}`)
          assert.strictEqual(status, 200, text)
          sizes.push(body.items.length)
          for (const { capId, scope } of body.items) seen.push(`${capId} ${scope.userId ?? ""}`)
          more = body.nextCursor !== null
          query = `?cursor=${body.nextCursor}`
        }
        assert.deepStrictEqual(sizes, [50, 50, 21])
        assert.strictEqual(new Set(seen).size, 121)
        assert.include(seen, `${capIds[1]} `)
        const { body } = yield* call("GET", "/api/budgets/caps-status?limit=200")
        assert.deepStrictEqual([body.items.length, body.nextCursor], [121, null])
        assert.strictEqual((yield* call("GET", "/api/budgets/caps-status?cursor=WyJ4Il0")).status, 400)
      })
    )

    it.effect("tells what is held, also where it is more than the database counts", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { call, tenantId } = yield* makeSetting(service, [{ mode: "approval", limit: 0 }])
        assert.strictEqual((yield* call("POST", "/api/spend/reserve", { amountUsd: most })).status, 202)
        yield* repeatRow(service.database, "budget_reservations", tenantId, 1104)
        const status = yield* call("GET", "/api/budgets/caps-status")
        assert.strictEqual(status.status, 200, status.text)
        assert.include(status.text, `"held":9269411839.999998895`)
      })
    )

    it.effect("approves a held reservation once, and answers everybody who does so at once the same", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { call, capIds, utilization, tenantId } = yield* makeSetting(service, [{ mode: "approval", limit: 1 }])
        const { key } = yield* makeKey(service, ["budgets:*"], { tenantId })
        const { body } = yield* call("POST", "/api/spend/reserve", { amountUsd: 7 })
        const approve = service.call("POST", `/api/budgets/approvals/${body.id}/approve`, {
          key,
          body: { override: true }
        })
        const answers = yield* Effect.all(
          Array.from({ length: 12 }, () => approve),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(
          answers.map(({ status }) => status),
          answers.map(() => 200)
        )
        assert.strictEqual(new Set(answers.map(({ body }) => body.decidedAt)).size, 1)
        assert.deepStrictEqual(yield* utilization(), { headroom: 0, reserved: 7, spent: 0 })
        const grants = yield* call("GET", `/api/budgets/caps/${capIds[0]}/grants`)
        assert.deepStrictEqual(
          grants.body.items.map(({ amount }: { amount: number }) => amount),
          [6]
        )
        yield* assertNoDrift(service.database)
      })
    )

    it.effect("ends what an override raised with its reservation, except for what was spent", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { call, capIds, settle, utilization, tenantId } = yield* makeSetting(service, [
          { mode: "approval", limit: 1 }
        ])
        const { key } = yield* makeKey(service, ["budgets:*"], { tenantId })
        const overridden = Effect.fnUntraced(function* (amountUsd: number) {
          const { body } = yield* call("POST", "/api/spend/reserve", { amountUsd })
          const path = `/api/budgets/approvals/${body.id}/approve`
          const approved = yield* service.call("POST", path, { key, body: { override: true } })
          assert.strictEqual(approved.status, 200, approved.text)
          return body.id as string
        })
        const raised = Effect.map(
          call("GET", `/api/budgets/caps/${capIds[0]}/grants`),
          ({ body: { items } }) =>
            items
              .filter(({ endedAt }: { endedAt: string | null }) => endedAt === null)
              .map(({ amount }: { amount: number }) => amount) as ReadonlyArray<number>
        )
        const released = yield* overridden(100)
        assert.deepStrictEqual(yield* raised, [99])
        assert.strictEqual((yield* call("DELETE", `/api/spend/reservations/${released}`)).status, 204)
        assert.deepStrictEqual(yield* raised, [])
        const held = yield* call("POST", "/api/spend/reserve", { amountUsd: 99 })
        assert.strictEqual(held.status, 202, held.text)
        assert.deepStrictEqual(yield* utilization(), { headroom: 1, reserved: 0, spent: 0 })

        const settled = yield* overridden(100)
        assert.strictEqual((yield* settle(settled, 40)).status, 200)
        assert.deepStrictEqual(yield* raised, [39])
        assert.deepStrictEqual(yield* utilization(), { headroom: 0, reserved: 0, spent: 40 })
        const whole = yield* overridden(2)
        assert.strictEqual((yield* settle(whole, 2)).status, 200)
        assert.deepStrictEqual(yield* raised, [39, 2])
        assert.deepStrictEqual(yield* utilization(), { headroom: 0, reserved: 0, spent: 42 })
      })
    )

    it.effect("counts the call that another application makes under a plan once on a cap for each application", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { agentId, call, tenantId } = yield* makeSetting(service, [
          { scope: { applicationId: "each" }, limit: 20 }
        ])
        const application = Effect.fnUntraced(function* () {
          const { id } = yield* make(service, "/api/applications", { name: crypto.randomUUID() })
          const body = { name: "a key", scopes: ["spend:*", "plans:*", "agents:read"], tenantId, applicationId: id }
          return { id: id as number, key: (yield* make(service, "/api/api-keys", body)).key as string }
        })
        const [starting, calling] = [yield* application(), yield* application()]
        const plan = yield* make(service, `/api/agents/${agentId}/plans`, { budgetUsd: 5 }, starting.key)
        const reserved = yield* service.call("POST", "/api/spend/reserve", {
          key: calling.key,
          body: { planId: plan.id, amountUsd: 4 }
        })
        assert.strictEqual(reserved.status, 201, reserved.text)
        const settled = yield* service.call("POST", "/api/spend/reconcile", {
          key: calling.key,
          body: { reservationId: reserved.body.id, actualUsd: 4 }
        })
        assert.strictEqual(settled.status, 200, settled.text)
        const { body } = yield* call("GET", "/api/budgets/caps-status")
        assert.deepStrictEqual(
          body.items.map(({ reserved, scope, spent }: { reserved: number; scope: object; spent: number }) => ({
            scope,
            spent,
            reserved
          })),
          [{ scope: { applicationId: starting.id }, spent: 4, reserved: 1 }]
        )
        yield* assertNoDrift(service.database)
      })
    )
  }
)
