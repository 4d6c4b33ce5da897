import { Context, DateTime, Effect, Layer, Option, Redacted, Result, Schema } from "effect"
import { Model } from "effect/schema"
import * as jose from "jose"
import { asSystem, Audit } from "../audit/service.ts"
import { Settings } from "../platform/settings.ts"
import { type SealBroken, Sealing } from "../platform/sealing.ts"
import { AttestationKey, attestationActions, type KeyPurpose, PublicJwk, type PublicKeys } from "./domain.ts"
import { AttestationKeysRepository } from "./repository.ts"

const algorithm = "EdDSA"

/** Signs statements of one kind with one key. */
export interface Signer {
  readonly keyId: string
  /** A compact JWS whose header `typ` says what kind of statement it is. */
  sign(type: string, payload: object): Effect.Effect<string>
}

/** What a signature turned out to be: the payload that a key of ours signed, or why it is nothing. */
export type Signed = Result.Result<Schema.Json, string>

export class AttestationKeys extends Context.Service<
  AttestationKeys,
  {
    /** The signer of a purpose; its key is made when there is none yet. */
    signer(purpose: KeyPurpose): Effect.Effect<Signer, SealBroken>
    /**
     * Checks a JWS against a key whose seal opens under the encryption key: that of a key that somebody put into the
     * database does not.
     */
    verify(type: string, jws: string): Effect.Effect<Signed>
    readonly published: Effect.Effect<PublicKeys>
    /** Those of one purpose. */
    publishedFor(purpose: KeyPurpose): Effect.Effect<PublicKeys>
  }
