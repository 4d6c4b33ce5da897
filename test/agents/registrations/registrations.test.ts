import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import * as oauth from "oauth4webapi"
import { documented, type Json } from "../../contract/document.ts"
import { faultsOf } from "../../contract/validator.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import {
  bearer,
  makeRegistration,
  makeRegistrationToken,
  register,
  registerPath,
  tokensPath,
  withToken
} from "../../support/registrations.ts"
import { type Answer, serviceLayer, sharedServiceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

/** Decides about a registration; an approval that names no scopes is of what is read before. */
const decide = Effect.fnUntraced(function* (
  service: Service,
  id: string | number,
  decision: "approve" | "reject",
  body: object = {},
  key?: string
) {
  const etag =
    decision === "reject" || "scopes" in body
      ? null
      : (yield* service.call("GET", `/api/applications/${id}/registration`)).headers.get("etag")
  return yield* service.call("POST", `/api/applications/${id}/${decision}`, {
    ...(decision === "reject" ? {} : { body }),
    ...(key === undefined ? {} : { key }),
    ...(etag === null ? {} : { headers: { "if-match": etag } })
  })
})

/** The service's answer to a token that does not count, whatever the reason. */
const assertRefused = (answer: Answer, isPresented = true): void => {
  assert.strictEqual(answer.status, 401, answer.text)
  assert.deepStrictEqual(answer.body, { error: "invalid_token", error_description: "The token is not accepted." })
  assert.strictEqual(
    answer.headers.get("www-authenticate"),
    `Bearer realm="application-manager"${isPresented ? ', error="invalid_token", error_description="The token is not accepted."' : ""}`
  )
}

const statusOf = (service: Service, id: string) =>
  Effect.map(service.call("GET", `/api/applications/${id}`), ({ body }) => body.status as string)

/** What the audit log says of an application, the oldest first. */
const entriesOf = Effect.fnUntraced(function* (service: Service, id: string) {
  const { body } = yield* service.call("GET", `/api/audit-logs?entityType=Application&entityId=${id}&limit=200`)
  return (body.items as ReadonlyArray<{ readonly actionType: string; readonly userId: string }>)
    .map(({ actionType, userId }) => `${actionType} by ${userId}`)
    .toReversed()
})

const schemaOf = (operationId: string, status: number): Json =>
  documented.find((operation) => operation.operationId === operationId)?.responses[status]?.content?.[
    "application/json"
  ]?.schema ?? assert.fail(`${operationId} does not say what it answers with ${status}`)

const works = (service: Service, key: string, path = "/api/agents") =>
  Effect.map(service.call("GET", path, { key }), ({ status }) => status)

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("self-registration", (it) => {
  it.effect("pending, approved, and the secret is told once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const metadata = {
        client_uri: "https://billing.example.com",
        redirect_uris: ["https://billing.example.com/callback", "http://127.0.0.1/cb", "com.example.app:/cb"],
        contacts: ["ops@example.com"],
        software_id: "4NRB1",
        software_version: "2.1"
      }
      const client = yield* makeRegistration(service, ["agents:read", "llm:complete"], { ...metadata, unknown: [[1]] })
      const pending = yield* client.get
      assert.strictEqual(pending.status, 200, pending.text)
      assert.deepInclude(pending.body, {
        ...metadata,
        client_id: client.client_id,
        client_name: "Billing agent",
        registration_access_token: client.registration_access_token,
        status: "pending",
        scope: "agents:read llm:complete",
        granted_scope: ""
      })
      assert.notProperty(pending.body, "unknown")
      assert.notProperty(pending.body, "client_secret")
      assert.match(pending.body.registration_client_uri, new RegExp(`${client.path}$`))
      const { body: listed } = yield* service.call("GET", "/api/applications?status=pending&limit=200")
      assert.include(
        listed.items.map(({ id }: { readonly id: number }) => String(id)),
        client.client_id
      )
      const seen = yield* service.call("GET", `/api/applications/${client.client_id}/registration`)
      assert.deepInclude(seen.body, {
        status: "pending",
        redirectUris: metadata.redirect_uris,
        requestedScopes: ["agents:read", "llm:complete"],
        grantedScopes: [],
        apiKeyId: null
      })

      const approved = yield* decide(service, client.client_id, "approve")
      assert.strictEqual(approved.status, 200, approved.text)
      assert.deepInclude(approved.body, { status: "active", grantedScopes: ["agents:read", "llm:complete"] })
      assert.notInclude(approved.text, "amk_")
      // HEAD shows no secret, so it does not count.
      assert.strictEqual((yield* client.head).status, 200)
      const answers = yield* Effect.all(
        Array.from({ length: 4 }, () => client.get),
        { concurrency: "unbounded" }
      )
      const told = answers.filter(({ body }) => body.client_secret !== undefined)
      assert.lengthOf(told, 1)
      assert.deepInclude(told[0]?.body, { status: "active", client_secret_expires_at: 0 })
      const secret = told[0]?.body.client_secret as string
      assert.strictEqual(yield* works(service, secret), 200)
      assert.strictEqual(yield* works(service, secret, "/api/trial-users"), 403)
      const { body: key } = yield* service.call("GET", `/api/api-keys/${approved.body.apiKeyId}`)
      assert.deepInclude(key, {
        applicationId: Number(client.client_id),
        createdBy: "service-account",
        expiresAt: null
      })
      assert.isString(key.tenantId)
      assert.deepStrictEqual(yield* entriesOf(service, client.client_id), [
        "ApplicationRegistered by anonymous",
        "ApplicationApproved by service-account",
        "ApplicationSecretDelivered by anonymous"
      ])
      assertProblem(yield* decide(service, client.client_id, "approve", {}), 409, "application-not-pending")
      assertProblem(yield* decide(service, client.client_id, "reject"), 409, "application-not-pending")
    })
  )

  it.effect("the secret is at rest only encrypted, and its tokens only as hashes", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { token } = yield* makeRegistrationToken(service)
      const client = withToken(service, yield* register(service, token, {}))
      yield* decide(service, client.client_id, "approve", {})
      const stored = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly row: string }>`
          SELECT r::text || encode(r.sealed_secret, 'escape') AS row FROM application_registrations r
          WHERE id = ${Number(client.client_id)}
          UNION ALL SELECT t::text FROM registration_tokens t`
      )
      const secret = (yield* client.get).body.client_secret as string
      const text = stored.map(({ row }) => row).join("\n")
      for (const hidden of [secret, token, client.registration_access_token]) {
        assert.isAbove(hidden.length, 40)
        assert.notInclude(text, hidden)
        assert.notInclude(text, Buffer.from(hidden).toString("hex"))
      }
    })
  )

  it.effect("rejected: no key, no change, no approval; it can be read and deleted", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const client = yield* makeRegistration(service, ["llm:complete"])
      const rejected = yield* decide(service, client.client_id, "reject")
      assert.deepInclude(rejected.body, { status: "rejected", apiKeyId: null })
      assertProblem(yield* decide(service, client.client_id, "approve", {}), 409, "application-not-pending")
      const { body } = yield* client.get
      assert.strictEqual(body.status, "rejected")
      assert.notProperty(body, "client_secret")
      const refused = yield* client.put({ client_name: "Better now" })
      assert.strictEqual(refused.status, 403, refused.text)
      assert.strictEqual(refused.body.error, "access_denied")
      assert.strictEqual((yield* client.delete).status, 204)
      assertRefused(yield* client.get)
      assertProblem(yield* service.call("GET", `/api/applications/${client.client_id}`), 404, "application-not-found")
      assert.deepStrictEqual(
        (yield* entriesOf(service, client.client_id)).slice(-2),
        ["ApplicationDeregistered by anonymous", "ApplicationDeleted by system"].toSorted().toReversed()
      )
    })
  )

  it.effect("rejected and reconsidered: an administrator sets it to pending again", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const client = yield* makeRegistration(service, ["agents:read"])
      yield* decide(service, client.client_id, "reject")
      yield* service.call("PATCH", `/api/applications/${client.client_id}`, { body: { status: "pending" } })
      assert.strictEqual((yield* decide(service, client.client_id, "approve")).status, 200)
      assert.strictEqual(yield* works(service, (yield* client.get).body.client_secret), 200)
    })
  )

  it.effect("widened: pending again with the old scopes until it is approved, or rejected", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const client = yield* makeRegistration(service, ["agents:read"])
      yield* decide(service, client.client_id, "approve")
      const secret = (yield* client.get).body.client_secret as string
      const widened = yield* client.put({ client_name: "Other name", scope: "agents:read trial-users:read" })
      assert.strictEqual(widened.status, 200, widened.text)
      assert.deepInclude(widened.body, {
        status: "pending",
        client_name: "Other name",
        scope: "agents:read trial-users:read",
        granted_scope: "agents:read"
      })
      // What was approved under a name keeps it.
      const { body: application } = yield* service.call("GET", `/api/applications/${client.client_id}`)
      assert.strictEqual(application.name, "Billing agent")
      assert.strictEqual(yield* works(service, secret), 200)
      assert.strictEqual(yield* works(service, secret, "/api/audit-logs"), 403)

      const rejected = yield* decide(service, client.client_id, "reject")
      assert.deepInclude(rejected.body, { status: "active", requestedScopes: ["agents:read"] })
      assert.strictEqual(yield* works(service, secret), 200)

      yield* client.put({ scope: "agents:read audit-logs:read" })
      const elsewhere = { tenantId: yield* makeTenant(service.database) }
      assertProblem(yield* decide(service, client.client_id, "approve", elsewhere), 400, "validation-failed")
      const approved = yield* decide(service, client.client_id, "approve", {})
      assert.deepInclude(approved.body, { status: "active", grantedScopes: ["agents:read", "audit-logs:read"] })
      assert.strictEqual(yield* works(service, secret, "/api/audit-logs"), 200)
      assert.notProperty((yield* client.get).body, "client_secret")

      const narrowed = yield* client.put({ scope: "audit-logs:read" })
      assert.deepInclude(narrowed.body, { status: "active", granted_scope: "audit-logs:read" })
      assert.strictEqual(yield* works(service, secret), 403)
      assert.strictEqual(yield* works(service, secret, "/api/audit-logs"), 200)
    })
  )

  it.effect("what an administrator took from the key does not come back by a change of the client", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const client = yield* makeRegistration(service, ["agents:read", "audit-logs:read"])
      const { apiKeyId } = (yield* decide(service, client.client_id, "approve")).body
      const secret = (yield* client.get).body.client_secret as string
      yield* service.call("PATCH", `/api/api-keys/${apiKeyId}`, { body: { scopes: ["audit-logs:read"] } })
      const { body } = yield* client.put({ scope: "agents:read audit-logs:read" })
      assert.deepInclude(body, { status: "pending", granted_scope: "audit-logs:read" })
      assert.strictEqual(yield* works(service, secret), 403)
      // Neither does a key that was revoked: a new approval issues a new one.
      yield* service.call("DELETE", `/api/api-keys/${apiKeyId}`)
      const approved = yield* decide(service, client.client_id, "approve", { scopes: ["audit-logs:read"] })
      assert.notStrictEqual(approved.body.apiKeyId, apiKeyId)
      const again = yield* client.get
      assert.strictEqual(yield* works(service, again.body.client_secret, "/api/audit-logs"), 200)
      assert.strictEqual(yield* works(service, secret, "/api/audit-logs"), 401)
    })
  )

  it.effect("narrowing and deletion reach the keys that took the place of the first", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const client = yield* makeRegistration(service, ["agents:read", "audit-logs:read"])
      const { apiKeyId } = (yield* decide(service, client.client_id, "approve")).body
      const first = (yield* client.get).body.client_secret as string
      const { body: rotated } = yield* service.call("POST", `/api/api-keys/${apiKeyId}/rotate`, { body: {} })
      assert.strictEqual((yield* client.put({ scope: "audit-logs:read" })).body.granted_scope, "audit-logs:read")
      for (const key of [first, rotated.key]) {
        assert.strictEqual(yield* works(service, key), 403)
        assert.strictEqual(yield* works(service, key, "/api/audit-logs"), 200)
      }
      assert.strictEqual((yield* client.delete).status, 204)
      for (const key of [first, rotated.key]) assert.strictEqual(yield* works(service, key, "/api/audit-logs"), 401)
      // Keys belong to the application, so that it stays, and does nothing any more.
      assert.strictEqual(yield* statusOf(service, client.client_id), "suspended")
      assertRefused(yield* client.get)
      assertProblem(
        yield* service.call("GET", `/api/applications/${client.client_id}/registration`),
        404,
        "registration-not-found"
      )
    })
  )

  it.effect("a key of a later approval leaves none of those before it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const client = yield* makeRegistration(service, ["agents:read", "audit-logs:read"])
      const { apiKeyId } = (yield* decide(service, client.client_id, "approve")).body
      const first = (yield* client.get).body.client_secret as string
      const { body: rotated } = yield* service.call("POST", `/api/api-keys/${apiKeyId}/rotate`, { body: {} })
      yield* service.call("DELETE", `/api/api-keys/${rotated.id}`)
      assert.strictEqual(yield* works(service, first), 200)
      yield* client.put({ scope: "agents:read audit-logs:read" })
      yield* decide(service, client.client_id, "approve")
      assert.strictEqual(yield* works(service, (yield* client.get).body.client_secret), 200)
      assert.strictEqual(yield* works(service, first), 401)
    })
  )

  it.effect("a key that was revoked before it was read is not told", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const client = yield* makeRegistration(service, [])
      const { apiKeyId } = (yield* decide(service, client.client_id, "approve")).body
      yield* service.call("DELETE", `/api/api-keys/${apiKeyId}`)
      assert.notProperty((yield* client.get).body, "client_secret")
    })
  )

  it.effect("a suspended application's key is refused on every replica, until the application is active again", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const there = yield* startService(service.database)
      const client = yield* makeRegistration(service, ["agents:read"])
      yield* decide(service, client.client_id, "approve")
      const secret = (yield* client.get).body.client_secret as string
      const set = (status: string) =>
        service.call("PATCH", `/api/applications/${client.client_id}`, { body: { status } })
      assert.strictEqual(yield* works(there, secret), 200)
      for (const status of ["suspended", "rejected"]) {
        yield* set(status)
        assert.strictEqual(yield* works(service, secret), 401)
        yield* eventually(works(there, secret), (answered) => answered === 401)
      }
      const { body } = yield* service.call("GET", "/api/audit-logs?actionType=ApiKeyRefused&limit=200")
      assert.include(
        body.items.map(({ reason }: { readonly reason: string }) => reason),
        "application-suspended"
      )
      for (const status of ["active", "pending"]) {
        yield* set(status)
        assert.strictEqual(yield* works(service, secret), 200)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("the key belongs to the tenant of the approval, and ends with the authority of who approved", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const expiresAt = "2099-01-01T00:00:00.000Z"
      const approver = yield* makeKey(service, ["applications:write", "agents:read"], { expiresAt })
      const client = yield* makeRegistration(service, ["agents:read"])
      const approved = yield* decide(service, client.client_id, "approve", { tenantId }, approver.key)
      assert.strictEqual(approved.status, 200, approved.text)
      const { body: key } = yield* service.call("GET", `/api/api-keys/${approved.body.apiKeyId}`)
      assert.deepInclude(key, { tenantId, expiresAt, createdBy: `api-key:${approver.id}` })
      const { body } = yield* client.get
      assert.strictEqual(body.client_secret_expires_at, Date.parse(expiresAt) / 1000)
      const { body: agents } = yield* service.call("GET", "/api/agents?limit=200", { key: body.client_secret })
      assert.deepStrictEqual(agents.items, [])

      const unknown = yield* makeRegistration(service, [])
      const nowhere = { tenantId: "0198a5b0-7c00-7000-8000-00000000002a" }
      assertProblem(yield* decide(service, unknown.client_id, "approve", nowhere), 404, "tenant-not-found")
      assert.strictEqual(yield* statusOf(service, unknown.client_id), "pending")
      const within = yield* makeKey(service, ["*:*"], { tenantId })
      for (const decision of ["approve", "reject"] as const) {
        assertProblem(yield* decide(service, unknown.client_id, decision, undefined, within.key), 403, "forbidden")
        const none = yield* decide(service, "2147483647", decision)
        assertProblem(none, 404, "application-not-found")
      }
    })
  )

  it.effect("an approval grants what the approver saw, of a registration and of a widened one", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const client = yield* makeRegistration(service, ["agents:read"])
      const path = `/api/applications/${client.client_id}`
      const read = service.call("GET", `${path}/registration`)
      const approve = (body: object, etag?: string) =>
        service.call("POST", `${path}/approve`, {
          body,
          ...(etag === undefined ? {} : { headers: { "if-match": etag } })
        })
      for (const [before, widened] of [
        ["agents:read", "*:*"],
        ["agents:read dashboard:read", "agents:read llm:complete"]
      ] as const) {
        yield* client.put({ scope: before })
        const seen = (yield* read).headers.get("etag") ?? ""
        for (const blind of [
          approve({}),
          approve({}, "*"),
          approve({ tenantId: "0198a5b0-7c00-7000-8000-00000000002a" })
        ]) {
          assertProblem(yield* blind, 428, "precondition-required")
        }
        yield* client.put({ scope: widened })
        assertProblem(yield* approve({}, seen), 412, "version-mismatch")
        assertProblem(yield* approve({ scopes: ["agents:read"] }, seen), 412, "version-mismatch")
        assert.strictEqual(yield* statusOf(service, client.client_id), "pending")
        yield* client.put({ scope: before })
        const now = (yield* read).headers.get("etag") ?? ""
        const approved = yield* approve({}, now)
        assert.deepStrictEqual([approved.status, approved.body.grantedScopes], [200, before.split(" ")], approved.text)
        assert.strictEqual(approved.headers.get("etag"), (yield* read).headers.get("etag"))
      }
    })
  )

  it.effect("an application that did not register itself has nothing to approve", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body } = yield* service.call("POST", "/api/applications", { body: { name: "Made by hand" } })
      yield* service.call("PATCH", `/api/applications/${body.id}`, { body: { status: "pending" } })
      assertProblem(yield* decide(service, body.id, "approve", {}), 404, "registration-not-found")
      assertProblem(
        yield* service.call("GET", `/api/applications/${body.id}/registration`),
        404,
        "registration-not-found"
      )
    })
  )

  it.effect.each([
    ["nothing", {}],
    [
      "a public client",
      { token_endpoint_auth_method: "none", grant_types: ["authorization_code"], response_types: ["code"] }
    ],
    ["a secret", { token_endpoint_auth_method: "client_secret_post", grant_types: ["client_credentials"] }],
    ["its keys", { token_endpoint_auth_method: "private_key_jwt", grant_types: ["urn:example:own", "refresh_token"] }],
    ["null", { token_endpoint_auth_method: null, grant_types: null, response_types: null }]
  ] as const)("the answer has what holds at the token endpoint where it asks for %s", ([, asked]) =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { token } = yield* makeRegistrationToken(service)
      const registered = yield* register(service, token, { client_name: "Asks", ...asked })
      assert.strictEqual(registered.status, 201, registered.text)
      const holds = { token_endpoint_auth_method: "none", grant_types: [], response_types: [] }
      assert.deepInclude(registered.body, holds)
      const client = withToken(service, registered)
      const read = yield* client.get
      assert.deepStrictEqual(read.body, registered.body)
      // A client sends its whole registration back, without what the service alone says (RFC 7592 §2.2).
      const { client_id_issued_at: _, registration_access_token: __, registration_client_uri: ___, ...own } = read.body
      assert.deepStrictEqual((yield* client.put(own)).body, read.body)
      assert.deepStrictEqual((yield* client.put({ ...own, ...asked })).body, read.body)
    })
  )

  it.effect("oauth4webapi registers, unmodified", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { token } = yield* makeRegistrationToken(service)
      const registered = yield* Effect.promise(async () => {
        const server = { issuer: service.url, registration_endpoint: `${service.url}${registerPath}` }
        const answer = await oauth.dynamicClientRegistrationRequest(
          server,
          { client_name: "Strict", token_endpoint_auth_method: "client_secret_basic" },
          { initialAccessToken: token, [oauth.allowInsecureRequests]: true }
        )
        return oauth.processDynamicClientRegistrationResponse(answer)
      })
      assert.deepInclude(registered, { client_name: "Strict", token_endpoint_auth_method: "none" })
    })
  )

  it.effect("an unknown client and a wrong token get one answer; no other credential counts", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const client = yield* makeRegistration(service, [])
      const other = yield* makeRegistration(service, [])
      const at = (id: string, headers: Record<string, string>, method = "GET") =>
        service.call(method, `${registerPath}/${id}`, { key: null, headers, ...(method === "PUT" ? { body: {} } : {}) })
      for (const [id, headers] of [
        [client.client_id, bearer(other.registration_access_token)],
        [client.client_id, bearer("amr_none")],
        [client.client_id, {}],
        [client.client_id, { "x-api-key": service.serviceKey }],
        [client.client_id, { authorization: `Basic ${Buffer.from("a:b").toString("base64")}` }],
        ["2147483647", bearer(client.registration_access_token)],
        ["0", bearer(client.registration_access_token)],
        ["1", bearer(client.registration_access_token)],
        [`0${client.client_id}`, bearer(client.registration_access_token)],
        ["9".repeat(300), bearer(client.registration_access_token)],
        ["%00", bearer(client.registration_access_token)],
        ["x'--", bearer(client.registration_access_token)]
      ] as const) {
        const isPresented = "authorization" in headers && headers.authorization.startsWith("Bearer")
        for (const method of ["GET", "PUT", "DELETE"]) assertRefused(yield* at(id, headers, method), isPresented)
      }
      assert.strictEqual((yield* client.get).status, 200)
      for (const method of ["POST", "PATCH"]) {
        const wrong = yield* service.call(method, client.path, { body: {} })
        assertProblem(wrong, 405, "method-not-allowed")
        assert.strictEqual(wrong.headers.get("allow"), "GET, PUT, DELETE, HEAD, OPTIONS")
      }
      // Its token opens the registration alone.
      const elsewhere = yield* service.call("GET", "/api/auth/me", {
        key: null,
        headers: bearer(client.registration_access_token)
      })
      assertProblem(elsewhere, 401, "unauthenticated")
    })
  )

  it.effect("registration tokens: made, listed, found, used up, deleted, expired; shown once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const made = yield* service.call("POST", tokensPath, { body: { uses: 2, expiresInSeconds: 60 } })
      assert.strictEqual(made.status, 201, made.text)
      const { token, ...shown } = made.body
      assert.match(token, /^ami_[\w-]{43}$/)
      assert.deepInclude(shown, { uses: 2, remainingUses: 2, createdBy: "service-account" })
      assert.strictEqual(Date.parse(shown.expiresAt) - Date.parse(shown.createdAt), 60_000)
      const at = `${tokensPath}/${shown.id}`
      assert.strictEqual(made.headers.get("location"), at)
      assert.deepStrictEqual((yield* service.call("GET", at)).body, shown)
      const first = yield* register(service, token, {})
      assert.strictEqual(first.status, 201, first.text)
      // What is refused costs no use.
      assert.strictEqual((yield* register(service, token, { redirect_uris: ["javascript:alert(1)"] })).status, 400)
      assert.strictEqual((yield* service.call("GET", at)).body.remainingUses, 1)
      assert.strictEqual((yield* register(service, token, {})).status, 201)
      assertRefused(yield* register(service, token, {}))
      const { body: seen } = yield* service.call("GET", `/api/applications/${first.body.client_id}/registration`)
      assert.strictEqual(seen.registrationTokenId, shown.id)
      const { text: list } = yield* service.call("GET", `${tokensPath}?limit=200`)
      assert.include(list, shown.id)
      assert.notInclude(list, token)
      const { body: log } = yield* service.call("GET", `/api/audit-logs?entityId=${shown.id}`)
      assert.sameMembers(
        log.items.map(({ actionType }: { readonly actionType: string }) => actionType),
        ["RegistrationTokenCreated", "RegistrationTokenUsed", "RegistrationTokenUsed"]
      )

      const { id, token: deleted } = yield* makeRegistrationToken(service)
      assert.strictEqual((yield* service.call("DELETE", `${tokensPath}/${id}`)).status, 204)
      assertProblem(yield* service.call("DELETE", `${tokensPath}/${id}`), 404, "registration-token-not-found")
      assertRefused(yield* register(service, deleted, {}))
      const old = yield* makeRegistrationToken(service)
      yield* asSuperuser(
        service.database,
        (sql) => sql`UPDATE registration_tokens SET expires_at = now() - interval '1 second' WHERE id = ${old.id}`
      )
      assertRefused(yield* register(service, old.token, {}))
      for (const body of [{ uses: 0 }, { uses: 1.5 }, { expiresInSeconds: 0 }, { uses: "1" }, { more: 1 }]) {
        assertProblem(yield* service.call("POST", tokensPath, { body }), 400, "validation-failed")
      }
      const ending = yield* makeKey(service, ["applications:write"], { expiresAt: "2099-01-01T00:00:00.000Z" })
      const { body: long } = yield* service.call("POST", tokensPath, { key: ending.key, body: { expiresInSeconds: 1 } })
      assert.isBelow(Date.parse(long.expiresAt), Date.parse("2099-01-01T00:00:00.000Z"))
    })
  )

  it.effect("one use is spent once, whichever replica is asked", () =>
    Effect.gen(function* () {
      const here = yield* TestService
      const there = yield* startService(here.database)
      const { id, token } = yield* makeRegistrationToken(here, { uses: 3 })
      const answers = yield* Effect.all(
        Array.from({ length: 16 }, (_, index) => register(index % 2 === 0 ? here : there, token, {})),
        { concurrency: "unbounded" }
      )
      const registered = answers.filter(({ status }) => status === 201)
      assert.lengthOf(registered, 3)
      assert.strictEqual(new Set(registered.map(({ body }) => body.client_id)).size, 3)
      for (const answer of answers) if (answer.status !== 201) assertRefused(answer)
      assert.strictEqual((yield* here.call("GET", `${tokensPath}/${id}`)).body.remainingUses, 0)
    }).pipe(Effect.scoped)
  )

  it.effect("of an approval, a rejection and a deletion at once one alone decides", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (let round = 0; round < 6; round++) {
        const client = yield* makeRegistration(service, ["agents:read"])
        const [approved, rejected, again, deleted] = yield* Effect.all(
          [
            decide(service, client.client_id, "approve", { scopes: ["agents:read"] }),
            decide(service, client.client_id, "reject"),
            decide(service, client.client_id, "approve", { scopes: ["agents:read"] }),
            client.delete
          ],
          { concurrency: "unbounded" }
        )
        assert.strictEqual(deleted.status, 204, deleted.text)
        const decided = [approved, rejected, again].filter(({ status }) => status === 200)
        assert.isAtMost(decided.length, 1)
        for (const { status, text } of [approved, rejected, again]) assert.oneOf(status, [200, 404, 409], text)
        assertRefused(yield* client.get)
        const keys = yield* asSuperuser(
          service.database,
          (sql) => sql<{ readonly live: number }>`
            SELECT count(*)::integer AS live FROM api_keys
            WHERE application_id = ${Number(client.client_id)} AND revoked_at IS NULL`
        )
        assert.strictEqual(keys[0]?.live, 0)
      }
    })
  )

  it.effect.each<readonly [string, unknown, string]>([
    ["a script as a redirect URI", { redirect_uris: ["javascript:alert(1)"] }, "invalid_redirect_uri"],
    ["a script with a tab", { redirect_uris: ["java\tscript:alert(1)"] }, "invalid_redirect_uri"],
    ["a script with a dot", { redirect_uris: ["JavaScript:alert(1)//a.b"] }, "invalid_redirect_uri"],
    ["data as a redirect URI", { redirect_uris: ["data:text/html,x"] }, "invalid_redirect_uri"],
    ["a file", { redirect_uris: ["file:///etc/passwd"] }, "invalid_redirect_uri"],
    ["http elsewhere", { redirect_uris: ["http://a.example/cb"] }, "invalid_redirect_uri"],
    ["http on a name like localhost", { redirect_uris: ["http://localhost.evil.example/"] }, "invalid_redirect_uri"],
    ["a fragment", { redirect_uris: ["https://a.example/#x"] }, "invalid_redirect_uri"],
    ["a user", { redirect_uris: ["https://a.example@evil.example/"] }, "invalid_redirect_uri"],
    ["a backslash", { redirect_uris: ["https:\\\\evil.example"] }, "invalid_redirect_uri"],
    ["no authority", { redirect_uris: ["https:evil.example"] }, "invalid_redirect_uri"],
    ["a relative redirect URI", { redirect_uris: ["/cb"] }, "invalid_redirect_uri"],
    ["a wildcard of everything", { redirect_uris: ["*"] }, "invalid_redirect_uri"],
    ["redirect URIs that are no array", { redirect_uris: "https://a.example" }, "invalid_redirect_uri"],
    ["a nested redirect URI", { redirect_uris: [["https://a.example"]] }, "invalid_redirect_uri"],
    [
      "too many",
      { redirect_uris: Array.from({ length: 51 }, (_, i) => `https://a.example/${i}`) },
      "invalid_redirect_uri"
    ],
    ["a long one", { redirect_uris: [`https://a.example/${"a".repeat(2048)}`] }, "invalid_redirect_uri"],
    ["a blank name", { client_name: " " }, "invalid_client_metadata"],
    ["a name that nobody sees", { client_name: "\u200B\u3164" }, "invalid_client_metadata"],
    ["a name of another direction", { client_name: "\u202Egnp.exe" }, "invalid_client_metadata"],
    ["a name with a line", { client_name: "a\nb" }, "invalid_client_metadata"],
    ["a name with NUL", { client_name: "a\0b" }, "invalid_client_metadata"],
    ["half a character", '{"client_name":"\\ud800"}', "invalid_client_metadata"],
    ["a long name", { client_name: "a".repeat(101) }, "invalid_client_metadata"],
    ["a number as name", { client_name: 1 }, "invalid_client_metadata"],
    ["an object as name", { client_name: { toString: "x" } }, "invalid_client_metadata"],
    ["a script as page", { client_uri: "javascript:alert(1)" }, "invalid_client_metadata"],
    ["a private page", { client_uri: "http://169.254.169.254/latest" }, "invalid_client_metadata"],
    ["a page on this machine", { client_uri: "http://localhost:11402/" }, "invalid_client_metadata"],
    ["a scope of nobody", { scope: "billing:read" }, "invalid_client_metadata"],
    ["a scope in capitals", { scope: "LLM:COMPLETE" }, "invalid_client_metadata"],
    ["scopes as an array", { scope: ["llm:complete"] }, "invalid_client_metadata"],
    ["a prototype as scope", { scope: "__proto__:read" }, "invalid_client_metadata"],
    ["keys over http", { jwks_uri: "http://8.8.8.8/jwks" }, "invalid_client_metadata"],
    ["keys at the metadata service", { jwks_uri: "https://169.254.169.254/jwks" }, "invalid_client_metadata"],
    ["keys on this machine", { jwks_uri: "https://localhost/jwks" }, "invalid_client_metadata"],
    ["keys on this machine in hex", { jwks_uri: "https://0x7f000001/jwks" }, "invalid_client_metadata"],
    ["keys on this machine as IPv6", { jwks_uri: "https://[::ffff:127.0.0.1]/jwks" }, "invalid_client_metadata"],
    ["keys in a private network", { jwks_uri: "https://10.0.0.1/jwks" }, "invalid_client_metadata"],
    ["keys nowhere", { jwks_uri: "https://nowhere.invalid/jwks" }, "invalid_client_metadata"],
    ["keys twice", { jwks: { keys: [] }, jwks_uri: "https://8.8.8.8/jwks" }, "invalid_client_metadata"],
    ["no keys", { jwks: { keys: [] } }, "invalid_client_metadata"],
    ["a secret key", { jwks: { keys: [{ kty: "oct", k: "c2VjcmV0" }] } }, "invalid_client_metadata"],
    ["a key of nonsense", { jwks: { keys: [{ kty: "EC", crv: "P-256", x: "a", y: "b" }] } }, "invalid_client_metadata"],
    ["keys as a string", { jwks: "{}" }, "invalid_client_metadata"],
    ["a blank contact", { contacts: [""] }, "invalid_client_metadata"],
    ["a number as a method", { token_endpoint_auth_method: 1 }, "invalid_client_metadata"],
    ["methods as an array", { token_endpoint_auth_method: ["none"] }, "invalid_client_metadata"],
    ["grants as a string", { grant_types: "authorization_code" }, "invalid_client_metadata"],
    ["a number among the grants", { grant_types: ["authorization_code", 1] }, "invalid_client_metadata"],
    ["response types as an object", { response_types: { code: true } }, "invalid_client_metadata"],
    ["an array", [], "invalid_client_metadata"],
    ["null", "null", "invalid_client_metadata"],
    ["text", '"x"', "invalid_client_metadata"],
    ["no JSON", "{", "invalid_client_metadata"],
    ["nothing", "", "invalid_client_metadata"],
    ["a member twice", '{"client_name":"a","client_name":"b"}', "invalid_client_metadata"],
    ["arrays within arrays", `{"client_name":${"[".repeat(30_000)}${"]".repeat(30_000)}}`, "invalid_client_metadata"]
  ])("400 for %s", ([, body, error]) =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id, token } = yield* makeRegistrationToken(service)
      const answer = yield* register(service, token, body)
      assert.strictEqual(answer.status, 400, answer.text)
      assert.hasAllKeys(answer.body, ["error", "error_description"])
      assert.strictEqual(answer.body.error, error, answer.text)
      assert.match(answer.body.error_description, /^[\x20\x21\x23-\x5b\x5d-\x7e]{1,1000}$/)
      assert.strictEqual((yield* service.call("GET", `${tokensPath}/${id}`)).body.remainingUses, 1)
    })
  )

  it.effect("other bodies than small ones of JSON are refused, and only for who has a token", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { token } = yield* makeRegistrationToken(service)
      const large = { client_name: "a", padding: "x".repeat(65_536) }
      const answer = yield* register(service, token, large)
      assert.strictEqual(answer.status, 413, answer.text)
      assert.strictEqual(answer.body.error, "invalid_client_metadata")
      assertRefused(yield* register(service, undefined, large), false)
      assertRefused(yield* register(service, "ami_none", "{"))
      const form = yield* service.call("POST", registerPath, {
        key: null,
        body: "client_name=a",
        headers: { ...bearer(token), "content-type": "application/x-www-form-urlencoded" }
      })
      assert.strictEqual(form.status, 400, form.text)
    })
  )

  it.effect("public keys are kept, without what is not known of them; private ones are refused", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const pair = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" })
      const jwk = { ...pair.publicKey.export({ format: "jwk" }), kid: "one", alg: "ES256", use: "sig" }
      const client = yield* makeRegistration(service, [], { jwks: { keys: [{ ...jwk, more: { deep: [1] } }] } })
      assert.deepStrictEqual((yield* client.get).body.jwks, { keys: [jwk] })
      const secret = pair.privateKey.export({ format: "jwk" })
      const refused = yield* client.put({ jwks: { keys: [secret] } })
      assert.strictEqual(refused.body.error, "invalid_client_metadata", refused.text)
      assert.notInclude(refused.text, String(secret.d))
      assert.strictEqual((yield* client.put({ jwks: { keys: [jwk, jwk] } })).status, 400)
      const moved = yield* client.put({
        jwks: null,
        jwks_uri: "https://8.8.8.8/jwks.json",
        client_id: client.client_id
      })
      assert.strictEqual(moved.body.jwks_uri, "https://8.8.8.8/jwks.json", moved.text)
      assert.notProperty(moved.body, "jwks")
      assert.strictEqual((yield* client.put({ client_id: "1" })).status, 400)
    })
  )

  it.effect("a stranger's names take no slug, and need not be unique", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const names = ["Payroll", "Payroll", "x".repeat(100), "名前"]
      for (const client_name of names) yield* makeRegistration(service, [], { client_name })
      const { body } = yield* service.call("POST", "/api/applications", { body: { name: "Payroll" } })
      assert.strictEqual(body.slug, "payroll")
    })
  )

  it.effect("is in the metadata of the authorization server, and as the document says", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const path of ["oauth-authorization-server", "openid-configuration"]) {
        const { body } = yield* service.call("GET", `/.well-known/${path}`, { key: null })
        assert.match(body.registration_endpoint, new RegExp(`${registerPath}$`))
      }
      const { token } = yield* makeRegistrationToken(service)
      const registered = yield* register(service, token, { client_name: "In the document", scope: "llm:complete" })
      const client = withToken(service, registered)
      yield* decide(service, client.client_id, "approve")
      const stranger = withToken(service, { ...registered, body: { client_id: "1", registration_access_token: "x" } })
      for (const [operationId, answer] of [
        ["registration.register", registered],
        ["registration.register", yield* register(service, token, {})],
        ["registration.read", yield* client.get],
        ["registration.read", yield* stranger.get],
        ["registration.update", yield* client.put({ client_name: "b" })],
        ["registration.update", yield* client.put({ client_name: 1 })],
        ["registration.update", yield* stranger.put({})],
        ["registration.delete", yield* stranger.delete]
      ] as const) {
        assert.deepStrictEqual(faultsOf(schemaOf(operationId, answer.status), answer.body), [], answer.text)
      }
    })
  )
})

