import { assert } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { makeIssuer } from "../support/issuer.ts"
import { makeRegistration } from "../support/registrations.ts"
import { type TestService } from "../support/service.ts"
import { agentAttempts } from "./agent-authorities.ts"

type Service = TestService["Service"]

/** What the caller of an attempt may do itself: enough to call the operations, not enough to give `beyond`. */
export const held: ReadonlyArray<string> = [
  "accounts:read",
  "accounts:write",
  "agents:read",
  "agents:write",
  "api-keys:read",
  "api-keys:write",
  "applications:write",
  "identity-providers:read",
  "identity-providers:write",
  "roles:read",
  "roles:write",
  "synthetic-principals:read",
  "synthetic-principals:write",
  "dashboard:read"
] as const

/** An authority that nobody with `held` alone can give. */
export const beyond = ["dashboard:read", "trial-users:write", "sessions:*"] as const

/** Those of `beyond` that `held` does not cover. */
export const lacking = ["trial-users:write", "sessions:*"] as const

/** A request that makes or changes an authority which has `beyond` before or after it. */
export interface Attempt {
  readonly operationId: string
  readonly about: string
  prepare(service: Service): Effect.Effect<
    {
      readonly parameters?: Readonly<Record<string, string | number>>
      readonly body?: unknown
    },
    never,
    Scope.Scope
  >
}

/** The capabilities whose operations make or change authorities. */
export const authorityCapabilities = [
  "api-keys:write",
  "roles:write",
  "accounts:write",
  "agents:write",
  "identity-providers:write",
  "synthetic-principals:write"
]

/** Where to see that nothing changed. */
export const watched = [
  "/api/api-keys?limit=200",
  "/api/roles",
  "/api/accounts?limit=200",
  "/api/agents?limit=200",
  "/api/identity-providers?limit=200",
  "/api/synthetic-principals?limit=200"
]

const makeKey = Effect.fnUntraced(function* (service: Service, scopes: ReadonlyArray<string>) {
  const answer = yield* service.call("POST", "/api/api-keys", { body: { name: "an authority", scopes } })
  assert.strictEqual(answer.status, 201, answer.text)
  return { id: answer.body.id as string }
})

const makeCanary = Effect.fnUntraced(function* (service: Service, scopes: ReadonlyArray<string>) {
  const body = { kind: "canary", name: "an authority", scopes }
  const answer = yield* service.call("POST", "/api/synthetic-principals", { body })
  assert.strictEqual(answer.status, 201, answer.text)
  return { id: answer.body.id as string }
})

const managerId = Effect.fnUntraced(function* (service: Service) {
  const { body } = yield* service.call("GET", "/api/applications?limit=200")
  const applications: ReadonlyArray<{ readonly id: number; readonly slug: string }> = body.items
  const manager = applications.find(({ slug }) => slug === "application-manager")
  return manager?.id ?? assert.fail("there is no application application-manager")
})

let made = 0
const roleBody = Effect.fnUntraced(function* (service: Service, capabilities: ReadonlyArray<string>) {
  return { name: `Role ${(made += 1)}`, applicationId: yield* managerId(service), capabilities }
})

const makeRole = Effect.fnUntraced(function* (service: Service, capabilities: ReadonlyArray<string>) {
  const answer = yield* service.call("POST", "/api/roles", { body: yield* roleBody(service, capabilities) })
  assert.strictEqual(answer.status, 201, answer.text)
  return { id: answer.body.id as number }
})

const passphrase = "seven grey herons at dawn"
const invitationBody = (roleIds: ReadonlyArray<number>) => ({
  email: `account${(made += 1)}@example.org`,
  name: "An authority",
  roleIds
})
const accountBody = (roleIds: ReadonlyArray<number>) => ({ ...invitationBody(roleIds), password: passphrase })

const makeAccount = Effect.fnUntraced(function* (service: Service, capabilities: ReadonlyArray<string>) {
  const { id } = yield* makeRole(service, capabilities)
  const answer = yield* service.call("POST", "/api/accounts", { body: accountBody([id]) })
  assert.strictEqual(answer.status, 201, answer.text)
  return { id: answer.body.id as string }
})

const on = (parameters: { readonly id: string | number }, body?: unknown) =>
  body === undefined ? { parameters } : { parameters, body }

const providerBody = Effect.fnUntraced(function* (service: Service, capabilities: ReadonlyArray<string>) {
  const { issuer } = yield* makeIssuer
  return { kind: "login", issuer, clientId: "a client", defaultRoleIds: [(yield* makeRole(service, capabilities)).id] }
})

const makeProvider = Effect.fnUntraced(function* (service: Service, capabilities: ReadonlyArray<string>) {
  const answer = yield* service.call("POST", "/api/identity-providers", {
    body: yield* providerBody(service, capabilities)
  })
  assert.strictEqual(answer.status, 201, answer.text)
  return { id: answer.body.id as string }
})

