import { type DateTime, Effect, Redacted, Schema } from "effect"
import { Model } from "effect/schema"
import * as jose from "jose"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { AttestationKey, type KeyPurpose, PublicJwk } from "./domain.ts"

/** What keys of a purpose sign with; RS256 is the one algorithm that all vendors take from an issuer of assertions. */
export const algorithmOf = (purpose: KeyPurpose): "EdDSA" | "RS256" =>
  purpose === "sign-assertions" ? "RS256" : "EdDSA"

const makingOf = { EdDSA: { crv: "Ed25519" }, RS256: { modulusLength: 2048 } } as const

/** What the private half of a key is sealed for. */
export const placeOf = (keyId: string) => `attestation-key:${keyId}`

/** Replaces a destroyed private key: an empty seal, since the service only accepts keys with a valid seal as its own. */
export const sealNothing = (sealing: Sealing["Service"], keyId: string) =>
  sealing.seal(Redacted.make(new Uint8Array()), placeOf(keyId))

/** Generates key pairs with sealed private keys; the caller stores them. */
export const makeKeyMaking = Effect.gen(function* () {
  const sealing = yield* Sealing

  return Effect.fn("AttestationKeys.make")(function* (
    purpose: KeyPurpose,
    times: { readonly createdAt: DateTime.Utc; readonly validFrom: DateTime.Utc },
    name: string = purpose
  ) {
    const algorithm = algorithmOf(purpose)
    const pair = yield* Effect.promise(() =>
      jose.generateKeyPair(algorithm, { ...makingOf[algorithm], extractable: true })
    )
    const publicKey = yield* Effect.orDie(
      Schema.decodeUnknownEffect(PublicJwk)(yield* Effect.promise(() => jose.exportJWK(pair.publicKey)))
    )
    const keyId = yield* Effect.promise(() => jose.calculateJwkThumbprint(publicKey))
    const privateKey = yield* Effect.promise(() => jose.exportPKCS8(pair.privateKey))
    const sealedPrivateKey = yield* sealing.seal(Redacted.make(new TextEncoder().encode(privateKey)), placeOf(keyId))
    return AttestationKey.insert.make({
      keyId,
      name,
      purpose,
      algorithm,
      publicKey,
      sealedPrivateKey,
      status: "active",
      validFrom: times.validFrom,
      validUntil: null,
      createdAt: Model.Override(times.createdAt)
    })
  })
})
