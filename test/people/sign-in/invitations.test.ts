import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import {
  bearer,
  behindProxy,
  login,
  makeAccount,
  makeOwnRole,
  newEmail,
  otherPassphrase,
  passphrase,
  signIn,
  works
} from "../../support/accounts.ts"
import { makeTenant } from "../../support/authority.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { type Answer, serviceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

type Service = TestService["Service"]

const path = "/api/accounts/invitations"
const person = (members: object = {}) => ({ email: newEmail(), name: "Grace Hopper", roleIds: [], ...members })
const tokenOf = ({ body }: Answer): string => String(body.link).split("#")[1] ?? ""

const invite = Effect.fnUntraced(function* (service: Service, members: object = {}) {
  const answer = yield* service.call("POST", path, { body: person(members) })
  assert.strictEqual(answer.status, 201, answer.text)
  return { id: answer.body.id as string, email: answer.body.email as string, token: tokenOf(answer), answer }
})

const accept = (service: Service, token: string, password = passphrase, headers: Record<string, string> = {}) =>
  service.call("POST", "/api/auth/invitation", { key: null, body: { token, password }, headers })

const actionsOf = Effect.fnUntraced(function* (service: Service, id: string) {
  const { body } = yield* service.call("GET", `/api/audit-logs?entityId=${id}&limit=200`)
  return body.items.map(({ actionType }: { readonly actionType: string }) => actionType).toReversed()
})

