import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { refusesStrangers } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { auditOf, badQueries, each, faults, problem, refuses, type Sent } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { forgedCursor, walkLinks } from "../../support/walk.ts"

const path = "/api/sessions"
const read = { capability: "sessions:read", systemOnly: true }
const write = { capability: "sessions:write", systemOnly: true }
const ipAddress = "203.0.113.7"

let made = 0
const createUser = Effect.gen(function* () {
  const service = yield* TestService
  const body = { firstName: "Grace", lastName: "Hopper", email: `grace.${++made}@example.com` }
  const created = yield* service.call("POST", "/api/trial-users", { body })
  assert.strictEqual(created.status, 201, created.text)
  return created.body.id as number
})

const changeUser = Effect.fnUntraced(function* (id: number, body: object) {
  const service = yield* TestService
  const updated = yield* service.call("PATCH", `/api/trial-users/${id}`, { body })
  assert.strictEqual(updated.status, 200, updated.text)
})

const open = Effect.fnUntraced(function* (trialUserId: number) {
  const service = yield* TestService
  const opened = yield* service.call("POST", path, { body: { trialUserId, ipAddress } })
  assert.strictEqual(opened.status, 201, opened.text)
  return opened.body
})

const sessionAudit = (id: number) => auditOf("Session", id)

