import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import {
  bearer,
  behindProxy,
  makeAccount,
  makeOwnRole,
  newEmail,
  otherPassphrase,
  passphrase,
  signIn
} from "../../support/accounts.ts"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { faults, problem, read, refuses, type Scenario, type Sent } from "../../support/scenarios.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { walkCursors } from "../../support/walk.ts"

const path = "/api/accounts"
const nobody = "0198a5b0-7c00-7000-8000-00000000002a"

const valid = (members: Readonly<Record<string, unknown>> = {}) => ({
  email: newEmail(),
  name: "Ada Lovelace",
  password: passphrase,
  roleIds: [],
  ...members
})

const creating = (members: Readonly<Record<string, unknown>>): Sent => ["POST", path, { body: valid(members) }]

/** A fault of the password, which the answer does not repeat. */
const weak = (what: string, password: string): Scenario<unknown> => [
  what,
  creating({ password }),
  {
    status: 400,
    check: (answer) => {
      assert.deepStrictEqual(faultPaths(answer), ["payload.password"])
      assert.notInclude(answer.text, password)
    }
  }
]

layer(serviceLayer(behindProxy), { excludeTestServices: true, timeout: "60 seconds" })("accounts", (it) => {
  refusesStrangers(it, [
    { name: "list", method: "GET", path, capability: "accounts:read", systemOnly: false },
    { name: "get", method: "GET", path: `${path}/${nobody}`, capability: "accounts:read", systemOnly: false },
    { name: "create", method: "POST", path, body: valid(), capability: "accounts:write", systemOnly: false },
    {
      name: "update",
      method: "PATCH",
      path: `${path}/${nobody}`,
      body: {},
      capability: "accounts:write",
      systemOnly: false
    },
    { name: "delete", method: "DELETE", path: `${path}/${nobody}`, capability: "accounts:write", systemOnly: false }
  ])

  it.effect("201: made, found, listed, changed, deleted; the password in no answer", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const roleId = yield* makeOwnRole(service, ["roles:read"])
      const body = valid({ roleIds: [roleId] })
      const made = yield* service.call("POST", path, { body })
      assert.strictEqual(made.status, 201, made.text)
      const { createdAt, id, ...rest } = made.body
      const { body: role } = yield* service.call("GET", `/api/roles/${roleId}`)
      assert.deepStrictEqual(rest, {
        email: body.email,
        name: "Ada Lovelace",
        applicationId: null,
        expiresAt: null,
        tenantId: null,
        roleIds: [roleId],
        roleNames: [role.name],
        trialUserId: null,
        status: "active",
        createdBy: "service-account",
        lastSignInAt: null
      })
      assert.match(createdAt, /Z$/)
      assert.strictEqual(made.headers.get("location"), `${path}/${id}`)
      assert.deepStrictEqual((yield* service.call("GET", `${path}/${id}`)).body, made.body)
      const patched = yield* service.call("PATCH", `${path}/${id}`, { body: { ...made.body, name: "Augusta" } })
      assert.deepStrictEqual(patched.body, { ...made.body, name: "Augusta" })
      assert.strictEqual((yield* service.call("DELETE", `${path}/${id}`)).status, 204)
      assertProblem(yield* service.call("GET", `${path}/${id}`), 404, "account-not-found")
      for (const answer of [made, patched]) assert.notMatch(answer.text, /argon2|herons/)
    })
  )

  it.effect("who makes accounts finds the roles that it may give, and no others", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const [within, beyond] = [yield* makeOwnRole(service, ["llm:complete"]), yield* makeOwnRole(service, ["roles:*"])]
      const { key } = yield* makeKey(service, ["accounts:*", "llm:*"], { tenantId })
      const given = yield* service.call("GET", `${path}/roles`, { key })
      const ids: ReadonlyArray<number> = given.body.map(({ id }: { readonly id: number }) => id)
      assert.includeMembers([...ids], [within])
      assert.notIncludeMembers([...ids], [1, 2, 3, beyond])
      for (const id of ids) {
        assert.strictEqual((yield* service.call("POST", path, { key, body: valid({ roleIds: [id] }) })).status, 201)
      }
      const all = yield* service.call("GET", `${path}/roles`)
      assert.includeMembers(
        all.body.map(({ id }: { readonly id: number }) => id),
        [1, 2, 3, within, beyond]
      )
      const reader = yield* makeKey(service, ["accounts:read"], { tenantId })
      assertProblem(yield* service.call("GET", `${path}/roles`, { key: reader.key }), 403, "forbidden")
    })
  )

  it.effect("pages hold every account once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (let count = 0; count < 5; count++) yield* makeAccount(service)
      const all = (yield* walkCursors(service, `${path}?limit=200`)).flat()
      const paged = (yield* walkCursors(service, `${path}?limit=2`)).flat()
      assert.deepStrictEqual(paged, all)
    })
  )

  refuses(
    it,
    [
      weak("a password of 11 characters", "x1y2z3a4b5c"),
      weak("a password of 129 characters", `${"xyz-".repeat(32)}a`),
      weak("a common password", "Password1234"),
      weak("a password with the name", "AdaLovelace1"),
      ["no e-mail address", creating({ email: "ada" }), faults("payload.email")],
      ["a blank name", creating({ name: " " }), faults("payload.name")],
      ["a role that is none", creating({ roleIds: [2_000_000_000] }), faults("payload.roleIds.0")],
      ["one role twice", creating({ roleIds: [1, 1] }), faults("payload.roleIds")],
      ["an unknown member", creating({ admin: true }), faults("payload.admin")],
      ["a tenant that is none", creating({ tenantId: nobody }), problem(404, "tenant-not-found")],
      ["a trial user that is none", creating({ trialUserId: 2_000_000_000 }), problem(404, "trial-user-not-found")]
    ],
    { given: Effect.void, unchanged: () => read(`${path}?limit=200`) }
  )

  it.effect("400: the role of another application", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const application = yield* service.call("POST", "/api/applications", { body: { name: "Another" } })
      const role = yield* service.call("POST", "/api/roles", {
        body: { name: "Elsewhere", applicationId: application.body.id, capabilities: ["tenants:read"] }
      })
      const answer = yield* service.call("POST", path, { body: valid({ roleIds: [role.body.id] }) })
      assert.deepStrictEqual(faultPaths(answer), ["payload.roleIds.0"])
    })
  )

  it.effect("409: an address that an account has, in any case; also by a change", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { email } = yield* makeAccount(service)
      const again = yield* service.call("POST", path, { body: valid({ email: email.toUpperCase() }) })
      assertProblem(again, 409, "account-email-taken")
      const { id } = yield* makeAccount(service)
      assertProblem(yield* service.call("PATCH", `${path}/${id}`, { body: { email } }), 409, "account-email-taken")
    })
  )

  it.effect("an address of another tenant is free, and each account signs in with its own password", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [one, other] = [yield* makeTenant(service.database), yield* makeTenant(service.database)]
      const first = yield* makeAccount(service, [], { tenantId: one })
      const { key } = yield* makeKey(service, ["accounts:write"], { tenantId: other })
      const body = { email: first.email, name: "Ada", password: otherPassphrase, roleIds: [] }
      const second = yield* service.call("POST", path, { key, body })
      assert.strictEqual(second.status, 201, second.text)
      assertProblem(yield* service.call("POST", path, { key, body }), 409, "account-email-taken")
      const third = yield* makeAccount(service, [], { email: first.email, password: otherPassphrase })
      const who = (password: string, members: object = {}) =>
        Effect.map(
          service.call("POST", "/api/auth/login", { key: null, body: { email: first.email, password, ...members } }),
          (answer): string | number => answer.body.account?.id ?? answer.status
        )
      assert.strictEqual(yield* who(passphrase), first.id)
      assert.strictEqual(yield* who(otherPassphrase), second.body.id)
      assert.strictEqual(yield* who(otherPassphrase, { tenantId: other }), second.body.id)
      assert.strictEqual(yield* who(otherPassphrase, { tenantId: one }), 401)
      yield* service.call("DELETE", `${path}/${second.body.id}`)
      assert.strictEqual(yield* who(otherPassphrase), third.id)
    })
  )

  it.effect("409: the deletion of a role that an account has", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id, roleIds } = yield* makeAccount(service, ["roles:read"])
      const role = `/api/roles/${roleIds[0]}`
      assertProblem(yield* service.call("DELETE", role), 409, "role-in-use")
      yield* service.call("DELETE", `${path}/${id}`)
      assert.strictEqual((yield* service.call("DELETE", role)).status, 204)
    })
  )

  it.effect("409: nobody suspends, deletes or gives a password to the account that it came with", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service, ["*:*"])
      const token = yield* signIn(service, account)
      for (const body of [{ status: "suspended" }, { password: "nine brown otters at dusk" }]) {
        const answer = yield* service.call("PATCH", `${path}/${account.id}`, bearer(token, { body }))
        assertProblem(answer, 409, "account-is-caller")
      }
      assertProblem(yield* service.call("DELETE", `${path}/${account.id}`, bearer(token)), 409, "account-is-caller")
      const renamed = yield* service.call("PATCH", `${path}/${account.id}`, bearer(token, { body: { name: "Me" } }))
      assert.strictEqual(renamed.status, 200, renamed.text)
    })
  )

  it.effect("a tenant's caller sees, makes and changes accounts of its tenant only", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [one, other] = [yield* makeTenant(service.database), yield* makeTenant(service.database)]
      const { key } = yield* makeKey(service, ["*:*"], { tenantId: one })
      const foreign = yield* makeAccount(service, [], { tenantId: other })
      const ofSystem = yield* makeAccount(service)
      for (const { id } of [foreign, ofSystem]) {
        assertProblem(yield* service.call("GET", `${path}/${id}`, { key }), 404, "account-not-found")
        const change = yield* service.call("PATCH", `${path}/${id}`, { key, body: { name: "Mine" } })
        assertProblem(change, 404, "account-not-found")
        assertProblem(yield* service.call("DELETE", `${path}/${id}`, { key }), 404, "account-not-found")
      }
      for (const tenantId of [other, null]) {
        assertProblem(yield* service.call("POST", path, { key, body: valid({ tenantId }) }), 403, "forbidden")
      }
      const user = yield* service.call("POST", "/api/trial-users", {
        body: { firstName: "A", lastName: "B", email: newEmail() }
      })
      const linked = yield* service.call("POST", path, { key, body: valid({ trialUserId: user.body.id }) })
      assertProblem(linked, 403, "forbidden")
      const own = yield* service.call("POST", path, { key, body: valid() })
      assert.strictEqual(own.body.tenantId, one)
      const listed = yield* service.call("GET", path, { key })
      assert.deepStrictEqual(
        listed.body.items.map(({ id }: { readonly id: string }) => id),
        [own.body.id]
      )
    })
  )

  it.effect("a tenant's account with every capability is kept out of the installation", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const account = yield* makeAccount(service, ["*:*"], { tenantId })
      const token = yield* signIn(service, account)
      assertProblem(yield* service.call("GET", "/api/tenants", bearer(token)), 403, "forbidden")
      assert.strictEqual((yield* service.call("GET", path, bearer(token))).status, 200)
      const me = yield* service.call("GET", "/api/auth/me", bearer(token))
      assert.strictEqual(me.body.tenant.id, tenantId)
      assert.strictEqual(me.body.account.id, account.id)
    })
  )
})
