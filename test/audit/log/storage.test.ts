import { type PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Layer } from "effect"
import { SqlError } from "effect/sql"
import { AuditRepository } from "../../../src/audit/log/repository.ts"
import { Database } from "../../../src/platform/database/database.ts"
import { applicationRole } from "../../../src/platform/database/migrations.ts"
import { insertEntries } from "../../support/audit.ts"
import { OwnDatabase, poolOnOwnDatabase } from "../../support/clock.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser, countOf } from "../../support/statements.ts"

const monthsAhead = (months: number): Date => {
  const now = new Date()
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months, 1))
}
const partitionOf = (month: Date) => `audit_entries_${month.toISOString().slice(0, 7).replace("-", "_")}`

/** Which partition every entry of that entity is in, by the time of the entry. */
const placesOf = (sql: PgClient.PgClient, entityId: string) =>
  Effect.map(
    sql<{ readonly place: string }>`
      SELECT tableoid::regclass::text AS place FROM audit_entries WHERE entity_id = ${entityId} ORDER BY occurred_at`,
    (rows) => rows.map((row) => row.place)
  )

const isLockTimeout = (cause: Cause.Cause<never>) => {
  const error = Cause.squash(cause)
  return SqlError.isSqlError(error) && error.reason._tag === "LockTimeoutError"
}

layer(Layer.provideMerge(AuditRepository.layer, poolOnOwnDatabase), { timeout: "60 seconds" })(
  "stored audit entries",
  (it) => {
    const tables = ["audit_entries", partitionOf(monthsAhead(0)), "audit_entries_default"]
    const statements: ReadonlyArray<readonly [string, (table: string) => string]> = [
      ["UPDATE", (table) => `UPDATE ${table} SET outcome = 'failed'`],
      ["UPDATE of nothing", (table) => `UPDATE ${table} SET count = count`],
      ["DELETE", (table) => `DELETE FROM ${table}`],
      ["TRUNCATE", (table) => `TRUNCATE ${table}`],
      ["MERGE", (table) => `MERGE INTO ${table} USING (VALUES (1)) v ON true WHEN MATCHED THEN DELETE`],
      [
        "INSERT … ON CONFLICT DO UPDATE",
        (table) => `
        INSERT INTO ${table} (id, occurred_at, action_type, entity_type, user_id, actor_type, outcome)
        SELECT id, occurred_at, action_type, entity_type, user_id, actor_type, outcome FROM ${table}
        ON CONFLICT (id, occurred_at) DO UPDATE SET outcome = 'failed'`
      ]
    ]
    for (const [what, statement] of statements) {
      for (const table of tables) {
        const name = table === tables[1] ? "this month's partition" : table
        for (const role of ["the application's role", "a superuser"]) {
          it.effect(`${what} on ${name} is refused to ${role}`, () =>
            Effect.gen(function* () {
              const database = yield* OwnDatabase
              yield* insertEntries(database, [
                { occurred_at: new Date().toISOString() },
                { occurred_at: "1999-01-01T00:00:00Z" }
              ])
              const before = yield* countOf(database, "audit_entries")
              const error = yield* asSuperuser(database, (sql) =>
                Effect.gen(function* () {
                  if (role !== "a superuser") yield* sql`SET ROLE ${sql(applicationRole)}`
                  yield* sql`SELECT set_config('app.tenant_id', '*', false)`
                  return yield* Effect.flip(sql`${sql.literal(statement(table))}`)
                })
              )
              assert.strictEqual(error.reason._tag, "AuthorizationError")
              assert.strictEqual(yield* countOf(database, "audit_entries"), before)
            })
          )
        }
      }
    }

    it.effect("months have their partitions from the first start on, this one and the next three", () =>
      Effect.gen(function* () {
        const names = yield* asSuperuser(
          yield* OwnDatabase,
          (sql) => sql<{ readonly name: string }>`
          SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'audit_entries'::regclass`
        )
        const wanted = [0, 1, 2, 3].map((months) => partitionOf(monthsAhead(months)))
        assert.includeMembers(
          names.map((row) => row.name),
          ["audit_entries_default", ...wanted]
        )
      })
    )

    it.effect("months begin and end in UTC, whatever the zone of the session", () =>
      Effect.gen(function* () {
        const next = monthsAhead(1)
        const entity_id = "the turn of the month"
        const places = yield* asSuperuser(yield* OwnDatabase, (sql) =>
          Effect.gen(function* () {
            yield* sql`SET timezone = 'Pacific/Auckland'`
            for (const millis of [-1, 0]) {
              yield* sql`
              INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, outcome)
              VALUES (${new Date(next.getTime() + millis)}, 'UserCreated', 'TrialUser', ${entity_id}, 'system', 'system', 'success')`
            }
            return yield* placesOf(sql, entity_id)
          })
        )
        assert.deepStrictEqual(places, [partitionOf(monthsAhead(0)), partitionOf(next)])
      })
    )

    it.effect("an entry outside all months lands in the default partition and is found", () =>
      Effect.gen(function* () {
        const database = yield* OwnDatabase
        const entity_id = "out of time"
        const ids = yield* insertEntries(database, [
          { entity_id, occurred_at: "1970-01-01T00:00:00Z" },
          { entity_id, occurred_at: "9999-12-31T23:59:59.999Z" }
        ])
        const places = yield* asSuperuser(database, (sql) => placesOf(sql, entity_id))
        assert.deepStrictEqual(places, ["audit_entries_default", "audit_entries_default"])
        assert.strictEqual(ids.length, 2)
      })
    )

    it.effect("the months ahead are made as often as anybody likes, by many at the same time", () =>
      Effect.gen(function* () {
        const repository = yield* AuditRepository
        const database = yield* Database
        // It gives up after half a second, which four at once may take on a busy machine.
        const make = database
          .transaction("all", repository.makePartitions(12))
          .pipe(Effect.sandbox, Effect.retry({ times: 20, while: isLockTimeout }))
        yield* Effect.all(
          Array.from({ length: 4 }, () => make),
          { concurrency: "unbounded" }
        )
        const [found] = yield* asSuperuser(
          yield* OwnDatabase,
          (sql) => sql`SELECT to_regclass(${partitionOf(monthsAhead(11))}) IS NOT NULL AS made`
        )
        assert.deepStrictEqual(found, { made: true })
      })
    )

    it.effect("an entry that came before its month was made keeps no other month from being made", () =>
      Effect.gen(function* () {
        const repository = yield* AuditRepository
        const database = yield* OwnDatabase
        const entity_id = "early"
        yield* insertEntries(database, [{ entity_id, occurred_at: monthsAhead(13).toISOString() }])
        yield* repository.makePartitions(16)
        const places = yield* asSuperuser(database, (sql) =>
          Effect.gen(function* () {
            yield* sql`
            INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, outcome)
            VALUES (${monthsAhead(15)}, 'UserCreated', 'TrialUser', ${entity_id}, 'system', 'system', 'success')`
            return yield* placesOf(sql, entity_id)
          })
        )
        assert.strictEqual(places[1], partitionOf(monthsAhead(15)))
      })
    )
  }
)