layer(serviceLayer(behindProxy), { excludeTestServices: true, timeout: "60 seconds" })("invitations", (it) => {
  it.effect("201: a link, once; who opens it chooses the password and is signed in", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const roleId = yield* makeOwnRole(service, ["roles:read"])
      const { answer, email, id, token } = yield* invite(service, { roleIds: [roleId] })
      assert.match(answer.body.link, /\/console\/invitation#amv_[A-Za-z0-9_-]{43}$/)
      assert.strictEqual(answer.headers.get("location"), `/api/accounts/${id}`)
      const open = yield* service.call("GET", `/api/accounts/${id}`)
      assert.strictEqual(open.body.invitationExpiresAt, answer.body.invitationExpiresAt)
      assert.notInclude(open.text, "amv_")
      assert.strictEqual((yield* login(service, { email, password: passphrase })).status, 401, "without a password")

      const accepted = yield* accept(service, token)
      assert.strictEqual(accepted.status, 200, accepted.text)
      assert.notProperty(accepted.body.account, "invitationExpiresAt")
      const me = yield* service.call("GET", "/api/auth/me", bearer(accepted.body.token))
      assert.deepStrictEqual(me.body.capabilities, ["roles:read"])
      assert.strictEqual((yield* login(service, { email, password: passphrase })).status, 200)
      assertProblem(yield* accept(service, token, otherPassphrase), 403, "invitation-invalid")
      assert.deepStrictEqual(yield* actionsOf(service, id), [
        "AccountCreated",
        "AccountInvited",
        "SignInRefused",
        "AccountInvitationAccepted"
      ])
    })
  )

  it.effect("403: another token, and the right one after its time", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id, token } = yield* invite(service, { ttlSeconds: 300 })
      for (const other of ["amv_", token.slice(0, -1), `${token}x`, `amc_${"A".repeat(43)}`]) {
        assertProblem(yield* accept(service, other), 403, "invitation-invalid")
      }
      yield* asSuperuser(
        service.database,
        (sql) => sql`
          UPDATE account_invitations SET expires_at = expires_at - interval '301 seconds' WHERE account_id = ${id}::uuid`
      )
      assertProblem(yield* accept(service, token), 403, "invitation-invalid")
    })
  )

  it.effect(
    "403: after it was revoked, another link took its place, or the account got a password or another address",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const patched = (body: object) => (id: string) => service.call("PATCH", `/api/accounts/${id}`, { body })
        const ends: Readonly<Record<string, (id: string) => Effect.Effect<Answer>>> = {
          revoked: (id) => service.call("DELETE", `/api/accounts/${id}/invitation`),
          renewed: (id) => service.call("POST", `/api/accounts/${id}/invitation`, { body: {} }),
          "with a password": patched({ password: otherPassphrase }),
          "with another address": patched({ email: newEmail() }),
          suspended: patched({ status: "suspended" }),
          deleted: (id) => service.call("DELETE", `/api/accounts/${id}`)
        }
        for (const [what, end] of Object.entries(ends)) {
          const { id, token } = yield* invite(service)
          assert.include([200, 204], (yield* end(id)).status, what)
          assertProblem(yield* accept(service, token), 403, "invitation-invalid")
        }
        const { id, token } = yield* invite(service)
        yield* patched({ name: "Grace Brewster Hopper", roleIds: [] })(id)
        assert.strictEqual((yield* accept(service, token)).status, 200, "another name leaves it")
      })
  )

  it.effect("a new link for who has lost the password ends the sessions when it is used, and no sooner", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service)
      const before = yield* signIn(service, account)
      const renewed = yield* service.call("POST", `/api/accounts/${account.id}/invitation`, { body: {} })
      assert.strictEqual(renewed.status, 200, renewed.text)
      assert.isTrue(yield* works(service, before))
      const accepted = yield* accept(service, tokenOf(renewed), otherPassphrase)
      assert.strictEqual(accepted.status, 200, accepted.text)
      assert.isFalse(yield* works(service, before))
      assert.isTrue(yield* works(service, accepted.body.token))
      assert.strictEqual((yield* login(service, account)).status, 401, "the old password")
    })
  )

  it.effect("a person who changes the password ends the link", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service)
      const token = yield* signIn(service, account)
      const renewed = yield* service.call("POST", `/api/accounts/${account.id}/invitation`, { body: {} })
      const body = { currentPassword: account.password, newPassword: otherPassphrase }
      assert.strictEqual((yield* service.call("PATCH", "/api/auth/password", bearer(token, { body }))).status, 200)
      assertProblem(yield* accept(service, tokenOf(renewed)), 403, "invitation-invalid")
    })
  )

  it.effect("403: while the tenant is suspended", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { token } = yield* invite(service, { tenantId })
      const set = (status: string) => service.call("PATCH", `/api/tenants/${tenantId}`, { body: { status } })
      yield* set("suspended")
      assertProblem(yield* accept(service, token), 403, "invitation-invalid")
      yield* set("active")
      assert.strictEqual((yield* accept(service, token)).status, 200)
    })
  )

  it.effect("400: a weak password leaves the link as it is", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { token } = yield* invite(service)
      assert.deepStrictEqual(faultPaths(yield* accept(service, token, "Password1234")), ["payload.password"])
      assert.strictEqual((yield* accept(service, token)).status, 200)
    })
  )

  it.effect(
    "403: who lacks what the account can do neither invites it nor makes a link to it; nor does it itself",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const roleId = yield* makeOwnRole(service, ["roles:write"])
        const strong = yield* makeAccount(service, ["roles:write"])
        const weak = yield* makeAccount(service, ["accounts:*"])
        const as = bearer(yield* signIn(service, weak))
        const at = `/api/accounts/${strong.id}/invitation`
        assertProblem(
          yield* service.call("POST", path, { ...as, body: person({ roleIds: [roleId] }) }),
          403,
          "forbidden"
        )
        assertProblem(yield* service.call("POST", at, { ...as, body: {} }), 403, "forbidden")
        assertProblem(yield* service.call("DELETE", at, as), 403, "forbidden")
        const own = `/api/accounts/${weak.id}/invitation`
        assertProblem(yield* service.call("POST", own, { ...as, body: {} }), 409, "account-is-caller")
      })
  )

  it.effect("a tenant's operator invites into the own tenant alone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [tenantId, other] = [yield* makeTenant(service.database), yield* makeTenant(service.database)]
      const operator = yield* makeAccount(service, ["accounts:*"], { tenantId })
      const as = bearer(yield* signIn(service, operator))
      const answer = yield* service.call("POST", path, { ...as, body: person() })
      assert.strictEqual(answer.body.tenantId, tenantId)
      assertProblem(yield* service.call("POST", path, { ...as, body: person({ tenantId: other }) }), 403, "forbidden")
      const { id } = yield* invite(service, { tenantId: other })
      const at = `/api/accounts/${id}/invitation`
      assertProblem(yield* service.call("POST", at, { ...as, body: {} }), 404, "account-not-found")
      assertProblem(yield* service.call("DELETE", at, as), 404, "account-not-found")
    })
  )

  it.effect("of uses at the same time, on two replicas, one succeeds", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const there = yield* startService(service.database)
      const { token } = yield* invite(service)
      const answers = yield* Effect.all(
        Array.from({ length: 6 }, (_, index) => accept(index % 2 === 0 ? service : there, token)),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(answers.map(({ status }) => status).toSorted(), [200, 403, 403, 403, 403, 403])
    })
  )

  it.effect("403: from another site; and the link is stored as its SHA-256", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id, token } = yield* invite(service)
      assertProblem(yield* accept(service, token, passphrase, { "sec-fetch-site": "cross-site" }), 403, "forbidden")
      const [row] = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly same: boolean }>`
          SELECT token_sha256 = sha256(${token}::bytea) AS same FROM account_invitations WHERE account_id = ${id}::uuid`
      )
      assert.deepStrictEqual(row, { same: true })
    })
  )

  it.effect("who makes a link to an account may act as it, and so is one of its makers", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const operator = yield* makeAccount(service, ["*:*"])
      const account = yield* makeAccount(service)
      const as = bearer(yield* signIn(service, operator))
      yield* service.call("POST", `/api/accounts/${account.id}/invitation`, { ...as, body: {} })
      const [row] = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly holders: number }>`
          SELECT count(*)::int AS holders FROM principal_holders
          WHERE principal = ${`account:${account.id}`} AND holder = ${`account:${operator.id}`}`
      )
      assert.deepStrictEqual(row, { holders: 1 })
    })
  )
})
