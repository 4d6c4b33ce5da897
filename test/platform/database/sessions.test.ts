import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseConnection, OwnerLayer } from "../../../src/platform/database/connection.ts"
import { Database, poolLayer, sessionLayer } from "../../../src/platform/database/database.ts"
import { applicationRole, migrate } from "../../../src/platform/database/migrations.ts"
import { makeDatabase, makeEmptyDatabase, type TestDatabase } from "../../support/database.ts"
import { makeForwarder } from "../../support/forwarder.ts"
import {
  assertApart,
  hasPooler,
  makeCase,
  makeLogin,
  makePooler,
  settingsOfLogin as settings
} from "../../support/pooler.ts"
import { assertProblem } from "../../support/problem.ts"
import { refusal } from "../../support/refusal.ts"
import { startService, type TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const pool = (connection: TestDatabase) => poolLayer({ connection, maxConnections: 2, statementTimeoutSeconds: 30 })

describe("a session", () => {
  const hostile = [
    ["the role of its user", "SET ROLE NONE"],
    ["another role", "SET ROLE pg_monitor"],
    ["row-level security off", "SET row_security = off"],
    ["another search path", "SET search_path = pg_catalog, pg_temp, public"],
    ["no time limit", "SET statement_timeout = 0"],
    ["no time limit of transactions", "SET idle_in_transaction_session_timeout = 0"],
    ["another time zone", "SET timezone = 'Asia/Tokyo'"],
    ["dates in another order", "SET datestyle = 'SQL, DMY'"],
    ["none of its statements", "DEALLOCATE ALL"],
    ["another isolation", "SET default_transaction_isolation = 'serializable'"]
  ] as const
  for (const [what, statement] of hostile) {
    if (statement !== "DEALLOCATE ALL") {
      // A statement alone is prepared again, and enters its tenant as before.
      it.live(`that has got ${what} serves no read more`, () =>
        Effect.gen(function* () {
          const connection = yield* makeDatabase
          yield* Effect.gen(function* () {
            const database = yield* Database
            const sql = yield* SqlClient.SqlClient
            const caps = database.read("all", sql`SELECT count(*) FROM budget_caps`)
            yield* caps
            yield* sql.unsafe(statement).unprepared
            const { message } = yield* refusal(caps)
            assert.match(message, /^A connection to the database \(Database:Url\) was refused: .*pool_mode/u)
            yield* caps
          }).pipe(Effect.provide(poolLayer({ connection, maxConnections: 1, statementTimeoutSeconds: 30 })))
        }).pipe(Effect.scoped)
      )
    }
    it.live(`that has got ${what} serves no transaction more`, () =>
      Effect.gen(function* () {
        const connection = yield* makeDatabase
        yield* Effect.gen(function* () {
          const database = yield* Database
          const sql = yield* SqlClient.SqlClient
          const caps = database.transaction("all", sql`SELECT count(*) FROM budget_caps`)
          yield* caps
          // On a pool of one, it is the session of the next transaction.
          yield* sql.unsafe(statement).unprepared
          const { message } = yield* refusal(caps)
          assert.match(message, /^A connection to the database \(Database:Url\) was refused: .*pool_mode/u)
          // Another one takes its place.
          yield* caps
        }).pipe(Effect.provide(poolLayer({ connection, maxConnections: 1, statementTimeoutSeconds: 30 })))
      }).pipe(Effect.scoped)
    )
  }

  it.live("of a role that owns a table of tenants is refused", () =>
    Effect.gen(function* () {
      const connection = yield* makeDatabase
      yield* asSuperuser(connection, (sql) => sql`ALTER TABLE budget_caps OWNER TO ${sql(applicationRole)}`)
      const { message } = yield* refusal(Layer.build(pool(connection)))
      assert.match(message, /role application_manager bypasses row-level security on 1 tables/u)
      yield* refusal(Layer.build(sessionLayer(connection)))
    }).pipe(Effect.scoped)
  )

  it.live("is never compiled, whatever the database has by default", () =>
    Effect.gen(function* () {
      const connection = yield* makeEmptyDatabase
      yield* asSuperuser(connection, (sql) =>
        Effect.all([
          sql.unsafe(`ALTER DATABASE ${connection.database} SET jit = on`),
          sql`CREATE SCHEMA watch`,
          sql.unsafe(`
            CREATE FUNCTION watch.jit() RETURNS event_trigger LANGUAGE plpgsql AS $$
            BEGIN
              IF current_setting('jit') = 'on' THEN RAISE 'a migration may be compiled'; END IF;
            END $$`),
          sql`CREATE EVENT TRIGGER jit ON ddl_command_start EXECUTE FUNCTION watch.jit()`
        ])
      )
      yield* asSuperuser(connection, (sql) => sql`DISCARD ALL`)
      yield* migrate(connection)
      const owner = OwnerLayer.pipe(
        Layer.provide(
          Layer.succeed(DatabaseConnection, DatabaseConnection.of({ options: connection, embeddedIn: Option.none() }))
        )
      )
      for (const layer of [pool(connection), sessionLayer(connection), owner] as const) {
        const found = Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const single = yield* sql`SELECT current_setting('jit') AS jit`
          return [...single, ...(yield* sql.withTransaction(sql`SELECT current_setting('jit') AS jit`))]
        })
        assert.deepStrictEqual(yield* Effect.provide(found, layer as Layer.Layer<SqlClient.SqlClient>), [
          { jit: "off" },
          { jit: "off" }
        ])
      }
    }).pipe(Effect.scoped)
  )
})

