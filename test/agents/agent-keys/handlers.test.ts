import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as jose from "jose"
import * as crypto from "node:crypto"
import { issuerOf, makeAgent, makeKeyPair, registerKey, sign, tokenOf } from "../../support/agents.ts"
import { assertProblem } from "../../support/problem.ts"
import { sharedServiceLayer, startService, TestService } from "../../support/service.ts"

const pemOf = (key: crypto.KeyObject) => key.export({ type: "spki", format: "pem" }).toString()
const ec = makeKeyPair("ES256").publicKeyPem
const later = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()
const rsa = (modulusLength: number) => pemOf(crypto.generateKeyPairSync("rsa", { modulusLength }).publicKey)
const rsaWithExponent = (hex: string) => {
  const jwk = crypto.createPublicKey(rsa(2048)).export({ format: "jwk" })
  const e = Buffer.from(hex, "hex").toString("base64url")
  return pemOf(crypto.createPublicKey({ key: { ...jwk, e }, format: "jwk" }))
}
const pair = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("an agent's keys", (it) => {
  it.effect("201: registered for a year, with its RFC 7638 thumbprint; CRLF is taken", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* makeAgent(service)
      const key = makeKeyPair("EdDSA")
      const answer = yield* service.call("POST", `/api/agents/${id}/keys`, {
        body: { kid: key.kid, algorithm: "Ed25519", publicKeyPem: key.publicKeyPem.replaceAll("\n", "\r\n") }
      })
      assert.strictEqual(answer.status, 201, answer.text)
      assert.strictEqual(answer.headers.get("location"), `/api/agents/${id}/keys/${answer.body.id}`)
      const jwk = crypto.createPublicKey(key.publicKeyPem).export({ format: "jwk" })
      const thumbprint = yield* Effect.promise(() => jose.calculateJwkThumbprint(jwk))
      assert.deepInclude(answer.body, { algorithm: "EdDSA", thumbprint, status: "active", kid: key.kid })
      const days = (Date.parse(answer.body.validUntil) - Date.parse(answer.body.validFrom)) / 86_400_000
      assert.include([365, 366], Math.round(days))
    })
  )

  const unusable: ReadonlyArray<readonly [string, () => object]> = [
    ["a private key", () => ({ publicKeyPem: pair.privateKey.export({ type: "pkcs8", format: "pem" }).toString() })],
    ["two blocks", () => ({ publicKeyPem: `${ec}${makeKeyPair().publicKeyPem}` })],
    ["a certificate", () => ({ publicKeyPem: ec.replaceAll("PUBLIC KEY", "CERTIFICATE") })],
    [
      "PKCS#1",
      () => ({
        algorithm: "RS256",
        publicKeyPem: crypto.createPublicKey(rsa(2048)).export({ type: "pkcs1", format: "pem" }).toString()
      })
    ],
    ["text around it", () => ({ publicKeyPem: `hello\n${ec}` })],
    ["a cut off block", () => ({ publicKeyPem: ec.replace(/\n.{10}/, "\n") })],
    ["nothing of a key", () => ({ publicKeyPem: "x" })],
    ["RSA of 1,024 bits", () => ({ algorithm: "PS256", publicKeyPem: rsa(1024) })],
    [
      "RSA with an exponent that is slow on purpose",
      () => ({ algorithm: "PS256", publicKeyPem: rsaWithExponent(`01${"00".repeat(127)}01`) })
    ],
    ["RSA with the exponent 3", () => ({ algorithm: "PS256", publicKeyPem: rsaWithExponent("03") })],
    ["P-521", () => ({ publicKeyPem: pemOf(crypto.generateKeyPairSync("ec", { namedCurve: "P-521" }).publicKey) })],
    [
      "secp256k1",
      () => ({ publicKeyPem: pemOf(crypto.generateKeyPairSync("ec", { namedCurve: "secp256k1" }).publicKey) })
    ],
    ["X25519", () => ({ algorithm: "EdDSA", publicKeyPem: pemOf(crypto.generateKeyPairSync("x25519").publicKey) })],
    ["Ed448", () => ({ algorithm: "EdDSA", publicKeyPem: pemOf(crypto.generateKeyPairSync("ed448").publicKey) })],
    ["another algorithm than its own", () => ({ algorithm: "EdDSA" })],
    ["an end before its beginning", () => ({ validFrom: later(20), validUntil: later(10) })],
    ["an end that is over", () => ({ validFrom: later(-20), validUntil: later(-10) })],
    ["an end more than a year ahead", () => ({ validUntil: later(368) })],
    ["a proof of nothing", () => ({ proof: "a.b.c" })]
  ]
  for (const [what, members] of unusable) {
    it.effect(`400: ${what}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { id } = yield* makeAgent(service)
        const body = { kid: "k", algorithm: "ES256", publicKeyPem: ec, ...members() }
        assertProblem(yield* service.call("POST", `/api/agents/${id}/keys`, { body }), 400, "agent-key-unusable")
      })
    )
  }

  it.effect("what it is used for ends no later than the key itself", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service, { maxCredentialTtlSeconds: 86_400 })
      const key = makeKeyPair()
      const validUntil = new Date(Date.now() + 90_000).toISOString()
      yield* registerKey(service, agent.id, key, { validUntil })
      const { expiresAt } = yield* tokenOf(service, { ...agent, key })
      assert.isAtMost(Date.parse(expiresAt), Date.parse(validUntil))
    })
  )

  it.effect("409: a kid of the agent, a key of the tenant, the sixth live key", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id, key, keyId } = yield* makeAgent(service)
      const register = (agentId: string, body: object) =>
        service.call("POST", `/api/agents/${agentId}/keys`, { body: { algorithm: "ES256", ...body } })
      const sameKid = { kid: key.kid, publicKeyPem: makeKeyPair().publicKeyPem }
      assertProblem(yield* register(id, sameKid), 409, "agent-key-taken")
      const other = yield* makeAgent(service)
      assertProblem(yield* register(other.id, { kid: "x", publicKeyPem: key.publicKeyPem }), 409, "agent-key-taken")
      for (let count = 1; count < 5; count++) yield* registerKey(service, id, makeKeyPair())
      const sixth = { kid: "sixth", publicKeyPem: makeKeyPair().publicKeyPem }
      assertProblem(yield* register(id, sixth), 409, "agent-key-limit")
      assert.strictEqual((yield* service.call("DELETE", `/api/agents/${id}/keys/${keyId}`)).status, 204)
      assert.strictEqual((yield* service.call("DELETE", `/api/agents/${id}/keys/${keyId}`)).status, 204)
      assert.strictEqual((yield* register(id, sixth)).status, 201)
      const { body } = yield* service.call("GET", `/api/agents/${id}/keys`)
      const statuses = body.items.map(({ status }: { readonly status: string }) => status)
      assert.deepStrictEqual(statuses, ["revoked", "active", "active", "active", "active", "active"])
      const foreign = yield* service.call("DELETE", `/api/agents/${other.id}/keys/${keyId}`)
      assertProblem(foreign, 404, "agent-key-not-found")
    })
  )

  it.effect("where a proof is required, a key without one is 400, and with one is taken", () =>
    Effect.gen(function* () {
      const { database } = yield* TestService
      const service = yield* startService(database, { Agents__RequireKeyProof: "true" })
      const agent = yield* service.call("POST", "/api/agents", { body: { name: `proven ${crypto.randomUUID()}` } })
      const path = `/api/agents/${agent.body.id}/keys`
      const key = makeKeyPair()
      const body = { kid: key.kid, algorithm: key.algorithm, publicKeyPem: key.publicKeyPem }
      assertProblem(yield* service.call("POST", path, { body }), 400, "agent-key-unusable")
      const aud = yield* Effect.promise(() => issuerOf(service))
      const claims = { aud, sub: agent.body.id, iat: Math.floor(Date.now() / 1000) }
      const typ = "key-proof+jwt"
      for (const proof of [
        yield* sign(key, claims, { typ: "JWT" }),
        yield* sign(key, { ...claims, aud: "https://elsewhere.example" }, { typ }),
        yield* sign(key, { ...claims, sub: crypto.randomUUID() }, { typ }),
        yield* sign(key, { ...claims, iat: claims.iat - 120 }, { typ }),
        yield* sign(makeKeyPair(), claims, { typ })
      ]) {
        assertProblem(yield* service.call("POST", path, { body: { ...body, proof } }), 400, "agent-key-unusable")
      }
      const proof = yield* sign(key, claims, { typ })
      const taken = yield* service.call("POST", path, { body: { ...body, proof } })
      assert.strictEqual(taken.status, 201, taken.text)
    })
  )
})
