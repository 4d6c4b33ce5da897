import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { assertProblem } from "../../support/problem.ts"
import { createUser, newKey, person, post } from "../../support/repeatable.ts"
import { sharedServiceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser, countOf } from "../../support/statements.ts"
import { eventually, untilBlocked } from "../../support/waiting.ts"

const ipAddress = "203.0.113.7"

/** Runs `during` while the row of a user is locked, so that no session of that user is opened meanwhile. */
const whileLocked = <A, E, R>(
  userId: number,
  during: (sql: Parameters<typeof untilBlocked>[0]) => Effect.Effect<A, E, R>
) =>
  Effect.flatMap(TestService, ({ database }) =>
    asSuperuser(database, (sql) =>
      sql.withTransaction(
        Effect.andThen(
          sql`SELECT FROM trial_users WHERE id = ${userId} FOR UPDATE`,
          Effect.suspend(() => during(sql))
        )
      )
    )
  )

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("Idempotency-Key in flight", (it) => {
  it.effect("409: while the first request is served, by whichever replica; then its answer for all", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const replica = yield* startService(service.database)
      const trialUserId = yield* createUser
      const [key, body] = [newKey(), { trialUserId, ipAddress }]
      const headers = { "idempotency-key": key }
      const first = yield* whileLocked(trialUserId, (sql) =>
        Effect.gen(function* () {
          const first = yield* Effect.forkChild(post("/api/sessions", key, body), { startImmediately: true })
          yield* untilBlocked(sql)
          assertProblem(yield* post("/api/sessions", key, body), 409, "idempotency-in-progress")
          const elsewhere = yield* replica.call("POST", "/api/sessions", { body, headers })
          assertProblem(elsewhere, 409, "idempotency-in-progress")
          return first
        })
      ).pipe(Effect.flatMap(Fiber.join))
      assert.strictEqual(first.status, 201, first.text)
      const again = yield* replica.call("POST", "/api/sessions", { body, headers })
      assert.strictEqual(again.text, first.text)
      assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
      assert.lengthOf((yield* service.call("GET", `/api/sessions?userId=${trialUserId}`)).body, 1)
    })
  )

  it.effect("of fifty at once one does the work, and the rest are told so or get its answer", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const trialUserId = yield* createUser
      const [key, body] = [newKey(), { trialUserId, ipAddress }]
      const answers = yield* Effect.forEach(Array.from({ length: 50 }), () => post("/api/sessions", key, body), {
        concurrency: "unbounded"
      })
      const [first, ...rest] = answers.filter(({ status }) => status === 201)
      for (const answer of rest) assert.strictEqual(answer.text, first?.text)
      const fresh = answers.filter(
        ({ headers, status }) => status === 201 && headers.get("idempotency-replayed") === null
      )
      assert.lengthOf(fresh, 1)
      for (const answer of answers) {
        if (answer.status !== 201) assertProblem(answer, 409, "idempotency-in-progress")
      }
      assert.lengthOf((yield* service.call("GET", `/api/sessions?userId=${trialUserId}`)).body, 1)
    })
  )

  it.effect("a caller who gives up leaves the key free and nothing made", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const trialUserId = yield* createUser
      const [key, body] = [newKey(), { trialUserId, ipAddress }]
      yield* whileLocked(trialUserId, (sql) =>
        Effect.gen(function* () {
          const first = yield* Effect.forkChild(post("/api/sessions", key, body), { startImmediately: true })
          yield* untilBlocked(sql)
          yield* Fiber.interrupt(first)
          // Until the service has noticed, the key is in flight.
          yield* eventually(
            Effect.map(
              sql<{ readonly held: number }>`
                SELECT count(*)::integer AS held FROM pg_locks
                WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                  AND pid IN (SELECT pid FROM pg_stat_activity WHERE application_name = 'application-manager')`,
              ([row]) => row?.held
            ),
            (held) => held === 0
          )
        })
      )
      assert.lengthOf((yield* service.call("GET", `/api/sessions?userId=${trialUserId}`)).body, 0)
      const made = yield* post("/api/sessions", key, body)
      assert.strictEqual(made.status, 201, made.text)
      assert.isNull(made.headers.get("idempotency-replayed"))
    })
  )

  it.effect("nothing is kept of a request whose transaction fails: no row, no entry, no key", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [key, body] = [newKey(), person()]
      const counts = Effect.forEach(["trial_users", "idempotency_keys"], (table) => countOf(service.database, table))
      const before = yield* counts
      yield* asSuperuser(service.database, (sql) => sql`ALTER TABLE audit_entries RENAME TO audit_entries_elsewhere`)
      assertProblem(yield* post("/api/trial-users", key, body), 500, "internal-error")
      yield* asSuperuser(service.database, (sql) => sql`ALTER TABLE audit_entries_elsewhere RENAME TO audit_entries`)
      assert.deepStrictEqual(yield* counts, before)

      yield* asSuperuser(
        service.database,
        (sql) => sql`ALTER TABLE idempotency_keys ADD CONSTRAINT full_up CHECK (status <> 201) NOT VALID`
      )
      assertProblem(yield* post("/api/trial-users", key, body), 500, "internal-error")
      yield* asSuperuser(service.database, (sql) => sql`ALTER TABLE idempotency_keys DROP CONSTRAINT full_up`)
      assert.deepStrictEqual(yield* counts, before)

      const made = yield* post("/api/trial-users", key, body)
      assert.strictEqual(made.status, 201, made.text)
      assert.isNull(made.headers.get("idempotency-replayed"))
      const log = yield* service.call("GET", "/api/audit-logs?actionType=UserCreated")
      const entries = log.body.items.filter(
        (entry: { readonly entityId: string }) => entry.entityId === `${made.body.id}`
      )
      assert.lengthOf(entries, 1)
    })
  )
})
