import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Fiber, Scope } from "effect"
import { isLinux, processesWith, UsedDirectory } from "../support/embedded-postgres.ts"
import { exchange, requestText } from "../support/raw-http.ts"
import { type ServiceProcess, startProcess, untilDatabaseGone } from "../support/service-process.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually, untilBlocked } from "../support/waiting.ts"

const ipAddress = "203.0.113.7"

let numbered = 0
const createUser = Effect.fnUntraced(function* (service: ServiceProcess) {
  const body = { firstName: "Ada", lastName: "Lovelace", email: `ada.${++numbered}@example.com` }
  const made = yield* service.call("POST", "/api/trial-users", { body })
  assert.strictEqual(made.status, 201, made.text)
  const id: number = made.body.id
  return id
})

/** Holds the row of a user, so that opening a session waits until it is released or the test ends. */
const hold = Effect.fnUntraced(function* (service: ServiceProcess, userId: number) {
  const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
  const held = yield* Effect.forkIn(
    asSuperuser(service.database, (sql) =>
      sql.withTransaction(Effect.andThen(sql`SELECT FROM trial_users WHERE id = ${userId} FOR UPDATE`, Effect.never))
    ),
    scope
  )
  yield* eventually(
    asSuperuser(
      service.database,
      (sql) => sql`SELECT FROM pg_locks WHERE relation = 'trial_users'::regclass AND mode = 'RowShareLock' AND granted`
    ),
    (locks) => locks.length > 0
  )
  return { release: Effect.exit(Fiber.interrupt(held)) }
})

const blocked = (service: ServiceProcess) => asSuperuser(service.database, (sql) => untilBlocked(sql))

const isRefused = (service: ServiceProcess) =>
  Effect.map(Effect.exit(service.call("GET", "/health", { headers: { connection: "close" } })), Exit.isFailure)

layer(UsedDirectory.layer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a service that is asked to end",
  (it) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      it.effect.runIf(isLinux)(
        `${signal}: what is in flight is answered, nothing new is taken, the database ends too, and the exit code is 0`,
        () =>
          Effect.gen(function* () {
            const directory = yield* UsedDirectory
            const service = yield* startProcess(directory)
            const userId = yield* createUser(service)
            const { release } = yield* hold(service, userId)
            const body = { trialUserId: userId, ipAddress }
            const inFlight = yield* Effect.forkScoped(service.call("POST", "/api/sessions", { body }))
            const idle = yield* Effect.forkScoped(
              exchange(service.url, requestText("GET", "/health"), { untilClosed: true })
            )
            yield* blocked(service)
            yield* service.signal(signal)
            yield* eventually(isRefused(service), (refused) => refused)
            yield* blocked(service)
            yield* release
            const answer = yield* Fiber.join(inFlight)
            assert.strictEqual(answer.status, 201, answer.text)
            // Kept open, the connection would keep the service from its end.
            assert.strictEqual(answer.headers.get("connection"), "close")
            assert.strictEqual((yield* Fiber.join(idle)).answers[0]?.status, 200)
            assert.strictEqual(yield* service.ended, 0, service.output())
            assert.deepStrictEqual(yield* processesWith(directory), [])

            const again = yield* startProcess(directory)
            assert.strictEqual((yield* again.call("GET", `/api/sessions/${answer.body.id}`)).body.trialUserId, userId)
          }),
        120_000
      )
    }

    it.effect.runIf(isLinux)(
      "a second signal ends it at once, whatever is in flight; the database ends too",
      () =>
        Effect.gen(function* () {
          const directory = yield* UsedDirectory
          const service = yield* startProcess(directory)
          const userId = yield* createUser(service)
          yield* hold(service, userId)
          const body = { trialUserId: userId, ipAddress }
          const inFlight = yield* Effect.forkScoped(Effect.exit(service.call("POST", "/api/sessions", { body })))
          yield* blocked(service)
          yield* service.signal("SIGTERM")
          yield* eventually(isRefused(service), (refused) => refused)
          yield* service.signal("SIGTERM")
          assert.strictEqual(yield* service.ended, 130)
          assert.isTrue(Exit.isFailure(yield* Fiber.join(inFlight)))
          yield* untilDatabaseGone(directory)
        }),
      120_000
    )

    it.effect.runIf(isLinux)(
      "what does not end in its time is stopped",
      () =>
        Effect.gen(function* () {
          const directory = yield* UsedDirectory
          const service = yield* startProcess(directory, { Api__ShutdownSeconds: "1" })
          const userId = yield* createUser(service)
          yield* hold(service, userId)
          const body = { trialUserId: userId, ipAddress }
          const inFlight = yield* Effect.forkScoped(Effect.exit(service.call("POST", "/api/sessions", { body })))
          yield* blocked(service)
          yield* service.signal("SIGTERM")
          assert.strictEqual(yield* service.ended, 0, service.output())
          const answer = yield* Fiber.join(inFlight)
          assert.isTrue(Exit.isFailure(answer) || answer.value.status === 503)
          assert.deepStrictEqual(yield* processesWith(directory), [])
        }),
      120_000
    )
  }
)
