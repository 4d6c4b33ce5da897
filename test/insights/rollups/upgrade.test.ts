import * as NodeServices from "@effect/platform-node/NodeServices"
import { PgClient, PgMigrator } from "@effect/sql-pg"
import { assert, it } from "@effect/vitest"
import { Effect, Layer, String as Text } from "effect"
import * as MigratorFileSystem from "effect/sql/MigratorFileSystem"
import { fileURLToPath } from "node:url"
import failedCalls from "../../../migrations/0045_failed_calls.ts"
import { type Segment } from "../../../src/insights/reports/domain.ts"
import { ReportsRepository } from "../../../src/insights/reports/repository.ts"
import { type UsageDimension } from "../../../src/insights/usage/domain.ts"
import { TenantId } from "../../../src/kernel/identifier.ts"
import { migrate } from "../../../src/platform/database/migrations.ts"
import { makeEmptyDatabase, type TestDatabase } from "../../support/database.ts"
import { foldAll, writeUsage } from "../../support/insights.ts"
import { asSuperuser } from "../../support/statements.ts"

const directory = fileURLToPath(new URL("../../../migrations", import.meta.url))
const tenantId = "0198a5b0-7c00-7000-8000-000000000001"
const agentId = "0198a5b0-7c00-7000-8000-00000000000a"

/** Brings an empty database to where a build with these migrations left it, with one tenant. */
const migrateUpTo = Effect.fnUntraced(function* (database: TestDatabase, last: number) {
  const loader = Effect.map(MigratorFileSystem.fromFileSystem(directory), (all) => all.filter(([id]) => id <= last))
  yield* Effect.gen(function* () {
    const sql = yield* PgClient.PgClient
    yield* sql`SET check_function_bodies = off`
    yield* PgMigrator.run({ loader })
    yield* sql`INSERT INTO tenants (id, name, slug, status, created_at, updated_at)
      VALUES (${tenantId}, 'Northwind', 'northwind', 'active', now(), now())`
  }).pipe(
    Effect.provide(PgClient.layer({ ...database, maxConnections: 1 }).pipe(Layer.provideMerge(NodeServices.layer)))
  )
})

const differences = (database: TestDatabase) => asSuperuser(database, (sql) => sql`SELECT * FROM usage_differences()`)

/** Percentiles of a week, from roll-ups of a grain or from rows. */
const percentiles = Effect.fnUntraced(
  function* (dimension: UsageDimension, grain: Segment["grain"]) {
    const reports = yield* ReportsRepository
    const [opens, closes] = [Date.parse("2026-02-26"), Date.parse("2026-03-05")]
    const source = { filter: { tenantId: TenantId.make(tenantId) }, segments: [{ grain, opens, closes }] }
    return yield* reports.latencies(source, dimension, [opens, closes], ["", agentId, "model-0", "model-1"])
  },
  Effect.map((found) => found.toSorted((one, other) => (one.key < other.key ? -1 : 1)))
)

/** The reports on a database as its superuser. */
const reportsOf = (database: TestDatabase) =>
  ReportsRepository.layer.pipe(Layer.provide(PgClient.layer({ ...database, transformResultNames: Text.snakeToCamel })))