layer(serviceLayer({ Applications__OpenRegistration: "true", Applications__MaxOpenRegistrations: "3" }), {
  excludeTestServices: true,
  timeout: "60 seconds"
})("open registration", (it) => {
  it.effect("needs no token, takes none that is wrong, and waits for an approval all the same", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answer = yield* register(service, undefined, { scope: "*:*" })
      assert.strictEqual(answer.status, 201, answer.text)
      assert.deepInclude(answer.body, { status: "pending", scope: "*:*", granted_scope: "" })
      assertRefused(yield* register(service, "ami_none", {}))
      const seen = yield* service.call("GET", `/api/applications/${answer.body.client_id}/registration`)
      assert.deepInclude(seen.body, { registrationTokenId: null, clientName: null })
    })
  )

  it.effect("503 when as many as may wait do; who has a token still registers", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answers = yield* Effect.all(Array.from({ length: 4 }, () => register(service, undefined, {})))
      const last = answers.at(-1)
      assert.strictEqual(last?.status, 503, last?.text)
      assert.strictEqual(last?.body.error, "temporarily_unavailable")
      const { token } = yield* makeRegistrationToken(service)
      assert.strictEqual((yield* register(service, token, {})).status, 201)
      const waiting = answers.find(({ status }) => status === 201)
      yield* decide(service, waiting?.body.client_id, "reject")
      assert.strictEqual((yield* register(service, undefined, {})).status, 201)
    })
  )
})

layer(
  serviceLayer({
    Applications__OpenRegistration: "true",
    Api__RateLimit__Enabled: "true",
    Api__RateLimit__AnonymousPerMinute: "5"
  }),
  { excludeTestServices: true, timeout: "60 seconds" }
)("registration is limited by address", (it) => {
  it.effect("429 in OAuth's form, for the registration and for its URI", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answers = yield* Effect.all(Array.from({ length: 6 }, () => register(service, undefined, {})))
      assert.deepStrictEqual(
        answers.map(({ status }) => status),
        [201, 201, 201, 201, 201, 429]
      )
      assert.strictEqual(answers[5]?.body.error, "temporarily_unavailable")
      assert.isNotNull(answers[5]?.headers.get("retry-after"))
      assert.strictEqual((yield* withToken(service, answers[0] ?? assert.fail()).get).status, 429)
    })
  )
})
