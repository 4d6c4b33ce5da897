import { assert, it } from "@effect/vitest"
import { DateTime, Effect, Layer } from "effect"
import { type AgentId } from "../../../src/agents/agents/domain.ts"
import { AlertsRepository } from "../../../src/budgets/alerts/repository.ts"
import { LineageRepository } from "../../../src/budgets/approvals/lineage-repository.ts"
import { GrantsRepository } from "../../../src/budgets/caps/grant-repository.ts"
import { CapsRepository } from "../../../src/budgets/caps/repository.ts"
import { UtilizationRepository } from "../../../src/budgets/caps/utilization-repository.ts"
import { CapId, ChargeId, type PlanId, ReservationId } from "../../../src/budgets/ledger/domain.ts"
import { LedgerStore } from "../../../src/budgets/ledger/repository.ts"
import { PlansRepository } from "../../../src/budgets/plans/repository.ts"
import { ReservationsRepository } from "../../../src/budgets/reservations/repository.ts"
import { TenantId } from "../../../src/kernel/identifier.ts"
import { makeDatabase } from "../../support/database.ts"
import { makeExplaining } from "../../support/explaining.ts"
import { audit, closeItem, reserveItem } from "../../support/ledger.ts"
import { asSuperuser } from "../../support/statements.ts"

const rows = Number(process.env.LEDGER_ROWS ?? "60000")
/** Of tables that have thousands of pages at this size already: what is found by its key needs a few at any. */
const mostPages = 400

/** An id of a kind and a number, in the order of the numbers. */
const id = (kind: string, at: number) => `0198a5b0-${kind}-7000-8000-${at.toString(16).padStart(12, "0")}`
const idSql = (kind: string, at: string) => `('0198a5b0-${kind}-7000-8000-' || lpad(to_hex(${at}), 12, '0'))::uuid`

const tenants = 30
const agents = 300
const plans = 2000
const now = "2031-05-05T10:00:00Z"

/** A ledger of some years: many tenants, of which the first has caps with long histories. */
const fill = [
  `INSERT INTO budget_caps (tenant_id, id, name, scope, unit, limit_amount, period, time_zone, mode, alert_thresholds, status,
    version, created_at, created_by, updated_at)
   SELECT ${idSql("aaaa", "i % " + tenants)}, ${idSql("cccc", "i")}, 'cap ' || i,
     CASE i WHEN 30 THEN '{"agentId":"each"}' ELSE '{}' END::jsonb, 'usd', 1000000000000000, CASE i WHEN 0 THEN 'minute' ELSE 'day' END,
     'UTC', 'hard', CASE i WHEN 0 THEN '[{"measure":"committed","percent":50}]' ELSE '[]' END::jsonb, 'active', 1, '${now}', 'service-account', '${now}'
   FROM generate_series(0, 299) i`,
  // Every minute of a fortnight of one cap, and every day of a fortnight of each agent of another.
  `INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at)
   SELECT ${idSql("aaaa", "0")}, ${idSql("dddd", "i")}, ${idSql("cccc", "0")}, '',
     timestamptz '${now}' - make_interval(mins => i), timestamptz '${now}' - make_interval(mins => i - 1), 'usd', '${now}'
   FROM generate_series(0, 20159) i`,
  `INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at)
   SELECT ${idSql("aaaa", "0")}, ${idSql("ddde", "i")}, ${idSql("cccc", "30")}, json_build_object('agentId', ${idSql("bbbb", "i % " + agents)})::text,
     timestamptz '2031-05-05' - make_interval(days => i / ${agents}), timestamptz '2031-05-06' - make_interval(days => i / ${agents}), 'usd', '${now}'
   FROM generate_series(0, ${agents} * 14 - 1) i`,
  `INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, plan_id, amount, tokens, ttl_seconds, expires_at,
    created_at, created_by, counter_ids, charge_id, actual, actual_tokens)
   SELECT ${idSql("aaaa", "i % " + tenants)}, ${idSql("eeee", "i")}, s.state, 'api', ${idSql("bbbb", "i % " + agents)},
     CASE WHEN i % 5 = 0 THEN ${idSql("ffff", "i % " + plans)} END, 1000, 0, 300, timestamptz '${now}' + interval '1 hour', '${now}', 'api-key:x',
     ARRAY[${idSql("dddd", "i % 20160")}], CASE WHEN s.state = 'settled' THEN ${idSql("eeef", "i")} END,
     CASE WHEN s.state = 'settled' THEN 1000 END, CASE WHEN s.state = 'settled' THEN 0 END
   FROM generate_series(0, ${rows} - 1) i, LATERAL (SELECT CASE
     WHEN i % 997 = 0 THEN 'open' WHEN i % 1009 = 0 THEN 'held' WHEN i % 1013 = 0 THEN 'expired'
     WHEN i % 1019 = 0 THEN 'denied' WHEN i % 1021 = 0 THEN 'released' ELSE 'settled' END AS state) s`,
  `INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, occurred_at, created_by,
    counter_ids, buckets)
   SELECT tenant_id, charge_id, id, 'charge', charge_id, 1000, 0, 1, created_at, created_by, counter_ids, '{}'
   FROM budget_reservations WHERE state = 'settled'`,
  `UPDATE budget_counters k SET spent = 1000000`,
  `INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at)
   SELECT ${idSql("aaaa", "i % " + tenants)}, ${idSql("ffff", "i")}, ${idSql("ffff", "i")}, '', '-infinity', 'infinity', 'usd', '${now}'
   FROM generate_series(0, ${plans} - 1) i`,
  `INSERT INTO budget_plans (tenant_id, id, agent_id, status, budget, heartbeat_seconds, heartbeat_by, dead_at, created_at, created_by,
    ended_at, counter_ids, held_caps, held_keys)
   SELECT ${idSql("aaaa", "i % " + tenants)}, ${idSql("ffff", "i")}, ${idSql("bbbb", "i % " + agents)}, 'completed', 1000, 120, '${now}', '${now}', '${now}',
     'service-account', '${now}', '{}', '{}', '{}'
   FROM generate_series(0, ${plans} - 1) i`,
  `INSERT INTO budget_alerts (tenant_id, id, cap_id, counter_id, measure, percent, limit_amount, spent, reserved, occurred_at)
   SELECT ${idSql("aaaa", "0")}, ${idSql("abcd", "i")}, ${idSql("cccc", "0")}, ${idSql("dddd", "i")}, 'spent', 50, 10, 5, 0, '${now}'
   FROM generate_series(0, 20159) i`,
  "VACUUM ANALYZE"
]