it.live("what was charged before there were usage rows is in them, and in roll-ups", () =>
  Effect.gen(function* () {
    const database = yield* makeEmptyDatabase
    const beforeUsageRows = 19
    yield* migrateUpTo(database, beforeUsageRows)
    const [called, reported, aborted] = ["b1", "b2", "b3"].map((end) => `0198a5b0-7c00-7000-8000-0000000000${end}`)
    const [charge, other, refund] = ["c1", "c2", "c3"].map((end) => `0198a5b0-7c00-7000-8000-0000000000${end}`)
    yield* asSuperuser(database, (sql) =>
      Effect.gen(function* () {
        yield* sql`
          INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, model, provider, task_type, amount, tokens,
            ttl_seconds, expires_at, created_at, created_by, counter_ids, closed_at, charge_id, actual, actual_tokens)
          SELECT ${tenantId}, r.id::uuid, r.state::budget_reservation_state, r.origin::budget_origin, ${agentId}, 'gpt-5', 'openai',
            'research', 1000, 10, 60, '2026-03-02T10:01:00Z', '2026-03-02T10:00:00Z', ${`agent:${agentId}`}, '{}',
            '2026-03-02T10:00:30Z', r.charge::uuid, r.actual, r.actual
          FROM (VALUES (${called!}, 'settled', 'gateway', ${charge!}, 700), (${reported!}, 'settled', 'api', ${other!}, 300),
            (${aborted!}, 'released', 'gateway', NULL, NULL)) AS r(id, state, origin, charge, actual)`
        yield* sql`
          INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, occurred_at,
            created_by, counter_ids, buckets)
          SELECT ${tenantId}, e.id::uuid, e.reservation::uuid, e.kind, e.charge::uuid, e.amount, 0, 1, e.at::timestamptz, 'test', '{}', '{}'
          FROM (VALUES (${charge!}, ${called!}, 'charge', ${charge!}, 700, '2026-03-02T10:00:30Z'),
            (${other!}, ${reported!}, 'charge', ${other!}, 300, '2026-03-02T23:59:00Z'),
            (${refund!}, ${called!}, 'refund', ${charge!}, -200, '2026-03-09T08:00:00Z')) AS e(id, reservation, kind, charge, amount, at)`
        yield* sql`
          INSERT INTO gateway_usage (tenant_id, reservation_id, occurred_at, charge_id, created_by, agent_id, task_type, model,
            provider, input_tokens, output_tokens, cached_input_tokens, cost, rates, method, status, latency_ms)
          SELECT ${tenantId}, u.reservation::uuid, '2026-03-02T10:00:30Z', u.charge::uuid, ${`agent:${agentId}`}, ${agentId}, 'research', 'gpt-5', 'openai',
            1000, 20, 500, u.cost, '{"input": 2000000, "cacheRead": 1000000}', u.method, u.status, u.latency
          FROM (VALUES (${called!}, ${charge!}, 700, 'provider_usage', 200, 100), (${aborted!}, NULL, 0, 'aborted', 499, 7))
            AS u(reservation, charge, cost, method, status, latency)`
      })
    )
    yield* migrate(database)
    const rows = yield* asSuperuser(
      database,
      (sql) => sql`
        SELECT method::text, cost::integer, saved::integer, input_tokens::integer, latency_ms::integer, model, created_by
        FROM usage_rows ORDER BY occurred_at, cost DESC`
    )
    const createdBy = `agent:${agentId}`
    const tokens = { saved: 500, input_tokens: 1000, model: "gpt-5", created_by: createdBy }
    const none = { saved: 0, input_tokens: null, latency_ms: null, model: "gpt-5" }
    assert.deepStrictEqual(rows, [
      { method: "provider_usage", cost: 700, latency_ms: 100, ...tokens },
      { method: "aborted", cost: 0, latency_ms: 7, ...tokens },
      { method: "reported", cost: 300, ...none, created_by: "test" },
      { method: "refunded", cost: -200, ...none, created_by: "test" }
    ])
    yield* foldAll(database)
    assert.deepStrictEqual(yield* differences(database), [])
  }).pipe(Effect.scoped)
)

it.live("roll-ups of before there were histograms for each cell have the same sums and latencies", () =>
  Effect.gen(function* () {
    const database = yield* makeEmptyDatabase
    const beforeHistograms = 29
    yield* migrateUpTo(database, beforeHistograms)
    // A cell for each row, so that a key of a day has several, as in parts that are not merged yet.
    yield* asSuperuser(database, (sql) =>
      Effect.gen(function* () {
        yield* sql`
          WITH made AS (
            INSERT INTO usage_rows (tenant_id, charge_id, reservation_id, occurred_at, batch, cost, method, created_by, agent_id,
              model, input_tokens, latency_ms)
            SELECT ${tenantId}, new_id(), new_id(), '2026-03-02T00:00:00Z'::timestamptz + i % 9 * interval '5 hours 7 minutes', i, i,
              'provider_usage', 'test', CASE WHEN i % 3 > 0 THEN ${agentId}::uuid END, 'model-' || i % 2, i,
              CASE WHEN i % 5 > 0 THEN i * i END
            FROM generate_series(1, 90) i RETURNING *)
          INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, occurred_at,
            created_by, counter_ids, buckets)
          SELECT m.tenant_id, m.charge_id, m.reservation_id, 'charge', m.charge_id, m.cost, 0, 1, m.occurred_at, 'test', '{}', '{}'
          FROM made m`
        yield* sql`
          INSERT INTO usage_rollups
          SELECT c.tenant_id, c.dimension, c.grain, c.day, 9, array_agg(c.key ORDER BY c.batch), array_agg(c.place ORDER BY c.batch),
            array_agg(c.cost ORDER BY c.batch), array_agg(c.requests::bigint ORDER BY c.batch),
            array_agg(c.errors::bigint ORDER BY c.batch), array_agg(c.input_tokens ORDER BY c.batch),
            array_agg(c.output_tokens ORDER BY c.batch), array_agg(c.cached_input_tokens ORDER BY c.batch),
            array_agg(c.saved::bigint ORDER BY c.batch),
            array_agg(c.key ORDER BY c.batch) FILTER (WHERE c.has_latency), array_agg(c.place ORDER BY c.batch) FILTER (WHERE c.has_latency),
            array_agg(c.bucket::smallint ORDER BY c.batch) FILTER (WHERE c.has_latency),
            array_agg(1::bigint ORDER BY c.batch) FILTER (WHERE c.has_latency)
          FROM (
            SELECT f.*, d.dimension::smallint AS dimension, d.key, g.grain::"char" AS grain, f.bucket IS NOT NULL AND g.grain <> 'q' AS has_latency,
              CASE g.grain WHEN 'w' THEN usage_week(f.occurred_at::date) ELSE f.occurred_at::date END AS day,
              (CASE g.grain WHEN 'h' THEN extract(hour FROM f.occurred_at)
                WHEN 'q' THEN extract(hour FROM f.occurred_at) * 4 + floor(extract(minute FROM f.occurred_at) / 15) ELSE 0 END)::smallint AS place
            FROM usage_facts f
            CROSS JOIN LATERAL (VALUES (0, ''), (1, coalesce(f.agent_id::text, '')), (2, f.model), (3, ''), (4, ''), (5, ''), (6, ''),
              (7, ''), (8, '')) AS d(dimension, key)
            JOIN unnest('{w,d,h,q}'::text[]) AS g(grain) ON g.grain <> 'q' OR d.dimension = 0
          ) c GROUP BY 1, 2, 3, 4`
      })
    )
    yield* migrate(database)
    assert.deepStrictEqual(yield* differences(database), [])
    const found = yield* Effect.forEach(["agent", "model", "user"] as const, (dimension) =>
      Effect.forEach(["r", "h", "d", "w"] as const, (grain) => percentiles(dimension, grain))
    ).pipe(Effect.provide(reportsOf(database)))
    for (const [rows, ...rollups] of found) {
      assert.isNotEmpty(rows!)
      for (const one of rollups) assert.deepStrictEqual(one, rows)
    }
  }).pipe(Effect.scoped)
)