const ada = { firstName: "Ada", lastName: "Lovelace", email: "ada@example.com" }

/** How many entries the caller of these tests has made; the service makes some itself after its start. */
const entriesOfCaller = ({ database }: TestService["Service"]) =>
  Effect.map(
    asSuperuser(
      database,
      (sql) => sql<{ readonly id: string }>`SELECT id::text FROM audit_entries WHERE user_id = 'service-account'`
    ),
    ({ length }) => length
  )

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("a change and its entries", (it) => {
  it.effect("a change that fails leaves no entry", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* service.call("POST", "/api/trial-users", { body: ada })
      const before = yield* entriesOfCaller(service)
      assert.isAbove(before, 0)
      const failures = [
        yield* service.call("POST", "/api/trial-users", { body: ada }),
        yield* service.call("PATCH", `/api/trial-users/${created.body.id}`, {
          body: { trialEndDate: "1999-01-01T00:00:00Z" }
        }),
        yield* service.call("DELETE", "/api/trial-users/2147483647"),
        yield* service.call("POST", "/api/sessions", { body: { trialUserId: 2147483647, ipAddress: "::1" } }),
        yield* service.call("DELETE", "/api/sessions/2147483647")
      ]
      assert.deepStrictEqual(
        failures.map((answer) => answer.status),
        [409, 400, 404, 404, 404]
      )
      assert.strictEqual(yield* entriesOfCaller(service), before)
    })
  )

  it.effect("a change whose entry cannot be written does not happen", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const user = (yield* service.call("POST", "/api/trial-users", { body: { ...ada, email: "kept@example.com" } }))
        .body
      const session = { trialUserId: user.id, ipAddress: "192.0.2.1" }
      const opened = (yield* service.call("POST", "/api/sessions", { body: session })).body
      const before = yield* entriesOfCaller(service)
      yield* asSuperuser(service.database, (sql) =>
        Effect.andThen(
          sql`
            CREATE FUNCTION refuse_entry() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no entry today'; END $$`,
          sql`CREATE TRIGGER refuse_entry BEFORE INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION refuse_entry()`
        )
      )
      const failures = [
        yield* service.call("POST", "/api/trial-users", { body: { ...ada, email: "lost@example.com" } }),
        yield* service.call("PATCH", `/api/trial-users/${user.id}`, { body: { isActive: false } }),
        yield* service.call("DELETE", `/api/trial-users/${user.id}`),
        yield* service.call("POST", "/api/sessions", { body: session }),
        yield* service.call("DELETE", `/api/sessions/${opened.id}`),
        yield* service.call("POST", "/api/api-keys", { body: { name: "a key", scopes: [] } })
      ]
      yield* asSuperuser(service.database, (sql) =>
        // Partitions are locked after their table, as what reads them does.
        sql.withTransaction(
          Effect.andThen(sql`LOCK TABLE audit_entries`, sql`DROP TRIGGER refuse_entry ON audit_entries`)
        )
      )
      assert.deepStrictEqual(
        failures.map((answer) => answer.status),
        [500, 500, 500, 500, 500, 500]
      )
      assert.strictEqual(yield* entriesOfCaller(service), before)
      assert.strictEqual(yield* countOf(service.database, "api_keys"), 0)
      assert.deepStrictEqual((yield* service.call("GET", `/api/trial-users/${user.id}`)).body, user)
      assert.deepStrictEqual((yield* service.call("GET", `/api/sessions?userId=${user.id}`)).body, [opened])
      assert.strictEqual((yield* service.call("GET", "/api/trial-users/by-email/lost@example.com")).status, 404)
    })
  )

  it.effect("a refusal that cannot be written is answered all the same", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* asSuperuser(service.database, (sql) => sql`ALTER TABLE audit_entries RENAME TO audit_entries_away`)
      const answer = yield* service.call("GET", "/api/sessions", { key: "amk_refusedUnseen" })
      yield* asSuperuser(service.database, (sql) => sql`ALTER TABLE audit_entries_away RENAME TO audit_entries`)
      assert.strictEqual(answer.status, 401)
    })
  )
})
