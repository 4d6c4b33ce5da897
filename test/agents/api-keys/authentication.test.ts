import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { crc32 } from "node:zlib"
import { generate } from "../../../src/agents/api-keys/key-format.ts"
import { type MadeKey, makeExpiredKey, makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { problem, refuses, type Sent } from "../../support/scenarios.ts"
import { type Answer, serviceKey, serviceLayer, TestService } from "../../support/service.ts"

const path = "/api/api-keys"
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** A well-formed key that nobody made. */
const unknownKey = Effect.gen(function* () {
  const { key } = yield* generate(yield* SecureRandom.SecureRandom, yield* Digest.Digest)
  return Redacted.value(key)
}).pipe(Effect.provide([SecureRandom.layerWebCrypto, Digest.layerWebCrypto]))

/** The key of that public id with another's secret, its checksum right. */
const withSecretOf = (key: string, other: string) => {
  const body = key.slice(0, 16) + other.slice(16, 59)
  let [rest, checksum] = [crc32(body), ""]
  for (; checksum.length < 6; rest = Math.floor(rest / 62)) checksum = alphabet.charAt(rest % 62) + checksum
  return body + checksum
}

/** A key for every reason to refuse one. */
const refusedKeys = Effect.fnUntraced(function* (service: TestService["Service"]) {
  const scopes = ["api-keys:read"]
  const live = yield* makeKey(service, scopes)
  const revoked = yield* makeKey(service, scopes)
  yield* service.call("DELETE", `${path}/${revoked.id}`)
  const expired = yield* makeExpiredKey(service, scopes)
  const suspended = yield* makeKey(service, scopes, { tenantId: yield* makeTenant(service.database, "suspended") })
  const stranger = yield* unknownKey
  return {
    malformed: `${live.key.slice(0, -1)}${live.key.endsWith("0") ? "1" : "0"}`,
    unknown: stranger,
    "wrong-secret": withSecretOf(live.key, stranger),
    revoked: revoked.key,
    expired: expired.key,
    "tenant-suspended": suspended.key
  } satisfies Record<string, string>
})

const nobody = problem(401, "unauthenticated")
const withKey =
  (change: (key: string) => string) =>
  ({ key }: MadeKey): Sent => ["GET", path, { key: change(key) }]

/** What an answer says, but for what names this one request. */
const saying = ({ body, headers, status }: Answer) => ({
  status,
  body: { ...body, traceId: undefined },
  headers: Object.fromEntries([...headers].filter(([name]) => name !== "x-request-id" && name !== "date"))
})

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("authentication by API key", (it) => {
  it.effect("401: a refused key gets the same answer whatever the reason", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answers: Array<Answer> = []
      for (const key of Object.values(yield* refusedKeys(service)))
        answers.push(yield* service.call("GET", path, { key }))
      const [first, ...rest] = answers.map(saying)
      assertProblem(answers[0] ?? assert.fail("no answer"), 401, "unauthenticated")
      assert.strictEqual(rest.length, 5)
      for (const other of rest) assert.deepStrictEqual(other, first)
    })
  )

  it.effect("401: the reason, and how the key begins, are told to the audit alone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const [reason, key] of Object.entries(yield* refusedKeys(service))) {
        yield* service.call("GET", path, { key })
        const start = key.slice(0, 16)
        const listed = yield* service.call("GET", `/api/audit-logs?actionType=ApiKeyRefused&entityId=${start}`)
        const entry = listed.body.items.find((item: { readonly reason: string }) => item.reason === reason)
        assert.deepInclude(entry, { outcome: "denied", entityType: "ApiKey", userId: "anonymous", count: 1 })
        assert.notInclude(listed.text, key.slice(16, 59))
      }
    })
  )

  it.effect("401: what is no key at all is written down nowhere", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* service.call("GET", path, { key: "a-password-of-somewhere-else" })
      const listed = yield* service.call("GET", "/api/audit-logs?actionType=ApiKeyRefused&limit=1")
      assert.deepInclude(listed.body.items[0], { entityId: "no key of ours", reason: "malformed" })
      assert.notInclude(listed.text, "password")
    })
  )

  it.effect("401: the key of a tenant that was suspended, in whose name nothing is done then", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database, "suspended")
      const { key } = yield* makeKey(service, ["*:*"], { tenantId })
      const body = { name: "a key", scopes: [] }
      assertProblem(yield* service.call("POST", path, { key, body }), 401, "unauthenticated")
      const listed = yield* service.call("GET", `${path}?tenantId=${tenantId}`)
      assert.strictEqual(listed.body.items.length, 1)
    })
  )

  it.effect("200: the header's name is read in any case", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* makeKey(service, ["api-keys:read"])
      for (const name of ["X-Api-Key", "x-api-key", "X-API-KEY"]) {
        assert.strictEqual((yield* service.call("GET", path, { key: null, headers: { [name]: key } })).status, 200)
      }
    })
  )

  refuses(
    it,
    [
      ["several keys at once, though each is good", withKey((key) => `${key}, ${key}`), nobody],
      ["a key and the service account's at once", withKey((key) => `${key},${serviceKey}`), nobody],
      ["an empty header", withKey(() => ""), nobody],
      ["a key without what all keys begin with", withKey((key) => key.slice(4)), nobody],
      ["the public part of a key", withKey((key) => key.slice(0, 16)), nobody],
      ["the secret part of a key", withKey((key) => key.slice(16, 59)), nobody],
      ["the id of a key", ({ id }) => ["GET", path, { key: id }], nobody],
      ["the service account's key without its last character", withKey(() => serviceKey.slice(0, -1)), nobody],
      ["the service account's key with one character more", withKey(() => `${serviceKey}x`), nobody],
      ["the service account's key in upper case", withKey(() => serviceKey.toUpperCase()), nobody],
      ["as many letters as the service account's key", withKey(() => "x".repeat(serviceKey.length)), nobody]
    ],
    { given: Effect.flatMap(TestService, (service) => makeKey(service, ["*:*"])) }
  )

  for (const name of ["X-Api-Key", "x-api-key", "api_key", "apiKey", "api-key", "key", "access_token"]) {
    it.effect(`401: a key in the query string as ${name}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { id, key } = yield* makeKey(service, ["*:*"])
        for (const value of [key, service.serviceKey]) {
          const query = `?${name}=${value}`
          assertProblem(yield* service.call("GET", `${path}${query}`, { key: null }), 401, "unauthenticated")
          assertProblem(yield* service.call("GET", `${path}/${id}${query}`, { key: null }), 401, "unauthenticated")
          assertProblem(yield* service.call("DELETE", `${path}/${id}${query}`, { key: null }), 401, "unauthenticated")
        }
      })
    )
  }

  it.effect(
    "400: list with a key in the query string beside the one in the header, which the answer does not repeat",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { key } = yield* makeKey(service, ["*:*"])
        const answer = yield* service.call("GET", `${path}?api_key=${key}`)
        assert.deepStrictEqual(faultPaths(answer), ["query.api_key"])
        assert.notInclude(answer.text, key)
      })
  )

  it.effect("200: the service account's key may do everything, in every tenant", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { id } = yield* makeKey(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })
      for (const at of ["/api/trial-users", "/api/sessions", path, `${path}/${id}`, "/api/audit-logs"]) {
        assert.strictEqual((yield* service.call("GET", at)).status, 200)
      }
    })
  )
})
