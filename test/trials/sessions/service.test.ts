import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { Audit } from "../../../src/audit/log/service.ts"
import { Email } from "../../../src/kernel/email.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"
import { IpAddress } from "../../../src/trials/sessions/domain.ts"
import { TrialSessions } from "../../../src/trials/sessions/service.ts"
import { TrialSessionTermination } from "../../../src/trials/sessions/termination.ts"
import { TrialUsers } from "../../../src/trials/users/service.ts"
import { OwnDatabase, poolOnOwnDatabase, realClock } from "../../support/clock.ts"
import { quietAuthority } from "../../support/quiet-authority.ts"
import { asSuperuser } from "../../support/statements.ts"

// The job that ends idle sessions stays on the real clock, before every moment named here: the tests call it themselves.
const servicesLayer = (environment: Record<string, string> = {}) =>
  TrialSessions.layer.pipe(
    Layer.provideMerge(TrialUsers.layer),
    Layer.provideMerge(TrialSessionTermination.layer.pipe(Layer.provide(realClock))),
    Layer.provide(Audit.layer.pipe(Layer.provide(realClock))),
    Layer.provide(quietAuthority),
    Layer.provideMerge(poolOnOwnDatabase),
    Layer.provide(Settings.layerMemory({ environment }))
  )

const at = (text: string) => TestClock.setTime(DateTime.makeUnsafe(text).epochMilliseconds)
const ipAddress = IpAddress.make("203.0.113.7")

let made = 0
const createUser = Effect.gen(function* () {
  const users = yield* TrialUsers
  const email = Email.make(`grace.${++made}@example.com`)
  return yield* users.create({ firstName: "Grace", lastName: "Hopper", email })
})

const open = Effect.gen(function* () {
  const sessions = yield* TrialSessions
  return yield* sessions.create({ trialUserId: (yield* createUser).id, ipAddress })
})

const isActive = Effect.fnUntraced(function* (id: Effect.Success<typeof open>["id"]) {
  return (yield* (yield* TrialSessions).get(id)).isActive
})

const auditOf = Effect.fnUntraced(function* (id: number) {
  return yield* asSuperuser(
    yield* OwnDatabase,
    (sql) => sql<{ readonly action_type: string; readonly user_id: string }>`
      SELECT action_type, user_id FROM audit_entries
      WHERE entity_type = 'Session' AND entity_id = ${String(id)} ORDER BY occurred_at`
  )
})

