import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { Context, Data, Effect, Layer, Redacted } from "effect"
import { Aead, Digest, SecureRandom } from "effect/crypto"
import { createHmac } from "node:crypto"
import { SettingsError } from "../settings/settings-reader.ts"
import { EncryptionKey } from "./encryption-key.ts"

/** Why a sealed secret cannot be opened: another key sealed it, or its bytes or its owner were changed. */
export class SealBroken extends Data.TaggedError("SealBroken")<{ readonly reason: "other-key" | "damaged" }> {
  override get message() {
    return this.reason === "other-key"
      ? "It was encrypted under another key than Security:EncryptionKey"
      : "The encrypted secret is damaged, or was moved to another row"
  }
}

const version = 1
const fingerprintLength = 8
const nonceLength = 12
const headerLength = 1 + fingerprintLength + nonceLength

/**
 * Encrypts secrets at rest (AES-256-GCM): a version, the fingerprint of the key, a nonce, the ciphertext with its tag. Each
 * is sealed for its owner, such as `attestation-key:<id>`, and opens for no other.
 */
export class Sealing extends Context.Service<
  Sealing,
  {
    seal(secret: Redacted.Redacted<Uint8Array>, owner: string): Effect.Effect<Uint8Array>
    open(sealed: Uint8Array, owner: string): Effect.Effect<Redacted.Redacted<Uint8Array>, SealBroken>
    /** Compares texts without revealing them to a reader of the database: HMAC-SHA-256, 32 bytes. */
    fingerprint(data: Uint8Array): Effect.Effect<Uint8Array>
    /** The failure of a start: the database has secrets that this key cannot open. */
    readonly wrongKey: SettingsError
  }
>()("app/platform/Sealing") {
  static readonly layerNoDeps = Layer.effect(
    Sealing,
    Effect.gen(function* () {
      const aead = yield* Aead.Aead
      const digest = yield* Digest.Digest
      const random = yield* SecureRandom.SecureRandom
      const encryptionKey = yield* EncryptionKey
      const bytes = Redacted.value(encryptionKey.bytes)
      const key = yield* Effect.orDie(Aead.key(Aead.aes256Gcm, bytes))
      const text = new TextEncoder()
      const tagged = Buffer.concat([text.encode("application-manager/encryption-key/v1\n"), bytes])
      const fingerprint = (yield* digest.digest(Digest.sha256, tagged)).subarray(0, fingerprintLength)
      const opening = Buffer.concat([Uint8Array.of(version), fingerprint])
      const associated = (owner: string) => Buffer.concat([opening, text.encode(owner)])

      const markKey = yield* digest.digest(
        Digest.sha256,
        Buffer.concat([text.encode("application-manager/fingerprint-key/v1\n"), bytes])
      )

      return Sealing.of({
        fingerprint: (data) => Effect.sync(() => new Uint8Array(createHmac("sha256", markKey).update(data).digest())),
        wrongKey: new SettingsError({
          faults: [
            {
              name: "Security:EncryptionKey",
              source: encryptionKey.source,
              reason:
                "the secrets in this database were encrypted under another key, or are damaged; if that key is lost, Security:AcceptLostKey=true discards them"
            }
          ]
        }),
        seal: Effect.fn("Sealing.seal")(function* (secret, owner) {
          const nonce = yield* random.randomBytes(nonceLength)
          const closed = yield* aead.encrypt(key, Redacted.value(secret), { nonce, aad: associated(owner) })
          return new Uint8Array(Buffer.concat([opening, nonce, closed]))
        }, Effect.orDie),
        open: Effect.fn("Sealing.open")(function* (sealed, owner) {
          if (sealed[0] !== version || sealed.length < headerLength) return yield* new SealBroken({ reason: "damaged" })
          if (!opening.equals(sealed.subarray(0, opening.length))) return yield* new SealBroken({ reason: "other-key" })
          const nonce = sealed.slice(opening.length, headerLength)
          return yield* aead.decrypt(key, sealed.slice(headerLength), { nonce, aad: associated(owner) }).pipe(
            Effect.map((secret) => Redacted.make(secret, { label: "sealed" })),
            Effect.mapError(() => new SealBroken({ reason: "damaged" }))
          )
        })
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(EncryptionKey.layer),
    Layer.provide(Layer.mergeAll(NodeCrypto.layerAead, NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom))
  )
}
