import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { bearer, makeOwnRole } from "../../support/accounts.ts"
import { issuerOf } from "../../support/agents.ts"
import { makeTenant } from "../../support/authority.ts"
import { makeIssuer, type TestIssuer } from "../../support/issuer.ts"
import { makeProvider, type TestProvider, visit } from "../../support/openid-provider.ts"
import { assertProblem } from "../../support/problem.ts"
import { auditOf, make } from "../../support/scenarios.ts"
import { type Answer, serviceLayer, TestService } from "../../support/service.ts"

type Service = TestService["Service"]

const path = "/api/identity-providers"

/** A provider of people, registered on both sides. */
const register = Effect.fnUntraced(function* (
  service: Service,
  issuer: string,
  members: object = {},
  allowRedirect: (uri: string) => void = () => {}
) {
  const { id } = yield* make(service, path, { kind: "login", issuer, clientId: "a client", ...members })
  const publicUrl = yield* Effect.promise(() => issuerOf(service))
  allowRedirect(`${publicUrl}/api/auth/oidc/${id}/callback`)
  return id as string
})

const registerWith = (service: Service, provider: TestProvider, members: object = {}) =>
  register(service, provider.issuer, { ...provider.client, ...members }, provider.allowRedirect)

const cookiesOf = (answer: Answer) => answer.headers.getSetCookie().map((set) => /^[^;]+/.exec(set)?.[0] ?? "")

const start = Effect.fnUntraced(function* (service: Service, id: string, held = "") {
  const answer = yield* service.call("GET", `/api/auth/oidc/${id}/start`, {
    key: null,
    headers: held === "" ? {} : { cookie: held }
  })
  assert.strictEqual(answer.status, 303, answer.text)
  const [cookie = ""] = cookiesOf(answer)
  return {
    cookie,
    location: new URL(answer.headers.get("location") ?? ""),
    setCookie: answer.headers.getSetCookie()[0]
  }
})

const callback = (service: Service, id: string, parameters: Record<string, string> | string, cookie: string) =>
  service.call("GET", `/api/auth/oidc/${id}/callback?${new URLSearchParams(parameters)}`, {
    key: null,
    headers: cookie === "" ? {} : { cookie }
  })

/** A whole sign-in by a browser. */
const signIn = Effect.fnUntraced(function* (service: Service, provider: TestProvider, id: string) {
  const { cookie, location } = yield* start(service, id)
  const back = new URL(yield* Effect.promise(() => visit(provider, location.href)))
  assert.strictEqual(back.pathname, `/api/auth/oidc/${id}/callback`)
  return yield* callback(service, id, back.search.slice(1), cookie)
})

const tokenIn = (answer: Answer): string => {
  assert.strictEqual(answer.status, 303, answer.text)
  const session = cookiesOf(answer).find((cookie) => cookie.startsWith("am_session="))
  return session?.slice("am_session=".length) ?? assert.fail("no session")
}

const me = (service: Service, token: string) =>
  Effect.map(service.call("GET", "/api/auth/me", bearer(token)), ({ body }) => body)

const reasonsOf = Effect.fnUntraced(function* (service: Service, id: string) {
  const { body } = yield* service.call(
    "GET",
    `/api/audit-logs?actionType=SignInRefused&entityId=identity-provider:${id}`
  )
  return body.items.map((entry: { readonly reason: string }) => entry.reason) as ReadonlyArray<string>
})

/** Refused with the one answer, for a reason that only the audit log has. */
const assertRefused = Effect.fnUntraced(function* (service: Service, id: string, answer: Answer, reason: string) {
  assertProblem(answer, 401, "unauthenticated")
  assert.strictEqual(
    answer.body.detail,
    "The sign-in with the identity provider failed. Start again; the audit log has the reason."
  )
  assert.notInclude(answer.headers.get("set-cookie") ?? "", "am_session")
  assert.include(yield* reasonsOf(service, id), reason)
})

/** A sign-in with an issuer that answers whatever a test wants; `claims` become an ID token. */
const answered = Effect.fnUntraced(function* (
  service: Service,
  issuer: TestIssuer,
  id: string,
  claims: object | ((nonce: string) => object),
  options: { readonly header?: object; readonly parameters?: Record<string, string>; readonly tokens?: object } = {}
) {
  const { cookie, location } = yield* start(service, id)
  const nonce = location.searchParams.get("nonce") ?? ""
  const given = typeof claims === "function" ? claims(nonce) : { sub: "ada", aud: "a client", nonce, ...claims }
  const idToken = yield* Effect.promise(() => issuer.sign(given, options.header))
  issuer.answers.set("/token", { body: { id_token: idToken, token_type: "Bearer", ...options.tokens } })
  const parameters = { code: "a code", state: location.searchParams.get("state") ?? "", ...options.parameters }
  return yield* callback(service, id, parameters, cookie)
})

