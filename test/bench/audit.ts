import "../../src/platform/runtime/json-parse.ts"
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Logger, Option } from "effect"
import { HttpServer } from "effect/http"
import * as fs from "node:fs/promises"
import { DatabaseConnection } from "../../src/platform/database/connection.ts"
import { poolLayer } from "../../src/platform/database/database.ts"
import { migrate } from "../../src/platform/database/migrations.ts"
import { connection, start } from "../../src/platform/embedded-postgres/embedded-postgres.ts"
import * as Platform from "../../src/platform/layers.ts"
import { Settings } from "../../src/platform/settings/settings.ts"
import { ServerLayer } from "../../src/server.ts"
import { median, print, serviceKey, temporaryDirectory } from "./rates.ts"

const entries = Number(process.env.BENCH_AUDIT_ENTRIES ?? "1000000")
const calls = 25

/** Audit entries as a busy year would leave them: many actions, things, people and tenants over three months. */
const generate = Effect.gen(function* () {
  const sql = yield* PgClient.PgClient
  yield* sql`SELECT audit_make_partitions(now() - interval '3 months', 8)`
  yield* sql`INSERT INTO tenants (id, name, slug, status, created_at, updated_at)
    SELECT ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 'Tenant ' || i, 'tenant-' || i, 'active', now(), now()
    FROM generate_series(1, 20) i`
  yield* sql`
    INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, tenant_id,
      outcome, count, ip_address, user_agent, trace_id, changes)
    SELECT now() - random() * interval '90 days', 'Action' || (random() * 60)::int, 'Entity' || (random() * 20)::int,
      (random() * 5000)::int::text, 'api-key:' || (random() * 200)::int, 'api-key',
      ('00000000-0000-7000-8000-' || lpad((1 + (random() * 19)::int)::text, 12, '0'))::uuid,
      CASE WHEN random() < 0.02 THEN 'denied' WHEN random() < 0.001 THEN 'failed' ELSE 'success' END,
      1, '203.0.113.7', 'bench', md5(i::text), '{"before": null, "after": {"name": "x"}}'
    FROM generate_series(1, ${entries}) i`
  yield* sql`VACUUM ANALYZE audit_entries`
})

const pick = (most: number) => Math.floor(Math.random() * most)
const tenant = () => `00000000-0000-7000-8000-${String(1 + pick(20)).padStart(12, "0")}`
const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString()

const filters: Record<string, () => string> = {
  "no filter": () => "",
  actionType: () => `actionType=Action${pick(60)}`,
  entityType: () => `entityType=Entity${pick(20)}`,
  entityId: () => `entityId=${pick(5000)}`,
  userId: () => `userId=api-key:${pick(200)}`,
  tenantId: () => `tenantId=${tenant()}`,
  "outcome=denied": () => "outcome=denied",
  "outcome=failed": () => "outcome=failed",
  "outcome=success": () => "outcome=success",
  "a day two months ago": () => `startDate=${day(61)}&endDate=${day(60)}`,
  "actionType + userId": () => `actionType=Action${pick(60)}&userId=api-key:${pick(200)}`,
  "entityType + entityId": () => `entityType=Entity${pick(20)}&entityId=${pick(5000)}`,
  "tenantId + actionType + denied": () => `tenantId=${tenant()}&actionType=Action${pick(60)}&outcome=denied`,
  "userId + entityId (rare)": () => `userId=api-key:${pick(200)}&entityId=${pick(5000)}`,
  "nobody (no match)": () => "userId=nobody&actionType=Action1"
}

/** How long a page of the audit log takes over HTTP under each filter. */
export const benchAudit = Effect.gen(function* () {
  const directory = yield* Effect.acquireRelease(
    Effect.promise(() => temporaryDirectory()),
    (path) => Effect.promise(() => fs.rm(path, { recursive: true, force: true }))
  )
  const server = yield* start({ directory })
  const options = connection(server)
  yield* migrate(options)
  yield* Effect.provide(generate, PgClient.layer({ ...options, maxConnections: 1 }))
  const service = yield* Layer.build(
    ServerLayer.pipe(
      Layer.provide(poolLayer({ connection: options, maxConnections: 10, statementTimeoutSeconds: 60 })),
      Layer.provide(Platform.layerListener),
      Layer.provide(Layer.succeed(DatabaseConnection, { options, embeddedIn: Option.some(directory) })),
      Layer.provide(Settings.layerMemory({ environment: { Api__Port: "0", Api__ApiKey: serviceKey } })),
      Layer.provide(Logger.layer([]))
    )
  )
  const url = HttpServer.formatAddress((yield* Effect.provideContext(HttpServer.HttpServer, service)).address)
  const rows = yield* Effect.promise(async () => {
    const rows = []
    for (const [what, filter] of Object.entries(filters)) {
      const millis: Array<number> = []
      for (let call = 0; call < calls; call++) {
        const started = performance.now()
        const response = await fetch(`${url}/api/audit-logs?${filter()}`, { headers: { "x-api-key": serviceKey } })
        await response.text()
        if (!response.ok) throw new Error(`${what}: ${response.status}`)
        if (call >= 5) millis.push(performance.now() - started)
      }
      const late = millis.toSorted((a, b) => a - b)[Math.ceil(millis.length * 0.95) - 1] ?? Number.NaN
      rows.push({
        what,
        measured: `${median(millis).toFixed(1)} ms`,
        wanted: `p95 ${late.toFixed(1)} ms (wanted < 50)`,
        met: late < 50
      })
    }
    return rows
  })
  print(`A page of the audit log, ${entries.toLocaleString("en")} entries, over HTTP`, rows)
}).pipe(Effect.scoped)

if (import.meta.main) await Effect.runPromise(benchAudit)
