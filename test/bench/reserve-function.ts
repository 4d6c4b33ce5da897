import { PgClient } from "@effect/sql-pg"
import { DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as crypto from "node:crypto"
import * as fs from "node:fs/promises"
import { CapIndex } from "../../src/budgets/ledger/cap-index.ts"
import { ReservationId } from "../../src/budgets/ledger/domain.ts"
import { LedgerStore } from "../../src/budgets/ledger/repository.ts"
import { type ReserveItem } from "../../src/budgets/ledger/protocol-domain.ts"
import { TenantId } from "../../src/kernel/identifier.ts"
import { connection, start } from "../../src/platform/embedded-postgres/embedded-postgres.ts"
import { Database, poolLayer } from "../../src/platform/database/database.ts"
import { migrate } from "../../src/platform/database/migrations.ts"
import { temporaryDirectory } from "./rates.ts"

const rounds = 8
const calls = 250
const tenantId = TenantId.make("00000000-0000-7000-8000-000000000001")

const itemOf = (): ReserveItem => ({
  principal: "service-account",
  kind: "reserve",
  id: ReservationId.make(crypto.randomUUID()),
  tenantId,
  origin: "api",
  dimensions: { userId: "ada", model: "large", provider: "one" },
  amount: 1000n,
  tokens: 100,
  ttlSeconds: 300
})

/** What functions named like a pattern took in all, and how often they were called, as PostgreSQL counts them. */
const timeOf = (name: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`SELECT pg_stat_force_next_flush()`
    const [row] = yield* sql<{ readonly millis: number; readonly calls: number }>`
      SELECT coalesce(sum(total_time), 0)::float8 AS millis, coalesce(sum(calls), 0)::float8 AS calls
      FROM pg_stat_user_functions WHERE funcname = ${name}`
    return row ?? { millis: 0, calls: 0 }
  })

/** How long PostgreSQL is inside budgets_reserve, by the caps that govern a batch and its requests: the best of some rounds. */
export const benchReserveFunction = Effect.gen(function* () {
  const directory = yield* Effect.acquireRelease(
    Effect.promise(() => temporaryDirectory()),
    (path) => Effect.promise(() => fs.rm(path, { recursive: true, force: true }))
  )
  const options = connection(yield* start({ directory }))
  yield* migrate(options)
  yield* Effect.provide(
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`ALTER SYSTEM SET track_functions = 'all'`
      yield* sql`SELECT pg_reload_conf()`
      yield* sql`
        INSERT INTO budget_caps (tenant_id, id, name, scope, unit, limit_amount, period, time_zone, anchor, mode,
          alert_thresholds, status, version, created_at, created_by, updated_at)
        SELECT ${tenantId}, new_id(), 'cap ' || i, '{}', 'usd', 1000000000000000, 'month', 'UTC', 1, 'hard', '[]', 'active', 1,
          now(), 'service-account', now()
        FROM generate_series(1, 4) i`
      yield* sql`INSERT INTO budget_books VALUES (${tenantId}, 1)`
    }),
    PgClient.layer({ ...options, maxConnections: 1 })
  )
  yield* Effect.gen(function* () {
    const store = yield* LedgerStore
    const database = yield* Database
    const { caps: all } = yield* database.transaction("all", store.capsOf(tenantId))
    const best = new Map<string, number>()
    for (let round = 0; round < rounds; round++) {
      for (const governing of [0, 1, 2, 4]) {
        const index = new CapIndex({ revision: 1n, caps: all.slice(0, governing) })
        for (const size of [1, 4]) {
          const before = yield* timeOf("budgets_reserve")
          for (let call = 0; call < calls; call++) {
            const items = Array.from({ length: size }, itemOf)
            const outcome = yield* store.reserve({
              requests: items.map((item) => ({ item, caps: index.applicable(item.dimensions) })),
              revisions: new Map([[tenantId, 1n]]),
              now: yield* DateTime.now,
              holdSeconds: 3600
            })
            if (outcome === "stale" || outcome.some((one) => one === "due" || one.verdict !== "open"))
              return yield* Effect.die(outcome)
          }
          const after = yield* timeOf("budgets_reserve")
          const micros = ((after.millis - before.millis) / (after.calls - before.calls)) * 1000
          const what = `${governing} caps, ${size} reservations`
          best.set(what, Math.min(best.get(what) ?? Infinity, micros))
        }
      }
    }
    for (const [what, micros] of best) process.stdout.write(`${what}: ${micros.toFixed(0)} µs\n`)
  }).pipe(
    Effect.provide(
      LedgerStore.layer.pipe(
        Layer.provideMerge(poolLayer({ connection: options, maxConnections: 1, statementTimeoutSeconds: 60 }))
      )
    )
  )
}).pipe(Effect.scoped)

if (import.meta.main) await Effect.runPromise(benchReserveFunction)
