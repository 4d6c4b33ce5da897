import { assert, layer } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import {
  bearer,
  behindProxy,
  cookieOf,
  login,
  makeAccount,
  makeOwnRole,
  otherPassphrase,
  signIn,
  withCookie,
  works
} from "../../support/accounts.ts"
import { makeTenant } from "../../support/authority.ts"
import { listenTo } from "../../support/event-source.ts"
import { assertProblem } from "../../support/problem.ts"
import { during, type Sql } from "../../support/races.ts"
import { serviceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

const refresh = (service: Service, token: string) => service.call("POST", "/api/auth/refresh", bearer(token))

/** Moves what is stored of a token's replacement into the past, as if so much time had gone by. */
const ageReplacements = (service: Service, seconds: number) =>
  asSuperuser(
    service.database,
    (sql) => sql`UPDATE account_session_tokens SET replaced_at = replaced_at - make_interval(secs => ${seconds})`
  )

const ageSessions = (service: Service, column: "last_used_at" | "expires_at", seconds: number, token: string) =>
  asSuperuser(
    service.database,
    (sql) => sql`
      UPDATE account_sessions SET ${sql(column)} = ${sql(column)} - make_interval(secs => ${seconds})
      WHERE id = (SELECT session_id FROM account_session_tokens WHERE sha256 = sha256(${token}::bytea))`
  )

/** Asks until the replica refuses the token, for as long as a replica may be behind: a second. */
const refusedWithinASecond = (service: Service, token: string) =>
  works(service, token).pipe(
    Effect.repeat({ until: (working) => !working, schedule: Schedule.spaced("10 millis"), times: 100 }),
    Effect.map((working) => assert.isFalse(working, "the token still works"))
  )

layer(serviceLayer(behindProxy), { excludeTestServices: true, timeout: "60 seconds" })("sessions of accounts", (it) => {
  it.effect("200: a refresh gives another token, ends later, and the old one works a little longer", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const first = yield* login(service, yield* makeAccount(service))
      const second = yield* refresh(service, first.body.token)
      assert.strictEqual(second.status, 200, second.text)
      assert.notStrictEqual(second.body.token, first.body.token)
      assert.isAbove(Date.parse(second.body.expiresAt), Date.parse(first.body.expiresAt))
      assert.include(second.headers.get("set-cookie") ?? "", `am_session=${second.body.token};`)
      assert.isTrue(yield* works(service, first.body.token))
      assert.isTrue(yield* works(service, second.body.token))
      yield* ageReplacements(service, 9)
      assert.isTrue(yield* works(service, first.body.token))
    })
  )

  it.effect("tabs that refresh at the same time get one and the same token", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const token = yield* signIn(service, yield* makeAccount(service))
      const answers = yield* Effect.all(
        Array.from({ length: 8 }, () => refresh(service, token)),
        { concurrency: "unbounded" }
      )
      for (const answer of answers) assert.strictEqual(answer.status, 200, answer.text)
      assert.strictEqual(new Set(answers.map(({ body }) => body.token)).size, 1)
    })
  )

  for (const [what, use] of [
    ["a request", works],
    [
      "a refresh",
      (service: Service, token: string) => Effect.map(refresh(service, token), ({ status }) => status === 200)
    ]
  ] as const) {
    it.effect(`401: a replaced token that comes back late in ${what} ends the session, the newest token with it`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const account = yield* makeAccount(service)
        const other = yield* signIn(service, account)
        const stolen = yield* signIn(service, account)
        const { body } = yield* refresh(service, stolen)
        yield* ageReplacements(service, 11)
        yield* service.call("PATCH", `/api/accounts/${(yield* makeAccount(service)).id}`, {
          body: { status: "suspended" }
        })
        assert.isFalse(yield* use(service, stolen))
        assert.isFalse(yield* works(service, body.token))
        assert.isTrue(yield* works(service, other), "another sign-in of the account goes on")
        const entries = yield* service.call("GET", "/api/audit-logs?actionType=SignInTokenReused&limit=1")
        assert.deepInclude(entries.body.items[0], { entityType: "SignIn", userId: "system" })
      })
    )
  }

  it.effect("204: a sign-out ends the session at once and takes the cookie away; again is 204", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answer = yield* login(service, yield* makeAccount(service))
      const call = withCookie(cookieOf(answer))
      for (let time = 0; time < 2; time++) {
        const out = yield* service.call("POST", "/api/auth/logout", call)
        assert.strictEqual(out.status, 204, out.text)
        assert.strictEqual(out.headers.get("set-cookie"), "am_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax")
        assert.isFalse(yield* works(service, answer.body.token))
      }
      assert.strictEqual((yield* service.call("POST", "/api/auth/logout", { key: null })).status, 204)
      assertProblem(yield* refresh(service, answer.body.token), 401, "unauthenticated")
    })
  )

  it.effect("401: an idle session, and one at the end of its life, however often it was refreshed", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service)
      for (const [column, seconds] of [
        ["last_used_at", 1801],
        ["expires_at", 43_201]
      ] as const) {
        const token = yield* signIn(service, account)
        yield* ageSessions(service, column, seconds, token)
        assert.isFalse(yield* works(service, token), column)
        assertProblem(yield* refresh(service, token), 401, "unauthenticated")
      }
      const token = yield* signIn(service, account)
      yield* ageSessions(service, "expires_at", 43_000, token)
      const refreshed = yield* refresh(service, token)
      assert.isBelow(Date.parse(refreshed.body.expiresAt) - Date.parse(refreshed.headers.get("date") ?? ""), 201_000)
    })
  )

  it.effect("one sees one's own sessions, and ends each of them; another's are 404", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service)
      const [one, two, three] = [
        yield* signIn(service, account),
        yield* signIn(service, account),
        yield* signIn(service, account)
      ]
      const listed = yield* service.call("GET", "/api/auth/sessions?limit=2", bearer(one))
      const next = yield* service.call("GET", `/api/auth/sessions?cursor=${listed.body.nextCursor}`, bearer(one))
      const ids = [...listed.body.items, ...next.body.items].map(({ id }: { readonly id: string }) => id)
      assert.strictEqual(new Set(ids).size, 3)
      assert.deepInclude(next.body.items[0], { isCurrent: true, userAgent: "node" })
      const stranger = yield* signIn(service, yield* makeAccount(service))
      const foreign = yield* service.call("DELETE", `/api/auth/sessions/${ids[0]}`, bearer(stranger))
      assertProblem(foreign, 404, "account-session-not-found")
      assert.isTrue(yield* works(service, three))
      assert.strictEqual((yield* service.call("DELETE", `/api/auth/sessions/${ids[0]}`, bearer(one))).status, 204)
      assert.isFalse(yield* works(service, three))
      assert.strictEqual((yield* service.call("DELETE", "/api/auth/sessions", bearer(one))).status, 204)
      assert.isFalse(yield* works(service, two))
      assert.isTrue(yield* works(service, one))
      assertProblem(yield* service.call("GET", "/api/auth/sessions"), 403, "forbidden")
    })
  )

  it.effect("a change of password asks for the current one, ends the other sessions and renews this one's token", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service)
      const [token, other] = [yield* signIn(service, account), yield* signIn(service, account)]
      const change = (currentPassword: string, newPassword: string) =>
        service.call("PATCH", "/api/auth/password", bearer(token, { body: { currentPassword, newPassword } }))
      assertProblem(yield* change("wrong", otherPassphrase), 403, "current-password-wrong")
      // More of these than failures are free: what is wrong with the new one is no failure to know the current one.
      for (let tries = 0; tries < 7; tries++) {
        assertProblem(yield* change(account.password, "passwordpassword"), 400, "validation-failed")
      }
      const changed = yield* change(account.password, otherPassphrase)
      assert.strictEqual(changed.status, 200, changed.text)
      for (const ended of [token, other]) assert.isFalse(yield* works(service, ended))
      assert.isTrue(yield* works(service, changed.body.token))
      assertProblem(yield* login(service, account), 401, "unauthenticated")
      yield* signIn(service, { ...account, password: otherPassphrase })
    })
  )

  it.effect("wrong current passwords are slowed as failed sign-ins are, and both count together", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service)
      const token = yield* signIn(service, account)
      const change = (currentPassword: string, headers: Record<string, string>) =>
        service.call(
          "PATCH",
          "/api/auth/password",
          bearer(token, { headers, body: { currentPassword, newPassword: otherPassphrase } })
        )
      const wrong = { ...account, password: "wrong" }
      for (let tries = 0; tries < 2; tries++) assertProblem(yield* login(service, wrong), 401, "unauthenticated")
      const from = { "x-forwarded-for": "198.51.100.7" }
      for (let tries = 0; tries < 3; tries++) {
        assertProblem(yield* change("wrong", from), 403, "current-password-wrong")
      }
      // Five failures from everywhere: whoever knows the password waits a second too, and then gets in.
      const begun = performance.now()
      const changed = yield* change(account.password, { "x-forwarded-for": "198.51.100.8" })
      assert.strictEqual(changed.status, 200, changed.text)
      assert.isAtLeast(performance.now() - begun, 1000)
    })
  )

  it.effect("429: too many wrong current passwords from one address", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service)
      const token = yield* signIn(service, account)
      const headers = { "x-forwarded-for": "198.51.100.9" }
      const body = { currentPassword: "wrong", newPassword: otherPassphrase }
      const change = service.call("PATCH", "/api/auth/password", bearer(token, { headers, body }))
      for (let tries = 0; tries < 5; tries++) assertProblem(yield* change, 403, "current-password-wrong")
      const blocked = yield* change
      assertProblem(blocked, 429, "rate-limited")
      assert.isAtLeast(Number(blocked.headers.get("retry-after")), 1)
    })
  )

  it.effect("401: a refresh that waited for a change of password, which dropped its token", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const token = yield* signIn(service, yield* makeAccount(service))
      assert.isTrue(yield* works(service, token))
      const change = (sql: Sql) =>
        Effect.andThen(
          sql`SELECT FROM account_sessions FOR UPDATE`,
          sql`DELETE FROM account_session_tokens WHERE sha256 = sha256(${token}::bytea)`
        )
      const answer = yield* during(service.database, change, refresh(service, token))
      assertProblem(answer, 401, "unauthenticated")
      assert.isNull(answer.headers.get("set-cookie"))
    })
  )

  const stops: ReadonlyArray<readonly [string, (service: Service, id: string) => Effect.Effect<unknown>]> = [
    ["suspension", (service, id) => service.call("PATCH", `/api/accounts/${id}`, { body: { status: "suspended" } })],
    ["deletion", (service, id) => service.call("DELETE", `/api/accounts/${id}`)],
    [
      "new password by another",
      (service, id) => service.call("PATCH", `/api/accounts/${id}`, { body: { password: otherPassphrase } })
    ],
    [
      "new e-mail address",
      (service, id) => service.call("PATCH", `/api/accounts/${id}`, { body: { email: `${id}@example.org` } })
    ],
    [
      "change of its roles",
      Effect.fnUntraced(function* (service, id) {
        const roleIds = [yield* makeOwnRole(service, ["roles:read"])]
        yield* service.call("PATCH", `/api/accounts/${id}`, { body: { roleIds } })
      })
    ]
  ]
  for (const [what, stop] of stops) {
    it.effect(`the ${what} of an account ends its sessions: here before its answer, within a second elsewhere`, () =>
      Effect.gen(function* () {
        const here = yield* TestService
        const there = yield* here.replica
        const account = yield* makeAccount(here)
        const token = yield* signIn(here, account)
        assert.isTrue(yield* works(here, token))
        assert.isTrue(yield* works(there, token))
        yield* stop(here, account.id)
        assert.isFalse(yield* works(here, token))
        yield* refusedWithinASecond(there, token)
      })
    )
  }

  it.effect("the suspension of a tenant stops its accounts, here at once and within a second elsewhere", () =>
    Effect.gen(function* () {
      const here = yield* TestService
      const there = yield* here.replica
      const tenantId = yield* makeTenant(here.database)
      const token = yield* signIn(here, yield* makeAccount(here, [], { tenantId }))
      assert.isTrue(yield* works(there, token))
      yield* here.call("PATCH", `/api/tenants/${tenantId}`, { body: { status: "suspended" } })
      assert.isFalse(yield* works(here, token))
      yield* refusedWithinASecond(there, token)
    })
  )

  it.effect("what a role gives changes at once for whoever is signed in with it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service, ["tenants:read"])
      const token = yield* signIn(service, account)
      const read = service.call("GET", "/api/tenants", bearer(token))
      assert.strictEqual((yield* read).status, 200)
      const body = { capabilities: [] }
      assert.strictEqual((yield* service.call("PATCH", `/api/roles/${account.roleIds[0]}`, { body })).status, 200)
      assertProblem(yield* read, 403, "forbidden")
    })
  )

  it.effect("an answer that lasts ends with the session that it came with", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service, ["audit-logs:read"])
      const [staying, leaving] = [yield* signIn(service, account), yield* signIn(service, account)]
      const listen = (token: string) =>
        listenTo(service, "/api/audit-logs/stream", { authorization: `Bearer ${token}`, "x-api-key": "" })
      const [goesOn, ends] = [yield* listen(staying), yield* listen(leaving)]
      assert.deepStrictEqual([goesOn.status, ends.status], [200, 200])
      // Its token was replaced long ago when the other's end makes the service look again.
      const refreshed = yield* refresh(service, staying)
      yield* ageReplacements(service, 60)
      yield* service.call("POST", "/api/auth/logout", bearer(leaving))
      yield* eventually(
        Effect.sync(() => ends.ended()),
        (end) => end === "cleanly"
      )
      assert.isUndefined(goesOn.ended())
      assert.isTrue(yield* works(service, refreshed.body.token))
    })
  )

  it.effect("a use is stored in batches, and keeps the session from being idle", () =>
    Effect.gen(function* () {
      const here = yield* TestService
      const token = yield* signIn(here, yield* makeAccount(here))
      yield* ageSessions(here, "last_used_at", 1700, token)
      const before = yield* here.call("GET", "/api/auth/sessions", bearer(token))
      yield* Effect.scoped(Effect.flatMap(startService(here.database), (there) => works(there, token)))
      const after = yield* here.call("GET", "/api/auth/sessions", bearer(token))
      const [was, is] = [before, after].map(({ body }) => Date.parse(body.items[0].lastUsedAt))
      assert.isAbove((is ?? 0) - (was ?? 0), 1_600_000)
    })
  )

  const open = Effect.gen(function* () {
    const service = yield* TestService
    const person = { firstName: "Ada", lastName: "Lovelace", email: `linked${Math.random()}@example.com` }
    const user = yield* service.call("POST", "/api/trial-users", { body: person })
    const account = yield* makeAccount(service, [], { trialUserId: user.body.id })
    const token = yield* signIn(service, account)
    const sessions = yield* service.call("GET", `/api/sessions?userId=${user.body.id}&active=true`)
    assert.lengthOf(sessions.body, 1)
    return { service, account, token, userId: user.body.id as number, sessionId: sessions.body[0].id as number }
  })

  it.effect("an account of a trial user opens a session at sign-in, and ends it at sign-out", () =>
    Effect.gen(function* () {
      const { service, sessionId, token } = yield* open
      yield* service.call("POST", "/api/auth/logout", bearer(token))
      assert.isFalse((yield* service.call("GET", `/api/sessions/${sessionId}`)).body.isActive)
    })
  )

  it.effect("the end of that session signs the account out, and the end of the trial keeps it out", () =>
    Effect.gen(function* () {
      const { account, service, sessionId, token, userId } = yield* open
      yield* service.call("DELETE", `/api/sessions/${sessionId}`)
      assert.isFalse(yield* works(service, token))
      const again = yield* signIn(service, account)
      yield* service.call("PATCH", `/api/trial-users/${userId}`, { body: { isActive: false } })
      assert.isFalse(yield* works(service, again))
      assertProblem(yield* login(service, account), 401, "unauthenticated")
      yield* service.call("DELETE", `/api/trial-users/${userId}`)
      assertProblem(yield* login(service, account), 401, "unauthenticated")
    })
  )
})
