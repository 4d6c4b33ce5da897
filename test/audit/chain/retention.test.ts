import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer } from "effect"
import { type SqlClient } from "effect/sql"
import { inspect } from "node:util"
import { AuditRetention } from "../../../src/audit/chain/retention.ts"
import { verifyExport } from "../../support/audit-verify.ts"
import { chainOf, tampering, untilAllLinked } from "../../support/chain.ts"
import { copyOf, makeDatabase, type TestDatabase } from "../../support/database.ts"
import { startServer, startService, type TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

/** The first day of the month that lies so many months back, as `2026-01-01`. */
const monthsAgo = (months: number): string => {
  const now = new Date()
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months, 1)).toISOString().slice(0, 10)
}

/** The months of the old log that are over. */
const months = { first: monthsAgo(5), second: monthsAgo(4) }

/**
 * A log of months gone by: entries of five months ago and of four, which the chain has in another order at their turn, and
 * of this one.
 */
const oldLog = (database: TestDatabase) =>
  asSuperuser(database, (sql) =>
    Effect.gen(function* () {
      const { first, second } = months
      yield* sql`SELECT audit_make_partitions(${first}::timestamptz, 6), audit_make_link_partitions(${first}::timestamptz, 6)`
      const days = [first, first, second, first, second, second, first, second]
      for (const day of days) {
        yield* sql`
          INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, outcome,
            transaction_id)
          VALUES (${day}::timestamptz + interval '1 hour', 'UserCreated', 'TrialUser', ${day}, 'system', 'system', 'success',
            pg_current_xact_id())`
      }
    })
  )

const monthsOf = (database: TestDatabase) =>
  Effect.map(chainOf(database), (chain) => [...new Set(chain.map(({ entityId }) => entityId))])

const partitions = (database: TestDatabase) =>
  asSuperuser(database, (sql) =>
    Effect.map(
      sql<{ readonly name: string }>`SELECT inhrelid::regclass::text AS name FROM pg_inherits ORDER BY 1`,
      (rows) => rows.map(({ name }) => name)
    )
  )

const partitionsOf = (day: string) =>
  ["audit_entries_", "audit_links_"].map((prefix) => prefix + day.slice(0, 7).replace("-", "_"))

const verify = Effect.fnUntraced(function* (service: TestService["Service"], query = "") {
  return (yield* service.call("GET", `/api/audit-logs/verify${query}`)).body
})

/** A database with that log, everything linked and signed for; each test has a copy of it. */
class OldLog extends Context.Service<OldLog, TestDatabase>()("test/OldLog") {
  static readonly layer = Layer.effect(
    OldLog,
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* oldLog(database)
      yield* Effect.scoped(
        Effect.gen(function* () {
          const service = yield* startService(database)
          yield* eventually(service.call("GET", "/api/audit-logs/checkpoints"), ({ body }) => body.items.length > 0)
          yield* untilAllLinked(database)
          assert.isTrue((yield* verify(service)).ok)
        })
      )
      return database
    })
  )
}

/** A service that keeps its log for so many days, and a pass of its retention. */
const keepingFor = Effect.fnUntraced(function* (database: TestDatabase, retentionDays: number) {
  const { context, service } = yield* startServer(database, { Audit__RetentionDays: String(retentionDays) })
  return { service, retire: Context.get(context, AuditRetention).retire }
})

/** The same with the old log. */
const keepingOldLog = Effect.fnUntraced(function* (retentionDays: number) {
  const database = yield* Effect.flatMap(OldLog, copyOf)
  return { database, ...(yield* keepingFor(database, retentionDays)) }
})

const days = (months: number) => Math.floor((Date.now() - Date.parse(monthsAgo(months))) / 86_400_000)

