import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import { Database, poolLayer } from "../../../src/platform/database/database.ts"
import { makeDatabase, makeEmptyDatabase, type TestDatabase } from "../../support/database.ts"
import { hasPooler, makeLogin, makePooler, settingsOfLogin } from "../../support/pooler.ts"
import { refusal } from "../../support/refusal.ts"
import { asSuperuser, countOf } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const pool = (connection: TestDatabase, pooler: TestDatabase, maxConnections = 2) =>
  poolLayer({ connection, pooler, maxConnections, statementTimeoutSeconds: 30 })

/** A pooler of transactions with one session, so that whatever a client leaves in it meets the next one. */
const makeCase = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>> = settingsOfLogin) {
  const database = yield* makeDatabase
  const user = yield* makeLogin(database, settings)
  const pooler = yield* makePooler(user.login, {
    pool_mode: "transaction",
    ignore_startup_parameters: "",
    default_pool_size: 1
  })
  return { database, user, pooler }
})

const insert = (sql: SqlClient.SqlClient, name: string) =>
  sql`INSERT INTO installation (name, value, created_at) VALUES (${name}, '1', now())`

/** Each way by which statements reach the database. */
const ways = (sql: SqlClient.SqlClient, database: Database["Service"]) => ({
  "a read": database.read("all", sql`SELECT count(*) FROM budget_caps`),
  "a transaction": database.transaction("all", insert(sql, "transaction")),
  "a snapshot": database.snapshot("all", sql`SELECT count(*) FROM budget_caps`),
  "a statement alone": insert(sql, "statement"),
  "a transaction of no tenant": sql.withTransaction(insert(sql, "withTransaction")),
  "a setting of a transaction of no tenant": sql.withTransaction(
    Effect.andThen(sql`SET LOCAL lock_timeout = '1s'`, insert(sql, "SET LOCAL"))
  )
})

const removed = (sql: SqlClient.SqlClient) => sql`DELETE FROM installation`