layer(servicesLayer(), { timeout: "60 seconds" })("sessions on PostgreSQL", (it) => {
  it.effect("a session without activity for more than 30 minutes ends, not before", () =>
    Effect.gen(function* () {
      const termination = yield* TrialSessionTermination
      yield* at("2090-01-01T00:00:00Z")
      const session = yield* open
      yield* TestClock.adjust("30 minutes")
      assert.strictEqual(yield* termination.endIdle, 0)
      assert.isTrue(yield* isActive(session.id))
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* termination.endIdle, 1)
      assert.isFalse(yield* isActive(session.id))
    })
  )

  it.effect("a session that expired keeps its times and is recorded as the system's doing", () =>
    Effect.gen(function* () {
      const termination = yield* TrialSessionTermination
      const sessions = yield* TrialSessions
      yield* at("2091-01-01T00:00:00Z")
      const session = yield* open
      yield* TestClock.adjust("31 minutes")
      yield* termination.endIdle
      assert.deepStrictEqual({ ...(yield* sessions.get(session.id)) }, { ...session, isActive: false })
      assert.deepStrictEqual(
        (yield* auditOf(session.id)).map((entry) => [entry.action_type, entry.user_id]),
        [
          ["SessionStarted", "anonymous"],
          ["SessionExpired", "system"]
        ]
      )
    })
  )

  it.effect("activity keeps a session alive for another 30 minutes", () =>
    Effect.gen(function* () {
      const termination = yield* TrialSessionTermination
      const sessions = yield* TrialSessions
      yield* at("2092-01-01T00:00:00Z")
      const session = yield* open
      yield* TestClock.adjust("29 minutes")
      yield* sessions.touch(session.id)
      yield* TestClock.adjust("30 minutes")
      assert.strictEqual(yield* termination.endIdle, 0)
      const touched = yield* sessions.get(session.id)
      assert.isTrue(touched.isActive)
      assert.strictEqual(DateTime.formatIso(touched.lastActivityAt), "2092-01-01T00:29:00.000Z")
      assert.strictEqual(DateTime.formatIso(touched.startedAt), "2092-01-01T00:00:00.000Z")
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* termination.endIdle, 1)
    })
  )

  it.effect("activity reported by a replica whose clock is behind moves lastActivityAt not back", () =>
    Effect.gen(function* () {
      const sessions = yield* TrialSessions
      yield* at("2093-01-01T00:00:00Z")
      const session = yield* open
      yield* at("2092-12-31T23:59:59Z")
      yield* sessions.touch(session.id)
      assert.deepStrictEqual((yield* sessions.get(session.id)).lastActivityAt, session.lastActivityAt)
      yield* sessions.end(session.id)
    })
  )

  it.effect("replicas that look at the same time end every idle session once", () =>
    Effect.gen(function* () {
      const termination = yield* TrialSessionTermination
      const database = yield* OwnDatabase
      const user = yield* createUser
      yield* at("2094-01-01T00:00:00Z")
      const now = yield* DateTime.now
      yield* asSuperuser(
        database,
        (sql) => sql`
          INSERT INTO sessions (trial_user_id, ip_address, started_at, last_activity_at, is_active)
          SELECT ${user.id}, '203.0.113.7', ${DateTime.toDateUtc(now)}, ${DateTime.toDateUtc(now)}, true
          FROM generate_series(1, 1200)`
      )
      yield* TestClock.adjust("1 hour")
      const counts = yield* Effect.all([termination.endIdle, termination.endIdle, termination.endIdle], {
        concurrency: "unbounded"
      })
      assert.strictEqual(
        counts.reduce((a, b) => a + b, 0),
        1200
      )
      const [found] = yield* asSuperuser(
        database,
        (sql) => sql`
          SELECT count(*)::integer AS ended, count(DISTINCT entry.entity_id)::integer AS recorded,
            count(entry.entity_id)::integer AS entries
          FROM sessions LEFT JOIN audit_entries entry
            ON entry.entity_id = sessions.id::text AND action_type = 'SessionExpired'
          WHERE trial_user_id = ${user.id} AND NOT is_active`
      )
      assert.deepStrictEqual(found, { ended: 1200, recorded: 1200, entries: 1200 })
    })
  )

  it.effect("sessions are opened until the trial's last moment, not at its end", () =>
    Effect.gen(function* () {
      const sessions = yield* TrialSessions
      yield* at("2095-01-01T00:00:00Z")
      const { id, trialEndDate } = yield* createUser
      yield* TestClock.setTime(trialEndDate.epochMilliseconds - 1)
      yield* sessions.create({ trialUserId: id, ipAddress })
      yield* TestClock.setTime(trialEndDate.epochMilliseconds)
      const error = yield* Effect.flip(sessions.create({ trialUserId: id, ipAddress }))
      assert.strictEqual(error._tag, "TrialUserInactive")
    })
  )
})

layer(servicesLayer({ Sessions__IdleTimeoutSeconds: "60" }), { timeout: "60 seconds" })(
  "Sessions:IdleTimeoutSeconds",
  (it) => {
    it.effect("says after how many seconds an idle session ends", () =>
      Effect.gen(function* () {
        const termination = yield* TrialSessionTermination
        yield* at("2090-01-01T00:00:00Z")
        const session = yield* open
        yield* TestClock.adjust("60 seconds")
        assert.strictEqual(yield* termination.endIdle, 0)
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* termination.endIdle, 1)
        assert.isFalse(yield* isActive(session.id))
      })
    )
  }
)
