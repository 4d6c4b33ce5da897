import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { ClaimLinks } from "../../../src/people/sign-in/initial-admin-setup.ts"
import { bearer, login, makeAccount } from "../../support/accounts.ts"
import { makeDatabase } from "../../support/database.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { startServer, startService, type TestService } from "../../support/service.ts"
import { asSuperuser, countOf } from "../../support/statements.ts"

const start = Effect.gen(function* () {
  const { context, service } = yield* startServer(yield* makeDatabase)
  const made = yield* Context.get(context, ClaimLinks).make
  const link = Option.getOrElse(made, () => assert.fail("no link was made"))
  return { service, token: Redacted.value(link).split("#")[1] ?? "", link: Redacted.value(link) }
})

const operator = { email: "ada@example.com", name: "Ada Lovelace", password: "seven grey herons at dawn" }

const claim = (service: TestService["Service"], token: string, members: object = {}) =>
  service.call("POST", "/api/auth/claim", { key: null, body: { ...operator, token, ...members } })

layer(Layer.empty, { excludeTestServices: true, timeout: "60 seconds" })("the claim of an installation", (it) => {
  it.effect("201: makes the first Administrator and signs it in; the link works once", () =>
    Effect.gen(function* () {
      const { link, service, token } = yield* start
      assert.match(link, /\/console\/claim#amc_[A-Za-z0-9_-]{43}$/)
      const installation = service.call("GET", "/api/auth/installation", { key: null })
      assert.deepStrictEqual((yield* installation).body, { claimed: false })
      const made = yield* claim(service, token)
      assert.strictEqual(made.status, 201, made.text)
      assert.deepStrictEqual((yield* installation).body, { claimed: true })
      assert.strictEqual(made.headers.get("location"), `/api/accounts/${made.body.account.id}`)
      const me = yield* service.call("GET", "/api/auth/me", bearer(made.body.token))
      assert.deepStrictEqual(me.body.capabilities, ["*:*"])
      assertProblem(yield* claim(service, token, { email: "eve@example.com" }), 403, "claim-invalid")
      assert.strictEqual((yield* login(service, operator)).status, 200)
      const entries = yield* service.call("GET", "/api/audit-logs?limit=200")
      const actions = entries.body.items.map(({ actionType }: { readonly actionType: string }) => actionType)
      assert.includeMembers(actions, [
        "ClaimLinkMade",
        "AccountCreated",
        "InstallationClaimed",
        "SignedIn",
        "ClaimRefused"
      ])
    })
  )

  it.effect("403: another token, and the right one after half an hour; nothing is made", () =>
    Effect.gen(function* () {
      const { service, token } = yield* start
      for (const other of ["amc_", token.slice(0, -1), `${token}x`, `amc_${"A".repeat(43)}`]) {
        assertProblem(yield* claim(service, other), 403, "claim-invalid")
      }
      yield* asSuperuser(
        service.database,
        (sql) => sql`UPDATE operator_claims SET expires_at = expires_at - interval '31 minutes'`
      )
      assertProblem(yield* claim(service, token), 403, "claim-invalid")
      assert.strictEqual(yield* countOf(service.database, "accounts"), 0)
    })
  )

  it.effect("403: once there is an account, however it came about", () =>
    Effect.gen(function* () {
      const { service, token } = yield* start
      yield* makeAccount(service)
      assertProblem(yield* claim(service, token), 403, "claim-invalid")
      const { context } = yield* startServer(service.database)
      const links = Context.get(context, ClaimLinks)
      assert.isTrue(yield* links.isClaimed)
      assert.isTrue(Option.isNone(yield* links.make), "a later start makes a link")
    })
  )

  it.effect("400: a weak password leaves the link as it is", () =>
    Effect.gen(function* () {
      const { service, token } = yield* start
      assert.deepStrictEqual(faultPaths(yield* claim(service, token, { password: "Password1234" })), [
        "payload.password"
      ])
      assert.strictEqual((yield* claim(service, token)).status, 201)
    })
  )

  it.effect("of claims at the same time, on two replicas with a link each, one succeeds", () =>
    Effect.gen(function* () {
      const { service, token } = yield* start
      const there = yield* startService(service.database)
      const answers = yield* Effect.all(
        Array.from({ length: 10 }, (_, index) =>
          claim(index % 2 === 0 ? service : there, token, { email: `ada${index}@example.com` })
        ),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(
        answers.filter(({ status }) => status === 201),
        1
      )
      assert.strictEqual(yield* countOf(service.database, "accounts"), 1)
    })
  )

  it.effect("403: from another site", () =>
    Effect.gen(function* () {
      const { service, token } = yield* start
      const headers = { "sec-fetch-site": "cross-site" }
      const body = { ...operator, token }
      assertProblem(yield* service.call("POST", "/api/auth/claim", { key: null, body, headers }), 403, "forbidden")
    })
  )

  it.effect("the link itself is stored as its SHA-256", () =>
    Effect.gen(function* () {
      const { service, token } = yield* start
      const [row] = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly same: boolean }>`
          SELECT token_sha256 = sha256(${token}::bytea) AS same FROM operator_claims`
      )
      assert.deepStrictEqual(row, { same: true })
    })
  )
})
