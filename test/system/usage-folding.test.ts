import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { makeTenant } from "../support/authority.ts"
import { runCommand, urlOf } from "../support/command.ts"
import { makeDatabase, type TestDatabase } from "../support/database.ts"
import { kill, startReplica } from "../support/replica.ts"
import { serviceKey } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

const rows = 20_000
const rowsPerBatch = 5

/** Rows with their entries of the ledger and their places in the outbox, in five days of three months. */
const write = (database: TestDatabase, tenantId: string) =>
  asSuperuser(
    database,
    (sql) => sql`
      WITH batches AS MATERIALIZED (
        SELECT nextval('usage_batches') AS batch FROM generate_series(1, ${rows / rowsPerBatch}::integer)),
      made AS (
        INSERT INTO usage_rows (tenant_id, charge_id, reservation_id, occurred_at, batch, cost, method, created_by, model,
          provider, task_type, input_tokens, output_tokens, latency_ms, status)
        SELECT ${tenantId}::uuid, new_id(), new_id(), '2026-03-01'::timestamptz + b.batch % 5 * interval '20 days', b.batch, i,
          CASE WHEN i % 10 = 0 THEN 'reported' ELSE 'provider_usage' END, 'test', 'model-' || i % 7, 'openai', 'task', i, 1,
          i % 900, 200
        FROM batches b, generate_series(1, ${rowsPerBatch}::integer) i
        RETURNING tenant_id, charge_id, reservation_id, occurred_at, batch, cost),
      entries AS (
        INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, occurred_at,
          created_by, counter_ids, buckets)
        SELECT m.tenant_id, m.charge_id, m.reservation_id, 'charge', m.charge_id, m.cost, 0, 1, m.occurred_at, 'test', '{}', '{}'
        FROM made m)
      INSERT INTO usage_outbox (batch, tenant_id, occurred_at)
      SELECT DISTINCT m.batch, m.tenant_id, m.occurred_at FROM made m`
  )

const rest = (database: TestDatabase) =>
  asSuperuser(database, (sql) => sql<{ readonly n: number }>`SELECT count(*)::integer AS n FROM usage_outbox`).pipe(
    Effect.map(([row]) => row?.n)
  )

/** The connections that fold now, while a lock keeps them from it. */
const folding = (database: TestDatabase) =>
  asSuperuser(
    database,
    (sql) => sql<{ readonly pid: number }>`
      SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%usage_fold(%'
        AND state = 'active' AND wait_event_type = 'Lock'`
  )

const requestsOf = (url: string, tenantId: string) =>
  Effect.promise(async () => {
    const answer = await fetch(
      `${url}/api/insights/by-model?from=2026-02-01T00:00:00Z&to=2026-07-01T00:00:00Z&tenantId=${tenantId}`,
      { headers: { "x-api-key": serviceKey } }
    )
    const { items } = (await answer.json()) as { readonly items: ReadonlyArray<{ readonly requests: number }> }
    return items.reduce((sum, item) => sum + item.requests, 0)
  })

const verify = (database: TestDatabase) => runCommand("src/cli/insights-verify.ts", { Database__Url: urlOf(database) })

for (const [how, ending] of [
  ["the process is killed, and its database completes or undoes the fold", "process"],
  ["its connection breaks in the midst, and all of the fold is undone", "connection"]
] as const) {
  it.live(`folding loses and doubles nothing when ${how}`, () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const tenantId = yield* makeTenant(database)
      const first = yield* startReplica(database)
      yield* Effect.addFinalizer(() => kill(first))
      // A lock on the roll-ups holds the fold after it has taken its batches from the outbox.
      const held = yield* asSuperuser(database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`LOCK TABLE usage_rollups IN SHARE MODE`
            yield* write(database, tenantId)
            const backends = yield* eventually(folding(database), (found) => found.length > 0)
            assert.lengthOf(backends, 1)
            if (ending === "process") yield* kill(first)
            else yield* sql`SELECT pg_terminate_backend(${backends[0]?.pid ?? 0})`
            return yield* rest(database)
          })
        )
      )
      assert.strictEqual(held, rows / rowsPerBatch, "nothing is taken before it is committed")
      const second = yield* startReplica(database)
      yield* Effect.addFinalizer(() => kill(second))
      yield* eventually(rest(database), (count) => count === 0)
      assert.strictEqual(yield* requestsOf(second.url, tenantId), rows)
      const { code, output } = yield* verify(database)
      assert.strictEqual(code, 0, output)
    }).pipe(Effect.scoped)
  )
}

it.live("two replicas fold while days are rebuilt and one replica is killed: every row counts once", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const tenantId = yield* makeTenant(database)
    const [first, second] = yield* Effect.all([startReplica(database), startReplica(database)], { concurrency: 2 })
    yield* Effect.addFinalizer(() => Effect.andThen(kill(first), kill(second)))
    const rebuild = asSuperuser(
      database,
      (sql) => sql`SELECT usage_rebuild(d::date) FROM generate_series('2026-03-01'::date, '2026-05-20', '20 days') d`
    )
    yield* write(database, tenantId)
    yield* Effect.all(
      [rebuild, eventually(rest(database), (count) => (count ?? 0) < rows / rowsPerBatch), write(database, tenantId)],
      { concurrency: "unbounded" }
    )
    yield* kill(first)
    yield* rebuild
    yield* eventually(rest(database), (count) => count === 0)
    assert.strictEqual(yield* requestsOf(second.url, tenantId), 2 * rows)
    const { code, output } = yield* verify(database)
    assert.strictEqual(code, 0, output)

    for (const [change, what] of [
      ["DELETE FROM usage_rollups WHERE dimension = 2", "the rows and the roll-up"],
      ["DELETE FROM budget_entries WHERE amount = 3", "the ledger and the rows"]
    ] as const) {
      yield* asSuperuser(database, (sql) => sql.unsafe(change))
      const found = yield* verify(database)
      assert.strictEqual(found.code, 1, found.output)
      assert.include(found.output, what)
    }
  }).pipe(Effect.scoped)
)
