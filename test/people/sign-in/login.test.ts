import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { PasswordCost } from "../../../src/people/accounts/passwords.ts"
import {
  bearer,
  behindProxy,
  cookieOf,
  login,
  makeAccount,
  passphrase,
  signIn,
  withCookie,
  works
} from "../../support/accounts.ts"
import { makeTenant } from "../../support/authority.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { exchange, requestText } from "../../support/raw-http.ts"
import { type Answer, serviceLayer, TestPasswordCost, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

/** What an answer says, but for what names this one request. */
const saying = ({ body, headers, status }: Answer) => ({
  status,
  body: { ...body, traceId: undefined },
  headers: Object.fromEntries([...headers].filter(([name]) => name !== "x-request-id" && name !== "date"))
})

const service = serviceLayer(behindProxy).pipe(Layer.provide(Layer.effect(TestPasswordCost, PasswordCost)))

layer(service, { excludeTestServices: true, timeout: "60 seconds" })("sign-in", (it) => {
  it.effect("200: the token in the body and as a cookie that scripts cannot read; the account; an audit entry", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service, ["roles:read"])
      const answer = yield* login(service, account)
      assert.strictEqual(answer.status, 200, answer.text)
      assert.match(answer.body.token, /^amt_[A-Za-z0-9_-]{43}$/)
      assert.strictEqual(answer.body.tokenType, "Session")
      assert.deepInclude(answer.body.account, { id: account.id, email: account.email, status: "active" })
      assert.notProperty(answer.body.account, "passwordHash")
      assert.strictEqual(
        answer.headers.get("set-cookie"),
        `am_session=${answer.body.token}; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax`
      )
      for (const call of [bearer(answer.body.token), withCookie(cookieOf(answer))]) {
        const me = yield* service.call("GET", "/api/auth/me", call)
        assert.deepInclude(me.body, { principal: `account:${account.id}`, capabilities: ["roles:read"], tenant: null })
        assert.strictEqual((yield* service.call("GET", "/api/roles", call)).status, 200)
        assertProblem(yield* service.call("GET", "/api/tenants", call), 403, "forbidden")
      }
      const entries = yield* service.call("GET", `/api/audit-logs?actionType=SignedIn&userId=account:${account.id}`)
      assert.lengthOf(entries.body.items, 1)
      assert.deepInclude(entries.body.items[0], { entityType: "SignIn", outcome: "success", actorType: "account" })
    })
  )

  it.effect(
    "401: one answer for an unknown account, a wrong password, a suspended account and a suspended tenant",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const account = yield* makeAccount(service)
        const suspended = yield* makeAccount(service)
        yield* service.call("PATCH", `/api/accounts/${suspended.id}`, { body: { status: "suspended" } })
        const tenantId = yield* makeTenant(service.database, "suspended")
        const ofTenant = yield* makeAccount(service, [], { tenantId })
        const wrong = { email: account.email, password: "another password" }
        const reasons: ReadonlyArray<readonly [string, string, { readonly email: string; readonly password: string }]> =
          [
            ["unknown-account", "no account of ours", { email: "nobody@example.org", password: passphrase }],
            ["wrong-password", account.id, wrong],
            ["account-suspended", suspended.id, suspended],
            ["tenant-suspended", ofTenant.id, ofTenant]
          ]
        const answers: Array<Answer> = []
        for (const [reason, target, credentials] of reasons) {
          const answer = yield* login(service, credentials)
          assertProblem(answer, 401, "unauthenticated")
          assert.isNull(answer.headers.get("set-cookie"))
          assert.include(answer.headers.get("www-authenticate") ?? "", "Bearer realm=")
          answers.push(answer)
          const listed = yield* service.call(
            "GET",
            `/api/audit-logs?actionType=SignInRefused&entityId=${encodeURIComponent(target)}`
          )
          assert.deepInclude(listed.body.items[0], { reason, outcome: "denied", userId: "anonymous" })
          assert.notInclude(listed.text, "nobody@")
        }
        const [first, ...rest] = answers.map(saying)
        for (const other of rest) assert.deepStrictEqual(other, first)
      })
  )

  it.effect("401: a refused sign-in stands in the log of the account's tenant", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const account = yield* makeAccount(service, ["audit-logs:read"], { tenantId })
      yield* login(service, { ...account, password: "wrong" })
      const token = yield* signIn(service, account)
      const listed = yield* service.call("GET", "/api/audit-logs?actionType=SignInRefused", bearer(token))
      assert.deepInclude(listed.body.items[0], { tenantId, reason: "wrong-password" })
    })
  )

  it.effect("400: what is no sign-in, without a word on the password", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const cases = [{}, { email: "a@b.cd" }, { email: 1, password: 2 }, { email: "a@b.cd", password: "hidden", x: 1 }]
      for (const body of cases) {
        const answer = yield* service.call("POST", "/api/auth/login", { key: null, body })
        assert.isNotEmpty(faultPaths(answer))
        assert.notInclude(answer.text, "hidden")
      }
    })
  )

  it.effect("each spelling of an address signs in to its account, and letters that look alike to another or none", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const [email, spelling, alike] of [
        ["iris@example.org", "IRIS@example.org", "\u0130ris@example.org"],
        ["\u0130lke@example.org", "\u0130LKE@example.org", "ilke@example.org"],
        ["தமிழ்@exämple.org", "தமிழ்@xn--exmple-cua.org", "தமிழ@exämple.org"],
        ["amélie@example.org", "AMÉLIE@example.org".normalize("NFD"), "amelie@example.org"]
      ] as const) {
        const account = yield* makeAccount(service, [], { email })
        assert.strictEqual((yield* login(service, { ...account, email: spelling })).status, 200, spelling)
        assertProblem(yield* login(service, { ...account, email: alike }), 401, "unauthenticated")
        yield* makeAccount(service, [], { email: alike })
      }
    })
  )

  it.effect("the address is compared without regard to case", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service)
      assert.isTrue(yield* works(service, yield* signIn(service, { ...account, email: account.email.toUpperCase() })))
    })
  )

  it.effect(
    "session fixation: a token that came with the request is not taken over, and every sign-in has a new one",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const account = yield* makeAccount(service)
        const planted = `amt_${"A".repeat(43)}`
        const earlier = yield* signIn(service, account)
        for (const cookie of [`am_session=${planted}`, `am_session=${earlier}`]) {
          const answer = yield* login(service, account, { cookie })
          assert.notInclude([planted, earlier], answer.body.token)
          assert.isFalse(yield* works(service, planted))
          assert.isTrue(yield* works(service, answer.body.token))
        }
      })
  )

  it.effect("a token is nowhere in the database, and a password only as argon2id", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service)
      const token = yield* signIn(service, account)
      const [row] = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly text: string }>`
          SELECT (SELECT string_agg(a::text, ' ') FROM accounts a) || (SELECT string_agg(s::text, ' ') FROM account_sessions s)
            || (SELECT string_agg(t::text, ' ') FROM account_session_tokens t)
            || (SELECT string_agg(e::text, ' ') FROM audit_entries e) AS text`
      )
      const text = row?.text ?? ""
      assert.include(text, "$argon2id$v=19$m=19456,t=2,p=1$")
      assert.notInclude(text, token)
      assert.notInclude(text, token.slice(4))
      assert.notInclude(text, Buffer.from(token).toString("hex"))
      assert.notInclude(text, passphrase)
    })
  )
})