>()("app/attestation/AttestationKeys") {
  static readonly layerNoDeps = Layer.effect(
    AttestationKeys,
    Effect.gen(function* () {
      const audit = yield* Audit
      const repository = yield* AttestationKeysRepository
      const sealing = yield* Sealing
      const { security } = yield* Settings

      const make = Effect.fn("AttestationKeys.make")(function* (purpose: KeyPurpose) {
        const pair = yield* Effect.promise(() => jose.generateKeyPair(algorithm, { crv: "Ed25519", extractable: true }))
        const publicKey = yield* Effect.orDie(
          Schema.decodeUnknownEffect(PublicJwk)(yield* Effect.promise(() => jose.exportJWK(pair.publicKey)))
        )
        const keyId = yield* Effect.promise(() => jose.calculateJwkThumbprint(publicKey))
        const privateKey = yield* Effect.promise(() => jose.exportPKCS8(pair.privateKey))
        const sealedPrivateKey = yield* sealing.seal(
          Redacted.make(new TextEncoder().encode(privateKey)),
          placeOf(keyId)
        )
        const now = yield* DateTime.now
        return yield* Effect.gen(function* () {
          const key = yield* repository.insert(
            AttestationKey.insert.make({
              keyId,
              name: purpose,
              purpose,
              algorithm,
              publicKey,
              sealedPrivateKey,
              status: "active",
              validFrom: now,
              validUntil: null,
              createdAt: Model.Override(now)
            })
          )
          return {
            value: key,
            entries: [{ action: attestationActions.AttestationKeyCreated, entityId: key.id, after: snapshot(key) }]
          }
        }).pipe(audit.change, asSystem)
      })

      const open = ({ keyId, sealedPrivateKey }: AttestationKey) =>
        sealing.open(sealedPrivateKey ?? new Uint8Array(), placeOf(keyId))

      /** Goes on without a key that cannot be opened; what it signed stands, which the seal in its place says from now on. */
      const giveUp = Effect.fn("AttestationKeys.giveUp")(function* (key: AttestationKey) {
        const sealedPrivateKey = yield* sealing.seal(Redacted.make(new Uint8Array()), placeOf(key.keyId))
        const now = yield* DateTime.now
        const after = new AttestationKey({ ...key, status: "retired", validUntil: now })
        yield* Effect.logWarning(`The key ${key.keyId} cannot be opened and signs no more`)
        yield* repository.retire({ id: key.id, validUntil: DateTime.toDateUtc(now), sealedPrivateKey }).pipe(
          Effect.as({
            value: undefined,
            entries: [
              {
                action: attestationActions.AttestationKeyRetired,
                entityId: key.id,
                before: snapshot(key),
                after: snapshot(after)
              }
            ]
          }),
          audit.change,
          asSystem
        )
      })

      // Under another key nothing could be signed, and all that was would seem forged: better no start than that.
      for (const key of yield* repository.allActive) {
        if (Option.isSome(yield* Effect.option(open(key)))) continue
        if (!security.acceptLostKey) return yield* sealing.wrongKey
        yield* giveUp(key)
      }

      const signer = Effect.fn("AttestationKeys.signer")(function* (
        purpose: KeyPurpose
      ): Effect.fn.Return<Signer, SealBroken> {
        const key = yield* Effect.flatMap(
          repository.active(purpose),
          Option.match({ onNone: () => make(purpose), onSome: Effect.succeed })
        )
        const pem = yield* open(key)
        const privateKey = yield* Effect.promise(() =>
          jose.importPKCS8(new TextDecoder().decode(Redacted.value(pem)), algorithm)
        )
        return {
          keyId: key.keyId,
          sign: (typ, payload) =>
            Effect.promise(() =>
              new jose.CompactSign(new TextEncoder().encode(JSON.stringify(payload)))
                .setProtectedHeader({ alg: algorithm, kid: key.keyId, typ })
                .sign(privateKey)
            )
        }
      })

      const trusted = new Map<string, jose.CryptoKey>()
      const trust = Effect.fnUntraced(function* (keyId: string) {
        const known = trusted.get(keyId)
        if (known !== undefined) return Option.some(known)
        const key = Option.getOrUndefined(yield* repository.find(keyId))
        if (key === undefined) return Option.none()
        const opened = yield* Effect.option(open(key))
        const thumbprint = yield* Effect.promise(() => jose.calculateJwkThumbprint(key.publicKey))
        if (Option.isNone(opened) || thumbprint !== keyId) return Option.none()
        const publicKey = yield* Effect.promise(() => jose.importJWK(key.publicKey, algorithm))
        if (publicKey instanceof Uint8Array) return Option.none()
        trusted.set(keyId, publicKey)
        return Option.some(publicKey)
      })

      const verify = Effect.fn("AttestationKeys.verify")(function* (type: string, jws: string) {
        const header = headerOf(jws)
        if (header?.typ !== type || header.kid === undefined) return Result.fail(`It is no ${type}`)
        const key = yield* trust(header.kid)
        if (Option.isNone(key)) return Result.fail(`The key ${header.kid} is none of this service`)
        return yield* Effect.tryPromise(() => jose.compactVerify(jws, key.value, { algorithms: [algorithm] })).pipe(
          Effect.match({
            onSuccess: ({ payload }) => Result.succeed(JSON.parse(new TextDecoder().decode(payload)) as Schema.Json),
            onFailure: () => Result.fail("The signature does not fit")
          })
        )
      })

      const published = Effect.withSpan(Effect.map(repository.published, setOf), "AttestationKeys.published")
      const publishedFor = Effect.fn("AttestationKeys.publishedFor")((purpose: KeyPurpose) =>
        Effect.map(repository.published, (keys) => setOf(keys.filter((key) => key.purpose === purpose)))
      )

      return AttestationKeys.of({ signer, verify, published, publishedFor })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AttestationKeysRepository.layer))
}

const setOf = (keys: ReadonlyArray<AttestationKey>): PublicKeys => ({
  keys: keys.map(({ algorithm: alg, keyId, publicKey }) => ({ ...publicKey, kid: keyId, alg, use: "sig" }))
})

/** What the private half of a key is sealed for. */
const placeOf = (keyId: string): string => `attestation-key:${keyId}`

const snapshot = Schema.encodeSync(AttestationKey.json)

const headerOf = (jws: string): jose.ProtectedHeaderParameters | undefined => {
  try {
    return jose.decodeProtectedHeader(jws)
  } catch {
    return undefined
  }
}
