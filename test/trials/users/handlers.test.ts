import { assert, layer } from "@effect/vitest"
import { Effect, Struct } from "effect"
import { refusesStrangers } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import {
  auditOf,
  badQueries,
  each,
  faults,
  patching,
  problem,
  read,
  refuses,
  type Sent
} from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { nextLink, walkLinks } from "../../support/walk.ts"

const path = "/api/trial-users"
const reading = { capability: "trial-users:read", systemOnly: true }
const writing = { capability: "trial-users:write", systemOnly: true }

let made = 0
/** What a create may say, with an address that nobody has yet. */
const person = (members: object = {}) => ({
  firstName: "Ada",
  lastName: "Lovelace",
  email: `ada.${++made}@example.com`,
  ...members
})

const create = Effect.fnUntraced(function* (members: object = {}) {
  const service = yield* TestService
  const created = yield* service.call("POST", path, { body: person(members) })
  assert.strictEqual(created.status, 201, created.text)
  return created.body
})

const openSession = Effect.fnUntraced(function* (trialUserId: number) {
  const service = yield* TestService
  const opened = yield* service.call("POST", "/api/sessions", { body: { trialUserId, ipAddress: "203.0.113.7" } })
  assert.strictEqual(opened.status, 201, opened.text)
  return opened.body
})

