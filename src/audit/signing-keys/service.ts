import { Context, DateTime, Effect, Layer, Option, Redacted, Result, type Schema } from "effect"
import * as jose from "jose"
import { type SealBroken, Sealing } from "../../platform/crypto/sealing.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { asSystem, Audit } from "../log/service.ts"
import {
  attestationActions,
  type AttestationKey,
  type KeyPurpose,
  overlapSecondsOf,
  type PublicKeys,
  snapshot
} from "./domain.ts"
import { algorithmOf, makeKeyMaking, placeOf, sealNothing } from "./key-making.ts"
import { KeyRing } from "./key-ring.ts"
import { AttestationKeysRepository } from "./repository.ts"

/** Signs statements of one kind with one key. */
export interface Signer {
  readonly keyId: string
  /** A compact JWS whose header `typ` says what kind of statement it is. */
  sign(type: string, payload: object): Effect.Effect<string>
  /** The bare Ed25519 signature of bytes, for envelopes with a form of their own. */
  signBytes(bytes: Uint8Array): Effect.Effect<Uint8Array>
}

/** The result of verifying a signature: the signed payload, or why the signature is invalid. */
export type Signed = Result.Result<Schema.Json, string>

/** The failure when the service knows the key, but the signature does not match. */
export const signatureDoesNotFit = "The signature does not fit"

export class AttestationKeys extends Context.Service<
  AttestationKeys,
  {
    /**
     * The current signer of a purpose. Get it for each signature, since rotation replaces it. The first call creates
     * the key if none exists.
     */
    signer(purpose: KeyPurpose): Effect.Effect<Signer, SealBroken>
    /**
     * Verifies a JWS with a key of the purpose whose seal opens under the encryption key, so that a key inserted
     * directly into the database is not trusted.
     */
    verify(purpose: KeyPurpose, type: string, jws: string): Effect.Effect<Signed>
    /** Verifies a bare signature with a key of the purpose, as `verify` does; or why it is invalid. */
    verifyBytes(
      purpose: KeyPurpose,
      keyId: string,
      bytes: Uint8Array,
      signature: Uint8Array
    ): Effect.Effect<Result.Result<void, string>>
    /**
     * Whether the key that signed an already verified JWS is still accepted for the purpose. Keys in `compromised` are
     * never accepted.
     */
    counts(purpose: KeyPurpose, jws: string, compromised?: ReadonlyArray<string>): Effect.Effect<boolean>
    /** The keys whose signatures are valid now, or will be: all but those of assertions, which only vendors verify. */
    readonly published: Effect.Effect<PublicKeys>
    /** Those of one purpose. */
    publishedFor(purpose: KeyPurpose): Effect.Effect<PublicKeys>
    /** The keys of others that the service trusts, or trusted: each says whether it counts. */
    readonly trusted: Effect.Effect<ReadonlyArray<AttestationKey>>
  }
