import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Logger } from "effect"
import { MostSecondsBehind } from "../../src/platform/database/read-replica.ts"
import { makeKey, makeTenant } from "../support/authority.ts"
import { urlOf } from "../support/command.ts"
import { type TestDatabase } from "../support/database.ts"
import { isLinux } from "../support/embedded-postgres.ts"
import { type Answer, startService, type TestService } from "../support/service.ts"
import { makePair } from "../support/standby.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

type Service = TestService["Service"]

const person = (at: number) => ({ firstName: "Grace", lastName: "Hopper", email: `grace.${at}@example.com` })

const replicaIn = (ready: Answer): string | undefined =>
  ready.body.checks.find(({ name }: { readonly name: string }) => name === "read-replica")?.detail

const untilReplica = (service: Service, isReached: (detail: string) => boolean) =>
  eventually(
    Effect.map(service.call("GET", "/health/ready"), replicaIn),
    (detail) => detail !== undefined && isReached(detail)
  )

const start = Effect.gen(function* () {
  const lines: Array<string> = []
  const log = Logger.make<unknown, void>(({ message }) => void lines.push(String(message)))
  const pair = yield* makePair
  const service = yield* startService(
    pair.primary.database,
    { Database__ReadUrl: urlOf(pair.standby.database), Telemetry__Prometheus__Enabled: "true" },
    [log]
  )
  yield* untilReplica(service, (detail) => detail === "up to date")
  return { pair, service, lines }
})

const on = (database: TestDatabase, statement: string) =>
  asSuperuser(database, (sql) => Effect.map(sql.unsafe<{ readonly value?: unknown }>(statement), ([row]) => row?.value))

/** What the lists of a tenant show. */
const listed = Effect.fnUntraced(function* (service: Service, key: string) {
  const reservations = yield* service.call("GET", "/api/spend/reservations", { key })
  const usage = yield* service.call("GET", "/api/usage", { key })
  const audit = yield* service.call("GET", "/api/audit-logs", { key })
  for (const { status, text } of [reservations, usage, audit]) assert.strictEqual(status, 200, text)
  return [reservations, usage, audit].map(({ body }) => body.items.length)
})