describe.runIf(hasPooler)("a pooler of transactions", { timeout: 120_000 }, () => {
  it.live("serves each kind of statement, and changes of the role's sessions are seen by none of another tenant", () =>
    Effect.gen(function* () {
      const { database, pooler } = yield* makeCase()
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        for (let round = 0; round < 3; round++) {
          for (const way of Object.values(ways(sql, yield* Database))) yield* way
          yield* removed(sql)
        }
        const seen = sql`SELECT current_setting('app.tenant_id', true) AS tenant, pg_backend_pid() AS pid`
        const scoped = yield* (yield* Database).read("all", seen)
        const unscoped = yield* seen
        const transaction = yield* sql.withTransaction(seen)
        assert.deepStrictEqual(
          [...scoped, ...unscoped, ...transaction].map(({ tenant }) => tenant),
          ["*", "", ""]
        )
      }).pipe(Effect.provide(pool(database, pooler.database)))
    }).pipe(Effect.scoped)
  )

  it.live("a tenant that another client has entered for its whole session is left by every statement", () =>
    Effect.gen(function* () {
      const { database, pooler } = yield* makeCase()
      const other = yield* PgClient.makeClient(pooler.database).pipe(Effect.provide(Reactivity.layer))
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* other`SET app.tenant_id = '*'`
        for (const [seen] of [
          yield* sql`SELECT current_setting('app.tenant_id') AS tenant`,
          yield* sql.withTransaction(sql`SELECT current_setting('app.tenant_id') AS tenant`)
        ]) {
          assert.deepStrictEqual(seen, { tenant: "" })
        }
      }).pipe(Effect.provide(pool(database, pooler.database)))
    }).pipe(Effect.scoped)
  )

  it.live("nothing is prepared by a name", () =>
    Effect.gen(function* () {
      const { database, pooler } = yield* makeCase()
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        for (let round = 0; round < 3; round++) {
          yield* sql`SELECT 1`
          yield* (yield* Database).transaction("all", sql`SELECT 2`)
        }
        assert.deepStrictEqual(yield* sql`SELECT name FROM pg_prepared_statements`, [])
      }).pipe(Effect.provide(pool(database, pooler.database)))
    }).pipe(Effect.scoped)
  )

  const hostile = [
    ["the role of its user", "SET ROLE NONE"],
    ["another role", "SET ROLE pg_monitor"],
    ["row-level security off", "SET row_security = off"],
    ["another search path", "SET search_path = pg_catalog, pg_temp, public"],
    ["a search path without tables", "SET search_path = pg_catalog"],
    ["no time limit", "SET statement_timeout = 0"],
    ["no time limit of transactions", "SET idle_in_transaction_session_timeout = 0"],
    ["compilation", "SET jit = on"],
    ["another isolation", "SET default_transaction_isolation = 'serializable'"]
  ] as const
  for (const [what, statement] of hostile) {
    it.live(`a session that another client has left with ${what} serves nothing`, () =>
      Effect.gen(function* () {
        const { database, pooler, user } = yield* makeCase()
        yield* asSuperuser(database, (sql) => sql.unsafe(`GRANT pg_monitor TO ${user.login.username}`))
        const other = yield* PgClient.makeClient(pooler.database).pipe(Effect.provide(Reactivity.layer))
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const all = ways(sql, yield* Database)
          yield* all["a read"]
          const before = yield* countOf(database, "installation")
          for (const [way, effect] of Object.entries(all)) {
            // Its client connections were checked when the session was right; refused ones are replaced.
            yield* user.end
            yield* Effect.all([all["a read"], all["a read"]], { concurrency: 2 }).pipe(Effect.retry({ times: 20 }))
            yield* other.unsafe(statement).pipe(Effect.retry({ times: 20 }))
            const { message } = yield* refusal(effect)
            assert.match(message, /^A connection to the database \(Database:PoolUrl\) was refused: /u, way)
            assert.match(message, /state than the service has verified|instead of/u, way)
          }
          assert.strictEqual(yield* countOf(database, "installation"), before)
          yield* user.end
          yield* all["a transaction"].pipe(Effect.retry({ times: 20 }))
        }).pipe(Effect.provide(pool(database, pooler.database)))
      }).pipe(Effect.scoped)
    )
  }

  it.live("a user without the settings is refused with the statements to run, which mend it", () =>
    Effect.gen(function* () {
      const { database, pooler, user } = yield* makeCase({})
      const { message } = yield* refusal(Layer.build(pool(database, pooler.database)))
      const { username } = user.login
      assert.include(message, `its role is ${username} instead of application_manager`)
      const statements = message.match(/ALTER ROLE [^;]+;/gu) ?? []
      assert.include(
        statements,
        `ALTER ROLE ${username} IN DATABASE ${database.database} SET role = application_manager;`
      )
      assert.include(
        statements,
        `ALTER ROLE ${username} IN DATABASE ${database.database} SET search_path = public, pg_temp;`
      )
      assert.include(
        statements,
        `ALTER ROLE ${username} IN DATABASE ${database.database} SET statement_timeout = '30s';`
      )
      yield* asSuperuser(database, (sql) => Effect.forEach(statements, (statement) => sql.unsafe(statement)))
      yield* user.end
      yield* Layer.build(pool(database, pooler.database))
    }).pipe(Effect.scoped)
  )

  it.live("a user who bypasses row-level security is refused, whatever the pooler ignores", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const pooler = yield* makePooler(database, { pool_mode: "transaction" })
      const { message } = yield* refusal(Layer.build(pool(database, pooler.database)))
      assert.include(message, "its role is postgres instead of application_manager")
    }).pipe(Effect.scoped)
  )

  it.live("a role that owns a table of tenants is refused", () =>
    Effect.gen(function* () {
      const { database, pooler } = yield* makeCase()
      yield* asSuperuser(database, (sql) => sql`ALTER TABLE budget_caps OWNER TO application_manager`)
      const { message } = yield* refusal(Layer.build(pool(database, pooler.database)))
      assert.match(message, /role application_manager bypasses row-level security on 1 tables/u)
    }).pipe(Effect.scoped)
  )

  it.live("of statements is refused", () =>
    Effect.gen(function* () {
      const { database, pooler } = yield* makeCase()
      yield* pooler.reconfigure({ pool_mode: "statement", ignore_startup_parameters: "" })
      const { message } = yield* refusal(Layer.build(pool(database, pooler.database)))
      assert.match(message, /do not run in one session\. .*pool_mode = transaction/u)
    }).pipe(Effect.scoped)
  )

  it.live("that comes to pool statements serves no transaction more", () =>
    Effect.gen(function* () {
      const { database, pooler, user } = yield* makeCase()
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const all = ways(sql, yield* Database)
        yield* all["a transaction"]
        const before = yield* countOf(database, "installation")
        yield* pooler.reconfigure({ pool_mode: "statement", ignore_startup_parameters: "" })
        yield* user.end
        // The connection that meets it is ended by the pooler, and those that follow are refused.
        yield* eventually(Effect.map(Effect.exit(all["a transaction"]), String), (exit) =>
          exit.includes("do not run in one session")
        )
        yield* refusal(all["a transaction of no tenant"])
        assert.strictEqual(yield* countOf(database, "installation"), before)
      }).pipe(Effect.provide(pool(database, pooler.database)))
    }).pipe(Effect.scoped)
  )

  it.live("on another database than the migrated one is refused", () =>
    Effect.gen(function* () {
      const { database, user } = yield* makeCase()
      const empty = yield* makeEmptyDatabase
      const pooler = yield* makePooler({ ...user.login, database: empty.database }, { pool_mode: "transaction" })
      const { message } = yield* refusal(Layer.build(pool(database, pooler.database)))
      assert.match(message, /lacks the migrations of this release\. .*Database:PoolUrl name the database/u)
    }).pipe(Effect.scoped)
  )

  it.live("serves as a pooler of sessions, or as none", () =>
    Effect.gen(function* () {
      const { database, pooler, user } = yield* makeCase()
      yield* pooler.reconfigure({ pool_mode: "session", ignore_startup_parameters: "" })
      for (const pooled of [pooler.database, user.login]) {
        yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          for (const way of Object.values(ways(sql, yield* Database))) yield* way
          yield* removed(sql)
        }).pipe(Effect.provide(pool(database, pooled)))
      }
    }).pipe(Effect.scoped)
  )
})
