import { Context, DateTime, Effect, Layer } from "effect"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { type Change } from "../log/domain.ts"
import { Audit } from "../log/service.ts"
import {
  attestationActions,
  type AttestationKey,
  type AttestationKeyEnding,
  type AttestationKeyId,
  snapshot
} from "../signing-keys/domain.ts"
import { makeKeyMaking, sealNothing } from "../signing-keys/key-making.ts"
import { KeyRing } from "../signing-keys/key-ring.ts"
import { AttestationKeysRepository } from "../signing-keys/repository.ts"

/** Makes every replica verify signatures again; implemented by the caches of verification results. */
export class KeyRevocations extends Context.Service<
  KeyRevocations,
  {
    /** Runs within a change: once it is committed, no replica relies on earlier verification results. */
    readonly announce: Effect.Effect<void, never, Change>
  }
>()("app/audit/KeyRevocations") {}

/** Revokes keys immediately: a leaked key gets no overlap period. */
export class AttestationKeyRevocation extends Context.Service<AttestationKeyRevocation>()(
  "app/audit/AttestationKeyRevocation",
  {
    make: Effect.gen(function* () {
      const audit = yield* Audit
      const authority = yield* KeyRevocations
      const make = yield* makeKeyMaking
      const repository = yield* AttestationKeysRepository
      const ring = yield* KeyRing
      const sealing = yield* Sealing

      /** Ensures that the purpose has a key that may sign now: the announced successor, or else a new key. */
      const succeed = Effect.fnUntraced(function* ({ purpose }: AttestationKey, now: DateTime.Utc) {
        if (purpose === "verify") return []
        const usable = (yield* repository.own).filter((key) => key.purpose === purpose && !key.isReplaced())
        if (usable.some((key) => key.maySign(now))) return []
        const next = usable.at(-1)
        if (next === undefined) {
          const made = yield* repository.insert(yield* make(purpose, { createdAt: now, validFrom: now }))
          return [{ action: attestationActions.AttestationKeyCreated, entityId: made.id, after: snapshot(made) }]
        }
        const begun = yield* repository.begin({ id: next.id, validFrom: DateTime.toDateUtc(now) })
        const entry = { action: attestationActions.AttestationKeyRotated, entityId: next.id }
        return [{ ...entry, before: snapshot(next), after: snapshot(begun) }]
      })

      const end = Effect.fn("AttestationKeyRevocation.end")(
        function* (id: AttestationKeyId, { compromisedAt, reason }: AttestationKeyEnding) {
          const now = yield* DateTime.now
          const fault = faultOf(reason, compromisedAt ?? undefined, now)
          if (fault !== undefined) {
            return yield* new ValidationFailed({ errors: [{ path: ["payload", "compromisedAt"], message: fault }] })
          }
          // No other replica makes a first key meanwhile.
          yield* repository.alone
          const before = yield* repository.lock(id)
          const isDone = before.status === "compromised" || (before.status === "retired" && reason === "superseded")
          if (isDone) return { value: undefined, entries: [] }
          const after = yield* repository.close({
            id,
            status: reason === "compromised" ? "compromised" : "retired",
            validUntil: DateTime.toDateUtc(before.isOver(now) ? (before.validUntil ?? now) : now),
            compromisedAt: reason === "compromised" ? DateTime.toDateUtc(compromisedAt ?? now) : null,
            sealedPrivateKey: before.purpose === "verify" ? null : yield* sealNothing(sealing, before.keyId)
          })
          const successors = yield* succeed(before, now)
          yield* ring.announce
          yield* authority.announce
          const action =
            reason === "compromised"
              ? attestationActions.AttestationKeyCompromised
              : attestationActions.AttestationKeyRetired
          const entry = { action, entityId: id, before: snapshot(before), after: snapshot(after) }
          return { value: undefined, entries: [entry, ...successors] }
        },
        audit.change,
        Effect.tap(ring.reload)
      )

      return {
        /**
         * Destroys the private half, and activates another key if this one was signing; idempotent. This replica
         * rejects the signatures of a compromised key as soon as it responds, the others within a second.
         */
        end
      }
    })
  }
) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AttestationKeysRepository.layer))
}

const faultOf = (
  reason: AttestationKeyEnding["reason"],
  compromisedAt: DateTime.Utc | undefined,
  now: DateTime.Utc
): string | undefined => {
  if (compromisedAt === undefined) return undefined
  if (reason !== "compromised") return "Expected only with the reason compromised"
  return DateTime.isGreaterThan(compromisedAt, now) ? "Expected a moment that is not in the future" : undefined
}
