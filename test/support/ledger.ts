import { BigDecimal, Effect, Layer } from "effect"
import * as crypto from "node:crypto"
import { type AuditOrigin } from "../../src/audit/log/domain.ts"
import { Audit, asSystem } from "../../src/audit/log/service.ts"
import { BudgetAlerts } from "../../src/budgets/alerts/service.ts"
import { type CapCreation, type CapUtilization } from "../../src/budgets/caps/domain.ts"
import { Grants } from "../../src/budgets/caps/grants.ts"
import { BudgetCaps } from "../../src/budgets/caps/service.ts"
import { CapUtilizations } from "../../src/budgets/caps/utilization.ts"
import { CapId, ChargeId, ReservationId } from "../../src/budgets/ledger/domain.ts"
import { type CloseItem, type Dimensions, type ReserveItem } from "../../src/budgets/ledger/protocol-domain.ts"
import { Ledger } from "../../src/budgets/ledger/service.ts"
import { type TenantId } from "../../src/kernel/identifier.ts"
import { Settings } from "../../src/platform/settings/settings.ts"
import { Tenants } from "../../src/tenants/service.ts"
import { poolOnOwnDatabase, realClock } from "./clock.ts"
import { type TestDatabase } from "./database.ts"
import { quietAuthority } from "./quiet-authority.ts"
import { asSuperuser } from "./statements.ts"

/** The ledger on a database of its own: its pool on the real clock, its decisions on the clock of the test. */
export const ledgerLayer = (environment: Record<string, string> = {}) =>
  Layer.mergeAll(Grants.layer, Ledger.layer, CapUtilizations.layer, BudgetAlerts.layer).pipe(
    Layer.provideMerge(BudgetCaps.layer),
    Layer.provideMerge(Tenants.layer),
    Layer.provide(Audit.layer.pipe(Layer.provide(realClock))),
    Layer.provide(quietAuthority),
    Layer.provideMerge(poolOnOwnDatabase),
    Layer.provide(Settings.layerMemory({ environment }))
  )

export const makeTenant = Effect.gen(function* () {
  const tenants = yield* Tenants
  return (yield* tenants.create({ name: crypto.randomUUID() }).pipe(Effect.orDie, asSystem)).id
})

export const makeCap = Effect.fnUntraced(function* (tenantId: TenantId | null, members: Partial<CapCreation> = {}) {
  const caps = yield* BudgetCaps
  return yield* caps
    .create({ name: "a cap", unit: "usd", limit: 1, period: "month", tenantId, ...members })
    .pipe(Effect.orDie, asSystem)
})

export const audit: AuditOrigin = {
  occurred_at: "2026-01-01T00:00:00.000Z",
  user_id: "service-account",
  actor_type: "service-account",
  tenant_id: null,
  ip_address: null,
  user_agent: null,
  trace_id: null
}

// Ids in the order of their making, as UUIDv7 has them.
let made = 0
const newId = () => `0198a5b0-7c00-7000-8000-${(made += 1).toString(16).padStart(12, "0")}`

export const reserveItem = (tenantId: TenantId, amount: bigint, members: Partial<ReserveItem> = {}): ReserveItem => {
  const item = {
    principal: "service-account",
    audit,
    kind: "reserve" as const,
    id: ReservationId.make(newId()),
    tenantId,
    origin: "api" as const,
    dimensions: {} satisfies Dimensions,
    amount,
    tokens: 0,
    ttlSeconds: 300
  }
  return { ...item, ...members }
}

export const closeItem = (
  kind: "settle" | "release",
  id: ReservationId,
  members: Partial<CloseItem> = {}
): CloseItem => ({
  principal: "service-account",
  kind,
  id,
  tenantId: null,
  origin: "api",
  canActForOthers: true,
  amount: 0n,
  chargeId: ChargeId.make(newId()),
  ...members
})

const number = BigDecimal.toNumberUnsafe
const withNumbers = ({ grants, headroom, held, reserved, spent, ...utilization }: CapUtilization) => ({
  ...utilization,
  grants: number(grants),
  headroom: number(headroom),
  held: number(held),
  reserved: number(reserved),
  spent: number(spent)
})

/** What the counters of a cap say now, with its sums as numbers. */
export const utilizationOf = Effect.fnUntraced(function* (capId: string) {
  const utilizations = yield* CapUtilizations
  const { items } = yield* asSystem(utilizations.list({ capId: CapId.make(capId) }, undefined, 1000))
  return items.map(withNumbers)
})

/** Makes everything that is open or held of a tenant due. */
export const makeDue = (database: TestDatabase, tenantId: string) =>
  asSuperuser(
    database,
    (sql) => sql`
      UPDATE budget_reservations SET expires_at = now() - interval '1 second'
      WHERE tenant_id = ${tenantId} AND state IN ('open', 'held')`
  )

/** How many reservations of a tenant are in each state. */
export const statesOf = (database: TestDatabase, tenantId: string) =>
  asSuperuser(database, (sql) =>
    Effect.map(
      sql<{ readonly state: string; readonly count: number }>`
        SELECT state, count(*)::integer AS count FROM budget_reservations WHERE tenant_id = ${tenantId} GROUP BY state`,
      (rows) => Object.fromEntries(rows.map(({ count, state }) => [state, count]))
    )
  )

/**
 * Repeats the one row that a tenant has in a table, under new ids: only thousands of requests would add up to sums as
 * large. Charges are added to the counters of the tenant too.
 */
export const repeatRow = (
  database: TestDatabase,
  table: "budget_entries" | "budget_grants" | "budget_reservations",
  tenantId: string,
  times: number
) =>
  asSuperuser(database, (sql) =>
    sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`
          INSERT INTO ${sql(table)} SELECT copy.*
          FROM ${sql(table)} one, (SELECT gen_random_uuid() AS id FROM generate_series(1, ${times}::integer)) fresh,
            LATERAL json_populate_record(one, ${table === "budget_entries" ? sql`json_build_object('id', fresh.id, 'charge_id', fresh.id)` : sql`json_build_object('id', fresh.id)`}) copy
          WHERE one.tenant_id = ${tenantId}`
        if (table === "budget_entries") {
          yield* sql`
            UPDATE budget_counters c SET spent = (
              SELECT sum(e.amount) FROM budget_entries e WHERE e.tenant_id = c.tenant_id AND c.id = ANY (e.counter_ids))
            WHERE c.tenant_id = ${tenantId}`
        }
      })
    )
  )
