import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Fiber, Layer, Redacted } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { AuthCacheInvalidation } from "../../../src/access/auth-cache-invalidation.ts"
import { ApiKeyCheck } from "../../../src/access/credential-checks.ts"
import { ApiKeyCheckLayer } from "../../../src/agents/api-keys/key-check.ts"
import { ApiKeysRepository } from "../../../src/agents/api-keys/repository.ts"
import { ApiKeys } from "../../../src/agents/api-keys/service.ts"
import { asSystem, Audit } from "../../../src/audit/log/service.ts"
import { Database } from "../../../src/platform/database/database.ts"
import { Notifications } from "../../../src/platform/database/notifications.ts"
import { HandClock, OwnDatabase, poolOnOwnDatabase, realClock } from "../../support/clock.ts"
import { asSuperuser } from "../../support/statements.ts"

const ServicesLayer = Layer.mergeAll(ApiKeys.layer, ApiKeyCheckLayer, ApiKeysRepository.layer).pipe(
  Layer.provide(
    Layer.merge(Audit.layer, AuthCacheInvalidation.layer).pipe(
      Layer.provide(Notifications.layer),
      Layer.provide(realClock)
    )
  ),
  Layer.provide([SecureRandom.layerWebCrypto, Digest.layerWebCrypto]),
  Layer.provideMerge(poolOnOwnDatabase),
  Layer.provideMerge(HandClock.layer)
)

const make = Effect.fnUntraced(function* (expiresAt: DateTime.Utc | null = null) {
  const keys = yield* ApiKeys
  const made = yield* asSystem(keys.create({ name: "a key", scopes: ["sessions:read"], expiresAt }))
  return { id: made.id, key: Redacted.value(made.key) }
})

/** What the check says of a key: "works", or why not. */
const checked = Effect.fnUntraced(function* (key: string) {
  const credentials = yield* ApiKeyCheck
  return yield* Effect.match(credentials.check(key), { onSuccess: () => "works", onFailure: ({ reason }) => reason })
})

layer(ServicesLayer, { excludeTestServices: true, timeout: "60 seconds" })("the check of API keys", (it) => {
  it.effect("a key expires at its moment, though it was looked up just before", () =>
    Effect.gen(function* () {
      yield* HandClock.setTime("2090-01-01T00:00:00Z")
      const { key } = yield* make(DateTime.makeUnsafe("2090-01-01T01:00:00Z"))
      yield* HandClock.setTime("2090-01-01T00:59:59.999Z")
      assert.strictEqual(yield* checked(key), "works")
      yield* HandClock.adjust(1)
      assert.strictEqual(yield* checked(key), "expired")
    })
  )

  for (const graceSeconds of [undefined, 1, 86_400, 604_800]) {
    it.effect(`a rotated key works until its grace of ${graceSeconds ?? "a day, the default,"} is over`, () =>
      Effect.gen(function* () {
        yield* HandClock.setTime("2091-01-01T00:00:00Z")
        const keys = yield* ApiKeys
        const old = yield* make()
        const rotation = graceSeconds === undefined ? {} : { graceSeconds }
        const rotated = yield* asSystem(keys.rotate(old.id, rotation))
        yield* HandClock.adjust((graceSeconds ?? 86_400) * 1000 - 1)
        assert.strictEqual(yield* checked(old.key), "works")
        yield* HandClock.adjust(1)
        assert.strictEqual(yield* checked(old.key), "expired")
        assert.strictEqual(yield* checked(Redacted.value(rotated.key)), "works")
      })
    )
  }

  it.effect("the last use of a key is written once a minute", () =>
    Effect.gen(function* () {
      const keys = yield* ApiKeys
      const repository = yield* ApiKeysRepository
      const database = yield* Database
      const { id } = yield* make()
      for (const [at, wanted] of [
        ["2093-01-01T00:00:00Z", "2093-01-01T00:00:00.000Z"],
        ["2093-01-01T00:00:59Z", "2093-01-01T00:00:00.000Z"],
        ["2093-01-01T00:01:01Z", "2093-01-01T00:01:01.000Z"],
        ["2093-01-01T00:00:30Z", "2093-01-01T00:01:01.000Z"]
      ] as const) {
        yield* database.transaction("all", repository.used([{ id, at: Date.parse(at) }]))
        const { lastUsedAt } = yield* asSystem(keys.get(id))
        assert.strictEqual(lastUsedAt === null ? null : DateTime.formatIso(lastUsedAt), wanted)
      }
    })
  )

  it.effect("a rotated key without grace is revoked at once", () =>
    Effect.gen(function* () {
      const keys = yield* ApiKeys
      const old = yield* make()
      assert.strictEqual(yield* checked(old.key), "works")
      yield* asSystem(keys.rotate(old.id, { graceSeconds: 0 }))
      assert.strictEqual(yield* checked(old.key), "revoked")
    })
  )

  it.effect("what was looked up is believed for less than a second, whoever changed the row", () =>
    Effect.gen(function* () {
      const database = yield* OwnDatabase
      const { id, key } = yield* make()
      assert.strictEqual(yield* checked(key), "works")
      yield* asSuperuser(database, (sql) => sql`UPDATE api_keys SET revoked_at = '2000-01-01' WHERE id = ${id}`)
      yield* HandClock.adjust(1000)
      assert.strictEqual(yield* checked(key), "revoked")
    })
  )

  it.effect("a revocation inside a larger transaction holds once that is committed, whatever was asked before", () =>
    Effect.gen(function* () {
      const keys = yield* ApiKeys
      const database = yield* Database
      const { id, key } = yield* make()
      const elsewhere = Effect.runForkWith(yield* Effect.context<ApiKeyCheck>())
      yield* asSystem(
        database.transaction(
          "all",
          Effect.gen(function* () {
            yield* keys.revoke(id)
            assert.strictEqual(yield* Fiber.join(elsewhere(checked(key))), "works")
          })
        )
      )
      assert.strictEqual(yield* checked(key), "revoked")
    })
  )

  it.effect("a revocation that is rolled back never was", () =>
    Effect.gen(function* () {
      const keys = yield* ApiKeys
      const database = yield* Database
      const { id, key } = yield* make()
      yield* database.transaction("all", Effect.andThen(asSystem(keys.revoke(id)), Effect.fail("no"))).pipe(Effect.flip)
      assert.strictEqual(yield* checked(key), "works")
    })
  )
})
