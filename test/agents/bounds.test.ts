import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { bearer, login, makeAccount, makeOwnRole, newEmail, passphrase, signIn } from "../support/accounts.ts"
import {
  askToken,
  assertInvalidClient,
  assertionOf,
  makeAgent,
  makeKeyPair,
  registerKey,
  registration,
  tokenOf
} from "../support/agents.ts"
import { makeKey, makeTenant } from "../support/authority.ts"
import { assertProblem } from "../support/problem.ts"
import { make } from "../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"

const scopes = ["api-keys:*", "accounts:*", "agents:*", "llm:complete", "spend:*"]
const inMinutes = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString()
const isNoLater = (end: string, than: string) => assert.isAtMost(Date.parse(end), Date.parse(than))

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "what a bounded credential makes",
  (it) => {
    /** A caller whose key ends in ten minutes, and its tenant. */
    const ending = Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const expiresAt = inMinutes(10)
      const made = yield* makeKey(service, scopes, { tenantId, expiresAt })
      const call = (method: string, path: string, body?: unknown) =>
        service.call(method, path, { key: made.key, ...(body === undefined ? {} : { body }) })
      return { service, tenantId, expiresAt, key: made.key, call }
    })

    it.effect("an agent, its keys, its credentials and its tokens end with the caller's key", () =>
      Effect.gen(function* () {
        const { call, expiresAt, key, service } = yield* ending
        const agent = yield* make(service, "/api/agents", registration({ scopeCeiling: ["llm:complete"] }), key)
        assert.strictEqual(agent.expiresAt, expiresAt)
        const pair = makeKeyPair()
        const input = { kid: pair.kid, algorithm: pair.algorithm, publicKeyPem: pair.publicKeyPem }
        const keys = `/api/agents/${agent.id}/keys`
        assertProblem(yield* call("POST", keys, { ...input, validUntil: inMinutes(60) }), 403, "forbidden")
        isNoLater((yield* make(service, keys, input, key)).validUntil, expiresAt)
        const issued = yield* make(service, `/api/agents/${agent.id}/credentials`, { ttlSeconds: 3600 }, key)
        isNoLater(issued.expiresAt, expiresAt)

        const lasting = yield* registerKey(service, agent.id, makeKeyPair())
        assert.isAbove(Date.parse(lasting.validUntil), Date.parse(expiresAt))
        const own = { id: agent.id, tenantId: agent.tenantId, key: pair, keyId: "" }
        isNoLater((yield* tokenOf(service, own)).expiresAt, expiresAt)
        yield* asSuperuser(
          service.database,
          (sql) => sql`UPDATE agents SET expires_at = now() - interval '1 second' WHERE id = ${agent.id}`
        )
        assertProblem(
          yield* service.call("POST", `/api/agents/${agent.id}/credentials`, { body: {} }),
          409,
          "agent-not-active"
        )
        const plan = { body: { budgetUsd: 1 } }
        assertProblem(yield* service.call("POST", `/api/agents/${agent.id}/plans`, plan), 409, "agent-not-active")
        const other = yield* makeAgent(service)
        yield* asSuperuser(
          service.database,
          (sql) => sql`UPDATE agents SET expires_at = now() - interval '1 second' WHERE id = ${other.id}`
        )
        assertInvalidClient(yield* askToken(service, other.id, yield* assertionOf(service, other)))
      })
    )

    it.effect("what it is issued for an agent that stays ends with the key, and so do grants", () =>
      Effect.gen(function* () {
        const { call, expiresAt, key, service, tenantId } = yield* ending
        const members = { tenantId, scopeCeiling: ["llm:complete"] }
        const [agent, subject] = [yield* makeAgent(service, members), yield* makeAgent(service, members)]
        const issued = yield* make(service, `/api/agents/${agent.id}/credentials`, {}, key)
        isNoLater(issued.expiresAt, expiresAt)
        const path = `/api/agents/${agent.id}/delegations`
        const input = { subject: subject.id, subjectType: "agent", scopes: ["llm:complete"] }
        assertProblem(yield* call("POST", path, input), 403, "forbidden")
        assert.strictEqual((yield* make(service, path, { ...input, expiresAt }, key)).expiresAt, expiresAt)
        for (const body of [{ description: "changed" }, { scopeCeiling: [] }]) {
          assertProblem(yield* call("PATCH", `/api/agents/${agent.id}`, body), 403, "forbidden")
        }
        assert.strictEqual((yield* call("PATCH", `/api/agents/${agent.id}`, { status: "suspended" })).status, 200)
        assert.strictEqual((yield* call("DELETE", `/api/agents/${subject.id}`)).status, 204)
      })
    )

    it.effect("an account ends with it, and its sign-ins; one that stays is not changed", () =>
      Effect.gen(function* () {
        const { call, expiresAt, service, tenantId } = yield* ending
        const account = { email: newEmail(), name: "Ada", password: passphrase, roleIds: [] }
        const made = yield* call("POST", "/api/accounts", account)
        assert.deepInclude(made.body, { expiresAt, tenantId })
        const signedIn = yield* login(service, account)
        isNoLater(signedIn.body.expiresAt, expiresAt)
        const token: string = signedIn.body.token
        yield* asSuperuser(
          service.database,
          (sql) => sql`UPDATE accounts SET expires_at = now() - interval '1 second' WHERE id = ${made.body.id}`
        )
        assertProblem(yield* login(service, account), 401, "unauthenticated")
        assertProblem(yield* service.call("GET", "/api/auth/me", bearer(token)), 401, "unauthenticated")

        const lasting = yield* makeAccount(service, [], { tenantId })
        for (const body of [{ name: "Grace" }, { password: "nine brown otters at dusk" }]) {
          assertProblem(yield* call("PATCH", `/api/accounts/${lasting.id}`, body), 403, "forbidden")
        }
        assert.strictEqual((yield* call("PATCH", `/api/accounts/${lasting.id}`, { status: "suspended" })).status, 200)
      })
    )

    it.effect("a key of an account that ends, and a rotated key, end no later", () =>
      Effect.gen(function* () {
        const { call, expiresAt, service, tenantId } = yield* ending
        const other = yield* makeKey(service, ["llm:complete"], { tenantId })
        assertProblem(yield* call("PATCH", `/api/api-keys/${other.id}`, { name: "renamed" }), 403, "forbidden")
        const rotated = yield* call("POST", `/api/api-keys/${other.id}/rotate`, { graceSeconds: 86_400 })
        assert.strictEqual(rotated.body.expiresAt, expiresAt)
        isNoLater((yield* call("GET", `/api/api-keys/${other.id}`)).body.expiresAt, expiresAt)

        const account = yield* makeAccount(service, ["api-keys:*"])
        yield* asSuperuser(
          service.database,
          (sql) => sql`UPDATE accounts SET expires_at = ${expiresAt}::timestamptz WHERE id = ${account.id}`
        )
        const token = yield* signIn(service, account)
        const create = (body: object) => service.call("POST", "/api/api-keys", bearer(token, { body }))
        assertProblem(yield* create({ name: "heir", scopes: [] }), 403, "forbidden")
        assert.strictEqual((yield* create({ name: "heir", scopes: [], expiresAt })).status, 201)
      })
    )

    it.effect("roles and templates, which never end, are not changed by it", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { key } = yield* makeKey(service, ["roles:*", "agents:*"], { expiresAt: inMinutes(10) })
        const role = yield* makeOwnRole(service, ["agents:read"])
        const widened = { key, body: { capabilities: ["agents:write"] } }
        assertProblem(yield* service.call("PATCH", `/api/roles/${role}`, widened), 403, "forbidden")
        const template = yield* make(service, "/api/agents/templates", registration({ scopeCeiling: ["agents:read"] }))
        const raised = { key, body: { scopeCeiling: ["agents:write"] } }
        assertProblem(yield* service.call("PATCH", `/api/agents/templates/${template.id}`, raised), 403, "forbidden")
      })
    )

    it.effect("what a key of an application makes belongs to the application, and it changes nothing else", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const tenantId = yield* makeTenant(service.database)
        const { id: applicationId } = yield* make(service, "/api/applications", { name: `Shop ${tenantId}` })
        const { id: another } = yield* make(service, "/api/applications", { name: `Mill ${tenantId}` })
        const bound = yield* make(service, "/api/api-keys", { name: "of the shop", scopes, tenantId, applicationId })
        const call = (method: string, path: string, body?: unknown) =>
          service.call(method, path, { key: bound.key, ...(body === undefined ? {} : { body }) })
        for (const other of [null, another]) {
          const body = { name: "free", scopes: [], applicationId: other }
          assertProblem(yield* call("POST", "/api/api-keys", body), 403, "forbidden")
        }
        const key = yield* make(service, "/api/api-keys", { name: "heir", scopes: [] }, bound.key)
        assert.strictEqual(key.applicationId, applicationId)
        const account = { email: newEmail(), name: "Ada", password: passphrase, roleIds: [] }
        assert.strictEqual((yield* make(service, "/api/accounts", account, bound.key)).applicationId, applicationId)
        const agent = yield* make(service, "/api/agents", registration({ scopeCeiling: ["spend:*"] }), bound.key)
        assert.strictEqual(agent.applicationId, applicationId)
        const { accessToken } = yield* make(service, `/api/agents/${agent.id}/credentials`, {}, bound.key)
        const reserve = (body: object) => service.call("POST", "/api/spend/reserve", bearer(accessToken, { body }))
        const reserved = yield* reserve({ amountUsd: 0.1 })
        assert.strictEqual(reserved.status, 201, reserved.text)
        const stored = yield* service.call("GET", `/api/spend/reservations/${reserved.body.id}`)
        assert.strictEqual(stored.body.applicationId, applicationId)
        assertProblem(yield* reserve({ amountUsd: 0.1, applicationId: another }), 403, "forbidden")

        const free = yield* makeAgent(service, { tenantId, scopeCeiling: ["spend:*"] })
        const pair = makeKeyPair()
        const registered = { kid: pair.kid, algorithm: pair.algorithm, publicKeyPem: pair.publicKeyPem }
        const freeKey = yield* makeKey(service, ["spend:*"], { tenantId })
        for (const [method, path, body] of [
          ["POST", `/api/agents/${free.id}/credentials`, {}],
          ["POST", `/api/agents/${free.id}/keys`, registered],
          ["PATCH", `/api/agents/${free.id}`, { description: "taken" }],
          ["PATCH", `/api/api-keys/${freeKey.id}`, { name: "taken" }],
          ["POST", `/api/api-keys/${freeKey.id}/rotate`, {}]
        ] as const) {
          assertProblem(yield* call(method, path, body), 403, "forbidden")
        }
      })
    )
  }
)
