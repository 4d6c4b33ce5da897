import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import { refusesStrangers } from "../../support/authority.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { auditOf } from "../../support/scenarios.ts"
import { type Answer, serviceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { authority, endedLeaf, leaf, leafPrivateKey, otherAuthority } from "./certificates.ts"

type Service = TestService["Service"]

interface Envelope {
  readonly payload: string
  readonly payloadType: string
  readonly signatures: ReadonlyArray<{ readonly keyid?: string; readonly sig: string }>
}

const keysPath = "/api/attestation/keys"
const payloadType = "application/vnd.in-toto+json"
const subject = [{ name: "audit-log.jsonl", digest: { sha256: "ab".repeat(32) } }]
const predicateType = "https://example.com/export/v1"
let made = 0
/** Each is another one, so that each has a time of signing of its own. */
const newStatement = () => ({ subject, predicateType, predicate: { lines: (made += 1) } })

const sign = Effect.fnUntraced(function* (service: Service) {
  const answer = yield* service.call("POST", "/api/attestation/statements", { body: newStatement() })
  assert.strictEqual(answer.status, 201, answer.text)
  return answer.body as Envelope
})
const verify = (service: Service, statement: object) =>
  Effect.map(service.call("POST", "/api/attestation/verify", { body: { statement } }), ({ body, status, text }) => {
    assert.strictEqual(status, 200, text)
    return body
  })
const keyIdOf = ({ signatures }: Envelope) => signatures[0]?.keyid ?? ""
const digestOf = ({ payload }: Envelope) => crypto.createHash("sha256").update(Buffer.from(payload, "base64")).digest()
const idOf = (service: Service, keyId: string) =>
  Effect.map(
    service.call("GET", `${keysPath}?limit=200`),
    ({ body }) => body.items.find((key: { readonly keyId: string }) => key.keyId === keyId).id as string
  )
const end = (service: Service, id: string, body: object) => service.call("DELETE", `${keysPath}/${id}`, { body })

const signedBytes = (payload: Buffer) =>
  Buffer.concat([Buffer.from(`DSSEv1 ${payloadType.length} ${payloadType} ${payload.byteLength} `), payload])

/** An envelope that a key of somebody else signed. */
const envelopeBy = (key: crypto.SignKeyObjectInput | crypto.KeyObject, hash: string | null, members: object = {}) => {
  const payload = Buffer.from(JSON.stringify({ _type: "https://in-toto.io/Statement/v1", ...newStatement() }))
  const sig = crypto.sign(hash, signedBytes(payload), key).toString("base64")
  return { payload: payload.toString("base64"), payloadType, signatures: [{ sig }], ...members }
}

const trust = (service: Service, publicKey: unknown) =>
  service.call("POST", keysPath, { body: { name: "build server", purpose: "verify", publicKey } })
const trusted = Effect.fnUntraced(function* (service: Service, publicKey: unknown) {
  const answer = yield* trust(service, publicKey)
  assert.strictEqual(answer.status, 201, answer.text)
  return answer as Answer
})

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("/api/attestation", (it) => {
  refusesStrangers(it, [
    {
      name: "sign",
      method: "POST",
      path: "/api/attestation/statements",
      body: newStatement(),
      capability: "attestation:write",
      systemOnly: true
    },
    {
      name: "verify",
      method: "POST",
      path: "/api/attestation/verify",
      body: { statement: { payload: "e30=", payloadType, signatures: [{ sig: "AA==" }] } },
      capability: "attestation:read",
      systemOnly: true
    },
    {
      name: "create",
      method: "POST",
      path: keysPath,
      body: { name: "a key", purpose: "sign-statements" },
      capability: "attestation:write",
      systemOnly: true
    }
  ])

  it.effect("201: an in-toto statement in a DSSE envelope, which anyone can verify with the published keys", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const envelope = yield* sign(service)
      assert.hasAllKeys(envelope, ["payload", "payloadType", "signatures"])
      const payload = Buffer.from(envelope.payload, "base64")
      assert.deepInclude(JSON.parse(payload.toString()), {
        _type: "https://in-toto.io/Statement/v1",
        subject,
        predicateType
      })
      const { keys } = (yield* service.call("GET", "/.well-known/attestation-keys.json", { key: null })).body
      const jwk = keys.find(({ kid }: { readonly kid: string }) => kid === keyIdOf(envelope))
      const publicKey = crypto.createPublicKey({ key: jwk, format: "jwk" })
      const signature = Buffer.from(envelope.signatures[0]?.sig ?? "", "base64")
      assert.isTrue(crypto.verify(null, signedBytes(payload), publicKey, signature))

      assert.deepStrictEqual(yield* verify(service, envelope), {
        verified: true,
        keyId: keyIdOf(envelope),
        subject,
        reason: null
      })
      const digest = digestOf(envelope).toString("hex")
      assert.deepStrictEqual(yield* auditOf("Statement", digest), ["StatementSigned"])
    })
  )

  it.effect("what a key signed while it was valid counts after it was superseded, and later signatures do not", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [early, late, unknown] = [yield* sign(service), yield* sign(service), yield* sign(service)]
      const keyId = keyIdOf(early)
      const id = yield* idOf(service, keyId)
      assert.strictEqual((yield* end(service, id, { reason: "superseded" })).status, 204)
      const next = yield* sign(service)
      assert.notStrictEqual(keyIdOf(next), keyId)
      // As if whoever has the key had signed after its end, or without the installation.
      yield* asSuperuser(service.database, (sql) =>
        Effect.andThen(
          sql`UPDATE attestation_statements SET signed_at = now() + interval '1 minute' WHERE digest = ${digestOf(late)}`,
          sql`DELETE FROM attestation_statements WHERE digest = ${digestOf(unknown)}`
        )
      )
      assert.deepInclude(yield* verify(service, early), { verified: true, keyId })
      assert.deepInclude(yield* verify(service, next), { verified: true, keyId: keyIdOf(next) })
      const tooLate = yield* verify(service, late)
      assert.deepInclude(tooLate, { verified: false, keyId: null, subject: null })
      assert.include(tooLate.reason, `The key ${keyId} was not valid when it signed, at `)
      assert.include((yield* verify(service, unknown)).reason, "has no record of signing it")
    })
  )

  it.effect("nothing that a compromised key signed counts, on any replica, whenever it was compromised", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const other = yield* startService(service.database)
      const envelope = yield* sign(service)
      const keyId = keyIdOf(envelope)
      for (const replica of [service, other]) assert.isTrue((yield* verify(replica, envelope)).verified)
      const compromisedAt = new Date().toISOString()
      const answer = yield* end(service, yield* idOf(service, keyId), { reason: "compromised", compromisedAt })
      assert.strictEqual(answer.status, 204, answer.text)
      for (const replica of [service, other]) {
        assert.deepInclude(yield* verify(replica, envelope), {
          verified: false,
          reason: `The key ${keyId} was compromised, and nothing that it ever signed counts any more`
        })
      }
      const { keys } = (yield* service.call("GET", "/.well-known/attestation-keys.json", { key: null })).body
      assert.isFalse(keys.some(({ kid }: { readonly kid: string }) => kid === keyId))
      assert.isTrue((yield* verify(service, yield* sign(service))).verified)
    })
  )

  it.effect("a generated key signs once it was published for ten minutes; rotating it announces another", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const before = keyIdOf(yield* sign(service))
      const body = { name: "second", purpose: "sign-statements" }
      const { body: key, headers, status } = yield* service.call("POST", keysPath, { body })
      assert.strictEqual(status, 201)
      assert.strictEqual(headers.get("location"), `${keysPath}/${key.id}`)
      assert.deepInclude(key, { name: "second", status: "pending", algorithm: "EdDSA" })
      assert.strictEqual(keyIdOf(yield* sign(service)), before)
      yield* asSuperuser(service.database, (sql) =>
        Effect.andThen(
          sql`UPDATE attestation_keys SET valid_from = now() WHERE id = ${key.id}`,
          sql`SELECT pg_notify('application_manager', 'attestation_keys_changed ')`
        )
      )
      yield* verify(service, yield* sign(service))
      const signed = yield* sign(service)
      assert.strictEqual(keyIdOf(signed), key.keyId)
      const rotated = yield* service.call("POST", `${keysPath}/${key.id}/rotate`, { body: { overlapSeconds: 0 } })
      assert.strictEqual(rotated.status, 201, rotated.text)
      assert.isTrue((yield* verify(service, signed)).verified)
    })
  )

  const ec = crypto.generateKeyPairSync("ec", { namedCurve: "P-384" })
  const ed = crypto.generateKeyPairSync("ed25519")
  const rsa = crypto.generateKeyPairSync("rsa", { modulusLength: 2048 })
  const pss = { padding: crypto.constants.RSA_PKCS1_PSS_PADDING }

  for (const [form, publicKey, algorithm, envelope] of [
    ["PEM", ed.publicKey.export({ type: "spki", format: "pem" }), "EdDSA", () => envelopeBy(ed.privateKey, null)],
    [
      "a JWK, signing in DER",
      ec.publicKey.export({ format: "jwk" }),
      "ES384",
      () => envelopeBy(ec.privateKey, "sha384")
    ],
    [
      "a JWK with an algorithm",
      { ...rsa.publicKey.export({ format: "jwk" }), alg: "PS256", kid: "mine" },
      "PS256",
      () => envelopeBy({ key: rsa.privateKey, ...pss }, "sha256")
    ],
    [
      "an X.509 chain, signing as JOSE does",
      `${leaf}\n${authority}\n`,
      "ES256",
      () => envelopeBy({ key: crypto.createPrivateKey(leafPrivateKey), dsaEncoding: "ieee-p1363" }, "sha256")
    ]
  ] as const) {
    it.effect(`the key of somebody else is trusted as ${form}, until it is ended`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const first = envelope()
        assert.deepInclude(yield* verify(service, first), {
          verified: false,
          reason: "No key that is trusted signed it"
        })
        const { body: key } = yield* trusted(service, publicKey)
        assert.deepInclude(key, { purpose: "verify", algorithm, status: "active", name: "build server" })
        assert.strictEqual(key.validUntil, form.includes("X.509") ? "2120-01-01T00:00:00.000Z" : null)
        assert.deepInclude(yield* verify(service, first), { verified: true, keyId: key.keyId, reason: null })
        const forged = { ...first, payload: envelope().payload }
        assert.isFalse((yield* verify(service, forged)).verified)
        const named = { ...forged, signatures: [{ keyid: key.keyId, sig: first.signatures[0]?.sig }] }
        assert.strictEqual((yield* verify(service, named)).reason, "The signature does not fit")
        assertProblem(yield* trust(service, publicKey), 409, "attestation-key-exists")
        const { keys } = (yield* service.call("GET", "/.well-known/attestation-keys.json", { key: null })).body
        assert.isFalse(keys.some(({ kid }: { readonly kid: string }) => kid === key.keyId))
        assertProblem(
          yield* service.call("POST", `${keysPath}/${key.id}/rotate`, { body: {} }),
          409,
          "attestation-key-replaced"
        )
        const reason = form.includes("JWK") ? "compromised" : "superseded"
        assert.strictEqual((yield* end(service, key.id, { reason })).status, 204)
        assert.isFalse((yield* verify(service, first)).verified)
        const hinted = { ...first, signatures: [{ ...first.signatures[0], keyid: key.keyId }] }
        assert.include(
          (yield* verify(service, hinted)).reason,
          reason === "compromised" ? "was compromised" : "is trusted no more"
        )
      })
    )
  }

  it.effect("200 with the reason: what is no in-toto statement, no Base64, or by a key that is not yet valid", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const pair = crypto.generateKeyPairSync("ed25519")
      const { body: key } = yield* trusted(service, pair.publicKey.export({ format: "jwk" }))
      const of = (payload: Buffer) => ({
        payload: payload.toString("base64"),
        payloadType,
        signatures: [{ sig: crypto.sign(null, signedBytes(payload), pair.privateKey).toString("base64") }]
      })
      const valid = envelopeBy(pair.privateKey, null)
      assert.isTrue((yield* verify(service, valid)).verified)
      // One valid signature is enough.
      const several = { ...valid, signatures: [{ keyid: "x", sig: "AA==" }, ...valid.signatures] }
      assert.isTrue((yield* verify(service, several)).verified)
      for (const [envelope, reason] of [
        [of(Buffer.from("{}")), "The payload is no in-toto statement of version 1"],
        [of(Buffer.from([0xff])), "The payload is no in-toto statement of version 1"],
        [{ ...valid, payloadType: "text/plain" }, "The payload type is"],
        [{ ...valid, payload: "no base64!" }, "The payload is not in Base64"],
        [{ ...valid, signatures: [{ sig: "no base64!" }] }, "The signature is not in Base64"]
      ] as const) {
        assert.include((yield* verify(service, envelope)).reason, reason)
      }
      yield* asSuperuser(
        service.database,
        (sql) => sql`UPDATE attestation_keys SET valid_from = now() + interval '1 day' WHERE id = ${key.id}`
      )
      assert.isFalse((yield* verify(service, valid)).verified)
    })
  )

  it.effect("400: a key that cannot be trusted, a statement without what it needs", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const small = crypto.generateKeyPairSync("rsa", { modulusLength: 1024 })
      for (const [publicKey, message] of [
        [undefined, "Expected the key to trust"],
        ["no key", "Expected a public key as PEM"],
        [{ kty: "OKP" }, "Expected a public key as PEM"],
        [leafPrivateKey, "this one is private"],
        [ed.privateKey.export({ format: "jwk" }), "this one is private"],
        [small.publicKey.export({ format: "jwk" }), "RSA key of 2048 bits or more"],
        [{ ...rsa.publicKey.export({ format: "jwk" }), alg: "ES256" }, 'Expected "alg" to be'],
        [endedLeaf, "one ended at 2021-01-01"],
        [`${leaf}\n${otherAuthority}`, "to be of the authority that issued certificate 1"]
      ] as const) {
        const answer = yield* trust(service, publicKey)
        assertProblem(answer, 400, "validation-failed")
        assert.deepStrictEqual(faultPaths(answer), ["payload.publicKey"])
        assert.include(answer.text, JSON.stringify(message).slice(1, -1))
      }
      const signing = { name: "a key", purpose: "sign-tokens", publicKey: leaf }
      assert.deepStrictEqual(faultPaths(yield* service.call("POST", keysPath, { body: signing })), [
        "payload.publicKey"
      ])
      for (const members of [
        { subject: [] },
        { subject: [{ name: "a", digest: {} }] },
        { subject: [{ name: "a", digest: { sha256: "xyz" } }] },
        { predicateType: "no uri" },
        { predicate: 7 },
        { predicate: { order: [2 ** 53] } }
      ]) {
        const body = { ...newStatement(), ...members }
        assertProblem(yield* service.call("POST", "/api/attestation/statements", { body }), 400, "validation-failed")
      }
      for (const statement of [{}, { payload: "e30=", payloadType, signatures: [] }]) {
        const answer = yield* service.call("POST", "/api/attestation/verify", { body: { statement } })
        assertProblem(answer, 400, "validation-failed")
      }
    })
  )
})