>()("app/audit/AttestationKeys") {
  static readonly layerNoDeps = Layer.effect(
    AttestationKeys,
    Effect.gen(function* () {
      const audit = yield* Audit
      const make = yield* makeKeyMaking
      const repository = yield* AttestationKeysRepository
      const ring = yield* KeyRing
      const sealing = yield* Sealing
      const { security } = yield* Settings

      const makeFirst = Effect.fn("AttestationKeys.makeFirst")(function* (purpose: KeyPurpose) {
        const now = yield* DateTime.now
        const made = yield* make(purpose, { createdAt: now, validFrom: now })
        yield* Effect.gen(function* () {
          yield* repository.alone
          // Another replica that starts may have been first.
          const known = yield* repository.own
          if (known.some((key) => key.purpose === purpose && key.maySign(now))) return { value: undefined, entries: [] }
          const key = yield* repository.insert(made)
          yield* ring.announce
          return {
            value: undefined,
            entries: [{ action: attestationActions.AttestationKeyCreated, entityId: key.id, after: snapshot(key) }]
          }
        }).pipe(audit.change, asSystem)
        yield* ring.reload
      })

      const open = ({ keyId, sealedPrivateKey }: AttestationKey) =>
        sealing.open(sealedPrivateKey ?? new Uint8Array(), placeOf(keyId))

      /** Retires a key whose seal cannot be opened. The new, empty seal marks its signatures as still trusted. */
      const giveUp = Effect.fn("AttestationKeys.giveUp")(function* (key: AttestationKey) {
        const sealedPrivateKey = yield* sealNothing(sealing, key.keyId)
        const validUntil =
          key.validUntil ?? DateTime.add(yield* DateTime.now, { seconds: overlapSecondsOf(key.purpose) })
        yield* Effect.logWarning(`The key ${key.keyId} cannot be opened and signs no more`)
        yield* Effect.gen(function* () {
          yield* repository.retire({ id: key.id, validUntil: DateTime.toDateUtc(validUntil), sealedPrivateKey })
          yield* ring.announce
          const after = snapshot({ ...key, status: "retired", validUntil })
          const entry = { action: attestationActions.AttestationKeyRetired, entityId: key.id }
          return { value: undefined, entries: [{ ...entry, before: snapshot(key), after }] }
        }).pipe(audit.change, asSystem)
        yield* ring.reload
      })

      // With a wrong encryption key, nothing could be signed and all signatures would seem forged, so startup fails.
      for (const key of yield* ring.all) {
        if (key.status !== "active" || Option.isSome(yield* Effect.option(open(key)))) continue
        if (!security.acceptLostKey) return yield* sealing.wrongKey
        yield* giveUp(key)
      }

      const signers = new Map<string, Signer>()
      const signer = Effect.fn("AttestationKeys.signer")(function* (
        purpose: KeyPurpose
      ): Effect.fn.Return<Signer, SealBroken> {
        const current = yield* ring.signing(purpose)
        if (current === undefined) {
          yield* makeFirst(purpose)
          return yield* signer(purpose)
        }
        const { algorithm, keyId } = current
        const known = signers.get(keyId)
        if (known !== undefined) return known
        const pem = new TextDecoder().decode(Redacted.value(yield* open(current)))
        const privateKey = yield* Effect.promise(() => jose.importPKCS8(pem, algorithm))
        const made: Signer = {
          keyId,
          sign: (typ, payload) =>
            Effect.promise(() =>
              new jose.CompactSign(new TextEncoder().encode(JSON.stringify(payload)))
                .setProtectedHeader({ alg: algorithm, kid: keyId, typ })
                .sign(privateKey)
            ),
          signBytes: (bytes) =>
            Effect.map(
              Effect.promise(() => crypto.subtle.sign("Ed25519", privateKey, new Uint8Array(bytes))),
              (signature) => new Uint8Array(signature)
            )
        }
        signers.set(keyId, made)
        return made
      })

      const counting = Effect.fnUntraced(function* (purpose: KeyPurpose, keyId: string | undefined) {
        const key = keyId === undefined ? undefined : yield* ring.find(keyId)
        return key !== undefined && key.purpose === purpose && key.mayVerify(yield* DateTime.now) ? key : undefined
      })

      /** Why what a key signed does not count. */
      const whyNot = Effect.fnUntraced(function* (keyId: string) {
        const status = (yield* ring.find(keyId))?.status
        if (status === undefined) return noKeyOfOurs(keyId)
        return status === "compromised"
          ? compromised(keyId)
          : `The key ${keyId} signs something else, or its time is over`
      })

      const trusted = new Map<string, jose.CryptoKey>()
      const trust = Effect.fnUntraced(function* (purpose: KeyPurpose, keyId: string) {
        const key = yield* counting(purpose, keyId)
        if (key === undefined) return Result.fail(yield* whyNot(keyId))
        const known = trusted.get(keyId)
        if (known !== undefined) return Result.succeed(known)
        const opened = yield* Effect.option(open(key))
        const thumbprint = yield* Effect.promise(() => jose.calculateJwkThumbprint(key.publicKey))
        if (Option.isNone(opened) || thumbprint !== keyId) return Result.fail(noKeyOfOurs(keyId))
        const publicKey = yield* Effect.promise(() => jose.importJWK(key.publicKey, key.algorithm))
        if (publicKey instanceof Uint8Array) return Result.fail(noKeyOfOurs(keyId))
        trusted.set(keyId, publicKey)
        return Result.succeed(publicKey)
      })

      const verify = Effect.fn("AttestationKeys.verify")(function* (purpose: KeyPurpose, type: string, jws: string) {
        const header = headerOf(jws)
        if (header?.typ !== type || header.kid === undefined) return Result.fail(`It is no ${type}`)
        const key = yield* trust(purpose, header.kid)
        if (Result.isFailure(key)) return Result.fail(key.failure)
        return yield* Effect.tryPromise(() =>
          jose.compactVerify(jws, key.success, { algorithms: [algorithmOf(purpose)] })
        ).pipe(
          Effect.match({
            onSuccess: ({ payload }) => Result.succeed(JSON.parse(new TextDecoder().decode(payload)) as Schema.Json),
            onFailure: () => Result.fail(signatureDoesNotFit)
          }),
          Effect.withSpan("AttestationKeys.checkSignature")
        )
      })

      const verifyBytes = Effect.fn("AttestationKeys.verifyBytes")(function* (
        purpose: KeyPurpose,
        keyId: string,
        bytes: Uint8Array,
        signature: Uint8Array
      ): Effect.fn.Return<Result.Result<void, string>> {
        const key = yield* trust(purpose, keyId)
        if (Result.isFailure(key)) return Result.fail(key.failure)
        const isSigned = yield* Effect.promise(() =>
          crypto.subtle.verify("Ed25519", key.success, new Uint8Array(signature), new Uint8Array(bytes))
        )
        return isSigned ? Result.succeed(undefined) : Result.fail(signatureDoesNotFit)
      })

      const publishedWhere = Effect.fnUntraced(function* (wanted: (key: AttestationKey) => boolean) {
        const now = yield* DateTime.now
        return setOf((yield* ring.all).filter((key) => wanted(key) && key.mayVerify(now)))
      })

      return AttestationKeys.of({
        signer,
        verify,
        verifyBytes,
        trusted: repository.trusted,
        counts: (purpose, jws, compromised = []) =>
          Effect.map(
            counting(purpose, headerOf(jws)?.kid),
            (key) => key !== undefined && !compromised.includes(key.keyId)
          ),
        published: Effect.withSpan(
          publishedWhere((key) => key.purpose !== "sign-assertions"),
          "AttestationKeys.published"
        ),
        publishedFor: Effect.fn("AttestationKeys.publishedFor")((purpose: KeyPurpose) =>
          publishedWhere((key) => key.purpose === purpose)
        )
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provideMerge(KeyRing.layer),
    Layer.provide(AttestationKeysRepository.layer)
  )
}

export const compromised = (keyId: string): string =>
  `The key ${keyId} was compromised, and nothing that it ever signed counts any more`

const noKeyOfOurs = (keyId: string): string => `The key ${keyId} is none of this service`

const setOf = (keys: ReadonlyArray<AttestationKey>): PublicKeys => ({
  keys: keys.map(({ algorithm: alg, keyId, publicKey }) => ({ ...publicKey, kid: keyId, alg, use: "sig" }))
})

const headerOf = (jws: string): jose.ProtectedHeaderParameters | undefined => {
  try {
    return jose.decodeProtectedHeader(jws)
  } catch {
    return undefined
  }
}
