import { assert, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import { makeTenant } from "../support/authority.ts"
import { makeDatabase, type TestDatabase } from "../support/database.ts"
import { exportTo, type ObjectStorage, startStorage } from "../support/object-storage.ts"
import { kill, type Replica, startReplica } from "../support/replica.ts"
import { asSuperuser } from "../support/statements.ts"
import { bookedIn, costOf, exportState, forgiveClaims, rowsIn } from "../support/usage-export.ts"
import { eventually, untilBlocked } from "../support/waiting.ts"

/** Rows of several hours with their entries of the ledger and their places in the outbox, some to a statement. */
const write = (database: TestDatabase, tenantId: string, rows: number, perBatch = 50, first = "2026-03-01T10:00:00Z") =>
  asSuperuser(
    database,
    (sql) => sql`
      WITH batches AS MATERIALIZED (
        SELECT b, nextval('usage_batches') AS batch FROM generate_series(1, ${rows / perBatch}::integer) b
      ), made AS (
        INSERT INTO usage_rows (tenant_id, charge_id, reservation_id, occurred_at, batch, cost, method, created_by, model)
        SELECT ${tenantId}::uuid, new_id(), new_id(), ${first}::timestamptz + b.b % 3 * interval '1 hour', b.batch,
          b.b::bigint * 1000000007 + i, 'reported', 'test', 'model-' || i
        FROM batches b, generate_series(1, ${perBatch}::integer) i
        RETURNING tenant_id, charge_id, reservation_id, occurred_at, batch, cost
      ), entries AS (
        INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, occurred_at,
          created_by, counter_ids, buckets)
        SELECT m.tenant_id, m.charge_id, m.reservation_id, 'charge', m.charge_id, m.cost, 0, 1, m.occurred_at, 'test', '{}', '{}'
        FROM made m
      )
      INSERT INTO usage_outbox (batch, tenant_id, occurred_at)
      SELECT DISTINCT m.batch, m.tenant_id, m.occurred_at FROM made m`
  )

/** Waits until all that is booked is exported, once and to the nano-dollar, and every put of a path had the same bytes. */
const untilAllExported = Effect.fnUntraced(function* (database: TestDatabase, storage: ObjectStorage) {
  const booked = yield* bookedIn(database)
  yield* eventually(
    Effect.andThen(forgiveClaims(database), exportState(database)),
    (state) => state?.rows === booked.rows && state.cost === booked.cost && state.open === "0" && state.queued === "0",
    "2 minutes"
  )
  const rows = rowsIn(storage)
  assert.strictEqual(String(rows.length), booked.rows)
  assert.strictEqual(String(costOf(rows)), booked.cost)
  for (const { body, path } of storage.puts) assert.isTrue(storage.objects.get(path)?.equals(body), path)
})

const replicaOf = (database: TestDatabase, storage: ObjectStorage) =>
  Effect.acquireRelease(startReplica(database, exportTo(storage)), kill)

const pauseUploads = (database: TestDatabase) =>
  asSuperuser(database, (sql) => sql`UPDATE usage_export SET retry_at = clock_timestamp() + interval '30 minutes'`)

const untilBegun = (database: TestDatabase) =>
  eventually(
    asSuperuser(database, (sql) => sql`SELECT FROM usage_export WHERE history_from IS NULL`),
    ({ length }) => length === 1
  )

interface Setting {
  readonly database: TestDatabase
  readonly storage: ObjectStorage
  readonly book: Effect.Effect<unknown>
}

/** Runs `during` while a statement of a superuser holds its locks, under which a statement of the service waits. */
const underLock = (
  database: TestDatabase,
  statement: string,
  book: Effect.Effect<unknown>,
  during: Effect.Effect<unknown>
) =>
  asSuperuser(database, (sql) =>
    sql.withTransaction(
      sql.unsafe(statement).pipe(Effect.andThen(book), Effect.andThen(untilBlocked(sql)), Effect.andThen(during))
    )
  )

/** Brings a replica to a step, and ends it there. */
const steps: Readonly<Record<string, (setting: Setting, end: Effect.Effect<unknown>) => Effect.Effect<unknown>>> = {
  "while it decides what is in files": ({ book, database }, end) =>
    underLock(database, "LOCK TABLE usage_export_files IN SHARE MODE", book, end),
  "when files are decided": ({ book, database }, end) =>
    Effect.all([
      pauseUploads(database),
      book,
      eventually(exportState(database), (state) => Number(state?.open) > 0),
      end
    ]),
  "while it reads the rows of a file": ({ book, database }, end) =>
    Effect.all([
      pauseUploads(database),
      book,
      eventually(exportState(database), (state) => Number(state?.open) > 0 && state?.queued === "0"),
      underLock(database, "LOCK TABLE usage_rows", forgiveClaims(database), end)
    ]),
  "before the storage has the object": ({ book, storage }, end) => atPut(storage, "before", book, end),
  "before the storage has answered": ({ book, storage }, end) => atPut(storage, "after", book, end),
  "before it notes that the file is uploaded": ({ book, database }, end) =>
    underLock(database, "SELECT FROM usage_export FOR UPDATE", book, end)
}

/** Holds the first put, which goes on once the replica has ended: what was sent may arrive late. */
const atPut = (
  storage: ObjectStorage,
  when: "before" | "after",
  book: Effect.Effect<unknown>,
  end: Effect.Effect<unknown>
) =>
  Effect.gen(function* () {
    const come = yield* Deferred.make<void>()
    const released = yield* Deferred.make<void>()
    storage[when] = () => Effect.andThen(Deferred.succeed(come, undefined), Deferred.await(released))
    yield* book
    yield* Deferred.await(come)
    yield* end
    storage[when] = () => Effect.void
    yield* Deferred.succeed(released, undefined)
  })

for (const [step, reach] of Object.entries(steps)) {
  it.live(
    `a replica that is killed ${step} loses and doubles nothing`,
    () =>
      Effect.gen(function* () {
        const database = yield* makeDatabase
        const tenantId = yield* makeTenant(database)
        const storage = yield* startStorage
        const first = yield* replicaOf(database, storage)
        yield* untilBegun(database)
        yield* reach({ database, storage, book: write(database, tenantId, 600) }, kill(first))
        yield* replicaOf(database, storage)
        yield* untilAllExported(database, storage)
      }).pipe(Effect.scoped),
    180_000
  )
}

const signal = ({ process: child }: Replica, name: "SIGSTOP" | "SIGCONT") => Effect.sync(() => child.kill(name))

it.live(
  "a replica that wakes up with the rows of a file that another has uploaded puts the same, and counts nothing again",
  () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const tenantId = yield* makeTenant(database)
      const storage = yield* startStorage
      const sleeping = yield* replicaOf(database, storage)
      yield* untilBegun(database)
      yield* pauseUploads(database)
      yield* write(database, tenantId, 60, 20)
      yield* eventually(exportState(database), (state) => state?.open !== "0" && state?.queued === "0")
      yield* underLock(database, "LOCK TABLE usage_rows", forgiveClaims(database), signal(sleeping, "SIGSTOP"))
      yield* replicaOf(database, storage)
      yield* untilAllExported(database, storage)
      const objects = new Map(storage.objects)
      yield* signal(sleeping, "SIGCONT")
      yield* eventually(
        Effect.sync(() => storage.puts.length),
        (count) => count > objects.size
      )
      yield* untilAllExported(database, storage)
      assert.deepStrictEqual(storage.objects, objects)
    }).pipe(Effect.scoped),
  180_000
)

