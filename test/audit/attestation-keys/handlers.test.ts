import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as jose from "jose"
import { isActive, makeAgent, tokenOf } from "../../support/agents.ts"
import { makeKey, refusesStrangers } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { serviceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

const path = "/api/attestation/keys"
const nobody = "0198a5b0-7c00-7000-8000-00000000002a"
const publicUrl = "http://127.0.0.1:11402"

interface Key {
  readonly id: string
  readonly keyId: string
  readonly purpose: string
  readonly status: string
}

const keysOf = (service: Service): Effect.Effect<ReadonlyArray<Key>> =>
  Effect.map(service.call("GET", `${path}?limit=200`), ({ body }) => body.items)

/** The key that signs tokens now. */
const currentOf = (service: Service) =>
  Effect.map(keysOf(service), (keys) => {
    const known = keys.filter(({ purpose, status }) => purpose === "sign-tokens" && status === "active")
    return known.at(-1) ?? assert.fail("no key signs tokens")
  })

const jwks = (service: Service) =>
  Effect.map(service.call("GET", "/.well-known/jwks.json", { key: null }), ({ body }) => body as jose.JSONWebKeySet)
const kids = (service: Service) => Effect.map(jwks(service), ({ keys }) => keys.map(({ kid }) => kid ?? ""))
const kidOf = (token: string) => jose.decodeProtectedHeader(token).kid

/** Lets so much time go by for the keys, and tells the replicas. */
const age = (service: Service, seconds: number) =>
  asSuperuser(service.database, (sql) =>
    Effect.andThen(
      sql`
        UPDATE attestation_keys SET valid_from = valid_from - make_interval(secs => ${seconds}),
          valid_until = valid_until - make_interval(secs => ${seconds}) WHERE purpose = 'sign-tokens'`,
      sql`SELECT pg_notify('application_manager', 'attestation_keys_changed ')`
    )
  )

layer(serviceLayer({ Api__PublicUrl: publicUrl }), { excludeTestServices: true, timeout: "60 seconds" })(
  "attestation keys",
  (it) => {
    refusesStrangers(it, [
      { name: "list", method: "GET", path, capability: "attestation:read", systemOnly: true },
      { name: "get", method: "GET", path: `${path}/${nobody}`, capability: "attestation:read", systemOnly: true },
      {
        name: "rotate",
        method: "POST",
        path: `${path}/${nobody}/rotate`,
        body: {},
        capability: "attestation:write",
        systemOnly: true
      },
      {
        name: "end",
        method: "DELETE",
        path: `${path}/${nobody}`,
        body: { reason: "compromised" },
        capability: "attestation:write",
        systemOnly: true
      }
    ])

    it.effect("200: a key as it is published, and nothing of its private half", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { id } = yield* currentOf(service)
        const { body, status } = yield* service.call("GET", `${path}/${id}`)
        assert.strictEqual(status, 200)
        assert.sameMembers(Object.keys(body), [
          "id",
          "keyId",
          "name",
          "purpose",
          "algorithm",
          "publicKey",
          "status",
          "validFrom",
          "validUntil",
          "compromisedAt",
          "createdAt"
        ])
        assert.sameMembers(Object.keys(body.publicKey), ["kty", "crv", "x"])
        assert.strictEqual(body.keyId, yield* Effect.promise(() => jose.calculateJwkThumbprint(body.publicKey)))
      })
    )

    it.effect("404 and 400: a key that is none, an id that is none, an overlap beyond a week", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        assertProblem(yield* service.call("GET", `${path}/${nobody}`), 404, "attestation-key-not-found")
        const rotated = yield* service.call("POST", `${path}/${nobody}/rotate`, { body: {} })
        assertProblem(rotated, 404, "attestation-key-not-found")
        assertProblem(yield* service.call("GET", `${path}/7`), 400, "validation-failed")
        const { id } = yield* currentOf(service)
        for (const overlapSeconds of [-1, 604_801, 1.5, "60"]) {
          const answer = yield* service.call("POST", `${path}/${id}/rotate`, { body: { overlapSeconds } })
          assertProblem(answer, 400, "validation-failed")
        }
      })
    )

    it.effect(
      "201: a rotation reaches every replica, and tokens by either key are good on both while they overlap",
      () =>
        Effect.gen(function* () {
          const here = yield* TestService
          const there = yield* startService(here.database, { Api__PublicUrl: publicUrl })
          const agent = yield* makeAgent(here)
          const old = yield* currentOf(here)
          const early = yield* tokenOf(here, agent)
          assert.strictEqual(kidOf(early.accessToken), old.keyId)

          const { key } = yield* makeKey(here, ["attestation:write"])
          const rotated = yield* here.call("POST", `${path}/${old.id}/rotate`, { key, body: {} })
          assert.strictEqual(rotated.status, 201, rotated.text)
          assert.strictEqual(rotated.headers.get("location"), `${path}/${rotated.body.id}`)
          assert.strictEqual(rotated.body.status, "pending")
          assertProblem(
            yield* here.call("POST", `${path}/${old.id}/rotate`, { body: {} }),
            409,
            "attestation-key-replaced"
          )
          assert.include(yield* kids(here), rotated.body.keyId)
          yield* eventually(kids(there), (published) => published.includes(rotated.body.keyId))
          // Published, and signing nothing yet.
          assert.strictEqual(kidOf((yield* tokenOf(there, agent)).accessToken), old.keyId)

          yield* age(here, 600)
          for (const replica of [here, there]) {
            const late = yield* eventually(
              tokenOf(replica, agent),
              ({ accessToken }) => kidOf(accessToken) === rotated.body.keyId
            )
            for (const { accessToken } of [early, late]) {
              for (const verifier of [here, there]) {
                assert.isTrue(yield* isActive(verifier, accessToken))
                const set = jose.createLocalJWKSet(yield* jwks(verifier))
                yield* Effect.promise(() => jose.jwtVerify(accessToken, set, { typ: "at+jwt", issuer: publicUrl }))
              }
            }
          }

          yield* age(here, 86_460)
          for (const replica of [here, there]) {
            yield* eventually(kids(replica), (published) => !published.includes(old.keyId))
            assert.include(yield* kids(replica), rotated.body.keyId)
            // Though its signature was checked a moment ago, and its credential has not expired.
            assert.isFalse(yield* isActive(replica, early.accessToken))
          }
        })
    )
  }
)
