import { assert } from "@effect/vitest"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import { makeBrokenBound } from "../support/gateway.ts"
import { type TestService } from "../support/service.ts"

type Service = TestService["Service"]

/** Ends every cap: those that chance has made leave no room for anything. */
const withoutCaps = Effect.fnUntraced(function* (service: Service) {
  for (;;) {
    const { body } = yield* service.call("GET", "/api/budgets/caps?limit=200")
    if (body.items.length === 0) return
    for (const { id } of body.items) yield* service.call("DELETE", `/api/budgets/caps/${id}`)
  }
})

const heldAtOnce = 12

/** Reservations that a cap holds until somebody decides, and no other cap refuses. */
const heldReservations = Effect.fnUntraced(function* (service: Service) {
  yield* withoutCaps(service)
  const cap = { name: "asks", unit: "usd", limit: 0, period: "total", mode: "approval", scope: { model: "held" } }
  yield* service.call("POST", "/api/budgets/caps", { body: cap })
  for (let made = 0; made < heldAtOnce; made++) {
    const held = yield* service.call("POST", "/api/spend/reserve", { body: { amountUsd: 0.25, model: "held" } })
    assert.strictEqual(held.status, 202, held.text)
  }
})

/** A charge, which can be refunded, and reservations that are open. */
const spending = Effect.fnUntraced(function* (service: Service) {
  yield* withoutCaps(service)
  for (const isSettled of [true, false, true, false]) {
    const { body, status, text } = yield* service.call("POST", "/api/spend/reserve", { body: { amountUsd: 0.25 } })
    assert.strictEqual(status, 201, text)
    const settled = { reservationId: body.id, actualUsd: 0.25 }
    if (isSettled) yield* service.call("POST", "/api/spend/reconcile", { body: settled })
  }
})

/** Sessions that are open, of people who are still there. */
const openSessions = Effect.fnUntraced(function* (service: Service) {
  for (let made = 0; made < 3; made++) {
    const person = { firstName: "Ada", lastName: "Lovelace", email: `${crypto.randomUUID()}@example.com` }
    const user = yield* service.call("POST", "/api/trial-users", { body: person })
    assert.strictEqual(user.status, 201, user.text)
    const session = { trialUserId: user.body.id, ipAddress: "203.0.113.7" }
    const { status, text } = yield* service.call("POST", "/api/sessions", { body: session })
    assert.strictEqual(status, 201, text)
  }
})

/** Targets that charged more than was held for them. */
const brokenTargets = (service: Service) => Effect.forEach([1, 2, 3], () => makeBrokenBound(service), { discard: true })

/** The states of things that a group of operations is about, which requests at random never reach together. */
export const stages: Readonly<Record<string, (service: Service) => Effect.Effect<void>>> = {
  approvals: heldReservations,
  brokenBounds: brokenTargets,
  plans: withoutCaps,
  sessions: openSessions,
  spend: spending,
  usage: spending
}
