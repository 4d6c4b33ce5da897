import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber } from "effect"
import * as fs from "node:fs"
import { makeKey } from "../support/authority.ts"
import { isLinux } from "../support/embedded-postgres.ts"
import { settingsOfLogin } from "../support/pooler.ts"
import { assertProblem } from "../support/problem.ts"
import { refusal } from "../support/refusal.ts"
import { kill, startReplica } from "../support/replica.ts"
import { caller, startService, type TestService } from "../support/service.ts"
import { makePair } from "../support/standby.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually, untilBlocked } from "../support/waiting.ts"

type Service = TestService["Service"]

const manual = fs.readFileSync(new URL("../../src/platform/README.md", import.meta.url), "utf8")

const person = (at: number) => ({ firstName: "Grace", lastName: "Hopper", email: `grace.${at}@example.com` })

const create = (service: Service, at: number) => service.call("POST", "/api/trial-users", { body: person(at) })

/** What a service does on a database that it has just come to. */
const assertWorks = Effect.fnUntraced(function* (services: readonly [Service, Service], at: number) {
  const [one, two] = services
  for (const service of services) {
    yield* eventually(service.call("GET", "/health/ready"), ({ status }) => status === 200)
  }
  const created = yield* eventually(create(one, at), ({ status }) => status !== 503)
  assert.strictEqual(created.status, 201, created.text)
  yield* eventually(two.call("GET", `/api/trial-users/${created.body.id}`), ({ status }) => status === 200)
  const key = yield* makeKey(one, ["sessions:read"])
  assert.strictEqual((yield* two.call("GET", "/api/sessions", { key: key.key })).status, 200)
  assert.strictEqual((yield* one.call("DELETE", `/api/api-keys/${key.id}`)).status, 204)
  yield* eventually(two.call("GET", "/api/sessions", { key: key.key }), ({ status }) => status === 401)
  yield* eventually(one.call("GET", "/api/audit-logs?actionType=UserCreated"), ({ body }) =>
    body.items.every(({ sequence }: { readonly sequence: number | null }) => sequence !== null)
  )
  assert.isTrue((yield* one.call("GET", "/api/audit-logs/verify")).body.ok)
})

