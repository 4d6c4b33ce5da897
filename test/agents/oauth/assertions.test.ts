import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import {
  askToken,
  assertInvalidClient,
  assertionOf,
  claimsOf,
  issuerOf,
  makeAgent,
  makeKeyPair,
  registerKey,
  sign,
  type TestAgent,
  tokenOf
} from "../../support/agents.ts"
import { makeTenant } from "../../support/authority.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

type Service = TestService["Service"]
type Assertion = (service: Service, agent: TestAgent) => Effect.Effect<string>

const now = () => Math.floor(Date.now() / 1000)
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")
const claiming =
  (claims: () => Record<string, unknown>, header: Record<string, unknown> = {}): Assertion =>
  (service, agent) =>
    assertionOf(service, agent, claims(), header)
const headed = (header: Record<string, unknown>): Assertion => claiming(() => ({}), header)
const altered =
  (alter: (assertion: string) => string): Assertion =>
  (service, agent) =>
    Effect.map(assertionOf(service, agent), alter)

/** An assertion whose header is written as it is, signed or not. */
const handmade =
  (header: (agent: TestAgent) => object, signature: (input: string, agent: TestAgent) => string): Assertion =>
  (service, agent) =>
    Effect.map(
      Effect.promise(() => issuerOf(service)),
      (issuer) => {
        const input = `${encode(header(agent))}.${encode(claimsOf(agent, issuer))}`
        return `${input}.${signature(input, agent)}`
      }
    )
const es256 = (input: string, { key }: TestAgent) =>
  crypto.sign("sha256", Buffer.from(input), { key: key.privateKey, dsaEncoding: "ieee-p1363" }).toString("base64url")

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
/** The same bytes with one unused bit of the last character set. */
const malleable = (assertion: string): string =>
  assertion.slice(0, -1) + alphabet[alphabet.indexOf(assertion.at(-1) ?? "A") | 1]

