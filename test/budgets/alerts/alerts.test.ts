import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import * as crypto from "node:crypto"
import { asSystem } from "../../../src/audit/log/service.ts"
import { BudgetAlerts } from "../../../src/budgets/alerts/service.ts"
import { type CapCreation } from "../../../src/budgets/caps/domain.ts"
import { BudgetCaps } from "../../../src/budgets/caps/service.ts"
import { CapId } from "../../../src/budgets/ledger/domain.ts"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { makeKey, makeTenant as makeServiceTenant, refusesStrangers } from "../../support/authority.ts"
import { OwnDatabase } from "../../support/clock.ts"
import { listenTo } from "../../support/event-source.ts"
import { closeItem, ledgerLayer, makeCap, makeTenant, reserveItem } from "../../support/ledger.ts"
import { type Answer, sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { walkCursors } from "../../support/walk.ts"

const path = "/api/budgets/alerts"
const passed = "BudgetCapThresholdPassed"
const alertThresholds = [
  { measure: "committed", percent: 50 },
  { measure: "spent", percent: 50 },
  { measure: "spent", percent: 90 }
] as const

const shown = ({ body }: Answer) =>
  body.items.map(
    ({ measure, percent }: { readonly measure: string; readonly percent: number }) => `${measure} ${percent}`
  )

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(path, (it) => {
  refusesStrangers(it, [{ name: "list", method: "GET", path, capability: "budgets:read", systemOnly: false }])

  const tenantWith = Effect.fnUntraced(function* (cap: object) {
    const service = yield* TestService
    const tenantId = yield* makeServiceTenant(service.database)
    const { key } = yield* makeKey(service, ["*:*"], { tenantId })
    const body = { name: "watched", unit: "usd", limit: 1, period: "total", alertThresholds, ...cap }
    const made = yield* service.call("POST", "/api/budgets/caps", { key, body })
    assert.strictEqual(made.status, 201, made.text)
    return { tenantId, key, capId: made.body.id as string }
  })

  // Invariant L15
  it.effect("a threshold is told once, whichever of two replicas passes it: as an alert, an entry and an event", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const other = yield* service.replica
      const { capId, key, tenantId } = yield* tenantWith({})
      const source = yield* listenTo(other, `/api/audit-logs/stream?actionType=${passed}`, { "x-api-key": key })
      const spend = (replica: TestService["Service"]) =>
        Effect.gen(function* () {
          const { body, status } = yield* replica.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 0.05 } })
          if (status !== 201) return
          const settled = { reservationId: body.id, actualUsd: 0.05 }
          yield* replica.call("POST", "/api/spend/reconcile", { key, body: settled })
        })
      yield* Effect.forEach(Array.from({ length: 24 }), (_, index) => spend(index % 2 === 0 ? service : other), {
        concurrency: 8,
        discard: true
      })

      for (const replica of [service, other]) {
        const listed = yield* replica.call("GET", `${path}?capId=${capId}`, { key })
        assert.strictEqual(listed.status, 200, listed.text)
        assert.sameMembers(shown(listed), ["committed 50", "spent 50", "spent 90"])
        assert.isNull(listed.body.nextCursor)
      }
      const { body } = yield* service.call("GET", path, { key })
      const half = body.items.find((alert: { readonly measure: string }) => alert.measure === "spent")
      assert.deepInclude(half, { tenantId, capId, name: "watched", scope: {}, unit: "usd", limit: 1, periodEnd: null })
      assert.isAtLeast(half.spent, 0.5)

      const entries = yield* service.call("GET", `/api/audit-logs?actionType=${passed}`, { key })
      assert.deepStrictEqual(
        new Set(entries.body.items.map((entry: { readonly entityId: string }) => entry.entityId)),
        new Set([capId])
      )
      assert.lengthOf(entries.body.items, 3)
      assert.deepInclude(entries.body.items[0], {
        entityType: "BudgetCap",
        tenantId,
        userId: "system",
        outcome: "success"
      })
      const detail = yield* service.call("GET", `/api/audit-logs/${entries.body.items[0].id}`, { key })
      const alert = body.items.find(({ id }: { readonly id: string }) => id === detail.body.changes.after.alertId)
      const { limit, measure, name, percent, reserved, scope, spent, unit } = alert
      assert.deepStrictEqual(detail.body.changes, {
        before: null,
        after: { alertId: alert.id, limit, measure, name, percent, reserved, scope, spent, unit }
      })

      const events = yield* source.until(3)
      assert.sameMembers(
        events.map(({ data }) => data.id),
        entries.body.items.map((entry: { readonly id: string }) => entry.id)
      )
    }).pipe(Effect.scoped)
  )

  it.effect("a tenant sees its own; those of a cap over all tenants only a system caller", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { capId, key, tenantId } = yield* tenantWith({})
      const stranger = yield* tenantWith({})
      const model = crypto.randomUUID()
      const everybody = { name: "everybody", unit: "requests", limit: 1, period: "total", scope: { model } }
      const all = yield* service.call("POST", "/api/budgets/caps", {
        body: { ...everybody, tenantId: null, alertThresholds: [{ measure: "committed", percent: 100 }] }
      })
      yield* service.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 0.6, model } })

      assert.deepStrictEqual(shown(yield* service.call("GET", path, { key })), ["committed 50"])
      for (const query of ["", `?tenantId=${tenantId}`, `?capId=${capId}`]) {
        assert.deepStrictEqual(shown(yield* service.call("GET", `${path}${query}`, { key: stranger.key })), [])
      }
      const ofAll = `${path}?capId=${all.body.id}`
      assert.deepStrictEqual(shown(yield* service.call("GET", ofAll, { key })), [])
      const seen = yield* service.call("GET", ofAll)
      assert.deepInclude(seen.body.items[0], { tenantId: null, scope: { model }, unit: "requests", reserved: 1 })
      const logged = yield* service.call("GET", `/api/audit-logs?actionType=${passed}&entityId=${all.body.id}`)
      assert.deepStrictEqual([logged.body.items.length, logged.body.items[0].tenantId], [1, null])
      const hidden = yield* service.call("GET", `/api/audit-logs?actionType=${passed}&entityId=${all.body.id}`, { key })
      assert.deepStrictEqual(hidden.body.items, [])
    })
  )

  it.effect("pages, the newest first", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const thresholds = [10, 20, 30, 40, 50].map((percent) => ({ measure: "committed", percent }))
      const { capId, key } = yield* tenantWith({ alertThresholds: thresholds })
      for (const amountUsd of [0.25, 0.25])
        yield* service.call("POST", "/api/spend/reserve", { key, body: { amountUsd } })
      const pages = yield* walkCursors(service, `${path}?capId=${capId}&limit=2`, { call: { key } })
      assert.deepStrictEqual(
        pages.map((page) => page.length),
        [2, 2, 1]
      )
      assert.strictEqual(new Set(pages.flat()).size, 5)
      const [newest] = (yield* service.call("GET", `${path}?capId=${capId}&limit=1`, { key })).body.items
      assert.strictEqual(newest.reserved, 0.5)
    })
  )
})