const now = () => Math.floor(Date.now() / 1000)
const allowPrivate = { IdentityProviders__AllowPrivateAddresses: "true" }

layer(serviceLayer(allowPrivate), { excludeTestServices: true, timeout: "60 seconds" })(
  "sign-in with a provider",
  (it) => {
    it.effect(
      "oidc-provider: a first sign-in makes the account, the next one finds it, whatever it is called by then",
      () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const provider = yield* makeProvider
          const roleId = yield* makeOwnRole(service, ["dashboard:read"])
          const tenantId = yield* makeTenant(service.database)
          const id = yield* registerWith(service, provider, { defaultRoleIds: [roleId], tenantId })
          provider.user = { sub: "ada", email: "ada@example.com", name: "Ada Lovelace" }
          const answer = yield* signIn(service, provider, id)
          assert.strictEqual(answer.headers.get("location"), "/")
          const first = yield* me(service, tokenIn(answer))
          assert.deepInclude(first.account, {
            email: "ada@example.com",
            name: "Ada Lovelace",
            tenantId,
            roleIds: [roleId]
          })
          assert.deepStrictEqual(first.capabilities, ["dashboard:read"])
          provider.user = { sub: "ada", email: "augusta@example.com", name: "Augusta King" }
          const second = yield* me(service, tokenIn(yield* signIn(service, provider, id)))
          assert.strictEqual(second.account.id, first.account.id)
          assert.strictEqual(second.account.email, "ada@example.com")
          assert.deepStrictEqual(yield* auditOf("Account", first.account.id), ["AccountCreated"])
          // It has no password, so none signs in to it.
          const login = { email: "ada@example.com", password: "seven grey herons at dawn" }
          assertProblem(
            yield* service.call("POST", "/api/auth/login", { key: null, body: login }),
            401,
            "unauthenticated"
          )
        }).pipe(Effect.scoped)
    )

    it.effect("several first sign-ins of one user at once make one account", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const provider = yield* makeProvider
        const id = yield* registerWith(service, provider)
        provider.user = { sub: "many", email: "many@example.com" }
        const answers = yield* Effect.all(
          Array.from({ length: 4 }, () => signIn(service, provider, id)),
          { concurrency: "unbounded" }
        )
        const accounts = yield* Effect.forEach(answers, (answer) => me(service, tokenIn(answer)))
        assert.strictEqual(new Set(accounts.map(({ account }) => account.id)).size, 1)
        assert.strictEqual(accounts[0]?.account.name, "many@example.com")
      }).pipe(Effect.scoped)
    )

    it.effect("a user is the provider and its name there: the same name at another provider is another account", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const [one, other] = yield* Effect.all([makeProvider, makeProvider])
        const ids = yield* Effect.forEach([one, other], (provider) => registerWith(service, provider))
        one.user = { sub: "same", email: "same1@example.com" }
        other.user = { sub: "same", email: "same2@example.com" }
        const a = yield* me(service, tokenIn(yield* signIn(service, one, ids[0] ?? "")))
        const b = yield* me(service, tokenIn(yield* signIn(service, other, ids[1] ?? "")))
        assert.notStrictEqual(a.account.id, b.account.id)
        // An address is no proof: who has the one of an account that exists gets neither it nor a second one.
        other.user = { sub: "thief", email: "SAME1@example.com", email_verified: true }
        const stolen = yield* signIn(service, other, ids[1] ?? "")
        yield* assertRefused(service, ids[1] ?? "", stolen, "email-of-another-account")
      }).pipe(Effect.scoped)
    )

    it.effect("domains take verified addresses of theirs alone, at every sign-in", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const provider = yield* makeProvider
        const id = yield* registerWith(service, provider, { domains: ["corp.example"] })
        for (const [user, reason] of [
          [{ email: "a@corp.example", email_verified: false }, "email-not-verified"],
          [{ email: "a@corp.example" }, "email-not-verified"],
          [{ email: "a@corp.example", email_verified: "true" }, "email-not-verified"],
          [{ email: "a@evil-corp.example", email_verified: true }, "foreign-domain"],
          [{ email: "a@corp.example@evil.example", email_verified: true }, "foreign-domain"],
          [{ email: "a@sub.corp.example", email_verified: true }, "foreign-domain"],
          [{ email_verified: true }, "no-email"]
        ] as const) {
          provider.user = { sub: `stranger ${JSON.stringify(user)}`, ...user }
          yield* assertRefused(service, id, yield* signIn(service, provider, id), reason)
        }
        provider.user = { sub: "verified", email: "Grace@CORP.example", email_verified: true }
        tokenIn(yield* signIn(service, provider, id))
        provider.user = { sub: "verified", email: "grace@elsewhere.example", email_verified: true }
        yield* assertRefused(service, id, yield* signIn(service, provider, id), "foreign-domain")
      }).pipe(Effect.scoped)
    )

    it.effect("a domain of another script is one domain, as a person writes it and as programs do", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const provider = yield* makeProvider
        const id = yield* registerWith(service, provider, { domains: ["EXÄMPLE.de", "xn--c2bd4bq1db8d.xn--h2brj9c"] })
        const { body } = yield* service.call("GET", `${path}/${id}`)
        assert.deepStrictEqual(body.domains, ["xn--exmple-cua.de", "xn--c2bd4bq1db8d.xn--h2brj9c"])
        for (const email of ["one@exämple.de", "two@xn--exmple-cua.de", "संपर्क@डाटामेल.भारत"]) {
          provider.user = { sub: email, email, email_verified: true }
          tokenIn(yield* signIn(service, provider, id))
        }
        provider.user = { sub: "other", email: "a@example.de", email_verified: true }
        yield* assertRefused(service, id, yield* signIn(service, provider, id), "foreign-domain")
        for (const domain of ["1.2.3.4", "example..com", "exa mple.com", "a/b.com"]) {
          const refused = yield* service.call("PATCH", `${path}/${id}`, { body: { domains: [domain] } })
          assert.strictEqual(refused.status, 400, domain)
        }
      }).pipe(Effect.scoped)
    )

    it.effect("start: PKCE by S256, state, nonce, and a cookie that no script reads; each is new every time", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const issuer = yield* makeIssuer
        issuer.configure({ authorization_endpoint: `${issuer.issuer}/authorize?tenant=acme` })
        const id = yield* register(service, issuer.issuer, { scopes: ["openid"] })
        const [one, other] = yield* Effect.all([start(service, id), start(service, id)])
        const asked = Object.fromEntries(one.location.searchParams)
        const publicUrl = yield* Effect.promise(() => issuerOf(service))
        assert.deepInclude(asked, {
          tenant: "acme",
          response_type: "code",
          client_id: "a client",
          redirect_uri: `${publicUrl}/api/auth/oidc/${id}/callback`,
          scope: "openid",
          code_challenge_method: "S256"
        })
        for (const name of ["state", "nonce", "code_challenge"]) {
          assert.match(asked[name] ?? "", /^[\w-]{43}$/)
          assert.notStrictEqual(asked[name], other.location.searchParams.get(name))
        }
        assert.match(one.setCookie ?? "", /^am_oidc_\d=[^;]+; /)
        for (const attribute of ["Path=/", "Max-Age=600", "HttpOnly", "SameSite=Lax"]) {
          assert.include(one.setCookie ?? "", attribute)
        }
        assert.notInclude(
          Buffer.from(one.cookie.slice("am_oidc_0=".length), "base64url").toString("latin1"),
          asked.state ?? ""
        )
      }).pipe(Effect.scoped)
    )

    it.effect("leads back to the path of this service that it began at, and to no other origin", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const provider = yield* makeProvider
        provider.user = { sub: "next", email: "next@example.com", name: "Next" }
        const id = yield* registerWith(service, provider)
        const began = (next: string) =>
          service.call("GET", `/api/auth/oidc/${id}/start?next=${encodeURIComponent(next)}`, { key: null })
        const answer = yield* began("/console/caps?search=a%20b&sort=-name")
        const [cookie = ""] = cookiesOf(answer)
        const back = new URL(yield* Effect.promise(() => visit(provider, answer.headers.get("location") ?? "")))
        const done = yield* callback(service, id, back.search.slice(1), cookie)
        tokenIn(done)
        assert.strictEqual(done.headers.get("location"), "/console/caps?search=a%20b&sort=-name")
        for (const next of [
          "https://evil.example/",
          "//evil.example",
          "/\\evil.example",
          "/\t/evil.example",
          "/\n/evil.example",
          "\\\\evil.example",
          " /console",
          "console",
          "javascript:alert(1)",
          "",
          `/${"a".repeat(512)}`
        ]) {
          assertProblem(yield* began(next), 400, "validation-failed")
        }
      }).pipe(Effect.scoped)
    )

    it.effect("callback: a state of another browser, of another provider, of none, or used up: refused", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const provider = yield* makeProvider
        const id = yield* registerWith(service, provider)
        const second = yield* registerWith(service, provider)
        provider.user = { sub: "states", email: "states@example.com" }
        const { cookie, location } = yield* start(service, id)
        const back = new URL(yield* Effect.promise(() => visit(provider, location.href)))
        const answer = Object.fromEntries(back.searchParams)
        const others = yield* start(service, id)
        yield* assertRefused(service, id, yield* callback(service, id, answer, ""), "not-begun-here")
        yield* assertRefused(service, id, yield* callback(service, id, answer, "am_oidc_0=none"), "not-begun-here")
        yield* assertRefused(service, id, yield* callback(service, id, answer, others.cookie), "bad-state")
        yield* assertRefused(service, second, yield* callback(service, second, answer, cookie), "not-begun-here")
        yield* assertRefused(service, id, yield* callback(service, id, { ...answer, state: "" }, cookie), "bad-state")
        const { state: _, ...stateless } = answer
        yield* assertRefused(service, id, yield* callback(service, id, stateless, cookie), "bad-state")
        // RFC 9207: the provider says that it names itself, so an answer that does not is another's.
        const { iss: __, ...nameless } = answer
        yield* assertRefused(service, id, yield* callback(service, id, nameless, cookie), "bad-issuer")
        const elsewhere = { ...answer, iss: "https://evil.example" }
        yield* assertRefused(service, id, yield* callback(service, id, elsewhere, cookie), "bad-issuer")
        const denied = { state: answer.state ?? "", iss: provider.issuer, error: "access_denied" }
        yield* assertRefused(service, id, yield* callback(service, id, denied, cookie), "refused-by-provider")
        const { code: ___, ...codeless } = answer
        yield* assertRefused(service, id, yield* callback(service, id, codeless, cookie), "no-code")
        const signedIn = yield* callback(service, id, { ...answer, session_state: "of Keycloak" }, cookie)
        tokenIn(signedIn)
        assert.isTrue(
          signedIn.headers.getSetCookie().some((set) => new RegExp(`^${cookie.slice(0, 10)};.*Max-Age=0`).test(set))
        )
        yield* assertRefused(service, id, yield* callback(service, id, answer, cookie), "code-refused")
      }).pipe(Effect.scoped)
    )

    it.effect("several tabs of a browser sign in, each with the cookie of its start", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const provider = yield* makeProvider
        const id = yield* registerWith(service, provider)
        const second = yield* registerWith(service, provider)
        provider.user = { sub: "tabs", email: "tabs@example.com" }
        let held = ""
        const backs: Array<readonly [string, string]> = []
        for (const at of [id, second, id]) {
          const tab = yield* start(service, at, held)
          held = held === "" ? tab.cookie : `${held}; ${tab.cookie}`
          const back = new URL(yield* Effect.promise(() => visit(provider, tab.location.href)))
          backs.push([at, back.search.slice(1)])
        }
        assert.strictEqual(new Set(held.split("; ").map((cookie) => cookie.slice(0, 10))).size, 3)
        for (const [at, answer] of backs) {
          const signedIn = yield* callback(service, at, answer, held)
          // At the second provider, the address is that of an account of the first.
          const expected = at === id ? 303 : 401
          assert.strictEqual(signedIn.status, expected, signedIn.text)
          const ended = signedIn.headers.getSetCookie().filter((set) => set.includes("Max-Age=0"))
          assert.lengthOf(ended, expected === 303 ? 1 : 0)
        }
        // However often a page begins one, the cookies fit the head of a request.
        const many = new Map<string, string>()
        for (let began = 0; began < 12; began++) {
          const cookies = [...many].map(([name, value]) => `${name}=${value}`)
          const { cookie } = yield* start(service, id, cookies.join("; "))
          many.set(cookie.slice(0, 9), cookie.slice(10))
        }
        assert.strictEqual(many.size, 8)
        assert.isBelow([...many].join().length, 4096)
      }).pipe(Effect.scoped)
    )

    it.effect(
      "the list of providers to sign in with: active ones of no tenant and of the named one, and no more of them",
      () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const issuer = yield* makeIssuer
          const tenantId = yield* makeTenant(service.database)
          const members = { clientSecret: "a secret", domains: ["corp.example"] }
          const [open, tenants, disabled] = yield* Effect.all([
            register(service, issuer.issuer, members),
            register(service, issuer.issuer, { ...members, tenantId }),
            register(service, issuer.issuer, { ...members, status: "disabled" })
          ])
          const workload = yield* make(service, path, { kind: "workload", issuer: issuer.issuer })
          const list = (query = "") =>
            Effect.map(service.call("GET", `/api/auth/providers${query}`, { key: null }), ({ body, status, text }) => {
              assert.strictEqual(status, 200, text)
              return body as ReadonlyArray<{ readonly id: string; readonly name: string; readonly startUrl: string }>
            })
          const all = yield* list()
          const publicUrl = yield* Effect.promise(() => issuerOf(service))
          assert.deepStrictEqual(
            all.find((one) => one.id === open),
            { id: open, name: new URL(issuer.issuer).host, startUrl: `${publicUrl}/api/auth/oidc/${open}/start` }
          )
          const idsOf = (some: typeof all) => some.map((one) => one.id)
          for (const hidden of [tenants, disabled, workload.id]) assert.notInclude(idsOf(all), hidden)
          const ofTenant = idsOf(yield* list(`?tenantId=${tenantId}`))
          assert.includeMembers(ofTenant, [open, tenants])
          assert.notInclude(ofTenant, disabled)
          assert.deepStrictEqual(yield* list("?tenantId=0198a5b0-7c00-7000-8000-00000000002a"), all)
        }).pipe(Effect.scoped)
    )

    it.effect("callback: a code of another sign-in, which PKCE ties to its browser: refused", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const provider = yield* makeProvider
        const id = yield* registerWith(service, provider)
        provider.user = { sub: "victim", email: "victim@example.com" }
        const victim = yield* start(service, id)
        const back = new URL(yield* Effect.promise(() => visit(provider, victim.location.href)))
        const thief = yield* start(service, id)
        const answer = {
          ...Object.fromEntries(back.searchParams),
          state: thief.location.searchParams.get("state") ?? ""
        }
        yield* assertRefused(service, id, yield* callback(service, id, answer, thief.cookie), "code-refused")
      }).pipe(Effect.scoped)
    )

    it.effect.each([
      ["for another client", { aud: "another client" }, {}, "bad-claim-aud"],
      ["for nobody", { aud: undefined }, {}, "bad-claim-aud"],
      ["of another issuer", { iss: "https://evil.example" }, {}, "bad-claim-iss"],
      ["expired", { exp: now() - 60 }, {}, "expired"],
      ["without an end", { exp: undefined }, {}, "bad-claim-exp"],
      ["without a beginning", { iat: undefined }, {}, "bad-claim-iat"],
      ["of the future", { iat: now() + 3600, exp: now() + 7200 }, {}, "issued-in-the-future"],
      ["not valid yet", { nbf: now() + 3600 }, {}, "bad-claim-nbf"],
      ["without a user", { sub: undefined }, {}, "bad-claim-sub"],
      ["of a user without a name", { sub: "" }, {}, "bad-subject"],
      ["of a user whose name is no text", { sub: ["ada"] }, {}, "bad-subject"],
      ["with another nonce", { nonce: "another" }, {}, "bad-nonce"],
      ["without a nonce", { nonce: undefined }, {}, "bad-nonce"],
      ["for several without the one it was made for", { aud: ["a client", "another"] }, {}, "bad-authorized-party"],
      ["made for another client", { azp: "another" }, {}, "bad-authorized-party"],
      ["of a key that is not published", {}, { kid: "another" }, "jwks-no-matching-key"],
      ["of another type", {}, { typ: "logout+jwt" }, "wrong-type"]
    ] as const)("an ID token %s: refused", ([, claims, header, reason]) =>
      Effect.gen(function* () {
        const service = yield* TestService
        const issuer = yield* makeIssuer
        const id = yield* register(service, issuer.issuer)
        const email = "claims@example.com"
        const answer = yield* answered(service, issuer, id, { email, ...claims }, { header })
        yield* assertRefused(service, id, answer, reason)
      }).pipe(Effect.scoped)
    )

    it.effect("an ID token by an algorithm that is not allowed, unsigned, or without a token at all: refused", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const issuer = yield* makeIssuer
        const id = yield* register(service, issuer.issuer)
        const unsigned = `${Buffer.from('{"alg":"none"}').toString("base64url")}.e30.`
        for (const [tokens, reason] of [
          [{ id_token: unsigned }, "jose-alg-not-allowed"],
          [{ id_token: "no token" }, "jws-invalid"],
          [{ id_token: 1 }, "no-id-token"]
        ] as const) {
          yield* assertRefused(service, id, yield* answered(service, issuer, id, {}, { tokens }), reason)
        }
        assert.strictEqual(
          (yield* service.call("PATCH", `${path}/${id}`, { body: { allowedAlgorithms: ["RS256", "ES256"] } })).status,
          200
        )
        tokenIn(
          yield* answered(service, issuer, id, {
            email: "algorithms@example.com",
            azp: "a client",
            aud: ["a client", "more"]
          })
        )
        // The issuer changes what it says; an issuer that signs with what is not allowed is of no use.
        yield* service.call("PATCH", `${path}/${id}`, { body: { allowedAlgorithms: ["RS256"] } })
        assertProblem(
          yield* service.call("GET", `/api/auth/oidc/${id}/start`, { key: null }),
          502,
          "identity-provider-unavailable"
        )
      }).pipe(Effect.scoped)
    )

    it.effect("an address of the ID token is not verified by the one of the UserInfo endpoint: refused", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const issuer = yield* makeIssuer
        issuer.configure({ userinfo_endpoint: `${issuer.issuer}/userinfo` })
        const id = yield* register(service, issuer.issuer, { domains: ["corp.example"] })
        const verified = { sub: "ada", email: "ada@elsewhere.example", email_verified: true }
        issuer.answers.set("/userinfo", { body: verified })
        const tokens = { access_token: "an access token" }
        const answer = yield* answered(service, issuer, id, { email: "boss@corp.example" }, { tokens })
        yield* assertRefused(service, id, answer, "foreign-domain")
      }).pipe(Effect.scoped)
    )

    it.effect("claims of the UserInfo endpoint about another user: refused", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const issuer = yield* makeIssuer
        issuer.configure({ userinfo_endpoint: `${issuer.issuer}/me` })
        const id = yield* register(service, issuer.issuer)
        const tokens = { access_token: "an access token" }
        issuer.answers.set("/me", { body: { sub: "eve", email: "eve@example.com" } })
        yield* assertRefused(service, id, yield* answered(service, issuer, id, {}, { tokens }), "userinfo-of-another")
        issuer.answers.set("/me", { body: { sub: "ada", email: "userinfo@example.com" } })
        const { account } = yield* me(service, tokenIn(yield* answered(service, issuer, id, {}, { tokens })))
        assert.strictEqual(account.email, "userinfo@example.com")
      }).pipe(Effect.scoped)
    )

    it.effect("a suspended account or tenant, a disabled, deleted or workload provider: refused", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const issuer = yield* makeIssuer
        const { id: tenantId } = yield* make(service, "/api/tenants", { name: `Tenant of ${issuer.issuer}` })
        const id = yield* register(service, issuer.issuer, { tenantId })
        const sign = (sub: string) => answered(service, issuer, id, { sub, email: `${sub}@example.com` })
        const { account } = yield* me(service, tokenIn(yield* sign("suspended")))
        yield* service.call("PATCH", `/api/accounts/${account.id}`, { body: { status: "suspended" } })
        yield* assertRefused(service, id, yield* sign("suspended"), "account-suspended")
        yield* service.call("PATCH", `/api/tenants/${tenantId}`, { body: { status: "suspended" } })
        yield* assertRefused(service, id, yield* sign("another"), "tenant-suspended")
        const begin = service.call("GET", `/api/auth/oidc/${id}/start`, { key: null })
        const disabled = yield* service.call("PATCH", `${path}/${id}`, { body: { status: "disabled" } })
        assert.strictEqual(disabled.body.status, "disabled")
        assertProblem(yield* begin, 404, "identity-provider-not-found")
        assert.strictEqual((yield* service.call("DELETE", `${path}/${id}`)).status, 204)
        assertProblem(yield* begin, 404, "identity-provider-not-found")
        const workload = yield* make(service, path, { kind: "workload", issuer: issuer.issuer })
        assertProblem(
          yield* service.call("GET", `/api/auth/oidc/${workload.id}/start`, { key: null }),
          404,
          "identity-provider-not-found"
        )
      }).pipe(Effect.scoped)
    )
  }
)
