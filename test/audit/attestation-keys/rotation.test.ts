import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Option, Result } from "effect"
import { AuthCacheInvalidation } from "../../../src/access/auth-cache-invalidation.ts"
import { AttestationKeyRevocation } from "../../../src/audit/attestation-keys/revocation.ts"
import { AttestationKeyRotations } from "../../../src/audit/attestation-keys/rotation.ts"
import { asSystem, Audit } from "../../../src/audit/log/service.ts"
import { type AttestationKeyEnding } from "../../../src/audit/signing-keys/domain.ts"
import { AttestationKeysRepository } from "../../../src/audit/signing-keys/repository.ts"
import { AttestationKeys } from "../../../src/audit/signing-keys/service.ts"
import { Sealing } from "../../../src/platform/crypto/sealing.ts"
import { DatabaseConnection } from "../../../src/platform/database/connection.ts"
import { poolLayer } from "../../../src/platform/database/database.ts"
import { Notifications } from "../../../src/platform/database/notifications.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"
import { HandClock, realClock } from "../../support/clock.ts"
import { makeDatabase, type TestDatabase } from "../../support/database.ts"
import { quietAuthority } from "../../support/quiet-authority.ts"
import { encryptionKey } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

const day = 86_400_000
const announced = 600_000
const overlap = 86_460_000

/** The keys of one replica, on the clock that the test sets. */
const replicaOn = Effect.fnUntraced(function* (database: TestDatabase, environment: Record<string, string> = {}) {
  const context = yield* Layer.build(
    Layer.merge(AttestationKeyRotations.layer, AttestationKeyRevocation.layer).pipe(
      Layer.provide(AuthCacheInvalidation.layerKeyRevocations),
      Layer.provideMerge(AttestationKeys.layer),
      Layer.provide(AttestationKeysRepository.layer),
      Layer.provideMerge(Audit.layer),
      Layer.provide(quietAuthority),
      Layer.provide(Sealing.layer),
      Layer.provide(Notifications.layer.pipe(Layer.provide(realClock))),
      Layer.provide(Settings.layerMemory({ environment: { Security__EncryptionKey: encryptionKey, ...environment } })),
      Layer.provide(NodeCrypto.layerSecureRandom),
      Layer.provide(
        Layer.succeed(DatabaseConnection, DatabaseConnection.of({ options: database, embeddedIn: Option.none() }))
      ),
      Layer.provide(
        poolLayer({ connection: database, maxConnections: 4, statementTimeoutSeconds: 30 }).pipe(
          Layer.provide(realClock)
        )
      )
    )
  )
  const keys = Context.get(context, AttestationKeys)
  const revocation = Context.get(context, AttestationKeyRevocation)
  const rotations = Context.get(context, AttestationKeyRotations)
  return {
    audit: Context.get(context, Audit),
    keys,
    maintain: rotations.maintain,
    rotate: (id: string, overlapSeconds?: number) =>
      asSystem(rotations.rotate(id as never, overlapSeconds === undefined ? {} : { overlapSeconds })),
    end: (id: string, ending: AttestationKeyEnding) => asSystem(revocation.end(id as never, ending)),
    listed: Effect.map(rotations.list(undefined, 100), ({ items }) => items),
    published: Effect.map(keys.publishedFor("sign-tokens"), (set) => set.keys.map(({ kid }) => kid)),
    sign: Effect.flatMap(keys.signer("sign-tokens"), (signer) =>
      Effect.map(signer.sign("at+jwt", { jti: "a" }), (jws) => ({ keyId: signer.keyId, jws }))
    ),
    signStatement: Effect.flatMap(keys.signer("sign-statements"), (signer) =>
      Effect.map(signer.sign("a-statement", { says: "this" }), (jws) => ({ keyId: signer.keyId, jws }))
    ),
    stands: (jws: string) => Effect.map(keys.verify("sign-statements", "a-statement", jws), Result.isSuccess),
    isGood: (jws: string) => Effect.map(keys.verify("sign-tokens", "at+jwt", jws), Result.isSuccess)
  }
})

/** A database with nothing in it but its tables, and the time at which everything begins. */
const fresh = Effect.andThen(HandClock.setTime("2090-01-01T00:00:00Z"), makeDatabase)

const privateHalves = (database: TestDatabase) =>
  asSuperuser(database, (sql) =>
    Effect.map(
      sql<{ readonly length: number }>`
        SELECT length(sealed_private_key) AS length FROM attestation_keys
        WHERE purpose = 'sign-tokens' ORDER BY created_at`,
      (rows) => rows.map(({ length }) => length)
    )
  )

