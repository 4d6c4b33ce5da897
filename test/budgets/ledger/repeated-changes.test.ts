import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeAgent } from "../../support/agents.ts"
import { assertProblem } from "../../support/problem.ts"
import { newKey, post } from "../../support/repeatable.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

/** A reservation that a cap without room holds. */
const hold = Effect.gen(function* () {
  const service = yield* TestService
  const { id: agentId } = yield* makeAgent(service)
  yield* make(service, "/api/budgets/caps", {
    name: "a cap",
    unit: "usd",
    limit: 0,
    period: "month",
    mode: "approval",
    scope: { agentId }
  })
  const held = yield* service.call("POST", "/api/spend/reserve", { body: { amountUsd: 1, agentId } })
  assert.strictEqual(held.status, 202, held.text)
  return held.body.id as string
})

const open = Effect.gen(function* () {
  const service = yield* TestService
  const made = yield* service.call("POST", "/api/spend/reserve", { body: { amountUsd: 1 } })
  return made.body.id as string
})

const charge = Effect.gen(function* () {
  const service = yield* TestService
  const body = { reservationId: yield* open, actualUsd: 1 }
  const settled = yield* service.call("POST", "/api/spend/reconcile", { body })
  return settled.body.charge.id as string
})

const settle = (reservationId: string) =>
  Effect.flatMap(TestService, (service) =>
    service.call("POST", "/api/spend/reconcile", { body: { reservationId, actualUsd: 0.5 } })
  )

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "changes of the ledger under an Idempotency-Key",
  (it) => {
    it.effect("an approval answers as it did, although the reservation was settled since", () =>
      Effect.gen(function* () {
        const id = yield* hold
        const [path, key] = [`/api/budgets/approvals/${id}/approve`, newKey()]
        const first = yield* post(path, key, { override: true })
        assert.strictEqual(first.status, 200, first.text)
        assert.strictEqual((yield* settle(id)).status, 200)
        const again = yield* post(path, key, { override: true })
        assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
        assert.deepStrictEqual(again.body, first.body)
        assertProblem(yield* post(path, key, { override: false }), 422, "idempotency-key-reused")
        assertProblem(
          yield* post(`/api/budgets/approvals/${yield* hold}/approve`, key, {}),
          422,
          "idempotency-key-reused"
        )
      })
    )

    it.effect("an approval without room frees its key", () =>
      Effect.gen(function* () {
        const id = yield* hold
        const [path, key] = [`/api/budgets/approvals/${id}/approve`, newKey()]
        assertProblem(yield* post(path, key, {}), 409, "still-no-headroom")
        const approved = yield* post(path, key, { override: true })
        assert.strictEqual(approved.status, 200, approved.text)
        assert.isNull(approved.headers.get("idempotency-replayed"))
      })
    )

    it.effect("a denial, an extension and a refund are made once, and repeated word for word", () =>
      Effect.gen(function* () {
        const [held, reserved, chargeId] = [yield* hold, yield* open, yield* charge]
        const changes = [
          [`/api/budgets/approvals/${held}/deny`, { reason: "not now" }, { reason: "never" }],
          [`/api/spend/reservations/${reserved}/extend`, { ttlSeconds: 600 }, { ttlSeconds: 900 }],
          [
            "/api/spend/refunds",
            { chargeId, amountUsd: 0.75, reason: "credited" },
            { chargeId, amountUsd: 0.25, reason: "" }
          ]
        ] as const
        for (const [path, body, other] of changes) {
          const key = newKey()
          const first = yield* post(path, key, body)
          assert.isBelow(first.status, 300, first.text)
          if (path.endsWith("/extend")) yield* settle(reserved)
          const again = yield* post(path, key, body)
          assert.strictEqual(again.status, first.status, again.text)
          assert.deepStrictEqual(again.body, first.body)
          assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
          if (path !== "/api/spend/refunds") {
            assertProblem(yield* post(path, key, other), 422, "idempotency-key-reused")
          }
        }
        const { body } = yield* Effect.flatMap(TestService, (service) =>
          service.call("GET", "/api/audit-logs?limit=200")
        )
        const refunds = body.items.filter(
          (entry: { readonly actionType: string; readonly entityId: string }) =>
            entry.actionType === "SpendRefunded" && entry.entityId === chargeId
        )
        assert.lengthOf(refunds, 1)
      })
    )

    it.effect("a change that fails keeps neither its key nor anything else", () =>
      Effect.gen(function* () {
        const { database } = yield* TestService
        const [chargeId, key] = [yield* charge, newKey()]
        const body = { chargeId, amountUsd: 1, reason: "credited" }
        yield* asSuperuser(database, (sql) => sql`ALTER TABLE audit_entries RENAME TO audit_entries_elsewhere`)
        assertProblem(yield* post("/api/spend/refunds", key, body), 500, "internal-error")
        yield* asSuperuser(database, (sql) => sql`ALTER TABLE audit_entries_elsewhere RENAME TO audit_entries`)
        const made = yield* post("/api/spend/refunds", key, body)
        assert.strictEqual(made.status, 201, made.text)
        assert.isNull(made.headers.get("idempotency-replayed"))
      })
    )
  }
)