const tenantId = TenantId.make(id("aaaa", 0))
const agentId = id("bbbb", 30) as AgentId
const minutes = CapId.make(id("cccc", 0))

/** Reserves under one cap, and under two, and closes the second; how many of them had room. */
const reserveAndClose = Effect.gen(function* () {
  const ledger = yield* LedgerStore
  const item = reserveItem(tenantId, 1n, { ttlSeconds: 60 })
  const like = {
    tenantId,
    name: "cap",
    unit: "usd",
    mode: "hard",
    status: "active",
    limitAmount: 1_000_000_000_000_000n,
    alertThresholds: [],
    period: "day",
    windowSeconds: null
  } as const
  const caps = [
    { cap: { ...like, id: CapId.make(id("cccc", 30)) }, counterKey: `{"agentId" : "${agentId}"}` },
    { cap: { ...like, id: minutes, alertThresholds: [{ measure: "committed", percent: 50 }] as const }, counterKey: "" }
  ]
  const rooms: Array<number> = []
  for (const [count, amount] of [
    [1, 1n],
    [2, 600_000_000_000_000n]
  ] as const) {
    const results = yield* ledger.reserve({
      requests: [{ item: { ...item, id: ReservationId.make(id("8888", count)), amount }, caps: caps.slice(0, count) }],
      revisions: [],
      now: DateTime.makeUnsafe(now),
      holdSeconds: 60
    })
    const [result] = results
    rooms.push(typeof result === "object" && "available" in result ? result.available.length : 0)
  }
  yield* ledger.close(
    [
      closeItem("settle", ReservationId.make(id("8888", 2)), {
        tenantId: null,
        amount: 1n,
        chargeId: ChargeId.make(id("8888", 3))
      })
    ],
    DateTime.makeUnsafe(now)
  )
  return rooms
})