const refused: ReadonlyArray<readonly [must: string, Assertion]> = [
  [
    "RFC7515 §4.1.11 crit is not understood",
    handmade(({ key }) => ({ alg: "ES256", kid: key.kid, crit: ["exp"], exp: 1 }), es256)
  ],
  ["RFC7515 §5.2 a payload that is no JSON object", (_, { key }) => sign(key, [1])],
  ["RFC7515 §7.1 two parts", altered((assertion) => assertion.split(".").slice(0, 2).join("."))],
  ["RFC7515 §7.1 five parts, as of JWE", altered((assertion) => `${assertion}.a.b`)],
  ["RFC4648 §3.5 another spelling of the same bytes", altered(malleable)],
  ["RFC4648 §3.2 padding", altered((assertion) => `${assertion}==`)],
  ["RFC4648 §3.3 a space", altered((assertion) => `${assertion} `)],
  ["RFC4648 §3.3 a line break", altered((assertion) => `${assertion}\n`)],
  [
    "RFC7515 §5.2 a signature that was changed",
    altered((assertion) => assertion.replace(/\.(.)([^.]*)$/, (_, a, b) => `.${a === "A" ? "B" : "A"}${b}`))
  ],
  [
    "RFC7515 §5.2 claims that were changed",
    altered((assertion) => {
      const [header = "", payload = "", signature = ""] = assertion.split(".")
      const claims = JSON.parse(Buffer.from(payload, "base64url").toString()) as object
      return `${header}.${encode({ ...claims, jti: "another" })}.${signature}`
    })
  ],
  [
    "RFC8725 §3.1 alg none",
    handmade(
      ({ key }) => ({ alg: "none", kid: key.kid }),
      () => "AA"
    )
  ],
  [
    "RFC8725 §3.1 HS256 keyed with the public key in PEM",
    handmade(
      ({ key }) => ({ alg: "HS256", kid: key.kid }),
      (input, { key }) => crypto.createHmac("sha256", key.publicKeyPem).update(input).digest("base64url")
    )
  ],
  ["RFC8725 §3.1 an algorithm that is not the key's", handmade(({ key }) => ({ alg: "EdDSA", kid: key.kid }), es256)],
  ["RFC8725 §3.1 ES384", handmade(({ key }) => ({ alg: "ES384", kid: key.kid }), es256)],
  [
    "RFC8725 §3.10 a key that the header brings along (jwk)",
    (service, agent) => {
      const other = makeKeyPair()
      const jwk = crypto.createPublicKey(other.publicKeyPem).export({ format: "jwk" })
      return assertionOf(service, { ...agent, key: { ...other, kid: agent.key.kid } }, {}, { jwk })
    }
  ],
  [
    "RFC8725 §3.10 a key that the header points to (jku)",
    (service, agent) =>
      assertionOf(
        service,
        { ...agent, key: { ...makeKeyPair(), kid: agent.key.kid } },
        {},
        { jku: "http://127.0.0.1:1/" }
      )
  ],
  [
    "RFC8725 §3.10 a key that the header points to (x5u)",
    (service, agent) =>
      assertionOf(
        service,
        { ...agent, key: { ...makeKeyPair(), kid: agent.key.kid } },
        {},
        { x5u: "http://127.0.0.1:1/" }
      )
  ],
  [
    "RFC8725 §3.10 a certificate that the header brings along (x5c)",
    (service, agent) =>
      assertionOf(service, { ...agent, key: { ...makeKeyPair(), kid: agent.key.kid } }, {}, { x5c: ["AAAA"] })
  ],
  [
    "RFC7797 §3 a payload that is not encoded (b64)",
    handmade(({ key }) => ({ alg: "ES256", kid: key.kid, b64: false }), es256)
  ],
  [
    "RFC7797 §6 b64 said to be critical",
    handmade(({ key }) => ({ alg: "ES256", kid: key.kid, b64: false, crit: ["b64"] }), es256)
  ],
  ["RFC8725 §3.1 an algorithm in other letters", handmade(({ key }) => ({ alg: "es256", kid: key.kid }), es256)],
  ["RFC8725 §3.1 several algorithms", handmade(({ key }) => ({ alg: ["ES256"], kid: key.kid }), es256)],
  [
    "RFC8725 §3.2 an ECDSA signature of zeros",
    handmade(
      ({ key }) => ({ alg: "ES256", kid: key.kid }),
      () => Buffer.alloc(64).toString("base64url")
    )
  ],
  [
    "RFC7518 §3.4 an ECDSA signature in DER",
    handmade(
      ({ key }) => ({ alg: "ES256", kid: key.kid }),
      (input, { key }) => crypto.sign("sha256", Buffer.from(input), key.privateKey).toString("base64url")
    )
  ],
  ["RFC8725 §3.11 the type of an access token", headed({ typ: "at+jwt" })],
  ["RFC8725 §3.11 the type of another purpose", headed({ typ: "key-proof+jwt" })],
  ["RFC7515 §4.1.4 no kid", headed({ kid: undefined })],
  ["RFC7515 §4.1.4 a kid of no key", headed({ kid: "no such key" })],
  ["RFC7515 §4.1.4 a hostile kid", headed({ kid: "../../etc/passwd'; DROP TABLE agents; --" })],
  ["RFC7515 §4.1.4 a kid that is a list", handmade(({ key }) => ({ alg: "ES256", kid: [key.kid] }), es256)],
  ["RFC7515 §4.1.4 a kid of 129 characters", headed({ kid: "k".repeat(129) })],
  ["RFC7515 §4.1.4 a kid that no database holds", headed({ kid: "a\u0000b" })],
  ["RFC7523 §3 (1) no iss", claiming(() => ({ iss: undefined }))],
  ["RFC7523 §3 (1) iss of another", claiming(() => ({ iss: crypto.randomUUID() }))],
  ["RFC7523 §3 (2) no sub", claiming(() => ({ sub: undefined }))],
  ["RFC7523 §3 (1) iss as an array", (service, agent) => assertionOf(service, agent, { iss: [agent.id] })],
  ["RFC7523 §3 (2) sub of another", claiming(() => ({ sub: crypto.randomUUID() }))],
  ["RFC7523 §3 (3) no aud", claiming(() => ({ aud: undefined }))],
  ["RFC7523 §3 (3) aud of another server", claiming(() => ({ aud: "https://elsewhere.example" }))],
  [
    "RFC7523 §3 (3) aud with a slash more",
    (service, agent) =>
      Effect.flatMap(
        Effect.promise(() => issuerOf(service)),
        (aud) => assertionOf(service, agent, { aud: `${aud}/` })
      )
  ],
  [
    "RFC7523bis §3 aud as an array of one",
    (service, agent) =>
      Effect.flatMap(
        Effect.promise(() => issuerOf(service)),
        (aud) => assertionOf(service, agent, { aud: [aud] })
      )
  ],
  [
    "RFC7523bis §3 aud as an array of several",
    (service, agent) =>
      Effect.flatMap(
        Effect.promise(() => issuerOf(service)),
        (aud) => assertionOf(service, agent, { aud: [aud, "https://elsewhere.example"] })
      )
  ],
  [
    "RFC7523 §3 (3) aud of another endpoint of ours",
    (service, agent) =>
      Effect.flatMap(
        Effect.promise(() => issuerOf(service)),
        (aud) => assertionOf(service, agent, { aud: `${aud}/api/agents/token/exchange` })
      )
  ],
  ["RFC7523 §3 (4) no exp", claiming(() => ({ exp: undefined }))],
  ["RFC7523 §3 (4) exp as text", claiming(() => ({ exp: String(now() + 60) }))],
  ["RFC7523 §3 (4) exp with a fraction", claiming(() => ({ exp: now() + 60.5 }))],
  ["RFC7523 §3 (4) exp beyond all numbers", claiming(() => ({ exp: Number.MAX_VALUE, iat: now() }))],
  ["RFC7523 §3 (4) exp before iat", claiming(() => ({ iat: now() + 8, exp: now() + 4 }))],
  ["RFC7523 §3 (4) exp in milliseconds", claiming(() => ({ iat: Date.now(), exp: Date.now() + 60 }))],
  ["RFC7523 §3 (4) expired", claiming(() => ({ iat: now() - 120, exp: now() - 1 }))],
  ["RFC7523 §3 (4) expires in the second that it comes", claiming(() => ({ iat: now() - 60, exp: now() }))],
  ["RFC7523 §3 (4) lives longer than five minutes", claiming(() => ({ exp: now() + 310 }))],
  ["RFC7523 §3 (4) lives ten years", claiming(() => ({ exp: now() + 315_360_000 }))],
  ["RFC7523 §3 (5) not yet valid", claiming(() => ({ nbf: now() + 30 }))],
  ["RFC7523 §3 (5) nbf as text", claiming(() => ({ nbf: "now" }))],
  ["RFC7523 §3 (6) no iat", claiming(() => ({ iat: undefined }))],
  ["RFC7523 §3 (6) issued in the future", claiming(() => ({ iat: now() + 30, exp: now() + 90 }))],
  ["RFC7523 §3 (6) iat as text", claiming(() => ({ iat: String(now()) }))],
  ["RFC7523 §3 (6) iat of long ago", claiming(() => ({ iat: 0 }))],
  ["RFC7523 §3 (7) a jti that is a number", claiming(() => ({ jti: 7 }))],
  ["RFC7523 §3 (7) no jti", claiming(() => ({ jti: undefined }))],
  ["RFC7523 §3 (7) an empty jti", claiming(() => ({ jti: "" }))],
  ["RFC7523 §3 (7) a jti of 257 characters", claiming(() => ({ jti: "j".repeat(257) }))],
  ["RFC7523 §3 (7) a jti that no database holds", claiming(() => ({ jti: "a\u0000b" }))],
  [
    "RFC7523 §3 (9) the kid of another agent's key",
    (service, agent) =>
      Effect.flatMap(makeAgent(service), (other) => assertionOf(service, { ...agent, key: other.key }))
  ],
  [
    "RFC7523 §3 (9) signed by another agent under the own kid",
    (service, agent) => assertionOf(service, { ...agent, key: { ...makeKeyPair(), kid: agent.key.kid } })
  ],
  [
    "RFC9068 §6 our own access token",
    (service, agent) => Effect.map(tokenOf(service, agent), (token) => token.accessToken)
  ],
  ["limits: more than 8 KiB", claiming(() => ({ filler: "x".repeat(8192) }))],
  ["limits: nothing", () => Effect.succeed("")]
]

