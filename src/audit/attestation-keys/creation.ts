import { Context, DateTime, Effect, Layer, Result } from "effect"
import { Model } from "effect/schema"
import * as jose from "jose"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { type Changed } from "../log/domain.ts"
import { Audit } from "../log/service.ts"
import {
  announcedSecondsOf,
  attestationActions,
  AttestationKey,
  type AttestationKeyCreation,
  type AttestationKeyView,
  snapshot,
  toResponse
} from "../signing-keys/domain.ts"
import { makeKeyMaking } from "../signing-keys/key-making.ts"
import { KeyRing } from "../signing-keys/key-ring.ts"
import { readPublicKey } from "../signing-keys/public-keys.ts"
import { AttestationKeysRepository } from "../signing-keys/repository.ts"

/** Adds keys: generated ones to sign with, and those of others to trust. */
export class AttestationKeyCreations extends Context.Service<AttestationKeyCreations>()(
  "app/audit/AttestationKeyCreations",
  {
    make: Effect.gen(function* () {
      const audit = yield* Audit
      const make = yield* makeKeyMaking
      const repository = yield* AttestationKeysRepository
      const ring = yield* KeyRing

      const given = Effect.fnUntraced(function* ({ name, publicKey }: AttestationKeyCreation, now: DateTime.Utc) {
        const read = publicKey === undefined ? Result.fail(required) : readPublicKey(publicKey, DateTime.toDateUtc(now))
        if (Result.isFailure(read)) return yield* fault(read.failure)
        const { algorithm, jwk, validFrom, validUntil } = read.success
        return AttestationKey.insert.make({
          keyId: yield* Effect.promise(() => jose.calculateJwkThumbprint(jwk)),
          name,
          purpose: "verify",
          algorithm,
          publicKey: jwk,
          sealedPrivateKey: null,
          status: "active",
          validFrom: validFrom === undefined ? now : DateTime.fromDateUnsafe(validFrom),
          validUntil: validUntil === undefined ? null : DateTime.fromDateUnsafe(validUntil),
          createdAt: Model.Override(now)
        })
      })

      const generated = Effect.fnUntraced(function* (
        { name, publicKey, purpose }: AttestationKeyCreation,
        now: DateTime.Utc
      ) {
        if (publicKey !== undefined) return yield* fault("Expected only for the purpose verify")
        const isFirst = (yield* ring.signing(purpose)) === undefined
        const validFrom = isFirst ? now : DateTime.add(now, { seconds: announcedSecondsOf(purpose) })
        return yield* make(purpose, { createdAt: now, validFrom }, name)
      })

      const create = Effect.fn("AttestationKeyCreations.create")(
        function* (input: AttestationKeyCreation) {
          const now = yield* DateTime.now
          const key = yield* repository.insertGiven(yield* (input.purpose === "verify" ? given : generated)(input, now))
          yield* ring.announce
          return {
            value: toResponse(now)(key),
            entries: [{ action: attestationActions.AttestationKeyCreated, entityId: key.id, after: snapshot(key) }]
          } satisfies Changed<AttestationKeyView>
        },
        audit.change,
        Effect.tap(ring.reload)
      )

      return { create }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(AttestationKeysRepository.layer))
}

const required = "Expected the key to trust"

const fault = (message: string) =>
  Effect.fail(new ValidationFailed({ errors: [{ path: ["payload", "publicKey"], message }] }))