layer(OldLog.layer, { excludeTestServices: true, timeout: "60 seconds" })("retention of the audit log", (it) => {
  it.effect("drops the entries and links of months that are over for so long, whole, and the rest stays proven", () =>
    Effect.gen(function* () {
      // All of the month of five months ago is older than the beginning of the month after it.
      const { database, service } = yield* keepingOldLog(days(4))
      yield* eventually(partitions(database), (names) => !names.includes(partitionsOf(months.first)[0] ?? ""))
      const names = yield* partitions(database)
      for (const name of partitionsOf(months.first)) assert.notInclude(names, name)
      for (const name of partitionsOf(months.second)) assert.include(names, name)
      yield* untilAllLinked(database)
      const found = yield* verify(service)
      assert.deepInclude(found, { ok: true, firstBad: null })
      assert.isBelow(found.checked, found.head.sequence)
      assert.notInclude(yield* monthsOf(database), months.first)
      const listed = yield* service.call("GET", "/api/audit-logs?actionType=AuditMonthRetired")
      assert.deepStrictEqual(
        listed.body.items.map(({ entityId }: { entityId: string }) => entityId),
        [months.first.slice(0, 7)]
      )
      const exported = yield* service.call("GET", "/api/audit-logs/export")
      const keys = yield* service.call("GET", "/.well-known/attestation-keys.json")
      const offline = yield* verifyExport(exported.text, keys.text)
      assert.strictEqual(offline.code, 0, offline.output)
      assert.include(offline.output, "not in the file: none before the last")
      const withoutStatement = exported.text.replace(/^.*AuditMonthRetired.*\n/mu, "")
      assert.strictEqual((yield* verifyExport(withoutStatement, keys.text)).code, 3)
    })
  )

  it.effect("what is lied about after it is found all the same", () =>
    Effect.gen(function* () {
      const { database, service } = yield* keepingOldLog(days(4))
      yield* eventually(partitions(database), (names) => !names.includes(partitionsOf(months.first)[0] ?? ""))
      yield* untilAllLinked(database)
      const straggler = (yield* chainOf(database)).find(({ entityId }) => entityId === months.second)
      assert.isDefined(straggler)
      yield* tampering(database, (sql) => sql`DELETE FROM audit_entries WHERE id = ${straggler?.id ?? ""}`)
      assert.deepInclude((yield* verify(service)).firstBad, { problem: "missing", sequence: straggler?.sequence })
      yield* tampering(
        database,
        (sql) => sql`UPDATE audit_retirements SET jws = regexp_replace(jws, '\\.[^.]+$', '.' || repeat('A', 86))`
      )
      assert.isFalse((yield* verify(service)).ok)
      yield* tampering(database, (sql) => sql`DELETE FROM audit_retirements`)
      assert.deepInclude((yield* verify(service)).firstBad, { problem: "missing" })
    })
  )

  it.effect("a month that is retired while the log is verified is no fault, and two replicas retire it once", () =>
    Effect.gen(function* () {
      const database = yield* Effect.flatMap(OldLog, copyOf)
      const service = yield* startService(database)
      const verifying = yield* Effect.forkChild(Effect.repeat(verify(service), { until: ({ ok }) => !ok }))
      const replicas = yield* Effect.all([keepingFor(database, days(4)), keepingFor(database, days(4))])
      yield* Effect.all(
        replicas.map(({ retire }) => retire),
        { concurrency: "unbounded" }
      )
      yield* eventually(partitions(database), (names) => !names.includes(partitionsOf(months.first)[0] ?? ""))
      assert.isTrue((yield* verify(service)).ok)
      assert.isUndefined(verifying.pollUnsafe())
      yield* Fiber.interrupt(verifying)
      const retired = yield* service.call("GET", "/api/audit-logs?actionType=AuditMonthRetired")
      assert.lengthOf(retired.body.items, 1)
    })
  )

  it.effect(
    "who reads entries and then links while a month is dropped is never the one that a circle of waits ends",
    () =>
      Effect.gen(function* () {
        const database = yield* Effect.flatMap(OldLog, copyOf)
        const [, links = ""] = partitionsOf(months.first)
        const waiting = asSuperuser(database, (sql) =>
          Effect.map(
            sql`SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
              WHERE d.datname = current_database() AND NOT l.granted`,
            ({ length }) => length
          )
        )
        const wait = Deferred.make<void>()
        const [isHeld, isRead, dropWaits, readerWaits] = yield* Effect.all([wait, wait, wait, wait])
        const within = (...steps: ReadonlyArray<(sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>>) =>
          Effect.forkChild(
            asSuperuser(database, (sql) =>
              sql.withTransaction(
                Effect.all(
                  steps.map((step) => step(sql)),
                  { discard: true }
                )
              )
            )
          )
        const holder = yield* within(
          (sql) => sql`SELECT FROM ${sql(links)}`,
          () => Deferred.succeed(isHeld, undefined),
          () => Deferred.await(readerWaits)
        )
        const reader = yield* within(
          (sql) => sql`SELECT FROM audit_entries`,
          () => Deferred.succeed(isRead, undefined),
          () => Deferred.await(dropWaits),
          (sql) => sql`SELECT FROM audit_links`
        )
        yield* Deferred.await(isHeld)
        yield* Deferred.await(isRead)
        const keeping = yield* Effect.forkChild(keepingFor(database, days(4)))
        yield* eventually(waiting, (count) => count > 0)
        yield* Deferred.succeed(dropWaits, undefined)
        yield* eventually(waiting, (count) => count > 1 || reader.pollUnsafe() !== undefined)
        yield* Deferred.succeed(readerWaits, undefined)
        yield* Fiber.join(holder)
        assert.isTrue(Exit.isSuccess(yield* Fiber.await(reader)))
        yield* Fiber.join(keeping)
        yield* eventually(partitions(database), (names) => !names.includes(links))
      })
  )

  it.effect("after a rest of months there is a place for the first entry before it is written", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const names = partitionsOf(monthsAgo(0))
      yield* asSuperuser(database, (sql) => Effect.forEach(names, (name) => sql`DROP TABLE ${sql(name)}`))
      yield* startService(database)
      yield* untilAllLinked(database)
      const [stray] = yield* asSuperuser(
        database,
        (sql) => sql`SELECT (SELECT count(*)::integer FROM audit_entries_default) AS entries,
          (SELECT count(*)::integer FROM audit_links_default) AS links`
      )
      assert.deepStrictEqual(stray, { entries: 0, links: 0 })
      for (const name of names) assert.include(yield* partitions(database), name)
    })
  )

  it.effect("keeps everything when it is 0 days, or more than the log has", () =>
    Effect.gen(function* () {
      for (const retentionDays of [0, 36_500]) {
        const { database, retire, service } = yield* keepingOldLog(retentionDays)
        assert.deepStrictEqual(yield* retire, [])
        assert.include(yield* partitions(database), partitionsOf(monthsAgo(5))[0])
        assert.isTrue((yield* verify(service)).ok)
      }
    })
  )

  const refusals: ReadonlyArray<readonly [string, (month: string) => string, RegExp]> = [
    ["a month that is not over", () => monthsAgo(0).slice(0, 7), /is not over/],
    ["a month that nothing was signed for", (month) => month, /No retirement of the month .* is signed/],
    ["what is no month", () => "default", /is not over/]
  ]
  for (const [what, monthOf, why] of refusals) {
    it.effect(`the database refuses to drop ${what}, whoever of the service asks`, () =>
      Effect.gen(function* () {
        const database = yield* Effect.flatMap(OldLog, copyOf)
        const month = monthOf(monthsAgo(5).slice(0, 7))
        const error = yield* asSuperuser(database, (sql) =>
          Effect.andThen(sql`SET ROLE application_manager`, Effect.flip(sql`SELECT audit_drop_month(${month})`))
        )
        assert.match(inspect(error), why)
        assert.include(yield* partitions(database), partitionsOf(monthsAgo(5))[0])
      })
    )
  }

  it.effect("a month with an entry that has no link stays", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* oldLog(database)
      yield* asSuperuser(
        database,
        (sql) => sql`
          INSERT INTO audit_entries (occurred_at, action_type, entity_type, user_id, actor_type, outcome)
          VALUES (${months.first}::timestamptz, 'UserCreated', 'TrialUser', 'system', 'system', 'success')`
      )
      const { retire, service } = yield* keepingFor(database, days(4))
      yield* eventually(service.call("GET", "/api/audit-logs/checkpoints"), ({ body }) => body.items.length > 0)
      assert.deepStrictEqual(yield* retire, [])
      assert.include(yield* partitions(database), partitionsOf(months.first)[0])
      assert.strictEqual((yield* verify(service)).firstBad.problem, "inserted")
    })
  )

  it.effect("links, checkpoints and retirements refuse to be changed, also by a superuser", () =>
    Effect.gen(function* () {
      const database = yield* Effect.flatMap(OldLog, copyOf)
      for (const table of ["audit_links", "audit_links_default", "audit_checkpoints", "audit_retirements"]) {
        for (const statement of [`TRUNCATE ${table}`, `DELETE FROM ${table}`, `UPDATE ${table} SET ${column(table)}`]) {
          const refused = yield* asSuperuser(database, (sql) => Effect.exit(sql`${sql.literal(statement)}`))
          const rows = yield* asSuperuser(database, (sql) => sql`SELECT FROM ${sql(table)} LIMIT 1`.values)
          if (rows.length > 0 || statement.startsWith("TRUNCATE"))
            assert.strictEqual(refused._tag, "Failure", statement)
        }
      }
    })
  )
})

const column = (table: string): string => (table.startsWith("audit_links") ? "sequence = 1" : "jws = ''")