const allowed: ReadonlyArray<readonly [must: string, Assertion]> = [
  ["RFC8725 §3.11 typ JWT", headed({ typ: "JWT" })],
  ["RFC7523bis §4 typ client-authentication+jwt", headed({ typ: "client-authentication+jwt" })],
  [
    "RFC7523 §3 (3) aud the endpoint that is called",
    (service, agent) =>
      Effect.flatMap(
        Effect.promise(() => issuerOf(service)),
        (aud) => assertionOf(service, agent, { aud: `${aud}/api/agents/token` })
      )
  ],
  ["RFC7523 §3 (4) lives five minutes", claiming(() => ({ iat: now(), exp: now() + 300 }))],
  ["RFC7523 §3 (5) nbf of now", claiming(() => ({ nbf: now() }))],
  ["RFC7523 §3 (6) iat eight seconds ahead", claiming(() => ({ iat: now() + 8, exp: now() + 60 }))],
  ["RFC7523 §3 (7) a jti of 256 characters", claiming(() => ({ jti: crypto.randomBytes(128).toString("hex") }))],
  ["RFC7523 §3 (7) a jti of any script", claiming(() => ({ jti: `§ ${crypto.randomUUID()} 中` }))]
]

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("an assertion", (it) => {
  for (const [must, assertion] of refused) {
    it.effect(`${must}: refused, and the one beside it is taken`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const agent = yield* makeAgent(service)
        assertInvalidClient(yield* askToken(service, agent.id, yield* assertion(service, agent)))
        yield* tokenOf(service, agent)
      })
    )
  }

  for (const [must, assertion] of allowed) {
    it.effect(`${must}: taken`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const agent = yield* makeAgent(service)
        const answer = yield* askToken(service, agent.id, yield* assertion(service, agent))
        assert.strictEqual(answer.status, 200, answer.text)
      })
    )
  }

  for (const algorithm of ["ES256", "EdDSA", "PS256", "RS256"] as const) {
    it.effect(`RFC7518 §3.1 ${algorithm}, when the key was registered so: taken`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        yield* tokenOf(service, yield* makeAgent(service, {}, algorithm))
      })
    )
  }

  it.effect("RFC9864 §2.2 Ed25519 is another name of EdDSA: taken", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service, {}, "EdDSA")
      const renamed = { ...agent, key: { ...agent.key, algorithm: "Ed25519" as "EdDSA" } }
      yield* tokenOf(service, renamed)
    })
  )

  it.effect("RFC8725 §3.1 PS256 by a key that was registered for RS256: refused", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service, {}, "RS256")
      const other = { ...agent, key: { ...agent.key, algorithm: "PS256" as const } }
      assertInvalidClient(yield* askToken(service, agent.id, yield* assertionOf(service, other)))
    })
  )

  it.effect("RFC7523 §3 (7) a jti that was used: refused, here and at the exchange", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const assertion = yield* assertionOf(service, agent)
      const { body } = yield* askToken(service, agent.id, assertion)
      assertInvalidClient(yield* askToken(service, agent.id, assertion))
      const exchange = { agentId: agent.id, clientAssertion: assertion, subjectToken: body.accessToken }
      const answer = yield* service.call("POST", "/api/agents/token/exchange", { key: null, body: exchange })
      assert.notStrictEqual(answer.status, 200)
    })
  )

  it.effect("RFC7523 §3 (7) a request that was refused for another reason does not use up its jti", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const assertion = yield* assertionOf(service, agent)
      const refusal = yield* askToken(service, agent.id, assertion, { requestedScopes: ["tenants:write"] })
      assert.strictEqual(refusal.body.error, "invalid_scope")
      assert.strictEqual((yield* askToken(service, agent.id, assertion)).status, 200)
    })
  )

  const ends: ReadonlyArray<readonly [string, (service: Service, agent: TestAgent) => Effect.Effect<unknown>]> = [
    ["a revoked key", (service, { id, keyId }) => service.call("DELETE", `/api/agents/${id}/keys/${keyId}`)],
    [
      "a suspended agent",
      (service, { id }) => service.call("PATCH", `/api/agents/${id}`, { body: { status: "suspended" } })
    ],
    ["a retired agent", (service, { id }) => service.call("DELETE", `/api/agents/${id}`)]
  ]
  for (const [what, end] of ends) {
    it.effect(`RFC7523 §3 (9) ${what}: refused from the answer of its end on`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const agent = yield* makeAgent(service)
        yield* tokenOf(service, agent)
        const assertion = yield* assertionOf(service, agent)
        yield* end(service, agent)
        assertInvalidClient(yield* askToken(service, agent.id, assertion))
      })
    )
  }

  it.effect("RFC7523 §3 (9) a key that is not yet valid: refused", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const key = makeKeyPair()
      const validFrom = new Date(Date.now() + 3_600_000).toISOString()
      yield* registerKey(service, agent.id, key, { validFrom })
      assertInvalidClient(yield* askToken(service, agent.id, yield* assertionOf(service, { ...agent, key })))
    })
  )

  it.effect("RFC7523 §3 (9) a key whose time is over: refused", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      yield* tokenOf(service, agent)
      const over = (sql: Parameters<Parameters<typeof asSuperuser>[1]>[0]) => sql`
        UPDATE agent_keys SET valid_from = now() - interval '2 seconds', valid_until = now() - interval '1 second'
        WHERE id = ${agent.keyId}`
      yield* asSuperuser(service.database, over)
      assertInvalidClient(yield* askToken(service, agent.id, yield* assertionOf(service, agent)))
    })
  )

  it.effect("RFC7523 §3 (9) an agent of a suspended tenant: refused", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const agent = yield* makeAgent(service, { tenantId })
      yield* tokenOf(service, agent)
      yield* service.call("PATCH", `/api/tenants/${tenantId}`, { body: { status: "suspended" } })
      assertInvalidClient(yield* askToken(service, agent.id, yield* assertionOf(service, agent)))
    })
  )

  it.effect("RFC6749 §5.2 of an agent that is none: the same answer", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      for (const id of [crypto.randomUUID(), "nobody", "", "\u00e9".repeat(300)]) {
        assertInvalidClient(yield* askToken(service, id, yield* assertionOf(service, { ...agent, id })))
      }
    })
  )

  it.effect("which check failed is told to the audit alone, in the log of the agent's tenant", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const assertion = yield* assertionOf(service, agent, { aud: "https://elsewhere.example" })
      assertInvalidClient(yield* askToken(service, agent.id, assertion))
      const { body } = yield* service.call("GET", `/api/audit-logs?actionType=AgentTokenDenied&entityId=${agent.id}`)
      assert.deepInclude(body.items[0], { reason: "wrong-audience", outcome: "denied", tenantId: agent.tenantId })
    })
  )

  it.effect("limits: a body of more than 16 KiB is 413", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answer = yield* askToken(service, crypto.randomUUID(), "x".repeat(17_000))
      assert.strictEqual(answer.status, 413)
    })
  )

  it.effect("what was minted in spite of a change underneath is minted by what stands now", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      yield* tokenOf(service, agent)
      const lower = (sql: Parameters<Parameters<typeof asSuperuser>[1]>[0]) => sql`
        UPDATE agents SET scope_ceiling = '{llm:complete}', updated_at = updated_at + interval '1 second'
        WHERE id = ${agent.id}`
      yield* asSuperuser(service.database, lower)
      assert.deepStrictEqual((yield* tokenOf(service, agent)).scopes, ["llm:complete"])
    })
  )
})