layer(HandClock.layer, { excludeTestServices: true, timeout: "60 seconds" })(
  "the keys that tokens are signed with",
  (it) => {
    it.effect("a new key is published before it signs, and the old one until its last token is over", () =>
      Effect.gen(function* () {
        const replica = yield* replicaOn(yield* fresh)
        const first = yield* replica.sign
        assert.deepStrictEqual(yield* replica.published, [first.keyId])
        const [old] = yield* replica.listed
        const successor = yield* replica.rotate(old?.id ?? "")
        assert.strictEqual(successor.status, "pending")
        assert.sameMembers(yield* replica.published, [first.keyId, successor.keyId])

        yield* HandClock.adjust(announced - 1)
        const last = yield* replica.sign
        assert.strictEqual(last.keyId, first.keyId)
        yield* HandClock.adjust(1)
        assert.strictEqual((yield* replica.sign).keyId, successor.keyId)

        // The last token by the old key lives a day at most; a minute more is for clocks that differ.
        yield* HandClock.adjust(overlap - 1)
        assert.isTrue(yield* replica.isGood(last.jws))
        assert.sameMembers(yield* replica.published, [first.keyId, successor.keyId])
        yield* HandClock.adjust(1)
        assert.isFalse(yield* replica.isGood(last.jws))
        assert.deepStrictEqual(yield* replica.published, [successor.keyId])
        assert.deepStrictEqual(
          (yield* replica.listed).map(({ status }) => status),
          ["retired", "active"]
        )
      })
    )

    it.effect("one that is ended while its successor waits is followed by that at once", () =>
      Effect.gen(function* () {
        const database = yield* fresh
        const replica = yield* replicaOn(database)
        const first = yield* replica.sign
        const [old] = yield* replica.listed
        yield* HandClock.adjust(1000)
        const successor = yield* replica.rotate(old?.id ?? "")
        yield* replica.end(old?.id ?? "", { reason: "compromised" })
        assert.isFalse(yield* replica.isGood(first.jws))
        assert.strictEqual((yield* replica.sign).keyId, successor.keyId)
        assert.deepStrictEqual(yield* replica.published, [successor.keyId])
        assert.deepStrictEqual(
          (yield* replica.listed).map(({ status }) => status),
          ["compromised", "active"]
        )
        const [gone = 0, kept = 0] = yield* privateHalves(database)
        assert.isBelow(gone, kept, "the private half is still there")
      })
    )

    it.effect("one that still overlaps is ended without another; the one that signs is followed by a new one", () =>
      Effect.gen(function* () {
        const replica = yield* replicaOn(yield* fresh)
        const first = yield* replica.sign
        const [old] = yield* replica.listed
        const second = yield* replica.rotate(old?.id ?? "")
        yield* HandClock.adjust(announced)
        const good = yield* replica.sign
        yield* replica.end(old?.id ?? "", { reason: "superseded" })
        assert.isFalse(yield* replica.isGood(first.jws))
        assert.isTrue(yield* replica.isGood(good.jws))
        assert.lengthOf(yield* replica.listed, 2)
        yield* replica.end(second.id, { reason: "superseded" })
        yield* replica.end(second.id, { reason: "superseded" })
        assert.isFalse(yield* replica.isGood(good.jws))
        const third = yield* replica.sign
        assert.deepStrictEqual(yield* replica.published, [third.keyId])
        assert.deepStrictEqual(
          (yield* replica.listed).map(({ status }) => status),
          ["retired", "retired", "active"]
        )
      })
    )

    it.effect("what a superseded key stated stands; of a compromised one nothing does, also if it was superseded", () =>
      Effect.gen(function* () {
        const replica = yield* replicaOn(yield* fresh)
        const statement = yield* replica.signStatement
        const id = Effect.map(
          replica.listed,
          (keys) => keys.find(({ keyId }) => keyId === statement.keyId)?.id ?? assert.fail("not listed")
        )
        yield* replica.end(yield* id, { reason: "superseded" })
        assert.isTrue(yield* replica.stands(statement.jws))
        const later = yield* replica.signStatement
        assert.notStrictEqual(later.keyId, statement.keyId)
        yield* replica.end(yield* id, { reason: "compromised" })
        assert.isFalse(yield* replica.stands(statement.jws))
        assert.isTrue(yield* replica.stands(later.jws))
        yield* replica.end(yield* id, { reason: "superseded" })
        assert.isFalse(yield* replica.stands(statement.jws), "nothing makes it good again")
      })
    )

    it.effect("rotate by themselves when they are old enough, and not a moment earlier", () =>
      Effect.gen(function* () {
        const database = yield* fresh
        const replica = yield* replicaOn(database, { Security__TokenKeyDays: "30" })
        const first = yield* replica.sign
        yield* HandClock.adjust(30 * day - 1)
        yield* replica.maintain
        assert.deepStrictEqual(yield* replica.published, [first.keyId])
        yield* HandClock.adjust(1)
        yield* replica.maintain
        yield* replica.maintain
        assert.lengthOf(yield* replica.published, 2)
        yield* HandClock.adjust(announced)
        assert.notStrictEqual((yield* replica.sign).keyId, first.keyId)

        const [before] = yield* privateHalves(database)
        yield* HandClock.adjust(overlap)
        yield* replica.maintain
        const [after, kept] = yield* privateHalves(database)
        assert.isBelow(after ?? 0, before ?? 0, "the private half of a key that is over is destroyed")
        assert.strictEqual(kept, before)
        const entries = yield* asSystem(replica.audit.list({ entityType: "AttestationKey" }, undefined, 10))
        assert.sameMembers(
          entries.items.map(({ actionType }) => actionType),
          ["AttestationKeyCreated", "AttestationKeyCreated", "AttestationKeyRotated", "AttestationKeyRetired"]
        )
        assert.isTrue(entries.items.every(({ userId }) => userId === "system"))
      })
    )

    it.effect("never rotate by themselves when told so", () =>
      Effect.gen(function* () {
        const replica = yield* replicaOn(yield* fresh, { Security__TokenKeyDays: "0" })
        const first = yield* replica.sign
        yield* HandClock.adjust(4000 * day)
        yield* replica.maintain
        assert.strictEqual((yield* replica.sign).keyId, first.keyId)
        assert.lengthOf(yield* replica.published, 1)
      })
    )

    it.effect("any number of replicas that start at once make one key, and one when it is old", () =>
      Effect.gen(function* () {
        const database = yield* fresh
        const replicas = yield* Effect.forEach([1, 2, 3, 4], () => replicaOn(database), { concurrency: "unbounded" })
        const signed = yield* Effect.forEach(replicas, ({ sign }) => sign)
        assert.strictEqual(new Set(signed.map(({ keyId }) => keyId)).size, 1)
        yield* HandClock.adjust(90 * day)
        yield* Effect.forEach(replicas, ({ maintain }) => maintain, { concurrency: "unbounded" })
        for (const { published } of replicas) assert.lengthOf(yield* published, 2)
        yield* HandClock.adjust(announced)
        const after = yield* Effect.forEach(replicas, ({ sign }) => sign)
        assert.strictEqual(new Set(after.map(({ keyId }) => keyId)).size, 1)
        assert.notStrictEqual(after[0]?.keyId, signed[0]?.keyId)
        for (const { isGood } of replicas) {
          for (const { jws } of [...signed, ...after]) assert.isTrue(yield* isGood(jws))
        }
      })
    )

    it.effect("of two that replace one key at once, one does, and the other is told", () =>
      Effect.gen(function* () {
        const database = yield* fresh
        const [one, other] = [yield* replicaOn(database), yield* replicaOn(database)]
        const [key] = yield* one.listed
        const exits = yield* Effect.forEach(
          [one, other, one, other],
          ({ rotate }) => Effect.result(rotate(key?.id ?? "")),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(exits.filter(Result.isSuccess), 1)
        for (const exit of exits)
          if (Result.isFailure(exit)) assert.strictEqual(exit.failure._tag, "AttestationKeyReplaced")
        assert.lengthOf(yield* one.listed, 2)
      })
    )

    it.effect(
      "a key that signs nothing yet is not replaced; an overlap of nothing ends the old one's tokens at once",
      () =>
        Effect.gen(function* () {
          const replica = yield* replicaOn(yield* fresh)
          const first = yield* replica.sign
          const [old] = yield* replica.listed
          const pending = yield* replica.rotate(old?.id ?? "", 0)
          assert.strictEqual((yield* Effect.flip(replica.rotate(pending.id)))._tag, "AttestationKeyReplaced")
          yield* HandClock.adjust(announced - 1)
          assert.isTrue(yield* replica.isGood(first.jws))
          yield* HandClock.adjust(1)
          assert.isFalse(yield* replica.isGood(first.jws))
          assert.deepStrictEqual(yield* replica.published, [pending.keyId])
        })
    )

    it.effect("a key of another purpose vouches for no token, and a token's key for no statement", () =>
      Effect.gen(function* () {
        const { keys } = yield* replicaOn(yield* fresh)
        for (const [by, wanted] of [
          ["sign-statements", "sign-tokens"],
          ["sign-tokens", "sign-statements"]
        ] as const) {
          const jws = yield* (yield* keys.signer(by)).sign("at+jwt", { jti: "a" })
          assert.isTrue(Result.isSuccess(yield* keys.verify(by, "at+jwt", jws)))
          assert.isTrue(Result.isFailure(yield* keys.verify(wanted, "at+jwt", jws)))
        }
      })
    )
  }
)
