import { PgClient } from "@effect/sql-pg"
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import {
  batches,
  index,
  perform,
  script,
  shortLockTimeout,
  type Step
} from "../../../src/platform/database/migration-steps.ts"
import { migrate } from "../../../src/platform/database/migrations.ts"
import { makeDatabase, type TestDatabase } from "../../support/database.ts"
import { asSuperuser } from "../../support/statements.ts"

const performOn = (database: TestDatabase, step: Step) =>
  Effect.gen(function* () {
    yield* shortLockTimeout(yield* SqlClient.SqlClient)
    yield* perform(step, Effect.void)
  }).pipe(Effect.provide(PgClient.layer({ ...database, maxConnections: 1 })))

const indexesOf = (database: TestDatabase, name: string) =>
  asSuperuser(
    database,
    (sql) => sql<{ readonly name: string; readonly isValid: boolean }>`
      SELECT c.relname AS name, i.indisvalid AS "isValid" FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
      WHERE c.relname LIKE ${`${name}%`} ORDER BY 1`
  )

it.live("an index of a partitioned table is built for each partition, also for those that are made later", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const step = index("usage_rows_provider", "usage_rows", "(provider) WHERE provider IS NOT NULL")
    yield* performOn(database, step)
    const built = yield* indexesOf(database, "usage_rows_provider")
    const [{ count }] = (yield* asSuperuser(
      database,
      (sql) => sql`SELECT count(*)::integer AS count FROM pg_partition_tree('usage_rows')`
    )) as [{ count: number }]
    assert.lengthOf(built, count)
    assert.isTrue(built.every(({ isValid }) => isValid))
    yield* performOn(database, step)
    assert.deepStrictEqual(yield* indexesOf(database, "usage_rows_provider"), built)
    yield* asSuperuser(database, (sql) => sql`SELECT usage_make_partitions('2031-01-01', 1)`)
    const [later] = yield* asSuperuser(
      database,
      (sql) =>
        sql`SELECT indexdef FROM pg_indexes WHERE tablename = 'usage_rows_2031_01' AND indexdef LIKE '%(provider)%'`
    )
    assert.isDefined(later)
  })
)

it.live("an index that a stopped build left invalid is built again", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    yield* asSuperuser(database, (sql) =>
      Effect.andThen(
        sql`CREATE INDEX applications_description ON applications (description)`,
        sql`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'applications_description'::regclass`
      )
    )
    yield* performOn(database, index("applications_description", "applications", "(description)"))
    assert.deepStrictEqual(yield* indexesOf(database, "applications_description"), [
      { name: "applications_description", isValid: true }
    ])
  })
)

/** Changes ten rows at a time, and fails at the one with this key. */
const renewing = (without: string) =>
  batches(`
    UPDATE idempotency_keys SET body = 'new', status = 200 / (CASE WHEN key = '${without}' THEN 0 ELSE 1 END)
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM idempotency_keys WHERE body = 'old' ORDER BY key::integer LIMIT 10))`)

it.live("batches change all rows, each batch in its own transaction, and go on after a stop", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    yield* asSuperuser(
      database,
      (sql) => sql`
        INSERT INTO idempotency_keys (principal, route, key, request_sha256, status, headers, body, created_at)
        SELECT 'one', 'GET /', n::text, '\\x00', 200, '{}', 'old', now() FROM generate_series(1, 25) n`
    )
    const left = asSuperuser(
      database,
      (sql) => sql`SELECT count(*)::integer AS left FROM idempotency_keys WHERE body = 'old'`
    )
    yield* Effect.flip(performOn(database, renewing("15")))
    assert.deepStrictEqual(yield* left, [{ left: 15 }])
    yield* performOn(database, renewing("none"))
    assert.deepStrictEqual(yield* left, [{ left: 0 }])
  })
)

it.live("a step that has to wait for a lock lets requests pass, and is done when the lock is free", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const locked = yield* Deferred.make<void>()
    const release = yield* Deferred.make<void>()
    const transaction = yield* asSuperuser(database, (sql) =>
      sql.withTransaction(
        sql`SELECT count(*) FROM applications`.pipe(
          Effect.andThen(Deferred.succeed(locked, undefined)),
          Effect.andThen(Deferred.await(release))
        )
      )
    ).pipe(Effect.forkChild)
    yield* Deferred.await(locked)
    const step = yield* Effect.forkChild(performOn(database, script("ALTER TABLE applications ADD COLUMN color text;")))
    // Behind a statement that waits without a limit these would wait as long.
    for (let read = 0; read < 20; read += 1)
      yield* asSuperuser(database, (sql) => sql`SELECT count(*) FROM applications`)
    yield* Deferred.succeed(release, undefined)
    yield* Fiber.join(transaction)
    yield* Fiber.join(step)
    assert.lengthOf(yield* asSuperuser(database, (sql) => sql`SELECT color FROM applications LIMIT 0`), 0)
  })
)

it.live("a migration that was stopped between its steps goes on with the first that is not done", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    // As a process that ended after the only step of the last migration leaves it.
    yield* asSuperuser(
      database,
      (sql) => sql`UPDATE applied_migrations SET applied_at = NULL WHERE id = (SELECT max(id) FROM applied_migrations)`
    )
    assert.lengthOf(yield* migrate(database), 1)
    assert.lengthOf(yield* migrate(database), 0)
  })
)