const idsOf = (body: ReadonlyArray<{ readonly id: number }>) => body.map((session) => session.id)

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("sessions over HTTP", (it) => {
  refusesStrangers(it, [
    { name: "list", method: "GET", path, ...read },
    { name: "get", method: "GET", path: `${path}/1`, ...read },
    { name: "create", method: "POST", path, body: { trialUserId: 1, ipAddress }, ...write },
    { name: "touch", method: "POST", path: `${path}/1/activity`, ...write },
    { name: "end", method: "DELETE", path: `${path}/1`, ...write }
  ])

  const byId = [
    ["get", "GET", ""],
    ["touch", "POST", "/activity"],
    ["end", "DELETE", ""]
  ] as const
  const badIds = ["0", "-1", "1.5", "1e3", "01", "abc", "2147483648"]
  refuses(it, [
    ...each(byId, ([name, method, rest]) => [
      `${name} of an unknown session`,
      [method, `${path}/2147483647${rest}`],
      problem(404, "session-not-found")
    ]),
    ...byId.flatMap(([name, method, rest]) =>
      each(badIds, (id) => [`${name} of the malformed id ${id}`, [method, `${path}/${id}${rest}`], faults("params.id")])
    )
  ])

  it.effect("201: create answers the session, active, with its address in Location", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const trialUserId = yield* createUser
      const created = yield* service.call("POST", path, { body: { trialUserId, ipAddress } })
      assert.strictEqual(created.status, 201)
      assert.strictEqual(created.headers.get("location"), `${path}/${created.body.id}`)
      assert.hasAllKeys(created.body, ["id", "trialUserId", "ipAddress", "startedAt", "lastActivityAt", "isActive"])
      assert.deepInclude(created.body, { trialUserId, ipAddress, isActive: true })
      assert.match(created.body.startedAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      assert.strictEqual(created.body.lastActivityAt, created.body.startedAt)
      assert.deepStrictEqual((yield* service.call("GET", `${path}/${created.body.id}`)).body, created.body)
      assert.deepStrictEqual(yield* sessionAudit(created.body.id), ["SessionStarted"])
    })
  )

  it.effect("201: a user may have several sessions", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const user = yield* createUser
      const sessions = [yield* open(user), yield* open(user)]
      assert.deepStrictEqual((yield* service.call("GET", `${path}?userId=${user}&active=true`)).body, sessions)
    })
  )

  const addresses = [
    "0.0.0.0",
    "255.255.255.255",
    "192.0.2.1",
    "::",
    "::1",
    "2001:db8::8a2e:370:7334",
    "2001:0DB8:0000:0000:0000:8A2E:0370:7334",
    "::ffff:192.0.2.1"
  ]
  for (const address of addresses) {
    it.effect(`201: create from ${address}, kept as typed`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const body = { trialUserId: yield* createUser, ipAddress: address }
        const created = yield* service.call("POST", path, { body })
        assert.strictEqual(created.status, 201, created.text)
        assert.strictEqual(created.body.ipAddress, address)
      })
    )
  }

  const noAddresses = [
    "",
    " 192.0.2.1",
    "192.0.2",
    "192.0.2.256",
    "192.0.2.1.1",
    "192.0.2.01",
    "0xc0000201",
    "3221225985",
    "192.0.2.0/24",
    "192.0.2.1:80",
    "[::1]",
    ":::",
    "2001:db8::1::2",
    "2001:db8:1:2:3:4:5:6:7",
    "2001:db8::g",
    "::ffff:192.0.2.256",
    "localhost",
    "example.com"
  ]
  const creating = (members: object): Sent => ["POST", path, { body: { trialUserId: 1, ipAddress, ...members } }]
  refuses(it, [
    ...each(noAddresses, (address) => [
      `create from ${JSON.stringify(address)}, which is no IP address`,
      creating({ ipAddress: address }),
      faults("payload.ipAddress")
    ]),
    ["create with nothing", ["POST", path, { body: {} }], faults("payload.trialUserId", "payload.ipAddress")],
    ["create with no address", creating({ ipAddress: undefined }), faults("payload.ipAddress")],
    ["create with no user", creating({ trialUserId: undefined }), faults("payload.trialUserId")],
    ["create with text for a user", creating({ trialUserId: "1" }), faults("payload.trialUserId")],
    ["create with the user 0", creating({ trialUserId: 0 }), faults("payload.trialUserId")],
    ["create with half a user", creating({ trialUserId: 1.5 }), faults("payload.trialUserId")],
    ["create with a user beyond any id", creating({ trialUserId: 2_147_483_648 }), faults("payload.trialUserId")],
    ["create with isActive, which the server sets", creating({ isActive: true }), faults("payload.isActive")],
    ["create with an unknown member", creating({ device: "phone" }), faults("payload.device")],
    ["create for an unknown user", creating({ trialUserId: 2_147_483_647 }), problem(404, "trial-user-not-found")]
  ])

  const closedUsers: ReadonlyArray<readonly [string, object]> = [
    ["is not active", { isActive: false }],
    ["has had the trial", { trialStartDate: "2020-01-01T00:00:00Z", trialEndDate: "2020-01-31T00:00:00Z" }]
  ]
  for (const [what, change] of closedUsers) {
    it.effect(`409: create for a user who ${what} opens nothing`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const trialUserId = yield* createUser
        yield* changeUser(trialUserId, change)
        const answer = yield* service.call("POST", path, { body: { trialUserId, ipAddress } })
        assertProblem(answer, 409, "trial-user-inactive")
        assert.deepStrictEqual((yield* service.call("GET", `${path}?userId=${trialUserId}`)).body, [])
      })
    )
  }

  it.effect("409: sessions opened while their user is deactivated are refused or ended with the others", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const trialUserId = yield* createUser
      const opening = Array.from({ length: 12 }, () => service.call("POST", path, { body: { trialUserId, ipAddress } }))
      opening.splice(4, 0, service.call("PATCH", `/api/trial-users/${trialUserId}`, { body: { isActive: false } }))
      const answers = yield* Effect.all(opening, { concurrency: "unbounded" })
      assert.includeMembers(
        [200, 201, 409],
        answers.map((answer) => answer.status)
      )
      assert.deepStrictEqual((yield* service.call("GET", `${path}?userId=${trialUserId}&active=true`)).body, [])
    })
  )

  it.effect("200: get answers an ended session, too", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const session = yield* open(yield* createUser)
      yield* service.call("DELETE", `${path}/${session.id}`)
      const got = yield* service.call("GET", `${path}/${session.id}`)
      assert.strictEqual(got.status, 200)
      assert.deepStrictEqual(got.body, { ...session, isActive: false })
    })
  )

  it.effect("204: activity moves lastActivityAt to now and is no audit entry", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const session = yield* open(yield* createUser)
      yield* asSuperuser(
        service.database,
        (sql) => sql`
          UPDATE sessions SET started_at = started_at - interval '10 minutes',
            last_activity_at = last_activity_at - interval '10 minutes'
          WHERE id = ${session.id}`
      )
      const touched = yield* service.call("POST", `${path}/${session.id}/activity`)
      assert.strictEqual(touched.status, 204)
      assert.strictEqual(touched.text, "")
      const { body } = yield* service.call("GET", `${path}/${session.id}`)
      assert.isAtLeast(Date.parse(body.lastActivityAt), Date.parse(session.lastActivityAt))
      assert.strictEqual(Date.parse(body.startedAt), Date.parse(session.startedAt) - 600_000)
      assert.deepStrictEqual(yield* sessionAudit(session.id), ["SessionStarted"])
    })
  )

  it.effect("409: activity does not revive an ended session", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const session = yield* open(yield* createUser)
      yield* service.call("DELETE", `${path}/${session.id}`)
      assertProblem(yield* service.call("POST", `${path}/${session.id}/activity`), 409, "session-inactive")
      assert.deepStrictEqual((yield* service.call("GET", `${path}/${session.id}`)).body, {
        ...session,
        isActive: false
      })
    })
  )

  it.effect("204: end leaves the row, inactive, and again changes nothing", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const session = yield* open(yield* createUser)
      for (let count = 0; count < 3; count++) {
        const ended = yield* service.call("DELETE", `${path}/${session.id}`)
        assert.strictEqual(ended.status, 204)
        assert.strictEqual(ended.text, "")
      }
      assert.deepStrictEqual((yield* service.call("GET", `${path}/${session.id}`)).body, {
        ...session,
        isActive: false
      })
      assert.deepStrictEqual(yield* sessionAudit(session.id), ["SessionEnded", "SessionStarted"])
    })
  )

  it.effect("204: of many ends at the same time one is recorded", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const session = yield* open(yield* createUser)
      const answers = yield* Effect.all(
        Array.from({ length: 8 }, () => service.call("DELETE", `${path}/${session.id}`)),
        { concurrency: "unbounded" }
      )
      assert.isTrue(answers.every((answer) => answer.status === 204))
      assert.deepStrictEqual(yield* sessionAudit(session.id), ["SessionEnded", "SessionStarted"])
    })
  )

  it.effect("200: list filters by user, by activity, and by both", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [ada, grace] = [yield* createUser, yield* createUser]
      const [adaOpen, adaEnded] = [yield* open(ada), yield* open(ada)]
      const [graceOpen, graceEnded] = [yield* open(grace), yield* open(grace)]
      for (const { id } of [adaEnded, graceEnded]) yield* service.call("DELETE", `${path}/${id}`)
      const list = (query: string) => Effect.map(service.call("GET", `${path}?${query}`), ({ body }) => idsOf(body))
      assert.deepStrictEqual(yield* list(`userId=${ada}`), [adaOpen.id, adaEnded.id])
      assert.deepStrictEqual(yield* list(`userId=${ada}&active=true`), [adaOpen.id])
      assert.deepStrictEqual(yield* list(`userId=${ada}&active=false`), [adaEnded.id])
      const active = yield* list("active=true")
      assert.includeMembers([...active], [adaOpen.id, graceOpen.id])
      assert.notIncludeMembers([...active], [adaEnded.id, graceEnded.id])
      const ended = yield* list("active=false")
      assert.includeMembers([...ended], [adaEnded.id, graceEnded.id])
      assert.notIncludeMembers([...ended], [adaOpen.id, graceOpen.id])
      assert.deepStrictEqual(yield* list("userId=2147483647"), [])
    })
  )

  it.effect("200: list is walked to its end by Link while sessions are added, each exactly once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const user = yield* createUser
      for (let count = 0; count < 5; count++) yield* open(user)
      let more = 2
      const addOne = Effect.suspend(() => (more-- > 0 ? open(user) : Effect.void))
      const pages = yield* walkLinks(
        service,
        `${path}?userId=${user}&active=true&limit=2`,
        Effect.provideService(addOne, TestService, service)
      )
      assert.deepStrictEqual(
        pages.map((page) => page.length),
        [2, 2, 2, 1]
      )
      assert.deepStrictEqual(pages.flat(), idsOf((yield* service.call("GET", `${path}?userId=${user}`)).body))
    })
  )

  it.effect("200: list without more rows than the limit has no Link", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const user = yield* createUser
      yield* open(user)
      yield* open(user)
      const listed = yield* service.call("GET", `${path}?userId=${user}&limit=2`)
      assert.strictEqual(listed.body.length, 2)
      assert.isNull(listed.headers.get("link"))
    })
  )

  refuses(
    it,
    badQueries(
      path,
      "userId=0",
      "userId=abc",
      "userId=1.5",
      "userId=",
      "active=1",
      "limit=0",
      "limit=1001",
      "cursor=x",
      "cursor=",
      `cursor=${forgedCursor(path, -1)}`,
      `cursor=${forgedCursor(path, {})}`,
      "trialUserId=1"
    )
  )
})
