import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as crypto from "node:crypto"
import * as fs from "node:fs"
import { inject } from "vitest"
import { migrate, requiredSchema } from "../../../src/platform/database/migrations.ts"
import { makeDatabase, makeEmptyDatabase, onServer, type TestDatabase } from "../../support/database.ts"
import { asSuperuser } from "../../support/statements.ts"

const migrations = new URL("../../../migrations/", import.meta.url)
const files = fs
  .readdirSync(migrations)
  .filter((file) => file.endsWith(".ts"))
  .toSorted()
const functions = fs
  .readdirSync(new URL("functions", migrations))
  .filter((file) => file.endsWith(".sql"))
  .map((file) => file.replace(/\.sql$/, ""))
  .toSorted()

const recorded = (database: TestDatabase) =>
  asSuperuser(
    database,
    (sql) => sql<{ readonly migration_id: number; readonly name: string }>`
      SELECT migration_id, name FROM effect_sql_migrations ORDER BY migration_id`
  )

const tablesOf = (database: TestDatabase) =>
  asSuperuser(
    database,
    (sql) => sql`SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`
  )

it.live("any number of replicas migrate an empty database at once, and each migration is applied once", () =>
  Effect.gen(function* () {
    const database = yield* makeEmptyDatabase
    const applied = yield* Effect.all(
      Array.from({ length: 5 }, () => migrate(database)),
      { concurrency: "unbounded" }
    )
    const rows = yield* recorded(database)
    assert.deepStrictEqual(
      rows.map((row) => `${String(row.migration_id).padStart(4, "0")}_${row.name}.ts`),
      files
    )
    assert.deepStrictEqual(
      applied.map((list) => list.length).toSorted((a, b) => a - b),
      [0, 0, 0, 0, files.length]
    )
  })
)

it.live("migrating again applies nothing", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const before = yield* recorded(database)
    assert.deepStrictEqual(yield* migrate(database), [])
    assert.deepStrictEqual(yield* recorded(database), before)
  })
)

it.live("a migration that fails leaves nothing behind, and the next start applies all", () =>
  Effect.gen(function* () {
    const database = yield* makeEmptyDatabase
    yield* asSuperuser(database, (sql) => sql`CREATE TABLE idempotency_keys (mine text)`)
    const error = yield* Effect.flip(migrate(database))
    assert.strictEqual(error._tag, "MigrationError")
    assert.deepStrictEqual(yield* tablesOf(database), [{ relname: "idempotency_keys" }])
    yield* asSuperuser(database, (sql) => sql`DROP TABLE idempotency_keys`)
    assert.strictEqual((yield* migrate(database)).length, files.length)
  })
)

it.live("a database of a build before the first release is refused, and stays as it is", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    yield* asSuperuser(
      database,
      (sql) => sql`UPDATE effect_sql_migrations SET name = 'accounts' WHERE migration_id = 4`
    )
    const before = yield* recorded(database)
    assert.strictEqual((yield* Effect.flip(migrate(database)))._tag, "UnsupportedDatabase")
    assert.deepStrictEqual(yield* recorded(database), before)
  })
)

it.live("migrations are numbered in order, each once, and the newest is known", () =>
  Effect.gen(function* () {
    const numbers = files.map((file) => Number(file.slice(0, 4)))
    assert.deepStrictEqual(
      numbers,
      [...new Set(numbers)].toSorted((a, b) => a - b)
    )
    assert.strictEqual((yield* requiredSchema).migration, numbers.at(-1))
  })
)

it.live("several databases on one server share the application's role", () =>
  Effect.gen(function* () {
    const databases = [yield* makeEmptyDatabase, yield* makeEmptyDatabase, yield* makeEmptyDatabase]
    const applied = yield* Effect.forEach(databases, migrate, { concurrency: "unbounded" })
    assert.isTrue(applied.every((list) => list.length === files.length))
  })
)

it.live("the default tenant exists from the first start", () =>
  Effect.gen(function* () {
    const tenants = yield* asSuperuser(yield* makeDatabase, (sql) => sql`SELECT slug, status FROM tenants`)
    assert.deepStrictEqual(tenants, [{ slug: "default", status: "active" }])
  })
)

it.live("new_id gives UUIDv7 that sort by time", () =>
  Effect.gen(function* () {
    const rows = yield* asSuperuser(
      yield* makeDatabase,
      (sql) => sql<{ readonly before: number; readonly id: string; readonly after: number }>`
        SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS before, new_id() AS id,
          (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS after
        FROM generate_series(1, 20000)`
    )
    assert.strictEqual(new Set(rows.map((row) => row.id)).size, rows.length)
    const times = rows.map(({ id }) => Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16))
    for (const [index, { after, before, id }] of rows.entries()) {
      assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      assert.isAtLeast(times[index] ?? 0, before)
      assert.isAtMost(times[index] ?? 0, after + 1)
      assert.isAtLeast(times[index] ?? 0, times[index - 1] ?? 0)
    }
    assert.isAbove(times.at(-1) ?? 0, times[0] ?? 0)
  })
)

