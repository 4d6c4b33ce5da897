import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { makeAgent } from "../support/agents.ts"
import { make } from "../support/scenarios.ts"
import { type TestService } from "../support/service.ts"
import { type Change, type ExpectedEntry } from "./changes.ts"

type Service = TestService["Service"]

const entry = (
  entityType: string,
  actionType: string,
  entityId: string,
  kept: ExpectedEntry["kept"]
): ExpectedEntry => ({ entityType, actionType, entityId, kept })

// Each cap is for one agent's spend, so that none stands in another's way.
const capBody = (agentId: string, members: object = {}) => ({
  name: "a cap",
  unit: "usd",
  limit: 100,
  period: "month",
  scope: { agentId },
  ...members
})

const makeCap = Effect.fnUntraced(function* (service: Service, members: object = {}) {
  const { id: agentId } = yield* makeAgent(service)
  const { id } = yield* make(service, "/api/budgets/caps", capBody(agentId, members))
  return { id: id as string, agentId }
})

const reserve = (service: Service, body: object = {}) => make(service, "/api/spend/reserve", { amountUsd: 1, ...body })

/** A reservation that a cap without room holds. */
const hold = Effect.fnUntraced(function* (service: Service) {
  const { agentId } = yield* makeCap(service, { limit: 0, mode: "approval" })
  const held = yield* service.call("POST", "/api/spend/reserve", { body: { amountUsd: 1, agentId } })
  assert.strictEqual(held.status, 202, held.text)
  return held.body.id as string
})

const settle = Effect.fnUntraced(function* (service: Service) {
  const { id: reservationId } = yield* reserve(service)
  const settled = yield* service.call("POST", "/api/spend/reconcile", { body: { reservationId, actualUsd: 0.5 } })
  assert.strictEqual(settled.status, 200, settled.text)
  return settled.body.charge.id as string
})

/** How to call every operation about money that changes something, by its operationId. */
export const spendChanges: Readonly<Record<string, (service: Service) => Effect.Effect<Change>>> = {
  "spend.refund": (service) =>
    Effect.map(settle(service), (chargeId) => ({
      body: { chargeId, amountUsd: 0.25, reason: "credited" },
      entries: () => [entry("Reservation", "SpendRefunded", chargeId, "after")]
    })),
  "budgetCaps.create": (service) =>
    Effect.map(makeAgent(service), ({ id }) => ({
      body: capBody(id),
      entries: ({ body }) => [entry("BudgetCap", "BudgetCapCreated", body.id, "after")]
    })),
  "budgetCaps.update": (service) =>
    Effect.map(makeCap(service), ({ id }) => ({
      parameters: { id },
      body: { name: "another name", limit: 50 },
      entries: () => [entry("BudgetCap", "BudgetCapUpdated", id, "both")]
    })),
  "budgetCaps.delete": (service) =>
    Effect.map(makeCap(service), ({ id }) => ({
      parameters: { id },
      entries: () => [entry("BudgetCap", "BudgetCapDeleted", id, "before")]
    })),
  "budgetCaps.createGrant": (service) =>
    Effect.map(makeCap(service), ({ id }) => ({
      parameters: { id },
      body: { amount: 5, reason: "month end" },
      entries: ({ body }) => [entry("BudgetGrant", "BudgetGrantCreated", body.id, "after")]
    })),
  "budgetCaps.endGrant": Effect.fnUntraced(function* (service) {
    const { id } = yield* makeCap(service)
    const grant = yield* make(service, `/api/budgets/caps/${id}/grants`, { amount: 5, reason: "month end" })
    return {
      parameters: { id, grantId: grant.id },
      entries: () => [entry("BudgetGrant", "BudgetGrantEnded", grant.id, "before")]
    }
  }),
  "approvals.approve": (service) =>
    Effect.map(hold(service), (reservationId) => ({
      parameters: { reservationId },
      body: { override: true },
      entries: () => [entry("Reservation", "SpendApproved", reservationId, "after")]
    })),
  "approvals.deny": (service) =>
    Effect.map(hold(service), (reservationId) => ({
      parameters: { reservationId },
      body: { reason: "not this month" },
      entries: () => [entry("Reservation", "SpendDenied", reservationId, "after")]
    }))
}

const ownRecord = "reservations and charges are a record of their own"

/** Operations about money whose record the ledger itself is. */
export const spendWithoutEntry: Readonly<
  Record<
    string,
    { readonly reason: string; request(service: Service): Effect.Effect<Pick<Change, "parameters" | "body">> }
  >
> = {
  "spend.reserve": { reason: ownRecord, request: () => Effect.succeed({ body: { amountUsd: 0.25 } }) },
  "spend.reconcile": {
    reason: ownRecord,
    request: (service) => Effect.map(reserve(service), ({ id }) => ({ body: { reservationId: id, actualUsd: 0.5 } }))
  },
  "spend.release": {
    reason: ownRecord,
    request: (service) => Effect.map(reserve(service), ({ id }) => ({ parameters: { id } }))
  },
  "spend.extend": {
    reason: ownRecord,
    request: (service) => Effect.map(reserve(service), ({ id }) => ({ parameters: { id }, body: { ttlSeconds: 600 } }))
  }
}