export const attempts: ReadonlyArray<Attempt> = [
  ...agentAttempts,
  {
    operationId: "identityProviders.create",
    about: "a provider whose accounts get more",
    prepare: (service) => Effect.map(providerBody(service, beyond), (body) => ({ body }))
  },
  {
    operationId: "identityProviders.update",
    about: "a provider whose accounts got more",
    prepare: (service) => Effect.map(makeProvider(service, beyond), (provider) => on(provider, { defaultRoleIds: [] }))
  },
  {
    operationId: "identityProviders.update",
    about: "a provider whose accounts would get more",
    prepare: Effect.fnUntraced(function* (service) {
      const provider = yield* makeProvider(service, [])
      return on(provider, { defaultRoleIds: [(yield* makeRole(service, beyond)).id] })
    })
  },
  {
    operationId: "identityProviders.delete",
    about: "a provider whose accounts get more",
    prepare: (service) => Effect.map(makeProvider(service, beyond), (provider) => on(provider))
  },
  {
    operationId: "registrations.approve",
    about: "an application that requests more",
    prepare: (service) =>
      Effect.map(makeRegistration(service, beyond), ({ client_id: id }) => on({ id }, { scopes: beyond }))
  },
  {
    operationId: "registrations.approve",
    about: "an application that is granted more",
    prepare: (service) =>
      Effect.map(makeRegistration(service, []), ({ client_id: id }) => on({ id }, { scopes: beyond }))
  },
  {
    operationId: "registrations.approve",
    about: "an application that had more",
    prepare: Effect.fnUntraced(function* (service) {
      const registered = yield* makeRegistration(service, beyond)
      yield* service.call("POST", `/api/applications/${registered.client_id}/approve`, { body: { scopes: beyond } })
      yield* registered.put({ scope: "agents:read" })
      yield* registered.put({ scope: "agents:read dashboard:read" })
      return on({ id: registered.client_id }, { scopes: ["agents:read", "dashboard:read"] })
    })
  },
  {
    operationId: "apiKeys.create",
    about: "a key with more",
    prepare: () => Effect.succeed({ body: { name: "more", scopes: beyond } })
  },
  {
    operationId: "apiKeys.update",
    about: "a key that had more",
    prepare: (service) => Effect.map(makeKey(service, beyond), (key) => on(key, { scopes: ["dashboard:read"] }))
  },
  {
    operationId: "apiKeys.update",
    about: "a key that would get more",
    prepare: (service) => Effect.map(makeKey(service, ["dashboard:read"]), (key) => on(key, { scopes: beyond }))
  },
  {
    operationId: "apiKeys.rotate",
    about: "a key with more",
    prepare: (service) => Effect.map(makeKey(service, beyond), (key) => on(key, { graceSeconds: 60 }))
  },
  {
    operationId: "apiKeys.revoke",
    about: "a key with more",
    prepare: (service) => Effect.map(makeKey(service, beyond), (key) => on(key))
  },
  {
    operationId: "syntheticPrincipals.create",
    about: "a synthetic principal with more",
    prepare: () => Effect.succeed({ body: { kind: "canary", name: "more", scopes: beyond } })
  },
  {
    operationId: "syntheticPrincipals.update",
    about: "a synthetic principal that had more",
    prepare: (service) => Effect.map(makeCanary(service, beyond), (canary) => on(canary, { scopes: [] }))
  },
  {
    operationId: "syntheticPrincipals.update",
    about: "a synthetic principal that would get more",
    prepare: (service) => Effect.map(makeCanary(service, []), (canary) => on(canary, { scopes: beyond }))
  },
  {
    operationId: "syntheticPrincipals.reset",
    about: "a synthetic principal with more",
    prepare: (service) => Effect.map(makeCanary(service, beyond), (canary) => on(canary, {}))
  },
  {
    operationId: "syntheticPrincipals.delete",
    about: "a synthetic principal with more",
    prepare: (service) => Effect.map(makeCanary(service, beyond), (canary) => on(canary))
  },
  {
    operationId: "roles.create",
    about: "a role with more",
    prepare: (service) => Effect.map(roleBody(service, beyond), (body) => ({ body }))
  },
  {
    operationId: "roles.update",
    about: "a role that had more",
    prepare: (service) => Effect.map(makeRole(service, beyond), (role) => on(role, { capabilities: [] }))
  },
  {
    operationId: "roles.update",
    about: "a role that would get more",
    prepare: (service) => Effect.map(makeRole(service, []), (role) => on(role, { capabilities: beyond }))
  },
  {
    operationId: "roles.delete",
    about: "a role with more",
    prepare: (service) => Effect.map(makeRole(service, beyond), (role) => on(role))
  },
  {
    operationId: "accounts.create",
    about: "an account with more",
    prepare: (service) => Effect.map(makeRole(service, beyond), ({ id }) => ({ body: accountBody([id]) }))
  },
  {
    operationId: "accounts.update",
    about: "an account that had more",
    prepare: (service) => Effect.map(makeAccount(service, beyond), (account) => on(account, { roleIds: [] }))
  },
  {
    operationId: "accounts.update",
    about: "an account that would get more",
    prepare: Effect.fnUntraced(function* (service) {
      const account = yield* makeAccount(service, [])
      return on(account, { roleIds: [(yield* makeRole(service, beyond)).id] })
    })
  },
  {
    operationId: "accounts.update",
    about: "the password of an account with more",
    prepare: (service) =>
      Effect.map(makeAccount(service, beyond), (account) => on(account, { password: "nine brown otters at dusk" }))
  },
  {
    operationId: "accounts.invite",
    about: "an account with more",
    prepare: (service) => Effect.map(makeRole(service, beyond), ({ id }) => ({ body: invitationBody([id]) }))
  },
  {
    operationId: "accounts.renewInvitation",
    about: "a link to an account with more",
    prepare: (service) => Effect.map(makeAccount(service, beyond), (account) => on(account, {}))
  },
  {
    operationId: "accounts.revokeInvitation",
    about: "the link of an account with more",
    prepare: (service) => Effect.map(makeAccount(service, beyond), (account) => on(account))
  },
  {
    operationId: "accounts.delete",
    about: "an account with more",
    prepare: (service) => Effect.map(makeAccount(service, beyond), (account) => on(account))
  }
]