it.live("a database user that is no member of the service's role gets an error with the statement that fixes it", () =>
  Effect.gen(function* () {
    const server = inject("databaseServer")
    const database = yield* makeEmptyDatabase
    const user = `owner_${crypto.randomUUID().replaceAll("-", "")}`
    // Another database's service has made the role before, so this user has no say over it.
    yield* migrate(yield* makeDatabase)
    yield* Effect.acquireRelease(
      onServer(
        server,
        (sql) => sql`CREATE ROLE ${sql(user)} LOGIN CREATEROLE PASSWORD ${sql.literal(`'${user}'`)}`
      ).pipe(
        Effect.andThen(onServer(server, (sql) => sql`ALTER DATABASE ${sql(database.database)} OWNER TO ${sql(user)}`))
      ),
      () =>
        Effect.orDie(
          onServer(server, (sql) => sql`ALTER DATABASE ${sql(database.database)} OWNER TO CURRENT_USER`).pipe(
            Effect.andThen(asSuperuser(database, (sql) => sql`DROP OWNED BY ${sql(user)} CASCADE`)),
            Effect.andThen(onServer(server, (sql) => sql`DROP ROLE ${sql(user)}`))
          )
        )
    )
    const refused = yield* Effect.flip(migrate({ ...database, username: user, password: Redacted.make(user) }))
    assert.include(String(refused.message), `GRANT application_manager TO ${user};`)
  })
)

const functionsOf = (database: TestDatabase) =>
  asSuperuser(
    database,
    (sql) => sql<{ readonly name: string; readonly definition: string; readonly grants: string | null }>`
      SELECT proname AS name, pg_get_functiondef(oid) AS definition, proacl::text AS grants
      FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = pg_proc.oid AND d.deptype = 'e') ORDER BY proname COLLATE "C"`
  )

it.live("each file defines the one function that it is named after, whose body PostgreSQL accepts", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const found = yield* functionsOf(database)
    assert.deepStrictEqual(
      found.map(({ name }) => name),
      functions
    )
    // Bodies are not checked when they are applied, since what they name may be created after them.
    yield* asSuperuser(database, (sql) =>
      Effect.forEach(found, ({ definition }) => sql.unsafe(definition), { discard: true })
    )
  })
)

it.live(
  "functions that are not this build's are replaced, whatever their signatures and results, with their grants",
  () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const before = yield* functionsOf(database)
      yield* asSuperuser(database, (sql) =>
        Effect.gen(function* () {
          yield* sql`DROP FUNCTION budgets_extend`
          yield* sql`CREATE FUNCTION budgets_extend(p json) RETURNS integer LANGUAGE sql AS 'SELECT 1'`
          yield* sql`CREATE FUNCTION budgets_extend(p json, older text) RETURNS integer LANGUAGE sql AS 'SELECT 1'`
          yield* sql`CREATE FUNCTION budgets_removed(older text) RETURNS integer LANGUAGE sql AS 'SELECT 1'`
          yield* sql`CREATE FUNCTION owned_by_the_operator() RETURNS integer LANGUAGE sql AS 'SELECT 1'`
          yield* sql`CREATE OR REPLACE FUNCTION sees_tenant(tenant uuid) RETURNS boolean LANGUAGE sql AS 'SELECT true'`
          yield* sql`UPDATE applied_functions SET checksum = 'older', signatures = signatures ||
          ARRAY['budgets_extend(json,text)', 'budgets_removed(text)']`
        })
      )
      assert.deepStrictEqual(yield* migrate(database), [])
      const after = yield* functionsOf(database)
      assert.deepStrictEqual(
        after.filter(({ name }) => name !== "owned_by_the_operator"),
        before
      )
      assert.strictEqual(after.length, before.length + 1)
    })
)

it.live("functions of a newer build stay, and those of an older one do not", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const appliedBy = (version: string) =>
      asSuperuser(database, (sql) => sql`UPDATE applied_functions SET checksum = 'another', version = ${version}`)
    const checksum = asSuperuser(
      database,
      (sql) => sql<{ readonly checksum: string }>`SELECT checksum FROM applied_functions`
    )
    yield* appliedBy("999.10.0")
    yield* migrate(database)
    assert.deepStrictEqual(yield* checksum, [{ checksum: "another" }])
    yield* appliedBy("0.0.1")
    yield* migrate(database)
    assert.deepStrictEqual(yield* checksum, [{ checksum: (yield* requiredSchema).checksum }])
  })
)

it.live("a function that fails leaves nothing behind", () =>
  Effect.gen(function* () {
    const database = yield* makeEmptyDatabase
    yield* asSuperuser(database, (sql) => sql`CREATE PROCEDURE budgets_extend(p json) LANGUAGE sql AS 'SELECT 1'`)
    const error = yield* Effect.flip(migrate(database))
    assert.include(String(error), "budgets_extend")
    assert.deepStrictEqual(yield* tablesOf(database), [])
  })
)