const databaseCheck = (service: TestService["Service"]) =>
  Effect.map(service.call("GET", "/health/ready"), ({ body, status }) => ({
    status,
    detail: String(
      body.checks.find(({ name }: { readonly name: string }) => name === "database")?.detail ?? "no such check"
    )
  }))

/** Until its connections are refused, or are not any more. */
const untilRefused = (service: TestService["Service"], isRefused: boolean) =>
  eventually(databaseCheck(service), ({ detail, status }) =>
    isRefused ? status === 503 && /^connections refused: .*pooler/u.test(detail) : status === 200
  )

const through = <A, E, R>(test: Effect.Effect<A, E, R | Scope.Scope>) => Effect.scoped(test)

describe.runIf(hasPooler)("a connection pooler", { timeout: 120_000 }, () => {
  for (const mode of ["session", "transaction", "statement"]) {
    it.live(`of ${mode}s that drops what is set at the start ends the start, and names what to do`, () =>
      through(
        Effect.gen(function* () {
          const database = yield* makeDatabase
          const pooler = yield* makePooler(database, { pool_mode: mode })
          const { message } = yield* refusal(startService(pooler.database))
          assert.include(message, "its role is postgres instead of application_manager")
          assert.include(message, "statement_timeout is 0 instead of")
          assert.match(
            message,
            /PgBouncer: ignore_startup_parameters\)\. To mend it, let Database:Url name PostgreSQL/u
          )
          assert.match(message, /ALTER ROLE .* SET role = application_manager; .*let the pooler connect again/u)
        })
      )
    )
  }

  it.live("one dropped setting is enough", () =>
    through(
      Effect.gen(function* () {
        const database = yield* makeDatabase
        yield* asSuperuser(database, (sql) => sql.unsafe(`ALTER DATABASE ${database.database} SET jit = on`))
        for (const name of ["statement_timeout", "jit", "search_path", "role"] as const) {
          const { [name]: _, ...others } = settings
          const { login } = yield* makeLogin(database, others)
          const pooler = yield* makePooler(login)
          const { message } = yield* refusal(Layer.build(pool(pooler.database)))
          assert.match(
            message,
            new RegExp(`refused: its ${name} is (?:(?! its ).)* instead of [^.]*\\. A connection pooler`, "u")
          )
        }
      })
    )
  )

  it.live("of transactions is refused even where its sessions are right, however it hands them out", () =>
    through(
      Effect.gen(function* () {
        const database = yield* makeDatabase
        const { login } = yield* makeLogin(database, settings)
        for (const more of [{}, { server_round_robin: 1, min_pool_size: 3 }, { default_pool_size: 1 }]) {
          const pooler = yield* makePooler(login, { pool_mode: "transaction", ...more })
          const refused = [yield* refusal(Layer.build(pool(pooler.database)))]
          refused.push(yield* refusal(Layer.build(sessionLayer(pooler.database))))
          for (const { message } of refused) assert.match(message, /PgBouncer: pool_mode\)\. To mend it/u)
        }
      })
    )
  )

  it.live("of sessions serves where the user has the settings, and is refused once it has lost them", () =>
    through(
      Effect.gen(function* () {
        const database = yield* makeDatabase
        const { apply, end, forget, login } = yield* makeLogin(database, settings)
        const pooler = yield* makePooler(login)
        const service = { ...(yield* startService(pooler.database)), database }
        const tenants = yield* makeCase(service)
        yield* assertApart(tenants)

        for (const setting of ["role", "statement_timeout"]) {
          yield* forget(setting)
          yield* end
          yield* untilRefused(service, true)
          assertProblem(yield* tenants.steal, 503, "overloaded")
          assertProblem(yield* tenants.remove, 503, "overloaded")

          yield* apply
          yield* end
          yield* untilRefused(service, false)
          yield* eventually(tenants.read, ({ status }) => status === 200)
          yield* assertApart(tenants)
        }

        yield* pooler.reconfigure({ pool_mode: "transaction" })
        yield* end
        yield* untilRefused(service, true)
        assertProblem(yield* tenants.steal, 503, "overloaded")
        yield* pooler.reconfigure({})
        yield* end
        yield* untilRefused(service, false)
        yield* assertApart(tenants)
      })
    )
  )

  it.live("of sessions lets the owner migrate, whose role is that of the service by default", () =>
    through(
      Effect.gen(function* () {
        const database = yield* makeEmptyDatabase
        const { login } = yield* makeLogin(database, settings)
        yield* asSuperuser(database, (sql) =>
          sql.unsafe(`ALTER DATABASE ${database.database} OWNER TO ${login.username}`)
        )
        yield* Effect.addFinalizer(() =>
          asSuperuser(database, (sql) =>
            Effect.all([
              sql.unsafe(`REASSIGN OWNED BY ${login.username} TO ${database.username}`),
              sql.unsafe(`DROP OWNED BY ${login.username}`)
            ])
          )
        )
        const pooler = yield* makePooler(login)
        assert.isAbove((yield* migrate(pooler.database)).length, 0)
        yield* Layer.build(pool(pooler.database))
      })
    )
  )

  it.live("of transactions is refused by a migration, which needs a session of its own", () =>
    through(
      Effect.gen(function* () {
        const database = yield* makeEmptyDatabase
        const pooler = yield* makePooler(database, { pool_mode: "transaction" })
        const refused = yield* Effect.flip(migrate(pooler.database))
        assert.match(String(refused.message), /sessions that are shared .*let Database:Url name PostgreSQL itself/u)
      })
    )
  )

  it.live("that is put in between under a running service serves nothing", () =>
    through(
      Effect.gen(function* () {
        const database = yield* makeDatabase
        const forwarder = yield* makeForwarder(database)
        const pooler = yield* makePooler(database)
        const { host, port } = forwarder
        const service = { ...(yield* startService({ ...database, host, port })), database }
        const tenants = yield* makeCase(service)
        yield* assertApart(tenants)
        yield* forwarder.leadTo(pooler.database)
        yield* forwarder.cut
        yield* untilRefused(service, true)
        assertProblem(yield* tenants.steal, 503, "overloaded")
        assertProblem(yield* tenants.remove, 503, "overloaded")
        yield* forwarder.leadTo(database)
        yield* forwarder.cut
        yield* untilRefused(service, false)
        yield* assertApart(tenants)
      })
    )
  )
})