const start = Date.UTC(2031, 4, 5, 10)
const nano = 1_000_000_000n

layer(ledgerLayer(), { timeout: "60 seconds" })("thresholds of caps", (it) => {
  const setting = Effect.fnUntraced(function* (members: Partial<CapCreation>) {
    yield* TestClock.setTime(start)
    const tenantId = yield* makeTenant
    const cap = yield* makeCap(tenantId, { limit: 1, ...members })
    const ledger = yield* Ledger
    const alerts = yield* BudgetAlerts
    /** Reserves and settles. */
    const spend = Effect.fnUntraced(function* (amount: bigint, dimensions: object = {}) {
      const item = reserveItem(tenantId, amount, { dimensions })
      yield* ledger.reserveBatch([item])
      yield* ledger.closeBatch([closeItem("settle", item.id, { amount })])
    })
    const told = Effect.map(asSystem(alerts.list({ capId: CapId.make(cap.id) }, undefined, 100)), ({ items }) =>
      items.toReversed().map(({ measure, percent }) => `${measure} ${percent}`)
    )
    return { tenantId, cap, ledger, alerts, spend, told }
  })

  // Invariant L15
  it.effect("are told once in each period, and one that stands there twice once", () =>
    Effect.gen(function* () {
      const half = { measure: "spent", percent: 50 } as const
      const { spend, told } = yield* setting({ period: "hour", alertThresholds: [half, half] })
      for (let times = 0; times < 4; times++) yield* spend(nano / 5n)
      assert.deepStrictEqual(yield* told, ["spent 50"])
      yield* TestClock.adjust("1 hour")
      yield* spend(nano / 5n)
      assert.deepStrictEqual(yield* told, ["spent 50"])
      yield* spend(nano / 2n)
      assert.deepStrictEqual(yield* told, ["spent 50", "spent 50"])
    })
  )

  it.effect("of a rolling window are told again once it was below", () =>
    Effect.gen(function* () {
      const { spend, told } = yield* setting({
        period: "rolling",
        windowSeconds: 600,
        alertThresholds: [{ measure: "spent", percent: 50 }]
      })
      yield* spend(nano / 2n)
      yield* spend(nano / 4n)
      assert.deepStrictEqual(yield* told, ["spent 50"])
      yield* TestClock.adjust("20 minutes")
      yield* spend(nano / 4n)
      assert.deepStrictEqual(yield* told, ["spent 50"])
      yield* spend(nano / 4n)
      assert.deepStrictEqual(yield* told, ["spent 50", "spent 50"])
    })
  )

  it.effect("are each counter's own, and are told with its value", () =>
    Effect.gen(function* () {
      const { alerts, cap, spend } = yield* setting({
        scope: { applicationId: "each" },
        alertThresholds: [{ measure: "spent", percent: 50 }]
      })
      for (const applicationId of [7, 8, 7]) yield* spend(nano / 2n, { applicationId })
      const { items } = yield* asSystem(alerts.list({ capId: CapId.make(cap.id) }, undefined, 100))
      assert.sameDeepMembers(
        items.map(({ scope }) => scope),
        [{ applicationId: 7 }, { applicationId: 8 }]
      )
    })
  )

  it.effect("of the forecast are told of what the period will have spent", () =>
    Effect.gen(function* () {
      const { ledger, spend, told } = yield* setting({
        period: "hour",
        alertThresholds: [{ measure: "forecast", percent: 100 }]
      })
      yield* spend(nano / 4n)
      yield* ledger.sweep(null)
      assert.deepStrictEqual(yield* told, [], "the first moments tell nothing")
      yield* TestClock.adjust("15 minutes")
      yield* spend(1n)
      yield* ledger.sweep(null)
      assert.deepStrictEqual(yield* told, ["forecast 100"])
      yield* spend(nano / 4n)
      yield* ledger.sweep(null)
      assert.deepStrictEqual(yield* told, ["forecast 100"])
    })
  )

  it.effect("of the forecast are told of what it was, however late it is decided and by however many", () =>
    Effect.gen(function* () {
      const { ledger, spend, told } = yield* setting({
        period: "hour",
        alertThresholds: [100, 90, 300].map((percent) => ({ measure: "forecast", percent }) as const)
      })
      yield* TestClock.adjust("15 minutes")
      yield* spend(nano / 4n)
      yield* spend(1n)
      // By now the rate is half of what it was.
      yield* TestClock.adjust("15 minutes")
      yield* Effect.all([ledger.sweep(null), ledger.sweep(null), ledger.sweep(null)], { concurrency: 3 })
      assert.sameMembers(yield* told, ["forecast 90", "forecast 100"])
      assert.strictEqual(yield* ledger.sweep(null), 0)
    })
  )

  it.effect("are told of a cap that is paused or soft, of an overrun, and of none that is deleted", () =>
    Effect.gen(function* () {
      const over = [{ measure: "spent", percent: 150 }] as const
      const paused = yield* setting({ status: "paused", alertThresholds: over })
      yield* paused.spend(2n * nano)
      assert.deepStrictEqual(yield* paused.told, ["spent 150"])
      const soft = yield* setting({ mode: "soft", alertThresholds: over })
      yield* soft.spend(2n * nano)
      assert.deepStrictEqual(yield* soft.told, ["spent 150"])
      const deleted = yield* setting({ alertThresholds: over })
      const item = reserveItem(deleted.tenantId, nano)
      yield* deleted.ledger.reserveBatch([item])
      const caps = yield* BudgetCaps
      yield* caps.delete(CapId.make(deleted.cap.id)).pipe(Effect.orDie, asSystem)
      yield* deleted.ledger.closeBatch([closeItem("settle", item.id, { amount: 2n * nano })])
      assert.deepStrictEqual(yield* deleted.told, [])
    })
  )

  it.effect("leave nothing where the statement that passed them was undone", () =>
    Effect.gen(function* () {
      const { ledger, spend, tenantId, told } = yield* setting({ alertThresholds: [{ measure: "spent", percent: 50 }] })
      const item = reserveItem(tenantId, nano / 2n)
      yield* ledger.reserveBatch([item])
      // The entry of the audit log is in the transaction: where it cannot be written, nothing has happened.
      const database = yield* OwnDatabase
      const refuse = asSuperuser(
        database,
        (sql) =>
          sql`ALTER TABLE audit_entries ADD CONSTRAINT none CHECK (action_type <> ${sql.literal(`'${passed}'`)}) NOT VALID`
      )
      yield* refuse
      const settle = ledger.closeBatch([closeItem("settle", item.id, { amount: nano / 2n })])
      assert.strictEqual((yield* Effect.exit(settle))._tag, "Failure")
      assert.deepStrictEqual(yield* told, [])
      yield* asSuperuser(database, (sql) => sql`ALTER TABLE audit_entries DROP CONSTRAINT none`)
      assert.strictEqual((yield* settle)[0]?.verdict, "done")
      assert.deepStrictEqual(yield* told, ["spent 50"])
      yield* spend(1n)
      assert.deepStrictEqual(yield* told, ["spent 50"])
    })
  )
})
