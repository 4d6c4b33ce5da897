import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { registration } from "./agents.ts"
import { makeKey, makeTenant } from "./authority.ts"
import { type TestDatabase } from "./database.ts"
import { make } from "./scenarios.ts"
import { type TestService } from "./service.ts"
import { asSuperuser } from "./statements.ts"

type Service = TestService["Service"]

/** A tenant with a key, an agent that may do two types of tasks, and caps: by default 10 US dollars a month. */
export const makeSetting = Effect.fnUntraced(function* (
  service: Service,
  caps: ReadonlyArray<object> = [{}],
  agent: object = {}
) {
  const tenantId = yield* makeTenant(service.database)
  const { key } = yield* makeKey(service, ["*:*"], { tenantId })
  const { id: agentId } = yield* make(
    service,
    "/api/agents",
    registration({ allowedTaskTypes: ["extraction", "summaries"], ...agent }),
    key
  )
  const capIds: Array<string> = []
  for (const members of caps) {
    const body = { name: "a cap", unit: "usd", limit: 10, period: "month", ...members }
    capIds.push((yield* make(service, "/api/budgets/caps", body, key)).id)
  }
  const call = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    service.call(method, path, { key, headers, ...(body === undefined ? {} : { body }) })
  const collection = `/api/agents/${agentId}/plans`
  const start = (body: object = {}) => make(service, collection, { budgetUsd: 5, ...body }, key)
  const planCall = (id: string, action: string, body?: unknown, headers: Record<string, string> = {}) =>
    call("POST", `${collection}/${id}/${action}`, body, headers)
  const draw = (planId: string, amountUsd: number, members: object = {}) =>
    call("POST", "/api/spend/reserve", { planId, amountUsd, ...members })
  const settle = (reservationId: string, actualUsd: number) =>
    call("POST", "/api/spend/reconcile", { reservationId, actualUsd })
  const utilization = Effect.fnUntraced(function* (capId = capIds[0]) {
    const { body } = yield* call("GET", `/api/budgets/caps-status?capId=${capId}`)
    const { headroom, reserved, spent } = body.items[0] ?? { headroom: undefined, reserved: 0, spent: 0 }
    return { headroom, reserved, spent } as { headroom: number; reserved: number; spent: number }
  })
  const figures = Effect.fnUntraced(function* (id: string) {
    const { body } = yield* call("GET", `${collection}/${id}`)
    const { budgetUsd, remainingUsd, reservedUsd, spentUsd, status } = body
    return { status, budgetUsd, spentUsd, reservedUsd, remainingUsd }
  })
  return { tenantId, key, agentId, capIds, collection, call, start, planCall, draw, settle, utilization, figures }
})

/** Makes a plan older than it is, as if it had been silent for so long. */
export const silence = (database: TestDatabase, id: string, seconds: number) =>
  asSuperuser(
    database,
    (sql) => sql`
      UPDATE budget_plans SET heartbeat_by = heartbeat_by - make_interval(secs => ${seconds}),
        dead_at = dead_at - make_interval(secs => ${seconds}), expires_at = expires_at - make_interval(secs => ${seconds})
      WHERE id = ${id}`
  )

/** Every counter is what its entries, its open reservations and its plans sum up to. */
export const assertNoDrift = (database: TestDatabase) =>
  Effect.map(
    asSuperuser(database, (sql) => sql`SELECT * FROM budgets_drift()`),
    (drift) => assert.deepStrictEqual(drift, [])
  )