it.live(
  "exports what the generator writes while the export runs",
  () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const storage = yield* startStorage
      yield* replicaOf(database, storage)
      yield* untilBegun(database)
      yield* asSuperuser(database, (sql) =>
        Effect.gen(function* () {
          yield* sql`SELECT usage_generate_world('2026-03-01T00:00:00Z'::timestamptz)`
          yield* sql`SELECT usage_make_partitions('2026-03-01T00:00:00Z'::timestamptz, 1)`
          yield* sql`SELECT usage_generate_day('2026-03-02'::date, 500, '2026-03-01'::date, 2)`
        })
      )
      yield* untilAllExported(database, storage)
      assert.isAtLeast(rowsIn(storage).length, 500)
    }).pipe(Effect.scoped),
  120_000
)

it.live(
  "100,000 rows of two replicas, one of which is killed, while transactions commit late and the storage fails now and then",
  () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const tenantId = yield* makeTenant(database)
      const storage = yield* startStorage
      const [first] = yield* Effect.all([replicaOf(database, storage), replicaOf(database, storage)], {
        concurrency: 2
      })
      yield* untilBegun(database)
      let count = 0
      storage.before = () =>
        Effect.sync(() => {
          count += 1
          storage.refusal = count % 3 === 0 ? { status: 503, code: "SlowDown" } : undefined
        })
      const steady = Effect.repeat(write(database, tenantId, 10_000, 20), { times: 7 })
      const late = asSuperuser(database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            const [batch] = yield* sql`SELECT nextval('usage_batches') AS batch`
            yield* eventually(
              Effect.andThen(forgiveClaims(database), exportState(database)),
              (state) => Number(state?.rows) > 0
            )
            yield* sql`
              WITH made AS (
                INSERT INTO usage_rows (tenant_id, charge_id, occurred_at, batch, cost, method, created_by)
                SELECT ${tenantId}::uuid, new_id(), '2026-03-01T10:00:00Z', ${batch?.["batch"]}, 3, 'reported', 'test'
                FROM generate_series(1, 20000) RETURNING tenant_id, charge_id, occurred_at, batch, cost
              ), entries AS (
                INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests,
                  occurred_at, created_by, counter_ids, buckets)
                SELECT tenant_id, charge_id, charge_id, 'charge', charge_id, cost, 0, 1, occurred_at, 'test', '{}', '{}' FROM made
              )
              INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT DISTINCT batch, tenant_id, occurred_at FROM made`
          })
        )
      )
      yield* Effect.all([steady, Effect.andThen(late, kill(first))], { concurrency: 2 })
      yield* untilAllExported(database, storage)
      assert.strictEqual(rowsIn(storage).length, 100_000)
    }).pipe(Effect.scoped),
  300_000
)
