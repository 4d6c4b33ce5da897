import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { inject } from "vitest"
import { DashboardRepository } from "../../../src/operations/dashboard/repository.ts"
import { refusesStrangers } from "../../support/authority.ts"
import { makeDatabase, onServer } from "../../support/database.ts"
import { makeExplaining } from "../../support/explaining.ts"
import { sharedServiceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const read = { capability: "dashboard:read", systemOnly: true }
const metricsPath = "/api/dashboard/metrics"
const healthPath = "/api/dashboard/health"

interface Check {
  readonly name: string
  readonly status: string
  readonly durationMs: number
  readonly detail: string
}

const dayAgo = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString()
const sumOf = (series: ReadonlyArray<{ readonly value: number }>) => series.reduce((sum, { value }) => sum + value, 0)

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the dashboard", (it) => {
  refusesStrangers(it, [
    { name: "metrics", method: "GET", path: metricsPath, ...read },
    { name: "health", method: "GET", path: healthPath, ...read },
    { name: "settings", method: "GET", path: "/api/dashboard/settings", ...read }
  ])

  it.effect("200: settings with where each was set, and no secret", () =>
    Effect.gen(function* () {
      const { call, serviceKey } = yield* TestService
      const { body, status, text } = yield* call("GET", "/api/dashboard/settings")
      assert.deepStrictEqual([status, body.environment], [200, "Development"])
      assert.notInclude(text, serviceKey)
      const settings: ReadonlyArray<{ readonly key: string; readonly value: string | null; readonly source: string }> =
        body.settings
      const of = (key: string) => settings.find((setting) => setting.key === key)
      assert.include(of("Api:ApiKey"), { value: "***", source: "environment Api__ApiKey" })
      assert.include(of("Redis:Url"), { value: null, source: "default" })
    })
  )

  it.effect("200: metrics count what there is, and nothing of what there is not yet", () =>
    Effect.gen(function* () {
      const service = yield* Effect.orDie(startService(yield* makeDatabase))
      const { body: before, status } = yield* service.call("GET", metricsPath)
      assert.strictEqual(status, 200)
      assert.hasAllKeys(before, [
        "activeTrialUsers",
        "totalApplications",
        "activeSessions",
        "agents",
        "spendTodayUsd",
        "openReservationsUsd",
        "trialsEndingSoon",
        "trends"
      ])
      assert.deepInclude(before, { activeTrialUsers: 0, activeSessions: 0, agents: 0, spendTodayUsd: 0 })
      const users: Array<number> = []
      for (const email of ["one@example.com", "two@example.com", "three@example.com"]) {
        const body = { firstName: "Ada", lastName: "Lovelace", email }
        users.push((yield* service.call("POST", "/api/trial-users", { body })).body.id)
      }
      const soon = new Date(Date.now() + 86_400_000).toISOString()
      yield* service.call("PATCH", `/api/trial-users/${users[2]}`, { body: { isActive: false, trialEndDate: soon } })
      yield* service.call("PATCH", `/api/trial-users/${users[0]}`, { body: { trialEndDate: soon } })
      yield* service.call("POST", "/api/sessions", { body: { trialUserId: users[0], ipAddress: "192.0.2.1" } })
      const ended = yield* service.call("POST", "/api/sessions", {
        body: { trialUserId: users[1], ipAddress: "192.0.2.1" }
      })
      yield* service.call("DELETE", `/api/sessions/${ended.body.id}`)
      yield* service.call("POST", "/api/applications", { body: { name: "An application" } })
      const { body: after } = yield* service.call("GET", metricsPath)
      assert.deepInclude(after, {
        activeTrialUsers: 2,
        activeSessions: 1,
        trialsEndingSoon: 1,
        totalApplications: before.totalApplications + 1
      })
      assert.deepInclude(after.trends.trialUsers, { current: 3, previous: 0, changePercent: null })
      assert.deepInclude(after.trends.sessions, { current: 2, previous: 0, changePercent: null })
    })
  )

  it.effect("200: metrics have what was spent, from the roll-ups, and what open reservations hold", () =>
    Effect.gen(function* () {
      const service = yield* Effect.orDie(startService(yield* makeDatabase))
      const reserve = (amountUsd: number) =>
        service.call("POST", "/api/spend/reserve", { body: { amountUsd, taskType: "research" } })
      const { body: settled } = yield* reserve(1)
      yield* reserve(2.5)
      yield* service.call("POST", "/api/spend/reconcile", { body: { reservationId: settled.id, actualUsd: 0.7 } })
      const { body } = yield* eventually(
        service.call("GET", metricsPath),
        ({ body: { spendTodayUsd } }) => spendTodayUsd === 0.7
      )
      assert.strictEqual(body.openReservationsUsd, 2.5)
      const agent = yield* service.call("POST", "/api/agents", { body: { name: "Planner" } })
      const plans = `/api/agents/${agent.body.id}/plans`
      const { body: plan } = yield* service.call("POST", plans, { body: { budgetUsd: 5 } })
      const call = yield* service.call("POST", "/api/spend/reserve", { body: { amountUsd: 2, planId: plan.id } })
      assert.strictEqual(call.status, 201, call.text)
      const open = Effect.map(service.call("GET", metricsPath), (answer) => answer.body.openReservationsUsd)
      assert.strictEqual(yield* open, 7.5)
      const ended = { reservationId: call.body.id, actualUsd: 1.25 }
      yield* service.call("POST", "/api/spend/reconcile", { body: ended })
      assert.strictEqual(yield* open, 6.25)
      yield* service.call("POST", `${plans}/${plan.id}/complete`)
      assert.strictEqual(yield* open, 2.5)
      assert.deepInclude(body.trends.spendUsd, { current: 0.7, previous: 0, changePercent: null })
    })
  )

  it.effect("200: trends compare seven days with the seven before, and show each day", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body: before } = yield* service.call("GET", metricsPath)
      const ages = [0, 0, 1, 6, 7, 13, 14, 400]
      yield* asSuperuser(service.database, (sql) =>
        Effect.forEach(
          ages,
          (age, index) => sql`
            INSERT INTO trial_users (first_name, last_name, email, email_key, is_active, email_verified, trial_start_date,
              trial_end_date, created_at)
            VALUES ('Ada', 'Lovelace', ${`${index}@trend.example`}, ${`${index}@trend.example`}, false, false, now(), now(), ${dayAgo(age)}::timestamptz)`
        )
      )
      const { body } = yield* service.call("GET", metricsPath)
      const { changePercent, current, previous, series } = body.trends.trialUsers
      assert.strictEqual(body.trends.period, "7d")
      assert.strictEqual(current - before.trends.trialUsers.current, 4)
      assert.strictEqual(previous - before.trends.trialUsers.previous, 2)
      assert.strictEqual(changePercent, Math.round((100 * (current - previous)) / previous))
      assert.strictEqual(series.length, 7)
      assert.strictEqual(sumOf(series), current)
      assert.deepStrictEqual(
        series.map(({ date }: { date: string }) => date),
        [6, 5, 4, 3, 2, 1, 0].map((age) => dayAgo(age).slice(0, 10))
      )
    })
  )

  it.effect("200: the figures of many people and sessions come from indexes, and no table is read through", () =>
    Effect.gen(function* () {
      const service = yield* Effect.orDie(startService(yield* makeDatabase))
      yield* asSuperuser(service.database, (sql) =>
        Effect.gen(function* () {
          yield* sql`
            INSERT INTO trial_users (first_name, last_name, email, email_key, is_active, email_verified, trial_start_date,
              trial_end_date, created_at)
            SELECT 'Ada', 'Lovelace', i || '@many.example', i || '@many.example', i % 100 = 0, false, now(), now(), now() - i * interval '1 hour'
            FROM generate_series(1, 20000) i`
          yield* sql`
            INSERT INTO sessions (trial_user_id, ip_address, started_at, last_activity_at, is_active)
            SELECT id, '192.0.2.1', created_at, now(), is_active FROM trial_users`
          yield* sql`VACUUM ANALYZE trial_users`
          yield* sql`VACUUM ANALYZE sessions`
        })
      )
      const { body } = yield* service.call("GET", metricsPath)
      assert.deepInclude(body, { activeTrialUsers: 200, activeSessions: 200 })
      const { explained, layer } = yield* makeExplaining(service.database)
      const asked = Effect.gen(function* () {
        const repository = yield* DashboardRepository
        yield* repository.totals(false)
        yield* repository.arrivalsSince(new Date(dayAgo(30)))
      })
      yield* Effect.provide(asked, DashboardRepository.layer.pipe(Layer.provide(layer)))
      assert.lengthOf(explained, 2)
      const scanned = explained.flatMap((one) => one.scanned)
      for (const table of ["trial_users", "sessions"]) assert.notInclude(scanned, table)
    })
  )

  it.effect("200: health names each check, with what it found and its duration", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body, status } = yield* eventually(service.call("GET", healthPath), ({ body }) =>
        body.checks.every(({ name, status }: Check) => name === "disk" || status === "Healthy")
      )
      assert.strictEqual(status, 200)
      assert.hasAllKeys(body, ["status", "timestamp", "version", "uptimeSeconds", "checks"])
      const checks: ReadonlyArray<Check> = body.checks
      assert.deepStrictEqual(
        checks.map(({ name }) => name),
        [
          "database",
          "database-kind",
          "migrations",
          "audit-chain",
          "event-deliveries",
          "usage-folding",
          "disk",
          "background-jobs"
        ]
      )
      for (const check of checks) {
        assert.isTrue(Number.isInteger(check.durationMs) && check.durationMs >= 0)
        assert.isNotEmpty(check.detail)
      }
    })
  )

  const detailOf = Effect.fnUntraced(function* (service: TestService["Service"], name: string) {
    const answer = yield* service.call("GET", healthPath)
    assert.strictEqual(answer.status, 200)
    const check: Check | undefined = answer.body.checks.find((one: Check) => one.name === name)
    return { status: answer.body.status, check: check ?? assert.fail(name) }
  })

  it.effect("200: a chain that nobody links degrades it", () =>
    Effect.gen(function* () {
      const service = yield* Effect.orDie(startService(yield* makeDatabase))
      yield* asSuperuser(service.database, (sql) =>
        Effect.gen(function* () {
          yield* sql`ALTER TABLE audit_links RENAME COLUMN hash TO hashed`
          yield* sql`
            INSERT INTO audit_entries (occurred_at, action_type, entity_type, user_id, actor_type, outcome, transaction_id)
            VALUES (now() - interval '1 minute', 'UserCreated', 'TrialUser', 'system', 'system', 'success',
              pg_current_xact_id())`
        })
      )
      const { check, status } = yield* eventually(
        detailOf(service, "audit-chain"),
        (found) => found.check.status === "Degraded"
      )
      assert.match(check.detail, /has waited \d+ seconds/)
      assert.notStrictEqual(status, "Healthy")
    })
  )

  it.effect("200: a missing migration and a job that fails are told", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* asSuperuser(database, (sql) =>
        Effect.andThen(
          sql`ALTER TABLE sessions RENAME TO sessions_elsewhere`,
          sql`DELETE FROM applied_migrations WHERE id = (SELECT max(id) FROM applied_migrations)`
        )
      )
      const service = yield* Effect.orDie(startService(database))
      const migrations = yield* detailOf(service, "migrations")
      assert.strictEqual(migrations.check.status, "Unhealthy")
      assert.match(migrations.check.detail, /^\d+ of \d+ applied$/)
      assert.strictEqual(migrations.status, "Unhealthy")
      const { check } = yield* eventually(
        detailOf(service, "background-jobs"),
        (found) => found.check.status === "Degraded"
      )
      assert.include(check.detail, "end idle sessions: ")
    })
  )

  it.effect("200: functions of an older build are reported, and readiness fails", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* asSuperuser(database, (sql) => sql`UPDATE applied_functions SET checksum = 'another', revision = 0`)
      const service = yield* Effect.orDie(startService(database))
      const migrations = yield* detailOf(service, "migrations")
      assert.strictEqual(migrations.check.status, "Unhealthy")
      assert.match(migrations.check.detail, /^\d+ applied, functions of another build$/)
      assert.strictEqual((yield* service.call("GET", "/health/ready")).status, 503)
      yield* asSuperuser(database, (sql) => sql`UPDATE applied_functions SET revision = 999`)
      assert.strictEqual((yield* service.call("GET", "/health/ready")).status, 200)
    })
  )

  it.effect("200: a database that is away is told, and that it is back", () =>
    Effect.gen(function* () {
      const service = yield* Effect.orDie(startService(yield* makeDatabase))
      const name = service.database.database
      const closed = Effect.acquireRelease(
        onServer(inject("databaseServer"), (sql) =>
          Effect.andThen(
            sql`ALTER DATABASE ${sql(name)} ALLOW_CONNECTIONS false`,
            sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${name}`
          )
        ),
        () =>
          Effect.orDie(
            onServer(inject("databaseServer"), (sql) => sql`ALTER DATABASE ${sql(name)} ALLOW_CONNECTIONS true`)
          )
      )
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* closed
          const { check, status } = yield* eventually(
            detailOf(service, "database"),
            (found) => found.check.status === "Unhealthy"
          )
          assert.strictEqual(check.detail, "The database cannot be reached")
          assert.strictEqual(status, "Unhealthy")
          assert.strictEqual((yield* detailOf(service, "database-kind")).check.status, "Healthy")
        })
      )
      yield* eventually(detailOf(service, "database"), (found) => found.check.status === "Healthy")
      yield* eventually(detailOf(service, "audit-chain"), (found) => found.check.status === "Healthy")
    })
  )
})
