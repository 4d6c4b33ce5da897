import { Context, DateTime, Effect, Layer } from "effect"
import { slice } from "../../kernel/http/page.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { asSystem, Audit } from "../log/service.ts"
import {
  announcedSecondsOf,
  attestationActions,
  type AttestationKey,
  type AttestationKeyId,
  AttestationKeyReplaced,
  type AttestationKeyRotation,
  overlapSecondsOf,
  signsWhatEnds,
  snapshot,
  toResponse
} from "../signing-keys/domain.ts"
import { makeKeyMaking, sealNothing } from "../signing-keys/key-making.ts"
import { KeyRing } from "../signing-keys/key-ring.ts"
import { AttestationKeysRepository } from "../signing-keys/repository.ts"
import { AttestationKeys } from "../signing-keys/service.ts"

/** The signing keys for operators: listed, and rotated by hand or by age. */
export class AttestationKeyRotations extends Context.Service<AttestationKeyRotations>()(
  "app/audit/AttestationKeyRotations",
  {
    make: Effect.gen(function* () {
      const audit = yield* Audit
      const keys = yield* AttestationKeys
      const make = yield* makeKeyMaking
      const repository = yield* AttestationKeysRepository
      const ring = yield* KeyRing
      const sealing = yield* Sealing
      const { security } = yield* Settings

      const rotate = Effect.fn("AttestationKeyRotations.rotate")(
        function* (id: AttestationKeyId, { overlapSeconds }: AttestationKeyRotation) {
          const before = yield* repository.lock(id)
          const now = yield* DateTime.now
          if (before.purpose === "verify" || before.isReplaced() || !before.maySign(now)) {
            return yield* new AttestationKeyReplaced({})
          }
          const validFrom = DateTime.add(now, { seconds: announcedSecondsOf(before.purpose) })
          const validUntil = DateTime.add(validFrom, { seconds: overlapSeconds ?? overlapSecondsOf(before.purpose) })
          const after = yield* repository.end({ id, validUntil: DateTime.toDateUtc(validUntil) })
          const successor = yield* repository.insert(yield* make(before.purpose, { createdAt: now, validFrom }))
          yield* ring.announce
          return {
            value: toResponse(now)(successor),
            entries: [
              {
                action: attestationActions.AttestationKeyCreated,
                entityId: successor.id,
                after: snapshot(successor)
              },
              {
                action: attestationActions.AttestationKeyRotated,
                entityId: id,
                before: snapshot(before),
                after: snapshot(after)
              }
            ]
          }
        },
        audit.change,
        Effect.tap(ring.reload)
      )

      const isOld = (key: AttestationKey, now: DateTime.Utc) =>
        security.tokenKeyDays > 0 &&
        !key.isReplaced() &&
        DateTime.isLessThanOrEqualTo(DateTime.add(key.validFrom, { days: security.tokenKeyDays }), now)

      const retire = Effect.fnUntraced(function* (seen: AttestationKey) {
        const sealedPrivateKey = yield* sealNothing(sealing, seen.keyId)
        yield* Effect.gen(function* () {
          const before = yield* Effect.orDie(repository.lock(seen.id))
          if (before.status !== "active" || before.validUntil === null) return { value: undefined, entries: [] }
          const { id, validUntil } = before
          yield* repository.retire({ id, validUntil: DateTime.toDateUtc(validUntil), sealedPrivateKey })
          yield* ring.announce
          const after = snapshot({ ...before, status: "retired" })
          const entry = { action: attestationActions.AttestationKeyRetired, entityId: id }
          return { value: undefined, entries: [{ ...entry, before: snapshot(before), after }] }
        }).pipe(audit.change)
      })

      const maintain = Effect.gen(function* () {
        yield* ring.reload
        const now = yield* DateTime.now
        for (const key of yield* ring.all) {
          if (!signsWhatEnds(key.purpose)) continue
          // Another replica that was first has done it.
          if (isOld(key, now)) yield* Effect.ignore(rotate(key.id, {}))
          if (key.status === "active" && key.isOver(now)) yield* retire(key)
        }
        yield* ring.reload
      }).pipe(Effect.withSpan("AttestationKeyRotations.maintain"), asSystem)
      yield* Effect.orDie(keys.signer("sign-tokens"))
      yield* repeatJob("rotate the keys that tokens are signed with", "1 hour", maintain)

      const list = Effect.fn("AttestationKeyRotations.list")(function* (
        after: AttestationKeyId | undefined,
        limit: number
      ) {
        const view = toResponse(yield* DateTime.now)
        return slice((yield* repository.list(after, limit + 1)).map(view), limit, (key) => key.id)
      })

      const get = Effect.fn("AttestationKeyRotations.get")(function* (id: AttestationKeyId) {
        return toResponse(yield* DateTime.now)(yield* repository.get(id))
      })

      return {
        list,
        get,
        /** Makes the key that takes another one's place: published at once, signing when every old set of keys is forgotten. */
        rotate,
        /** Replaces the keys of tokens and assertions if they are old enough, and destroys the private halves of those that are over. */
        maintain
      }
    })
  }
) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AttestationKeysRepository.layer))
}