it.live("calls that their providers failed are requests of days that were summed without them", () =>
  Effect.gen(function* () {
    const database = yield* makeEmptyDatabase
    yield* migrate(database)
    yield* asSuperuser(database, (sql) =>
      Effect.gen(function* () {
        yield* sql`INSERT INTO tenants (id, name, slug, status, created_at, updated_at)
          VALUES (${tenantId}, 'Northwind', 'northwind', 'active', now(), now())`
        // As a build before them left it.
        yield* sql`
          DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW usage_counted WITH (security_invoker = true) AS '
            || replace(pg_get_viewdef('usage_counted'), 'attempts <> ''[]''::jsonb', 'false'); END $$`
      })
    )
    const failed = { method: "released", provider: "openai", status: 500 }
    yield* writeUsage(database, tenantId, [
      { at: "2026-03-02T10:00:00Z", ...failed, attempts: [{ status: 500 }] },
      { at: "2026-03-02T11:00:00Z", ...failed, attempts: [] },
      { at: "2026-03-03T11:00:00Z", ...failed, attempts: [{ error: "ECONNREFUSED" }] }
    ])
    const sums = asSuperuser(
      database,
      (sql) => sql`
        SELECT day::text, sum(requests)::integer AS requests, sum(errors)::integer AS errors FROM usage_cells
        WHERE dimension = 0 AND grain = 'd' GROUP BY 1 ORDER BY 1`
    )
    assert.isEmpty(yield* sums)
    yield* Effect.provide(failedCalls, PgClient.layer({ ...database, maxConnections: 1 }))
    assert.deepStrictEqual(yield* sums, [
      { day: "2026-03-02", requests: 1, errors: 1 },
      { day: "2026-03-03", requests: 1, errors: 1 }
    ])
    assert.deepStrictEqual(yield* differences(database), [])
  }).pipe(Effect.scoped)
)

/** The envelope of a statement about a bill. */
const envelopeOf = (from: string, to: string) => {
  const predicate = { from, to, tenantId, includeSynthetic: false, format: "json" }
  return JSON.stringify({ payload: Buffer.from(JSON.stringify({ predicate })).toString("base64"), signatures: [] })
}

it.live("bills that were signed before stay closed", () =>
  Effect.gen(function* () {
    const database = yield* makeEmptyDatabase
    const beforeClosings = 47
    yield* migrateUpTo(database, beforeClosings)
    const [past, current] = ["d1", "d2"].map((end) => `0198a5b0-7c00-7000-8000-0000000000${end}`)
    yield* asSuperuser(
      database,
      (sql) => sql`
        INSERT INTO billing_statements (id, tenant_id, envelope, created_at) VALUES
          (${past!}, ${tenantId}, ${envelopeOf("2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z")}::text::jsonb, '2026-03-10T00:00:00Z'),
          (${current!}, NULL, ${envelopeOf("2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z")}::text::jsonb, '2026-03-10T00:00:00Z')`
    )
    yield* migrate(database)
    const billed = yield* asSuperuser(
      database,
      (sql) => sql<{ readonly at: Date; readonly is_billed: boolean }>`
        SELECT t.at, usage_is_billed(${tenantId}, NULL, t.at) AS is_billed
        FROM (VALUES ('2026-01-31T23:59:59Z'::timestamptz), ('2026-02-01T00:00:00Z'), ('2026-03-09T23:59:59Z'),
          ('2026-03-10T00:00:00Z')) AS t(at) ORDER BY t.at`
    )
    assert.deepStrictEqual(
      billed.map((row) => row.is_billed),
      [false, true, true, false]
    )
  }).pipe(Effect.scoped)
)