describe("a read replica", { timeout: 240_000 }, () => {
  it.live("answers lists and reports as of what it has replayed, and nothing that has to be newer", () =>
    Effect.gen(function* () {
      const { pair, service } = yield* start
      const { caughtUp, primary, standby } = pair
      const [one, other] = [yield* makeTenant(primary.database), yield* makeTenant(primary.database)]
      const scopes = ["budgets:*", "spend:*", "audit-logs:read", "insights:read"]
      const [own, strange] = [
        yield* makeKey(service, scopes, { tenantId: one }),
        yield* makeKey(service, scopes, { tenantId: other })
      ]
      const cap = { name: "ten", unit: "usd", limit: 10, period: "total", mode: "hard" }
      assert.strictEqual((yield* service.call("POST", "/api/budgets/caps", { key: own.key, body: cap })).status, 201)
      const spend = service.call("POST", "/api/spend/reserve", { key: own.key, body: { amountUsd: 4 } })
      const first = yield* spend
      assert.strictEqual(first.status, 201, first.text)
      const before = yield* service.call("GET", "/api/audit-logs?actionType=UserCreated")
      yield* caughtUp

      // A replica that has stopped to replay shows which reads are its.
      yield* on(standby.database, "SELECT pg_wal_replay_pause()")
      yield* eventually(
        on(standby.database, "SELECT pg_get_wal_replay_pause_state() AS value"),
        (state) => state === "paused"
      )
      const paused = Date.now()
      const created = yield* service.call("POST", "/api/trial-users", { body: person(1) })
      const second = yield* spend
      assert.strictEqual(second.status, 201, second.text)
      assert.deepStrictEqual((yield* service.call("GET", "/api/audit-logs?actionType=UserCreated")).body, before.body)
      assert.strictEqual((yield* listed(service, own.key))[0], 1)
      const report = yield* service.call("GET", "/api/insights/overview")
      assert.strictEqual(report.status, 200, report.text)
      assert.isBelow(Date.parse(report.body.asOf), paused)

      // By its id, for decisions, and complete where it has to be.
      assert.strictEqual((yield* service.call("GET", `/api/trial-users/${created.body.id}`)).status, 200)
      assert.strictEqual(
        (yield* service.call("GET", `/api/spend/reservations/${second.body.id}`, { key: own.key })).status,
        200
      )
      assert.strictEqual((yield* spend).status, 402)
      const exported = yield* service.call("GET", "/api/audit-logs/export?actionType=UserCreated")
      assert.include(exported.text, `"entityId":"${created.body.id}"`)
      yield* untilReplica(service, (detail) => detail.endsWith(" s behind the primary"))

      yield* on(standby.database, "SELECT pg_wal_replay_resume()")
      yield* untilReplica(service, (detail) => detail === "up to date")
      yield* eventually(listed(service, own.key), ([reservations]) => reservations === 2)
      const now = yield* eventually(
        service.call("GET", "/api/insights/overview"),
        ({ body }) => Date.parse(body.asOf) > paused
      )
      assert.strictEqual(now.status, 200)

      // The policies hold there as on the primary.
      const [reservations, usage] = yield* listed(service, strange.key)
      assert.deepStrictEqual([reservations, usage], [0, 0])
      const sessions = yield* on(
        standby.database,
        "SELECT count(*)::integer AS value FROM pg_stat_activity WHERE application_name = 'application-manager'"
      )
      assert.isAbove(Number(sessions), 0)
    }).pipe(Effect.scoped)
  )

  it.live("that goes away is replaced by the primary, with one line, until it is back", () =>
    Effect.gen(function* () {
      const { lines, pair, service } = yield* start
      const about = () => lines.filter((line) => line.includes("read replica"))
      assert.deepStrictEqual(about(), [])
      for (const round of [1, 2]) {
        yield* pair.standby.kill
        assert.strictEqual((yield* service.call("POST", "/api/trial-users", { body: person(round) })).status, 201)
        for (const path of [
          "/api/audit-logs",
          "/api/usage",
          "/api/spend/reservations",
          "/api/insights/overview"
        ] as const) {
          const answer = yield* service.call("GET", path)
          assert.strictEqual(answer.status, 200, answer.text)
        }
        const entries = yield* service.call("GET", "/api/audit-logs?actionType=UserCreated")
        assert.lengthOf(entries.body.items, round)
        yield* untilReplica(service, (detail) => detail === "away: the primary answers its reads")
        assert.strictEqual((yield* service.call("GET", "/health/ready")).status, 200)
        const metrics = yield* service.call("GET", "/metrics", { key: null })
        assert.match(metrics.text, /^app_database_replica_connected\S* 0$/mu)
        assert.match(metrics.text, /^app_database_replica_fallbacks\S* [1-9]/mu)
        yield* pair.standby.startAgain
        yield* untilReplica(service, (detail) => detail === "up to date")
      }
      assert.lengthOf(about(), 4, about().join("\n"))
    }).pipe(Effect.scoped)
  )

  it.live.runIf(isLinux)("that hangs keeps no read waiting", () =>
    Effect.gen(function* () {
      const { pair, service } = yield* start
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* pair.standby.freeze
          const paths = ["/api/audit-logs", "/api/usage", "/api/insights/overview", "/api/audit-logs/export"] as const
          const answers = yield* Effect.forEach(paths, (path) => service.call("GET", path), {
            concurrency: "unbounded"
          }).pipe(Effect.timeout("20 seconds"))
          for (const answer of answers) assert.strictEqual(answer.status, 200, answer.text)
          yield* untilReplica(service, (detail) => detail.startsWith("away"))
        })
      )
      yield* untilReplica(service, (detail) => detail === "up to date")
    }).pipe(Effect.scoped)
  )

  it.live("that has stopped to replay is not used, until it has replayed all", () =>
    Effect.gen(function* () {
      const { lines, pair, service } = yield* Effect.provideService(start, MostSecondsBehind, 1)
      yield* on(pair.standby.database, "SELECT pg_wal_replay_pause()")
      assert.strictEqual((yield* service.call("POST", "/api/trial-users", { body: person(1) })).status, 201)
      yield* untilReplica(service, (detail) => detail.startsWith("away"))
      const entries = yield* service.call("GET", "/api/audit-logs?actionType=UserCreated")
      assert.lengthOf(entries.body.items, 1)
      assert.isTrue(lines.some((line) => line.includes("it is too far behind; the primary answers its reads")))
      yield* on(pair.standby.database, "SELECT pg_wal_replay_resume()")
      yield* untilReplica(service, (detail) => detail === "up to date")
    }).pipe(Effect.scoped)
  )

  it.live("that was promoted by mistake is not used, since it no longer follows the primary", () =>
    Effect.gen(function* () {
      const { pair, service } = yield* start
      yield* pair.promote
      yield* untilReplica(service, (detail) => detail.startsWith("away"))
      const created = yield* service.call("POST", "/api/trial-users", { body: person(1) })
      assert.strictEqual(created.status, 201, created.text)
      yield* eventually(
        service.call("GET", "/api/audit-logs?actionType=UserCreated"),
        ({ body }) => body.items.length === 1
      )
    }).pipe(Effect.scoped)
  )

  it.live("whose connections are all taken is not taken for one that is away", () =>
    Effect.gen(function* () {
      const { lines, pair, service } = yield* start
      yield* Effect.scoped(
        Effect.gen(function* () {
          // What a read waits for there: the lock that the primary holds is replayed.
          const held = yield* Deferred.make<void>()
          const release = yield* Deferred.make<void>()
          yield* Effect.forkScoped(
            asSuperuser(pair.primary.database, (sql) =>
              sql.withTransaction(
                sql`LOCK TABLE usage_rows IN ACCESS EXCLUSIVE MODE`.pipe(
                  Effect.andThen(Deferred.succeed(held, undefined)),
                  Effect.andThen(Deferred.await(release))
                )
              )
            )
          )
          yield* Deferred.await(held)
          yield* pair.caughtUp
          const reads = yield* Effect.forkScoped(
            Effect.forEach(Array.from({ length: 30 }), () => service.call("GET", "/api/usage"), {
              concurrency: "unbounded"
            })
          )
          const waiting = "SELECT count(*)::integer AS value FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
          yield* eventually(on(pair.standby.database, waiting), (count) => Number(count) >= 2)
          // Questions about it do not queue behind them.
          for (let turn = 0; turn < 3; turn++) {
            yield* pair.caughtUp
            assert.strictEqual(replicaIn(yield* service.call("GET", "/health/ready")), "up to date")
          }
          yield* Deferred.succeed(release, undefined)
          for (const { status, text } of yield* Fiber.join(reads)) assert.strictEqual(status, 200, text)
        })
      )
      assert.deepStrictEqual(
        lines.filter((line) => line.includes("read replica")),
        []
      )
    }).pipe(Effect.scoped)
  )

  it.live("that was never there keeps no service from its start", () =>
    Effect.gen(function* () {
      const pair = yield* makePair
      yield* pair.standby.kill
      const service = yield* startService(pair.primary.database, {
        Database__ReadUrl: pair.url([pair.standby, pair.standby])
      })
      assert.strictEqual((yield* service.call("GET", "/api/audit-logs")).status, 200)
      yield* untilReplica(service, (detail) => detail.startsWith("away"))
      yield* pair.standby.startAgain
      yield* untilReplica(service, (detail) => detail === "up to date")
    }).pipe(Effect.scoped)
  )
})