it.live(
  "every question to the ledger is answered from a few pages, however much there is",
  () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* asSuperuser(database, (sql) => Effect.forEach(fill, (text) => sql.unsafe(text), { discard: true }))
      const { explained, layer } = yield* makeExplaining(database)
      const planId = id("ffff", 30) as PlanId
      const at = DateTime.makeUnsafe(now)

      const asked = Effect.gen(function* () {
        const reservations = yield* ReservationsRepository
        const last = ReservationId.make(id("eeee", rows))
        assert.lengthOf((yield* reservations.list({ tenantId }, {})).items, 50)
        yield* reservations.list({}, { cursor: last })
        for (const state of ["open", "held", "expired", "denied", "released", "settled"] as const) {
          assert.isNotEmpty((yield* reservations.list({ tenantId, state }, {})).items, state)
          yield* reservations.list({ state }, {})
        }
        assert.isNotEmpty((yield* reservations.list({ tenantId, agentId }, {})).items)
        yield* reservations.list({ tenantId, agentId, state: "held" }, {})
        assert.isNotEmpty((yield* reservations.list({ tenantId, planId }, {})).items)
        yield* reservations.find(ReservationId.make(id("eeee", 7)))

        const caps = yield* CapsRepository
        assert.isNotEmpty((yield* caps.list({ tenantId }, {})).items)
        yield* caps.list({}, {})
        yield* caps.find(minutes)

        const utilizations = yield* UtilizationRepository
        assert.lengthOf(yield* utilizations.list({ tenantId, capId: minutes }, at, undefined, 51), 1)
        assert.lengthOf(yield* utilizations.list({ capId: minutes }, at, undefined, 51), 1)

        const alerts = yield* AlertsRepository
        assert.lengthOf(yield* alerts.list({ tenantId }, undefined, 51), 51)
        yield* alerts.list({}, undefined, 51)
        yield* alerts.list({ capId: minutes }, undefined, 51)

        const ledger = yield* LedgerStore
        yield* ledger.capsOf(tenantId)
        yield* ledger.planOf(planId)
        const found = yield* PlansRepository
        assert.isNotEmpty((yield* found.list({ tenantId, agentId }, {}, at)).items)
        yield* found.list({ tenantId }, {}, at)
        yield* found.list({ status: "active" }, {}, at)
        yield* found.list({}, {}, at)
        yield* found.find(agentId, planId, at)
        yield* (yield* LineageRepository).ofOneHolder("system", new Set([`agent:${agentId}`]))
        const [cap] = (yield* caps.list({ tenantId }, { limit: 1 })).items
        if (cap !== undefined) yield* (yield* GrantsRepository).list(cap, undefined, 51)

        const sweep = { now: at, most: 2000 }
        assert.strictEqual(yield* ledger.sweep({ ...sweep, tenant: null, waiting: false }), 0)
        assert.strictEqual(yield* ledger.sweep({ ...sweep, tenant: tenantId, waiting: true }), 0)
        yield* ledger.sweepPlans({ ...sweep, tenant: null, waiting: false })
        const by = { principal: "service-account", audit, tenantId: null }
        for (const [index, tenant] of [null, tenantId].entries()) {
          const refund = { id: ChargeId.make(id("9999", index + 1)), chargeId: ChargeId.make(id("eeef", 30)) }
          yield* ledger.refund(
            { ...by, ...refund, tenantId: tenant, amount: 1n, reason: "credited", isSystem: true },
            at
          )
        }
        const open = ReservationId.make(id("eeee", 0))
        const extend = { ...by, id: open, origin: "api", canActForOthers: true, ttlSeconds: 60 } as const
        assert.strictEqual((yield* ledger.extend(extend, at)).verdict, "done")
        yield* ledger.deny({ ...by, id: ReservationId.make(id("eeee", 1009)), reason: "no" }, at)
        assert.deepStrictEqual(yield* reserveAndClose, [1, 2])
      })
      yield* asked.pipe(
        Effect.provide(
          Layer.mergeAll(
            AlertsRepository.layer,
            CapsRepository.layer,
            GrantsRepository.layer,
            LedgerStore.layer,
            LineageRepository.layer,
            PlansRepository.layer,
            ReservationsRepository.layer,
            UtilizationRepository.layer
          ).pipe(Layer.provide(layer))
        )
      )

      assert.isAbove(explained.length, 40)
      const large = new Set(["budget_reservations", "budget_entries", "budget_counters", "budget_alerts"])
      const dear = explained.filter(
        ({ pages, scanned }) => pages > mostPages || scanned.some((table) => large.has(table))
      )
      assert.deepStrictEqual(dear, [])
    }).pipe(Effect.scoped),
  120_000
)
