import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import { makeKey } from "../support/authority.ts"
import { makeApplication, makeFile } from "../support/configuration.ts"
import { type TestDatabase } from "../support/database.ts"
import { isLinux } from "../support/embedded-postgres.ts"
import { makeServer } from "../support/leaving-server.ts"
import { assertProblem } from "../support/problem.ts"
import { type Answer, startService, type TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually, untilBlocked } from "../support/waiting.ts"

const assertAway = (answer: Answer) => {
  assertProblem(answer, 503, "overloaded")
  assert.match(answer.headers.get("retry-after") ?? "", /^[1-9]\d*$/u)
}

const checksOf = (answer: Answer): Readonly<Record<string, boolean>> =>
  Object.fromEntries(
    answer.body.checks.map((check: { readonly name: string; readonly ready: boolean }) => [check.name, check.ready])
  )

const listeners = (database: TestDatabase) =>
  asSuperuser(database, (sql) =>
    Effect.map(
      sql<{ readonly count: number }>`
        SELECT count(*)::integer AS count FROM pg_stat_activity
        WHERE application_name = 'application-manager' AND query LIKE 'LISTEN %application_manager%'`,
      ([row]) => row?.count ?? 0
    )
  )

const ipAddress = "203.0.113.7"
const person = (at: number) => ({ firstName: "Grace", lastName: "Hopper", email: `grace.${at}@example.com` })

/** What a service answers while its database is away, whoever asks for whatever. */
const assertAllAway = Effect.fnUntraced(function* (service: TestService["Service"], key: string) {
  const body = person(0)
  assertAway(yield* service.call("GET", "/api/trial-users"))
  assertAway(yield* service.call("GET", "/api/trial-users", { key }))
  assertAway(yield* service.call("POST", "/api/trial-users", { body }))
  assertAway(yield* service.call("POST", "/api/trial-users", { body, headers: { "idempotency-key": "away" } }))
  assertAway(yield* service.call("DELETE", "/api/trial-users/1"))
  assert.strictEqual((yield* service.call("GET", "/health")).status, 200)
  const ready = yield* service.call("GET", "/health/ready")
  assertProblem(ready, 503, "not-ready")
  assert.isNotNull(ready.headers.get("retry-after"))
  assert.deepInclude(checksOf(ready), { database: false, migrations: false, draining: true })
  assertProblem(yield* service.call("GET", "/nothing"), 404, "route-not-found")
  assertProblem(yield* service.call("GET", "/api/trial-users", { key: null }), 401, "unauthenticated")
  assertProblem(yield* service.call("POST", "/api/trial-users", { body: {} }), 400, "validation-failed")
})

describe("a database that becomes unavailable and returns", () => {
  for (const how of ["stop", "crash"] as const) {
    it.live(
      how,
      () =>
        Effect.gen(function* () {
          const server = yield* makeServer
          const service = yield* startService(server.database, { Database__MaxConnections: "4" })
          const replica = yield* startService(server.database)
          const { body: user } = yield* service.call("POST", "/api/trial-users", {
            body: { firstName: "Ada", lastName: "Lovelace", email: "ada@example.com" }
          })
          const key = yield* makeKey(service, ["trial-users:*", "sessions:*"])
          assert.strictEqual((yield* service.call("GET", "/api/trial-users", { key: key.key })).status, 200)
          yield* eventually(listeners(server.database), (count) => count === 2)

          for (const round of [1, 2]) {
            const headers = { "idempotency-key": `round ${round}` }
            const open = service.call("POST", "/api/sessions", { body: { trialUserId: user.id, ipAddress }, headers })
            const waiting = yield* Deferred.make<Answer>()
            // The test's own transaction goes down with the server.
            yield* Effect.exit(
              asSuperuser(server.database, (sql) =>
                sql.withTransaction(
                  Effect.gen(function* () {
                    yield* sql`SELECT FROM trial_users WHERE id = ${user.id} FOR UPDATE`
                    yield* Effect.forkDetach(Deferred.into(open, waiting), { startImmediately: true })
                    yield* untilBlocked(sql)
                    yield* server[how]
                  })
                )
              )
            )
            assertAway(yield* Deferred.await(waiting))
            yield* assertAllAway(service, key.key)

            yield* server.startAgain
            for (const one of [service, replica]) {
              const ready = yield* eventually(one.call("GET", "/health/ready"), ({ status }) => status === 200)
              assert.deepInclude(checksOf(ready), { database: true, migrations: true })
              assert.deepStrictEqual((yield* one.call("GET", `/api/trial-users/${user.id}`)).body, user)
              assert.strictEqual((yield* one.call("GET", "/api/trial-users", { key: key.key })).status, 200)
            }
            const left = yield* service.call("GET", `/api/sessions?userId=${user.id}`)
            assert.lengthOf(left.body, round - 1)
            const session = yield* open
            assert.strictEqual(session.status, 201, session.text)

            // Every replica listens again, so what another one revokes is refused here.
            yield* eventually(listeners(server.database), (count) => count === 2)
            const other = yield* makeKey(service, ["sessions:read"])
            assert.strictEqual((yield* service.call("GET", "/api/sessions", { key: other.key })).status, 200)
            assert.strictEqual((yield* replica.call("DELETE", `/api/api-keys/${other.id}`)).status, 204)
            yield* eventually(service.call("GET", "/api/sessions", { key: other.key }), ({ status }) => status === 401)
          }
        }).pipe(Effect.scoped),
      120_000
    )
  }

  it.live.runIf(isLinux)(
    "freeze",
    () =>
      Effect.gen(function* () {
        const server = yield* makeServer
        const service = yield* startService(server.database, {
          Api__RequestTimeoutSeconds: "3",
          Database__MaxConnections: "4"
        })
        assert.strictEqual((yield* service.call("GET", "/api/trial-users")).status, 200)
        const file = yield* makeFile(service, yield* makeApplication(service), "a.txt", "1")
        const save = service.call("PUT", `/api/configuration/${file}`, { body: { content: "2" } })
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* server.freeze
            const answers = yield* Effect.forEach(
              Array.from({ length: 12 }, (_, at) => person(at)),
              (body, at) =>
                [service.call("GET", "/api/trial-users"), service.call("POST", "/api/trial-users", { body }), save][
                  at % 3
                ] ?? save,
              { concurrency: "unbounded" }
            )
            for (const answer of answers) assertAway(answer)
            assert.strictEqual((yield* service.call("GET", "/health")).status, 200)
            assertProblem(yield* service.call("GET", "/health/ready"), 503, "not-ready")
          })
        )
        yield* eventually(service.call("GET", "/health/ready"), ({ status }) => status === 200)
        assert.strictEqual((yield* service.call("GET", "/api/trial-users")).status, 200)
        assert.strictEqual((yield* save).status, 200)
      }).pipe(Effect.scoped),
    120_000
  )
})
