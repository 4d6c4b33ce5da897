import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import * as crypto from "node:crypto"
import * as fs from "node:fs"
import { inject } from "vitest"
import written from "../../../migrations/functions/revision.json" with { type: "json" }
import { awaitMigrations, migrate, requiredSchema } from "../../../src/platform/database/migrations.ts"
import { functionsOfBuild } from "../../../src/platform/database/sql-functions.ts"
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
    (sql) => sql<{ readonly id: number; readonly name: string; readonly isApplied: boolean }>`
      SELECT id, name, applied_at IS NOT NULL AS "isApplied" FROM applied_migrations ORDER BY id`
  )

const tablesOf = (database: TestDatabase) =>
  asSuperuser(
    database,
    (sql) =>
      sql<{
        readonly relname: string
      }>`SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`
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
      rows.map((row) => `${String(row.id).padStart(4, "0")}_${row.name}.ts`),
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

it.live("a migration that fails leaves nothing of its step behind, and the next start goes on with it", () =>
  Effect.gen(function* () {
    const database = yield* makeEmptyDatabase
    yield* asSuperuser(database, (sql) => sql`CREATE TABLE sessions (mine text)`)
    const error = yield* Effect.flip(migrate(database))
    assert.strictEqual(error._tag, "MigrationError")
    assert.strictEqual(error.message, 'Migration "4_trials" failed')
    const found = (yield* recorded(database)).map((row) => row.isApplied)
    assert.deepStrictEqual(found, [true, true, true, false])
    const tables = (yield* tablesOf(database)).map((row) => row.relname)
    assert.include(tables, "applications")
    assert.notInclude(tables, "trial_users")
    yield* asSuperuser(database, (sql) => sql`DROP TABLE sessions`)
    assert.strictEqual((yield* migrate(database)).length, files.length - 3)
  })
)

it.live("a database of a build before the first release is refused, and stays as it is", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    yield* asSuperuser(database, (sql) => sql`UPDATE applied_migrations SET name = 'accounts' WHERE id = 4`)
    const before = yield* recorded(database)
    assert.strictEqual((yield* Effect.flip(migrate(database)))._tag, "DatabaseUnusable")
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

it.live("functions of an earlier revision are replaced, whatever their signatures and results, with their grants", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const before = yield* functionsOf(database)
    yield* asSuperuser(database, (sql) =>
      Effect.gen(function* () {
        yield* sql`DROP FUNCTION budgets_extend`
        yield* sql`CREATE FUNCTION budgets_extend(p json) RETURNS integer LANGUAGE sql AS 'SELECT 1'`
        yield* sql`CREATE FUNCTION budgets_extend(p json, older text) RETURNS integer LANGUAGE sql AS 'SELECT 1'`
        yield* sql`CREATE FUNCTION owned_by_the_operator() RETURNS integer LANGUAGE sql AS 'SELECT 1'`
        yield* sql`CREATE OR REPLACE FUNCTION sees_tenant(tenant uuid) RETURNS boolean LANGUAGE sql AS 'SELECT true'`
        yield* sql`UPDATE applied_functions SET revision = 0`
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

const checksumOf = (database: TestDatabase) =>
  asSuperuser(database, (sql) =>
    Effect.map(sql<{ readonly checksum: string }>`SELECT checksum FROM applied_functions`, ([row]) => row?.checksum)
  )

it.live("a function without a file is dropped once the release before does not call it", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const made = (name: string) =>
      asSuperuser(database, (sql) =>
        sql.unsafe(`CREATE FUNCTION ${name}(older text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT older'`)
      )
    const others = ["removed", "operators", "indexed"]
    yield* Effect.forEach(others, made)
    yield* asSuperuser(database, (sql) =>
      Effect.all([
        sql`CREATE INDEX tenants_indexed ON tenants (indexed(name))`,
        sql`UPDATE applied_functions SET revision = revision - 1, names = names || ARRAY['removed', 'indexed']`
      ])
    )
    yield* migrate(database)
    const names = Effect.map(functionsOf(database), (all) => all.map(({ name }) => name))
    const left = yield* names
    assert.deepStrictEqual(
      others.map((name) => left.includes(name)),
      [false, true, true]
    )
  })
)

it.live("functions of a later build stay, and a build that is older than the release before is refused", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const { functions, migration } = yield* requiredSchema
    const appliedBy = (ahead: number, oldest: { readonly revision: number; readonly migration: number }) =>
      asSuperuser(
        database,
        (sql) => sql`
          UPDATE applied_functions SET checksum = 'another', revision = ${functions.revision + ahead}::integer,
            oldest_revision = ${oldest.revision}::integer, oldest_migration = ${oldest.migration}::integer`
      )
    const same = { revision: functions.revision, migration }
    yield* appliedBy(1, same)
    yield* asSuperuser(
      database,
      (sql) => sql`INSERT INTO applied_migrations (id, name, applied_at) VALUES (${migration + 1}, 'later', now())`
    )
    yield* migrate(database)
    yield* awaitMigrations(database)
    assert.strictEqual(yield* checksumOf(database), "another")
    const younger = [
      { ...same, revision: functions.revision + 1 },
      { ...same, migration: migration + 1 }
    ]
    for (const oldest of younger) {
      yield* appliedBy(2, oldest)
      for (const start of [migrate(database), awaitMigrations(database)]) {
        const refused = yield* Effect.flip(start)
        assert.include(String(refused.message), "upgraded by a later release")
      }
    }
    assert.strictEqual(yield* checksumOf(database), "another")
    yield* appliedBy(-1, same)
    yield* migrate(database)
    assert.strictEqual(yield* checksumOf(database), functions.checksum)
  })
)

it.live("a process that migrates nothing waits until another one has", () =>
  Effect.gen(function* () {
    const database = yield* makeEmptyDatabase
    const waiting = yield* Effect.forkChild(awaitMigrations(database))
    yield* migrate(database)
    yield* Fiber.join(waiting)
  })
)

it("the revision is that of the functions", () =>
  Effect.map(functionsOfBuild, ({ checksum }) =>
    assert.strictEqual(checksum, written.checksum, "SQL functions changed: npm run revision")
  ).pipe(Effect.runPromise))

it.live("a function that fails leaves those before as they were", () =>
  Effect.gen(function* () {
    const database = yield* makeEmptyDatabase
    yield* asSuperuser(database, (sql) => sql`CREATE PROCEDURE budgets_extend(p json) LANGUAGE sql AS 'SELECT 1'`)
    const error = yield* Effect.flip(migrate(database))
    assert.include(String(error), "budgets_extend")
    assert.isUndefined(yield* checksumOf(database))
    assert.notInclude(
      (yield* functionsOf(database)).map(({ name }) => name),
      "budgets_reserve"
    )
  })
)