layer(serviceLayer({ Api__PublicUrl: "https://manager.example.com" }), {
  excludeTestServices: true,
  timeout: "60 seconds"
})("sign-in over https", (it) => {
  it.effect("every answer says that the service is reached over https only", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const path of ["/health", "/api/auth/me", "/nowhere", "/v1/models"]) {
        const { headers } = yield* service.call("GET", path, { key: null })
        assert.match(headers.get("strict-transport-security") ?? "", /^max-age=[0-9]{8}$/, path)
      }
      // Node itself rejects these.
      for (const method of ["CONNECT", "NONSENSE"]) {
        const { answers } = yield* exchange(service.url, requestText(method, "/health"), { untilClosed: true })
        assert.match(answers[0]?.headers.get("strict-transport-security") ?? "", /^max-age=[0-9]{8}$/, method)
      }
    })
  )

  it.effect("the cookie is bound to the host and to https", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service)
      const answer = yield* login(service, account)
      assert.strictEqual(
        answer.headers.get("set-cookie"),
        `__Host-am_session=${answer.body.token}; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax; Secure`
      )
      assert.strictEqual((yield* service.call("GET", "/api/auth/me", withCookie(cookieOf(answer)))).status, 200)
      const weaker = withCookie(`am_session=${answer.body.token}`)
      assertProblem(yield* service.call("GET", "/api/auth/me", weaker), 401, "unauthenticated")
    })
  )
})