describe("a database of several hosts", { timeout: 240_000 }, () => {
  it.live("is used on the primary, and after a fail-over on the promoted standby, without a restart", () =>
    Effect.gen(function* () {
      const pair = yield* makePair
      const { caughtUp, primary, promote, standby } = pair
      const start = (url: string) => startService(primary.database, { Database__Url: url })
      // Whatever the order is.
      const query = /@one\.example\.com:5432,two\.example\.com:5432\/application_manager(\?[^']*)/u.exec(manual)?.[1]
      const one = yield* start(pair.url([primary, standby], query ?? assert.fail("the manual has no such URL")))
      const two = yield* start(pair.url([standby, primary], "?connect_timeout=2"))
      yield* assertWorks([one, two], 1)
      const before = yield* one.call("GET", "/api/trial-users")

      yield* caughtUp
      yield* primary.kill
      assertProblem(yield* create(one, 2), 503, "overloaded")
      // Until one is promoted there is none to write to.
      const ready = yield* eventually(two.call("GET", "/health/ready"), ({ status }) => status === 503)
      assertProblem(ready, 503, "not-ready")
      yield* promote
      yield* assertWorks([one, two], 3)
      const after = yield* one.call("GET", "/api/trial-users")
      assert.includeDeepMembers(after.body, before.body)
    }).pipe(Effect.scoped)
  )

  it.live("is not used on the primary of before a fail-over, which accepts writes again, whatever their order", () =>
    Effect.gen(function* () {
      const pair = yield* makePair
      const { caughtUp, primary, promote, standby } = pair
      const start = (order: ReadonlyArray<typeof primary>) =>
        startService(primary.database, { Database__Url: pair.url(order) })
      const one = yield* start([primary, standby])
      yield* caughtUp
      yield* primary.kill
      yield* promote
      yield* eventually(create(one, 1), ({ status }) => status === 201)
      yield* primary.startAgain
      const two = yield* start([primary, standby])
      yield* assertWorks([one, two], 2)
      const old = yield* asSuperuser(primary.database, (sql) => sql`SELECT FROM trial_users`)
      assert.lengthOf(old, 0)
    }).pipe(Effect.scoped)
  )

  it.live("is left on a host that answers but has become read-only, for reads too", () =>
    Effect.gen(function* () {
      const pair = yield* makePair
      const { caughtUp, primary, promote, standby } = pair
      const url = pair.url([primary, standby])
      const one = yield* startService(primary.database, { Database__Url: url })
      // The pool of the other one does not show where its notifications come from.
      const user = "am_pool"
      yield* asSuperuser(primary.database, (sql) =>
        Effect.forEach(
          [
            `CREATE ROLE ${user} LOGIN PASSWORD '${user}'`,
            `GRANT application_manager TO ${user}`,
            ...Object.entries(settingsOfLogin).map(([name, value]) => `ALTER ROLE ${user} SET ${name} = ${value}`)
          ],
          (statement) => sql.unsafe(statement)
        )
      )
      const two = yield* startService(primary.database, {
        Database__Url: url,
        Database__PoolUrl: url.replace(/\/\/.*@/u, `//${user}:${user}@`)
      })
      yield* assertWorks([one, two], 1)
      yield* caughtUp
      yield* asSuperuser(primary.database, (sql) =>
        Effect.all([sql`ALTER SYSTEM SET default_transaction_read_only = on`, sql`SELECT pg_reload_conf()`])
      )
      yield* promote
      yield* assertWorks([one, two], 2)
      const users = yield* two.call("GET", "/api/trial-users")
      assert.lengthOf(users.body, 2)
    }).pipe(Effect.scoped)
  )

  it.live("stays in use where its pool is full", () =>
    Effect.gen(function* () {
      const { primary, url } = yield* makePair
      const replica = yield* Effect.acquireRelease(
        startReplica(primary.database, {
          Database__Url: url([primary, primary]),
          Database__MaxConnections: "2",
          Logging__Level: "Info"
        }),
        kill
      )
      const call = caller(replica.url)
      const list = call("GET", "/api/trial-users", {})
      assert.strictEqual((yield* list).status, 200)
      yield* asSuperuser(primary.database, (sql) =>
        Effect.gen(function* () {
          const connections = Effect.andThen(
            sql`SELECT pg_stat_clear_snapshot()`,
            sql<{
              readonly count: string
            }>`SELECT sessions AS count FROM pg_stat_database WHERE datname = current_database()`
          )
          yield* sql`LOCK TABLE trial_users`
          const waiting = yield* Effect.forkChild(
            Effect.all([list, call("GET", "/api/trial-users/1", {}), list], { concurrency: 3 })
          )
          // The other connection listens.
          yield* untilBlocked(sql)
          const [before] = yield* connections
          // The server is asked on a connection of its own, since none of the pool is free.
          yield* eventually(connections, ([now]) => Number(now?.count) > Number(before?.count))
          return waiting
        }).pipe(sql.withTransaction, Effect.flatMap(Fiber.join))
      )
      assert.strictEqual((yield* list).status, 200)
      assert.notInclude(replica.output(), "The database is now used on host")
    }).pipe(Effect.scoped)
  )

  it.live("of which all are standbys ends the start, and says what to do", () =>
    Effect.gen(function* () {
      const pair = yield* makePair
      const { primary, standby } = pair
      for (const servers of [[standby], [standby, standby]]) {
        const url = pair.url(servers, "?target_session_attrs=read-write")
        const { message } = yield* refusal(startService(primary.database, { Database__Url: url }))
        assert.match(
          message,
          /^A connection to the database \(Database:Url\) was refused: .*standby[^.]*\. To mend it, promote one/u
        )
        if (servers.length > 1) assert.include(manual.split("\n"), message)
      }
    }).pipe(Effect.scoped)
  )

  it.live("is migrated on the primary by a process, and a process on standbys ends in one line", () =>
    Effect.gen(function* () {
      const pair = yield* makePair
      const { primary, standby } = pair
      const started = yield* Effect.acquireRelease(
        startReplica(primary.database, { Database__Url: pair.url([standby, primary]) }),
        kill
      )
      assert.strictEqual(started.output().match(/refused/gu), null, started.output())
      const exit = yield* Effect.exit(startReplica(primary.database, { Database__Url: pair.url([standby, standby]) }))
      const output = Exit.isFailure(exit) ? String(Cause.squash(exit.cause)) : assert.fail("it started")
      assert.match(output, /^Error: The replica ended: [^\n]*all of its 2 hosts are standbys[^\n]*\n?$/u)
    }).pipe(Effect.scoped)
  )

  it.live.runIf(isLinux)("of which the primary hangs is used on the promoted standby", () =>
    Effect.gen(function* () {
      const pair = yield* makePair
      const { caughtUp, primary, promote, standby } = pair
      const url = pair.url([primary, standby], "?connect_timeout=1")
      const environment = { Database__Url: url, Api__RequestTimeoutSeconds: "3" }
      const one = yield* startService(primary.database, environment)
      const two = yield* startService(primary.database, environment)
      yield* assertWorks([one, two], 1)
      yield* caughtUp
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* primary.freeze
          assertProblem(yield* create(one, 2), 503, "overloaded")
          yield* promote
          yield* assertWorks([one, two], 3)
        })
      )
      // Nothing leads back to it.
      yield* assertWorks([one, two], 4)
    }).pipe(Effect.scoped)
  )
})
