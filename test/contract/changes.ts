import { assert } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import * as jose from "jose"
import * as crypto from "node:crypto"
import { makeIssuer } from "../support/issuer.ts"
import { makeRegistration } from "../support/registrations.ts"
import { type Answer, type TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"
import { agentChanges } from "./agent-changes.ts"
import { eventChanges } from "./event-changes.ts"
import { gatewayChanges, gatewayWithoutEntry } from "./gateway-changes.ts"
import { planChanges, plansWithoutEntry } from "./plan-changes.ts"
import { spendChanges, spendWithoutEntry } from "./spend-changes.ts"

type Service = TestService["Service"]

/** An entry that a change must leave, as far as the change decides it. */
export interface ExpectedEntry {
  readonly actionType: string
  readonly entityType: string
  readonly entityId: string
  /** Which sides of the thing the entry keeps. */
  readonly kept: "before" | "after" | "both" | "nothing"
}

/** A request that changes something for sure, and what the audit log must say of it. */
export interface Change {
  readonly parameters?: Readonly<Record<string, string | number>>
  readonly body?: unknown
  /** The media type of the body, if it is not JSON as such. */
  readonly contentType?: string
  /** The session token that it is asked with, in the place of the service account's key. */
  readonly token?: string | undefined
  /** Whom the entries name as the actor; the service account when absent. */
  readonly by?: string
  entries(answer: Answer): ReadonlyArray<ExpectedEntry>
}

let made = 0
const unique = (): string => `${(made += 1)}`

const make = Effect.fnUntraced(function* (service: Service, path: string, body: unknown) {
  const answer = yield* service.call("POST", path, { body })
  assert.strictEqual(answer.status, 201, answer.text)
  return answer.body as { readonly id: string & number }
})

const newTrialUser = () => ({ firstName: "Ada", lastName: "Lovelace", email: `ada${unique()}@example.com` })
const newApplication = () => ({ name: `Application ${unique()}` })
const newSubscription = () => ({
  provider: "openai",
  name: `Subscription ${unique()}`,
  priceUsd: 20,
  quota: { unit: "requests", amount: 100 },
  period: "month"
})
const newTenant = () => ({ name: `Tenant ${unique()}` })
const newApiKey = () => ({ name: "a key", scopes: ["dashboard:read"] })
const newRole = (applicationId: number) => ({
  name: `Role ${unique()}`,
  applicationId,
  capabilities: ["billing:read"]
})

const newFile = (applicationId: number) => ({ applicationId, name: "settings.json", type: "file", content: "{}" })

const makeTrialUser = (service: Service) => make(service, "/api/trial-users", newTrialUser())
const makeApplication = (service: Service) => make(service, "/api/applications", newApplication())
const makeSubscription = (service: Service) => make(service, "/api/subscriptions", newSubscription())
const makeTenant = (service: Service) => make(service, "/api/tenants", newTenant())
const makeApiKey = (service: Service) => make(service, "/api/api-keys", newApiKey())
const makeSession = Effect.fnUntraced(function* (service: Service) {
  const { id: trialUserId } = yield* makeTrialUser(service)
  return yield* make(service, "/api/sessions", { trialUserId, ipAddress: "203.0.113.7" })
})
const newCanary = { kind: "canary", name: "a canary", scopes: ["dashboard:read"] }
const makeCanary = (service: Service) => make(service, "/api/synthetic-principals", newCanary)
const makeRole = Effect.fnUntraced(function* (service: Service) {
  return yield* make(service, "/api/roles", newRole((yield* makeApplication(service)).id))
})

const makeFile = Effect.fnUntraced(function* (service: Service) {
  const { id: applicationId } = yield* makeApplication(service)
  const file = yield* make(service, "/api/configuration", newFile(applicationId))
  return { applicationId, id: file.id as number }
})

const entry = (
  entityType: string,
  actionType: string,
  id: string | number,
  kept: ExpectedEntry["kept"]
): ExpectedEntry => ({ actionType, entityType, entityId: String(id), kept })

const passphrase = "seven grey herons at dawn"
const newAccount = () => ({ email: `ada${unique()}@example.org`, name: "Ada", password: passphrase, roleIds: [] })
const makeAccount = (service: Service) => make(service, "/api/accounts", newAccount())

const makeIdentityProvider = Effect.fnUntraced(function* (service: Service) {
  const { issuer } = yield* makeIssuer
  return yield* make(service, "/api/identity-providers", { kind: "workload", issuer })
})

/** An account that signed in, and its sign-in. */
const makeSignIn = Effect.fnUntraced(function* (service: Service) {
  const body = newAccount()
  const { id } = yield* make(service, "/api/accounts", body)
  const credentials = { email: body.email, password: body.password }
  const signIn = Effect.map(
    service.call("POST", "/api/auth/login", { key: null, body: credentials }),
    (answer) => answer.body.token as string
  )
  const token = yield* signIn
  const headers = { authorization: `Bearer ${token}` }
  const sessions = yield* service.call("GET", "/api/auth/sessions", { key: null, headers })
  return { id, by: `account:${id}`, credentials, token, sessionId: sessions.body.items[0].id as string, signIn }
})

const sessionEntry = (actionType: string, id: string): ExpectedEntry => entry("SignIn", actionType, id, "nothing")

/** Makes a thing by `body`, which one entry records with the new id. */
const creates = (entityType: string, actionType: string, body: unknown): Change => ({
  body,
  entries: ({ body: created }) => [entry(entityType, actionType, created.id, "after")]
})

/** Changes the thing `id`, which one entry records. */
const changes = (
  entityType: string,
  actionType: string,
  id: string | number,
  kept: ExpectedEntry["kept"],
  body?: unknown
): Change => ({
  parameters: { id },
  ...(body === undefined ? {} : { body }),
  entries: () => [entry(entityType, actionType, id, kept)]
})

/** The key that signs tokens, and is to be followed by none; if it is, by the one that was to follow. */
const signingKey = Effect.fnUntraced(function* (service: Service): Effect.fn.Return<string> {
  const { body } = yield* service.call("GET", "/api/attestation/keys?limit=200")
  const active = body.items.filter(({ purpose, status }) => purpose === "sign-tokens" && status === "active")
  const current = active.find(({ validUntil }) => validUntil === null)
  if (current !== undefined) return current.id
  yield* service.call("DELETE", `/api/attestation/keys/${active[0]?.id}`, { body: { reason: "superseded" } })
  return yield* signingKey(service)
})

const makeAnomaly = (service: Service) =>
  asSuperuser(
    service.database,
    (sql) => sql<{ readonly id: string }>`
      INSERT INTO anomalies (tenant_id, dimension, key, kind, starts_at, ends_at, detected_at, expected, actual, score,
        contributors)
      SELECT id, 'model', 'gpt-5', 'spike', now(), now(), now(), 0, 1, 3, '[]' FROM tenants WHERE slug = 'default'
      RETURNING id`
  ).pipe(Effect.map(([row]) => row?.id ?? ""))

/** How to call every operation that changes something, by its operationId. */
export const changesByOperation: Readonly<
  Record<string, (service: Service) => Effect.Effect<Change, never, Scope.Scope>>
> = {
  ...agentChanges,
  ...eventChanges,
  ...planChanges,
  ...gatewayChanges,
  ...spendChanges,
  "trialUsers.create": () => Effect.succeed(creates("TrialUser", "UserCreated", newTrialUser())),
  "trialUsers.update": (service) =>
    Effect.map(makeTrialUser(service), ({ id }) =>
      changes("TrialUser", "UserUpdated", id, "both", { firstName: "Augusta" })
    ),
  "trialUsers.delete": Effect.fnUntraced(function* (service) {
    const { id } = yield* makeTrialUser(service)
    const session = yield* make(service, "/api/sessions", { trialUserId: id, ipAddress: "203.0.113.7" })
    return {
      parameters: { id },
      entries: () => [
        entry("TrialUser", "UserDeleted", id, "before"),
        entry("Session", "SessionEnded", session.id, "both")
      ]
    }
  }),
  "sessions.create": (service) =>
    Effect.map(makeTrialUser(service), ({ id }) =>
      creates("Session", "SessionStarted", { trialUserId: id, ipAddress: "203.0.113.7" })
    ),
  "sessions.end": (service) =>
    Effect.map(makeSession(service), ({ id }) => changes("Session", "SessionEnded", id, "both")),
  "applications.create": () => Effect.succeed(creates("Application", "ApplicationCreated", newApplication())),
  "applications.update": (service) =>
    Effect.map(makeApplication(service), ({ id }) =>
      changes("Application", "ApplicationUpdated", id, "both", { status: "suspended" })
    ),
  "applications.delete": (service) =>
    Effect.map(makeApplication(service), ({ id }) => changes("Application", "ApplicationDeleted", id, "before")),
  "registrationTokens.create": () =>
    Effect.succeed(creates("RegistrationToken", "RegistrationTokenCreated", { uses: 2 })),
  "registrationTokens.delete": (service) =>
    Effect.map(make(service, "/api/applications/registration-tokens", {}), ({ id }) =>
      changes("RegistrationToken", "RegistrationTokenDeleted", id, "before")
    ),
  "registrations.approve": (service) =>
    Effect.map(makeRegistration(service, ["llm:complete"]), ({ client_id: id }) => ({
      parameters: { id },
      body: { scopes: ["llm:complete"] },
      entries: ({ body }) => [
        entry("ApiKey", "ApiKeyCreated", body.apiKeyId, "after"),
        entry("Application", "ApplicationApproved", id, "both")
      ]
    })),
  "registrations.reject": (service) =>
    Effect.map(makeRegistration(service, []), ({ client_id: id }) =>
      changes("Application", "ApplicationRejected", id, "both")
    ),
  "configuration.create": (service) =>
    Effect.map(makeApplication(service), ({ id }) => creates("Configuration", "ConfigurationCreated", newFile(id))),
  "configuration.save": (service) =>
    Effect.map(makeFile(service), ({ id }) =>
      changes("Configuration", "ConfigurationUpdated", id, "both", { content: "[]" })
    ),
  "configuration.move": (service) =>
    Effect.map(makeFile(service), ({ id }) =>
      changes("Configuration", "ConfigurationMoved", id, "both", { name: "renamed.json" })
    ),
  "configuration.delete": (service) =>
    Effect.map(makeFile(service), ({ id }) => changes("Configuration", "ConfigurationDeleted", id, "before")),
  "configuration.restore": Effect.fnUntraced(function* (service) {
    const { id } = yield* makeFile(service)
    yield* service.call("DELETE", `/api/configuration/${id}`)
    return changes("Configuration", "ConfigurationRestored", id, "after")
  }),
  "configuration.rollback": (service) =>
    Effect.map(makeFile(service), ({ id }) =>
      changes("Configuration", "ConfigurationRolledBack", id, "both", { version: 1 })
    ),
  "configurationTrees.import": (service) =>
    Effect.map(makeApplication(service), ({ id: applicationId }) => ({
      parameters: { applicationId },
      body: { nodes: [{ path: "/settings.json", type: "file", content: "{}" }] },
      entries: ({ body }) => [
        entry("Configuration", "ConfigurationCreated", body.changes[0].id, "after"),
        entry("ConfigurationTree", "ConfigurationImported", applicationId, "after")
      ]
    })),
  "configurationTrees.rollback": (service) =>
    Effect.map(makeFile(service), ({ applicationId, id }) => ({
      body: { applicationId, at: "2026-01-01T00:00:00.000Z" },
      entries: () => [
        entry("Configuration", "ConfigurationDeleted", id, "before"),
        entry("ConfigurationTree", "ConfigurationTreeRolledBack", applicationId, "after")
      ]
    })),
  "roles.create": (service) =>
    Effect.map(makeApplication(service), ({ id }) => creates("Role", "RoleCreated", newRole(id))),
  "roles.update": (service) =>
    Effect.map(makeRole(service), ({ id }) => changes("Role", "RoleUpdated", id, "both", { capabilities: [] })),
  "roles.delete": (service) => Effect.map(makeRole(service), ({ id }) => changes("Role", "RoleDeleted", id, "before")),
  "tenants.create": () => Effect.succeed(creates("Tenant", "TenantCreated", newTenant())),
  "tenants.update": (service) =>
    Effect.map(makeTenant(service), ({ id }) =>
      changes("Tenant", "TenantUpdated", id, "both", { status: "suspended" })
    ),
  "subscriptions.create": () => Effect.succeed(creates("Subscription", "SubscriptionCreated", newSubscription())),
  "subscriptions.update": (service) =>
    Effect.map(makeSubscription(service), ({ id }) =>
      changes("Subscription", "SubscriptionUpdated", id, "both", newSubscription())
    ),
  "subscriptions.delete": (service) =>
    Effect.map(makeSubscription(service), ({ id }) => changes("Subscription", "SubscriptionDeleted", id, "before")),
  "identityProviders.create": () =>
    Effect.map(makeIssuer, ({ issuer }) =>
      creates("IdentityProvider", "IdentityProviderCreated", { kind: "workload", issuer })
    ),
  "identityProviders.update": (service) =>
    Effect.map(makeIdentityProvider(service), ({ id }) =>
      changes("IdentityProvider", "IdentityProviderUpdated", id, "both", { status: "disabled" })
    ),
  "identityProviders.delete": (service) =>
    Effect.map(makeIdentityProvider(service), ({ id }) =>
      changes("IdentityProvider", "IdentityProviderDeleted", id, "before")
    ),
  "accounts.create": () => Effect.succeed(creates("Account", "AccountCreated", newAccount())),
  "accounts.update": (service) =>
    Effect.map(makeAccount(service), ({ id }) => changes("Account", "AccountUpdated", id, "both", { name: "Augusta" })),
  "accounts.delete": (service) =>
    Effect.map(makeAccount(service), ({ id }) => changes("Account", "AccountDeleted", id, "before")),
  "accounts.invite": () =>
    Effect.succeed({
      body: { email: `ada${unique()}@example.org`, name: "Ada", roleIds: [] },
      entries: ({ body: { id } }) => [
        entry("Account", "AccountCreated", id, "after"),
        entry("Account", "AccountInvited", id, "nothing")
      ]
    }),
  "accounts.renewInvitation": (service) =>
    Effect.map(makeAccount(service), ({ id }) => changes("Account", "AccountInvited", id, "nothing", {})),
  "accounts.revokeInvitation": (service) =>
    makeAccount(service).pipe(
      Effect.tap(({ id }) => service.call("POST", `/api/accounts/${String(id)}/invitation`, { body: {} })),
      Effect.map(({ id }) => changes("Account", "AccountInvitationRevoked", id, "nothing"))
    ),
  "auth.changePassword": (service) =>
    Effect.map(makeSignIn(service), ({ by, credentials, id, token }) => ({
      by,
      token,
      body: { currentPassword: credentials.password, newPassword: "nine brown otters at dusk" },
      entries: () => [entry("Account", "AccountPasswordChanged", id, "nothing")]
    })),
  "auth.endSession": (service) =>
    Effect.map(makeSignIn(service), ({ by, sessionId, token }) => ({
      by,
      token,
      parameters: { id: sessionId },
      entries: () => [sessionEntry("SignedOut", sessionId)]
    })),
  "auth.endOtherSessions": Effect.fnUntraced(function* (service) {
    const { by, sessionId, signIn } = yield* makeSignIn(service)
    return { by, token: yield* signIn, entries: () => [sessionEntry("SignedOut", sessionId)] }
  }),
  "subjectTokens.create": Effect.fnUntraced(function* (service) {
    const { by, token } = yield* makeSignIn(service)
    const agent = yield* make(service, "/api/agents", { name: `agent for ${by}` })
    return {
      by,
      token,
      body: { agentId: agent.id },
      entries: ({ body }) => [
        entry("SubjectToken", "SubjectTokenIssued", jose.decodeJwt(body.subjectToken).jti ?? "", "after")
      ]
    }
  }),
  "auth.refresh": (service) =>
    Effect.map(makeSignIn(service), ({ by, sessionId, token }) => ({
      by,
      token,
      entries: () => [sessionEntry("SignInRefreshed", sessionId)]
    })),
  "auth.logout": (service) =>
    Effect.map(makeSignIn(service), ({ by, sessionId, token }) => ({
      by,
      token,
      entries: () => [sessionEntry("SignedOut", sessionId)]
    })),
  "anomalies.update": (service) =>
    Effect.map(makeAnomaly(service), (id) =>
      changes("Anomaly", "AnomalyDismissed", id, "both", { status: "dismissed", reason: "A planned import" })
    ),
  "attestationKeys.create": () =>
    Effect.succeed(
      creates("AttestationKey", "AttestationKeyCreated", {
        name: "a trusted key",
        purpose: "verify",
        publicKey: crypto.generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" })
      })
    ),
  "statements.sign": () =>
    Effect.succeed({
      body: {
        subject: [{ name: "report.csv", digest: { sha256: "ab".repeat(32) } }],
        predicateType: "https://example.com/report/v1",
        predicate: {}
      },
      entries: ({ body }) => {
        const payload = Buffer.from(body.payload, "base64")
        return [
          entry("Statement", "StatementSigned", crypto.createHash("sha256").update(payload).digest("hex"), "after")
        ]
      }
    }),
  "attestationKeys.rotate": (service) =>
    Effect.map(signingKey(service), (id) => ({
      parameters: { id },
      body: {},
      entries: ({ body: successor }) => [
        entry("AttestationKey", "AttestationKeyCreated", successor.id, "after"),
        entry("AttestationKey", "AttestationKeyRotated", id, "both")
      ]
    })),
  "attestationKeys.end": Effect.fnUntraced(function* (service) {
    const id = yield* signingKey(service)
    // Its successor signs at once, which is an entry of its own.
    const { id: successor } = yield* make(service, `/api/attestation/keys/${id}/rotate`, {})
    return {
      parameters: { id },
      body: { reason: "compromised" },
      entries: () => [
        entry("AttestationKey", "AttestationKeyCompromised", id, "both"),
        entry("AttestationKey", "AttestationKeyRotated", successor, "both")
      ]
    }
  }),
  "security.requestReport": () =>
    Effect.succeed(creates("SecurityReport", "SecurityReportRequested", { kind: "keys" })),
  "security.decide": (service) =>
    Effect.gen(function* () {
      yield* makeApiKey(service)
      const { body: report } = yield* service.call("POST", "/api/security/reports", { body: { kind: "keys" } })
      const path = `/api/security/reports/${report.id}`
      yield* eventually(service.call("GET", path), ({ body }) => body.status === "completed")
      const { body: findings } = yield* service.call("GET", `${path}/findings?rule=no-expiry&status=open`)
      const body = { status: "acknowledged", reason: "It is rotated by hand." }
      return changes("SecurityFinding", "SecurityFindingAcknowledged", findings.items[0].id, "both", body)
    }),
  "syntheticPrincipals.create": () =>
    Effect.succeed(creates("SyntheticPrincipal", "SyntheticPrincipalCreated", newCanary)),
  "syntheticPrincipals.update": (service) =>
    Effect.map(makeCanary(service), ({ id }) =>
      changes("SyntheticPrincipal", "SyntheticPrincipalUpdated", id, "both", { name: "renamed" })
    ),
  "syntheticPrincipals.reset": (service) =>
    Effect.map(makeCanary(service), ({ id }) =>
      changes("SyntheticPrincipal", "SyntheticPrincipalReset", id, "both", {})
    ),
  "syntheticPrincipals.delete": (service) =>
    Effect.map(makeCanary(service), ({ id }) => ({
      parameters: { id },
      entries: () => [
        entry("SyntheticPrincipal", "SyntheticPrincipalUpdated", id, "both"),
        entry("SyntheticPrincipal", "SyntheticPrincipalDeleted", id, "both")
      ]
    })),
  "apiKeys.create": () => Effect.succeed(creates("ApiKey", "ApiKeyCreated", newApiKey())),
  "apiKeys.update": (service) =>
    Effect.map(makeApiKey(service), ({ id }) => changes("ApiKey", "ApiKeyUpdated", id, "both", { name: "renamed" })),
  "apiKeys.rotate": (service) =>
    Effect.map(makeApiKey(service), ({ id }) => ({
      parameters: { id },
      body: { graceSeconds: 0 },
      entries: ({ body }) => [entry("ApiKey", "ApiKeyRotated", body.id, "both")]
    })),
  "apiKeys.revoke": (service) =>
    Effect.map(makeApiKey(service), ({ id }) => changes("ApiKey", "ApiKeyRevoked", id, "both"))
}

/** What changes something and leaves no entry, each with the reason; how it succeeds all the same. */
export const withoutEntry: Readonly<
  Record<
    string,
    {
      readonly reason: string
      request(service: Service): Effect.Effect<Pick<Change, "parameters" | "body">, never, Scope.Scope>
    }
  >
> = {
  "identityProviders.test": {
    reason: "it changes nothing",
    request: (service) => Effect.map(makeIdentityProvider(service), ({ id }) => ({ parameters: { id } }))
  },
  "reconciliation.refresh": {
    reason: "what it reads is the provider's, and what it finds has an entry of its own",
    request: () => Effect.succeed({ body: {} })
  },
  ...gatewayWithoutEntry,
  ...spendWithoutEntry,
  ...plansWithoutEntry,
  "sessions.touch": {
    reason: "session activity is frequent and its own record is lastActivityAt",
    request: (service) => Effect.map(makeSession(service), ({ id }) => ({ parameters: { id } }))
  },
  "billing.report": {
    reason: "without a signature it changes nothing; a signed one is tested in test/insights/billing",
    request: () =>
      Effect.succeed({ body: { from: "2026-01-01T00:00:00Z", to: "2026-02-01T00:00:00Z", format: "json" } })
  },
  "statements.verify": {
    reason: "it changes nothing",
    request: () =>
      Effect.succeed({
        body: {
          statement: { payload: "e30=", payloadType: "application/vnd.in-toto+json", signatures: [{ sig: "AA==" }] }
        }
      })
  },
  "agentCredentials.introspect": {
    reason: "it changes nothing",
    request: () => Effect.succeed({ body: { token: "no token" } })
  }
}

/** What changes something and cannot be called in a walk; each with the test that looks at its entries. */
export const testedElsewhere: Readonly<Record<string, string>> = {
  "auth.login": "test/people/sign-in/login.test.ts: its entry names the new session, which its answer does not",
  "auth.acceptInvitation":
    "test/people/sign-in/invitations.test.ts: its entries name the new session, which its answer does not",
  "auth.claim": "test/people/sign-in/initial-admin-setup.test.ts: it needs the link of a start, and no account"
}
