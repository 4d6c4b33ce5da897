import { assert } from "@effect/vitest"
import { Effect } from "effect"
import * as jose from "jose"
import * as crypto from "node:crypto"
import { make } from "./scenarios.ts"
import { type Answer, type TestService } from "./service.ts"

type Service = TestService["Service"]
type Algorithm = "ES256" | "EdDSA" | "PS256" | "RS256"

/** A key pair of an agent, and what it is registered under. */
export interface TestKey {
  readonly kid: string
  readonly algorithm: Algorithm
  readonly privateKey: crypto.KeyObject
  readonly publicKeyPem: string
}

/** An agent with a registered key. */
export interface TestAgent {
  readonly id: string
  readonly tenantId: string
  readonly key: TestKey
  readonly keyId: string
}

let made = 0

export const makeKeyPair = (algorithm: Algorithm = "ES256", kid = `key-${(made += 1)}`): TestKey => {
  const pair =
    algorithm === "ES256"
      ? crypto.generateKeyPairSync("ec", { namedCurve: "P-256" })
      : algorithm === "EdDSA"
        ? crypto.generateKeyPairSync("ed25519")
        : crypto.generateKeyPairSync("rsa", { modulusLength: 2048 })
  return {
    kid,
    algorithm,
    privateKey: pair.privateKey,
    publicKeyPem: pair.publicKey.export({ type: "spki", format: "pem" }).toString()
  }
}

export const registration = (members: object = {}) => ({
  name: `agent ${(made += 1)}`,
  scopeCeiling: ["llm:complete", "agents:read"],
  ...members
})

export const registerKey = (service: Service, agentId: string, key: TestKey, members: object = {}) =>
  make(service, `/api/agents/${agentId}/keys`, {
    kid: key.kid,
    algorithm: key.algorithm,
    publicKeyPem: key.publicKeyPem,
    ...members
  })

export const makeAgent = Effect.fnUntraced(function* (
  service: Service,
  members: object = {},
  algorithm: Algorithm = "ES256"
) {
  const agent = yield* make(service, "/api/agents", registration(members))
  const key = makeKeyPair(algorithm)
  const { id: keyId } = yield* registerKey(service, agent.id, key)
  return { id: agent.id, tenantId: agent.tenantId, key, keyId } as TestAgent
})

export const issuerOf = async (service: Service): Promise<string> =>
  ((await (await fetch(`${service.url}/.well-known/oauth-authorization-server`)).json()) as { issuer: string }).issuer

const nowSeconds = () => Math.floor(Date.now() / 1000)

/** The claims of an assertion that is good; `changed` replaces some, and removes those that are undefined. */
export const claimsOf = (agent: TestAgent, audience: string, changed: Record<string, unknown> = {}) => {
  const iat = nowSeconds()
  const claims = { iss: agent.id, sub: agent.id, aud: audience, iat, exp: iat + 60, jti: crypto.randomUUID() }
  return JSON.parse(JSON.stringify({ ...claims, ...changed })) as jose.JWTPayload
}

export const sign = (key: TestKey, claims: object, header: Record<string, unknown> = {}): Effect.Effect<string> =>
  Effect.promise(() =>
    new jose.CompactSign(new TextEncoder().encode(JSON.stringify(claims)))
      .setProtectedHeader(JSON.parse(JSON.stringify({ alg: key.algorithm, kid: key.kid, ...header })))
      .sign(key.privateKey)
  )

/** A good assertion of an agent for the issuer. */
export const assertionOf = Effect.fnUntraced(function* (
  service: Service,
  agent: TestAgent,
  changed: Record<string, unknown> = {},
  header: Record<string, unknown> = {}
) {
  const issuer = yield* Effect.promise(() => issuerOf(service))
  return yield* sign(agent.key, claimsOf(agent, issuer, changed), header)
})

export const askToken = (service: Service, agentId: string, clientAssertion: string, members: object = {}) =>
  service.call("POST", "/api/agents/token", { key: null, body: { agentId, clientAssertion, ...members } })

/** A token of the agent for a fresh assertion. */
export const tokenOf = Effect.fnUntraced(function* (service: Service, agent: TestAgent, members: object = {}) {
  const answer = yield* askToken(service, agent.id, yield* assertionOf(service, agent), members)
  assert.strictEqual(answer.status, 200, answer.text)
  return answer.body as TokenAnswer
})

/** A token answer, as far as tests look. */
export interface TokenAnswer {
  readonly accessToken: string
  readonly credentialId: string
  readonly expiresAt: string
  readonly expiresIn: number
  readonly scopes: ReadonlyArray<string>
}

/** Asks to act for whoever `subjectToken` is of. */
export const askExchange = Effect.fnUntraced(function* (
  service: Service,
  agent: TestAgent,
  subjectToken: string,
  members: object = {}
) {
  const clientAssertion = yield* assertionOf(service, agent)
  const body = { agentId: agent.id, clientAssertion, subjectToken, ...members }
  return yield* service.call("POST", "/api/agents/token/exchange", { key: null, body })
})

export const exchange = Effect.fnUntraced(function* (
  service: Service,
  agent: TestAgent,
  subjectToken: string,
  members: object = {}
) {
  const answer = yield* askExchange(service, agent, subjectToken, members)
  assert.strictEqual(answer.status, 200, answer.text)
  return answer.body as TokenAnswer
})

/** Lets an agent act for another one. */
export const grant = (service: Service, to: TestAgent, subject: TestAgent, members: object = {}) =>
  make(service, `/api/agents/${to.id}/delegations`, {
    subject: subject.id,
    subjectType: "agent",
    scopes: ["llm:complete"],
    ...members
  })

export const introspect = (service: Service, token: string, key?: string): Effect.Effect<Answer> =>
  service.call("POST", "/api/agents/introspect", { body: { token }, ...(key === undefined ? {} : { key }) })

export const isActive = (service: Service, token: string): Effect.Effect<boolean> =>
  Effect.map(introspect(service, token), ({ body }) => body.active === true)

/** The one answer of every failed authentication. */
export const assertInvalidClient = (answer: Answer): void => {
  assert.strictEqual(answer.status, 401, answer.text)
  const { traceId: _, ...body } = answer.body
  assert.deepStrictEqual(body, {
    type: "urn:application-manager:problem:invalid-client",
    title: "Unauthorized",
    status: 401,
    detail: "The client could not be authenticated.",
    error: "invalid_client",
    error_description: "The client could not be authenticated."
  })
}

/** An OAuth error in a problem. */
export const assertOAuthError = (answer: Answer, status: number, error: string): void => {
  assert.strictEqual(answer.status, status, answer.text)
  assert.strictEqual(answer.body.error, error, answer.text)
  assert.isString(answer.body.error_description)
  assert.strictEqual(answer.headers.get("content-type"), "application/problem+json")
}