const userAudit = (id: number) => auditOf("TrialUser", id)
/** A user, and what was done to them. */
const unchanged = ({ id }: { readonly id: number }) => Effect.all([read(`${path}/${id}`), userAudit(id)])
const unknown = problem(404, "trial-user-not-found")
const taken = problem(409, "email-already-registered")
const creating = (members: object): Sent => ["POST", path, { body: person(members) }]
const updating = patching(path)

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("trial users over HTTP", (it) => {
  refusesStrangers(it, [
    { name: "list", method: "GET", path, ...reading },
    { name: "get", method: "GET", path: `${path}/1`, ...reading },
    { name: "getByEmail", method: "GET", path: `${path}/by-email/a@example.com`, ...reading },
    { name: "create", method: "POST", path, body: person(), ...writing },
    { name: "update", method: "PATCH", path: `${path}/1`, body: {}, ...writing },
    { name: "delete", method: "DELETE", path: `${path}/1`, ...writing }
  ])

  refuses(it, [
    ["get of nobody", ["GET", `${path}/2147483647`], unknown],
    ["getByEmail of nobody", ["GET", `${path}/by-email/nobody@example.com`], unknown],
    ["update of nobody", ["PATCH", `${path}/2147483647`, { body: { firstName: "Grace" } }], unknown],
    ["delete of nobody", ["DELETE", `${path}/2147483647`], unknown],
    ["getByEmail of a pattern, an address that nobody has", ["GET", `${path}/by-email/%25@example.com`], unknown],
    ["getByEmail of more than any address has", ["GET", `${path}/by-email/${"a".repeat(321)}`], faults("params.email")]
  ])

  for (const id of ["0", "-1", "1.5", "1e3", "01", "abc", "2147483648"]) {
    refuses(it, [
      [`get of the id ${id}`, ["GET", `${path}/${id}`], faults("params.id")],
      [`update of the id ${id}`, ["PATCH", `${path}/${id}`, { body: {} }], faults("params.id")],
      [`delete of the id ${id}`, ["DELETE", `${path}/${id}`], faults("params.id")]
    ])
  }

  it.effect("201: creates a trial user, active, for 30 days, without its organization", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = person({ organization: "Analytical Engines" })
      const created = yield* service.call("POST", path, { body })
      assert.strictEqual(created.status, 201)
      assert.strictEqual(created.headers.get("location"), `${path}/${created.body.id}`)
      assert.hasAllKeys(created.body, [
        "id",
        "firstName",
        "lastName",
        "email",
        "isActive",
        "emailVerified",
        "trialStartDate",
        "trialEndDate",
        "createdAt"
      ])
      assert.deepInclude(created.body, { firstName: "Ada", lastName: "Lovelace", email: body.email })
      assert.deepInclude(created.body, { isActive: true, emailVerified: false })
      for (const member of ["trialStartDate", "trialEndDate", "createdAt"]) {
        assert.match(created.body[member], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      }
      const days = (Date.parse(created.body.trialEndDate) - Date.parse(created.body.trialStartDate)) / 86_400_000
      assert.strictEqual(days, 30)
    })
  )

  it.effect("201: the organization is stored, and no answer has it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { email, id } = yield* create({ organization: "Difference Engines Ltd" })
      const answers = [
        yield* service.call("GET", `${path}/${id}`),
        yield* service.call("GET", `${path}/by-email/${email}`),
        yield* service.call("GET", path),
        yield* service.call("PATCH", `${path}/${id}`, { body: { lastName: "Byron" } })
      ]
      for (const answer of answers) {
        assert.strictEqual(answer.status, 200)
        assert.notInclude(answer.text, "rganization")
        assert.notInclude(answer.text, "Difference Engines")
      }
      const stored = yield* asSuperuser(
        service.database,
        (sql) => sql`SELECT organization FROM trial_users WHERE id = ${id}`
      )
      assert.deepStrictEqual(stored, [{ organization: "Difference Engines Ltd" }])
    })
  )

  const acceptable: ReadonlyArray<readonly [string, object]> = [
    ["names of one character", { firstName: "A", lastName: "L" }],
    ["names of 100 characters", { firstName: "é".repeat(100), lastName: "🦉".repeat(100) }],
    ["an organization of 200 characters", { organization: "o".repeat(200) }],
    ["an address with a plus and a subdomain", { email: "Ada+Trial@mail.example.co.uk" }]
  ]
  for (const [what, members] of acceptable) {
    it.effect(`201: creates with ${what}`, () =>
      Effect.gen(function* () {
        const created = yield* create(members)
        assert.deepInclude(created, Struct.omit(members as { readonly organization?: string }, ["organization"]))
      })
    )
  }

  refuses(it, [
    ["create with no first name", creating({ firstName: undefined }), faults("payload.firstName")],
    ["create with no last name", creating({ lastName: undefined }), faults("payload.lastName")],
    ["create with no address", creating({ email: undefined }), faults("payload.email")],
    ["create with an empty first name", creating({ firstName: "" }), faults("payload.firstName")],
    ["create with a blank last name", creating({ lastName: " \t " }), faults("payload.lastName")],
    [
      "create with a first name of 101 characters",
      creating({ firstName: "a".repeat(101) }),
      faults("payload.firstName")
    ],
    ["create with a last name that is a number", creating({ lastName: 7 }), faults("payload.lastName")],
    [
      "create with an organization of 201 characters",
      creating({ organization: "o".repeat(201) }),
      faults("payload.organization")
    ],
    ["create with an address without a domain", creating({ email: "ada" }), faults("payload.email")],
    [
      "create with an address without a dot in its domain",
      creating({ email: "ada@localhost" }),
      faults("payload.email")
    ],
    ["create with two addresses", creating({ email: "ada@example.com, grace@example.com" }), faults("payload.email")],
    ["create with an address with blanks around it", creating({ email: " ada@example.com " }), faults("payload.email")],
    [
      "create with an address of 255 characters",
      creating({ email: `${"a".repeat(64)}@${"b".repeat(60)}.${"c".repeat(60)}.${"d".repeat(60)}.example` }),
      faults("payload.email")
    ],
    ["create with isActive, which the server sets", creating({ isActive: true }), faults("payload.isActive")],
    ["create with an unknown member", creating({ nickname: "Countess" }), faults("payload.nickname")],
    [
      "create reports every fault at once",
      ["POST", path, { body: { firstName: "", email: "ada", nickname: "x" } }],
      faults("payload.firstName", "payload.lastName", "payload.email", "payload.nickname")
    ]
  ])

  it.effect("409: create with an address that is taken, in whatever case, which is kept as typed", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* create({ email: "Mixed.Case@Example.COM" })
      assert.strictEqual(created.email, "Mixed.Case@Example.COM")
      for (const email of ["Mixed.Case@Example.COM", "mixed.case@example.com", "MIXED.CASE@EXAMPLE.COM"]) {
        const answer = yield* service.call("POST", path, { body: person({ email }) })
        assertProblem(answer, 409, "email-already-registered")
      }
      const stored = yield* service.call("GET", `${path}/${created.id}`)
      assert.strictEqual(stored.body.email, "Mixed.Case@Example.COM")
    })
  )

  refuses(
    it,
    [
      [
        "letters beyond ASCII are compared without regard to case, too",
        creating({ email: "JÜRGEN@EXÄMPLE.COM" }),
        taken
      ]
    ],
    { given: create({ email: "jürgen@exämple.com" }) }
  )

  it.effect("409: of many creates with one address at the same time, one is served", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = person()
      const answers = yield* Effect.all(
        Array.from({ length: 10 }, () => service.call("POST", path, { body })),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(answers.map((answer) => answer.status).toSorted(), [201, ...Array(9).fill(409)])
    })
  )

  it.effect("200: get answers what create answered", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* create()
      const got = yield* service.call("GET", `${path}/${created.id}`)
      assert.strictEqual(got.status, 200)
      assert.deepStrictEqual(got.body, created)
    })
  )

  it.effect("200: getByEmail finds the address percent-encoded and in another case", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const email of ["By.Email+tag@example.com", "by/slash%25@example.com", "jörg&co#1@example.com"]) {
        const created = yield* create({ email })
        for (const asked of [email, email.toUpperCase(), email.toLowerCase()]) {
          const got = yield* service.call("GET", `${path}/by-email/${encodeURIComponent(asked)}`)
          assert.strictEqual(got.status, 200, asked)
          assert.deepStrictEqual(got.body, created)
        }
      }
    })
  )

  it.effect("one address has one user in each of its spellings, and letters that merely look alike have others", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const find = (email: string) => service.call("GET", `${path}/by-email/${encodeURIComponent(email)}`)
      for (const [email, spellings] of [
        ["संपर्क@डाटामेल.भारत", ["संपर्क@xn--c2bd4bq1db8d.xn--h2brj9c"]],
        ["nguyễn@exämple.de".normalize("NFD"), ["NGUYỄN@EXÄMPLE.DE", "nguyễn@xn--exmple-cua.de"]],
        ["Σοφος@example.gr", ["ΣΟΦΟΣ@EXAMPLE.GR", "σοφοσ@example.gr"]]
      ] as const) {
        const created = yield* create({ email })
        assert.strictEqual(created.email, email.normalize("NFC"))
        for (const spelling of [email, ...spellings]) {
          assert.strictEqual((yield* find(spelling)).body.id, created.id, spelling)
          const again = yield* service.call("POST", path, { body: person({ email: spelling }) })
          assertProblem(again, 409, "email-already-registered")
        }
      }
      for (const [email, alike] of [
        ["İnci@example.com", "inci@example.com"],
        ["ınan@example.com", "inan@example.com"],
        ["weiß@example.com", "weiss@example.com"]
      ] as const) {
        yield* create({ email })
        assertProblem(yield* find(alike), 404, "trial-user-not-found")
        yield* create({ email: alike })
        const changed = yield* service.call("PATCH", `${path}/${(yield* find(alike)).body.id}`, { body: { email } })
        assertProblem(changed, 409, "email-already-registered")
      }
    })
  )

  const changes: ReadonlyArray<readonly [string, unknown]> = [
    ["firstName", "Augusta"],
    ["lastName", "King"],
    ["email", "augusta.king@example.com"],
    ["isActive", false],
    ["emailVerified", true],
    ["trialStartDate", "2020-02-29T12:00:00.000Z"],
    ["trialEndDate", "2099-12-31T23:59:59.999Z"]
  ]
  for (const [member, value] of changes) {
    it.effect(`200: update changes ${member} and nothing else`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const created = yield* create()
        const updated = yield* service.call("PATCH", `${path}/${created.id}`, { body: { [member]: value } })
        assert.strictEqual(updated.status, 200, updated.text)
        assert.deepStrictEqual(updated.body, { ...created, [member]: value })
        assert.deepStrictEqual((yield* service.call("GET", `${path}/${created.id}`)).body, updated.body)
        assert.deepStrictEqual(yield* userAudit(created.id), ["UserUpdated", "UserCreated"])
      })
    )
  }

  it.effect("200: update changes every member at once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* create()
      const body = { ...Object.fromEntries(changes), email: person().email }
      const updated = yield* service.call("PATCH", `${path}/${created.id}`, { body })
      assert.deepStrictEqual(updated.body, { ...created, ...body })
    })
  )

  it.effect("200: update ignores what the server sets, so that an answer may be sent back whole", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* create()
      const body = { ...created, id: created.id + 1, createdAt: "2001-01-01T00:00:00.000Z", firstName: "Augusta" }
      const updated = yield* service.call("PATCH", `${path}/${created.id}`, { body })
      assert.strictEqual(updated.status, 200, updated.text)
      assert.deepStrictEqual(updated.body, { ...created, firstName: "Augusta" })
    })
  )

  const unchanging: ReadonlyArray<readonly [string, (created: object) => object]> = [
    ["an empty body", () => ({})],
    ["only what the server sets", () => ({ id: 1, createdAt: "2001-01-01T00:00:00.000Z" })],
    ["the values that it has", (created) => created]
  ]
  for (const [what, bodyOf] of unchanging) {
    it.effect(`200: update with ${what} changes nothing and writes no audit entry`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const created = yield* create()
        const updated = yield* service.call("PATCH", `${path}/${created.id}`, { body: bodyOf(created) })
        assert.strictEqual(updated.status, 200, updated.text)
        assert.deepStrictEqual(updated.body, created)
        assert.deepStrictEqual(yield* userAudit(created.id), ["UserCreated"])
      })
    )
  }

  const before = { trialEndDate: "2001-01-01T00:00:00Z", firstName: "Augusta" }
  const after = { trialStartDate: "2099-01-01T00:00:00Z", firstName: "Augusta" }
  const both = {
    trialStartDate: "2026-05-02T00:00:00Z",
    trialEndDate: "2026-05-01T23:59:59.999Z",
    firstName: "Augusta"
  }
  const reversed = problem(400, "trial-ends-before-start")
  refuses(
    it,
    [
      ["update with an unknown member", updating({ nickname: "Countess" }), faults("payload.nickname")],
      [
        "update with the organization, which is given on create only",
        updating({ organization: "Engines" }),
        faults("payload.organization")
      ],
      ["update with null for a name", updating({ firstName: null }), faults("payload.firstName")],
      ["update with text for a flag", updating({ isActive: "false" }), faults("payload.isActive")],
      [
        "update with a blank name and a bad address",
        updating({ lastName: " ", email: "ada" }),
        faults("payload.lastName", "payload.email")
      ],
      ["update with a date without a time", updating({ trialEndDate: "2026-01-31" }), faults("payload.trialEndDate")],
      [
        "update with a day that no month has",
        updating({ trialEndDate: "2026-02-30T00:00:00Z" }),
        faults("payload.trialEndDate")
      ],
      [
        "update with a year that the database cannot hold",
        updating({ trialEndDate: "+275760-01-01T00:00:00Z" }),
        faults("payload.trialEndDate")
      ],
      ["update that would end the trial before its start, by both dates", updating(both), reversed],
      ["update that would end the trial before its start, by the end alone", updating(before), reversed],
      ["update that would end the trial before its start, by the start alone", updating(after), reversed]
    ],
    { given: create(), unchanged }
  )

  it.effect("200: update lets a trial end at its start", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* create()
      const moment = "2026-05-02T00:00:00.000Z"
      const body = { trialStartDate: moment, trialEndDate: "2026-05-02T02:00:00+02:00" }
      const updated = yield* service.call("PATCH", `${path}/${created.id}`, { body })
      assert.deepStrictEqual(updated.body, { ...created, trialStartDate: moment, trialEndDate: moment })
    })
  )

  it.effect("409: update to an address that another has, in whatever case, changes nothing", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const other = yield* create()
      const created = yield* create()
      for (const email of [other.email, other.email.toUpperCase()]) {
        const answer = yield* service.call("PATCH", `${path}/${created.id}`, { body: { email, firstName: "Augusta" } })
        assertProblem(answer, 409, "email-already-registered")
      }
      assert.deepStrictEqual((yield* service.call("GET", `${path}/${created.id}`)).body, created)
      assert.deepStrictEqual(yield* userAudit(created.id), ["UserCreated"])
    })
  )

  it.effect("200: update to one's own address in another case", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* create()
      const email = created.email.toUpperCase()
      const updated = yield* service.call("PATCH", `${path}/${created.id}`, { body: { email } })
      assert.strictEqual(updated.body.email, email)
    })
  )

  it.effect("200: changes of different members at the same time are all kept", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* create()
      const bodies = [{ firstName: "Augusta" }, { lastName: "King" }, { emailVerified: true }]
      yield* Effect.forEach(bodies, (body) => service.call("PATCH", `${path}/${created.id}`, { body }), {
        concurrency: "unbounded"
      })
      const got = yield* service.call("GET", `${path}/${created.id}`)
      assert.deepInclude(got.body, { firstName: "Augusta", lastName: "King", emailVerified: true })
    })
  )

  it.effect("200: a trial that is made to be over ends the user's sessions", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* create()
      const session = yield* openSession(id)
      const body = { trialStartDate: "2020-01-01T00:00:00Z", trialEndDate: "2020-02-01T00:00:00Z" }
      assert.strictEqual((yield* service.call("PATCH", `${path}/${id}`, { body })).status, 200)
      assert.strictEqual((yield* service.call("GET", `/api/sessions/${session.id}`)).body.isActive, false)
    })
  )

  it.effect("200: deactivating ends the user's sessions, leaves their rows and other users' sessions alone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* create()
      const sessions = [yield* openSession(created.id), yield* openSession(created.id)]
      const bystander = yield* openSession((yield* create()).id)
      const updated = yield* service.call("PATCH", `${path}/${created.id}`, { body: { isActive: false } })
      assert.strictEqual(updated.body.isActive, false)
      const listed = yield* service.call("GET", `/api/sessions?userId=${created.id}`)
      assert.deepStrictEqual(
        listed.body,
        sessions.map((session) => Object.assign(session, { isActive: false }))
      )
      assert.deepStrictEqual((yield* service.call("GET", `/api/sessions/${bystander.id}`)).body, bystander)
    })
  )

  it.effect("200: activating again brings no session back", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* create()
      yield* openSession(created.id)
      yield* service.call("PATCH", `${path}/${created.id}`, { body: { isActive: false } })
      yield* service.call("PATCH", `${path}/${created.id}`, { body: { isActive: true } })
      const active = yield* service.call("GET", `/api/sessions?userId=${created.id}&active=true`)
      assert.deepStrictEqual(active.body, [])
    })
  )

  it.effect("204: delete answers nothing, and then the user is gone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { email, id } = yield* create()
      const deleted = yield* service.call("DELETE", `${path}/${id}`)
      assert.strictEqual(deleted.status, 204)
      assert.strictEqual(deleted.text, "")
      assertProblem(yield* service.call("GET", `${path}/${id}`), 404, "trial-user-not-found")
      assertProblem(yield* service.call("GET", `${path}/by-email/${email}`), 404, "trial-user-not-found")
      assertProblem(yield* service.call("DELETE", `${path}/${id}`), 404, "trial-user-not-found")
      assert.deepStrictEqual(yield* userAudit(id), ["UserDeleted", "UserCreated"])
    })
  )

  it.effect("204: delete ends the user's sessions and leaves their rows with their trialUserId", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* create()
      const session = yield* openSession(id)
      yield* service.call("DELETE", `${path}/${id}`)
      const listed = yield* service.call("GET", `/api/sessions?userId=${id}`)
      assert.deepStrictEqual(listed.body, [{ ...session, trialUserId: id, isActive: false }])
    })
  )

  it.effect("204: delete frees the address", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { email, id } = yield* create()
      yield* service.call("DELETE", `${path}/${id}`)
      const again = yield* create({ email: email.toUpperCase() })
      assert.isAbove(again.id, id)
    })
  )

  it.effect("200: list answers an array in the order of ids, each user as get answers it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const created = yield* create()
      const listed = yield* service.call("GET", path)
      assert.strictEqual(listed.status, 200)
      assert.isNull(listed.headers.get("link"))
      const ids = listed.body.map((user: { readonly id: number }) => user.id)
      assert.deepStrictEqual(
        ids,
        ids.toSorted((a: number, b: number) => a - b)
      )
      assert.deepStrictEqual(listed.body.at(-1), created)
    })
  )

  for (const active of [true, false]) {
    it.effect(`200: list with active=${active} filters isActive`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const created = yield* create()
        const other = yield* create()
        yield* service.call("PATCH", `${path}/${other.id}`, { body: { isActive: false } })
        const listed = yield* service.call("GET", `${path}?active=${active}`)
        const users: ReadonlyArray<{ readonly id: number; readonly isActive: boolean }> = listed.body
        assert.isTrue(users.every((user) => user.isActive === active))
        assert.strictEqual(
          users.some((user) => user.id === created.id),
          active
        )
        assert.strictEqual(
          users.some((user) => user.id === other.id),
          !active
        )
      })
    )
  }

  it.effect("200: list is walked to its end by Link while users are added, each exactly once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const first = yield* create()
      for (let count = 0; count < 4; count++) yield* create()
      let more = 3
      const addOne = Effect.suspend(() => (more-- > 0 ? create() : Effect.void))
      const pages = yield* walkLinks(service, `${path}?limit=2`, Effect.provideService(addOne, TestService, service))
      assert.isTrue(pages.slice(0, -1).every((page) => page.length === 2))
      const stored = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly id: number }>`SELECT id FROM trial_users ORDER BY id`
      )
      assert.deepStrictEqual(
        pages.flat(),
        stored.map((row) => row.id)
      )
      assert.isAtLeast(pages.flat().filter((id) => Number(id) >= first.id).length, 8)
    })
  )

  it.effect("200: list keeps filter and limit in its Link, and deleting the last row seen loses none", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const users = [yield* create(), yield* create(), yield* create()]
      for (const { id } of users) yield* service.call("PATCH", `${path}/${id}`, { body: { isActive: false } })
      const seen: Array<number> = []
      for (let next: string | undefined = `${path}?active=false&limit=1`; next !== undefined;) {
        const answer = yield* service.call("GET", next)
        assert.strictEqual(answer.body.length, 1)
        assert.strictEqual(answer.body[0].isActive, false)
        seen.push(answer.body[0].id)
        yield* service.call("DELETE", `${path}/${answer.body[0].id}`)
        next = nextLink(answer)
      }
      assert.includeMembers(
        seen,
        users.map((user) => user.id)
      )
    })
  )

  it.effect("200: list without more rows than the limit has no Link", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* create()
      const all = yield* service.call("GET", path)
      const exact = yield* service.call("GET", `${path}?limit=${all.body.length}`)
      assert.strictEqual(exact.body.length, all.body.length)
      assert.isNull(exact.headers.get("link"))
    })
  )

  const cursors = [
    "",
    "x",
    "%%%",
    "%20",
    btoa("{}"),
    btoa('"7"'),
    btoa("0"),
    btoa("-1"),
    btoa("1.5"),
    btoa("2147483648")
  ]
  refuses(it, [
    ...each(cursors, (cursor) => [
      `list with the malformed cursor ${JSON.stringify(cursor)}`,
      ["GET", `${path}?cursor=${encodeURIComponent(cursor)}`],
      faults("query.cursor")
    ]),
    ...badQueries(
      path,
      "limit=0",
      "limit=1001",
      "limit=ten",
      "limit=1.5",
      "limit=",
      "active=yes",
      "active=",
      "isActive=true"
    )
  ])
})
