import { DateTime, Schema } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { Model } from "effect/schema"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { generatedId, Uuid } from "../../kernel/identifier.ts"
import { CreatedAt, Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { name, text } from "../../kernel/text.ts"

export const attestationActions = auditActions("AttestationKey", [
  "AttestationKeyCreated",
  "AttestationKeyRotated",
  "AttestationKeyRetired",
  "AttestationKeyCompromised"
])

export const AttestationKeyId = Uuid.pipe(Schema.brand("AttestationKeyId"))
export type AttestationKeyId = typeof AttestationKeyId.Type

export const KeyPurpose = Schema.Literals(["sign-tokens", "sign-statements", "sign-assertions", "verify"]).annotate({
  description:
    "`sign-tokens`: of agents; `sign-statements`: about the audit log; `sign-assertions`: about the gateway, to vendors that give it credentials; `verify`: a key of others",
  examples: ["sign-tokens"]
})
export type KeyPurpose = typeof KeyPurpose.Type

/** How long clients may cache the published keys. */
export const keysFreshSeconds = 300

/**
 * How long a key is published before it signs: twice as long as clients may cache the published keys. Vendors do not say how
 * long they keep those of an issuer; two days is more than any is known to.
 */
export const announcedSecondsOf = (purpose: KeyPurpose): number =>
  purpose === "sign-assertions" ? 2 * 86_400 : 2 * keysFreshSeconds

const longestLifetimeSeconds = {
  "sign-tokens": 86_400,
  "sign-assertions": 300,
  "sign-statements": undefined,
  verify: undefined
}

/** Whether what a key of the purpose signs ends by itself, so that the key is retired some time after its successor signs. */
export const signsWhatEnds = (purpose: KeyPurpose): boolean => longestLifetimeSeconds[purpose] !== undefined

/** How long a key's signatures stay valid after its successor signs: the longest lifetime of what it signs, and a minute. */
export const overlapSecondsOf = (purpose: KeyPurpose): number => {
  const lifetime = longestLifetimeSeconds[purpose]
  return lifetime === undefined ? 0 : lifetime + 60
}

/** The public half of a key as JWK: the members of its type (RFC 7518, RFC 8037). */
export const PublicJwk = Schema.Struct({
  kty: Schema.String.annotate({ examples: ["OKP"] }),
  crv: Schema.optionalKey(Schema.String.annotate({ examples: ["Ed25519"] })),
  x: Schema.optionalKey(Schema.String.annotate({ examples: ["11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"] })),
  y: Schema.optionalKey(Schema.String),
  n: Schema.optionalKey(Schema.String),
  e: Schema.optionalKey(Schema.String)
})
export type PublicJwk = typeof PublicJwk.Type

/** A key that the service signs with, or trusts. Its private half is kept sealed and never leaves. */
export class AttestationKey extends Model.Class<AttestationKey>("AttestationKey")({
  id: generatedId(AttestationKeyId),
  keyId: Schema.String.annotate({ description: "RFC 7638 thumbprint of the public key" }),
  name: Schema.String,
  purpose: KeyPurpose,
  algorithm: Schema.String.annotate({ examples: ["EdDSA"] }),
  publicKey: Model.Field({ select: PublicJwk, insert: Schema.fromJsonString(PublicJwk), json: PublicJwk }),
  sealedPrivateKey: Model.Sensitive(Schema.NullOr(Schema.Uint8Array)),
  status: Schema.Literals(["pending", "active", "retired", "compromised"]),
  validFrom: Model.Field({ select: InstantFromDate, insert: InstantFromDate, json: Instant }),
  validUntil: Model.Field({
    select: Schema.NullOr(InstantFromDate),
    insert: Schema.NullOr(InstantFromDate),
    json: Schema.NullOr(Instant)
  }),
  /** When the key may have been compromised, if that is known. */
  compromisedAt: Model.Field({ select: Schema.NullOr(InstantFromDate), json: Schema.NullOr(Instant) }),
  createdAt: CreatedAt
}) {
  /** Whether the key is no longer active, or its successor already exists. */
  isReplaced(): boolean {
    return this.status !== "active" || this.validUntil !== null
  }

  /** Whether the key may sign now. */
  maySign(now: DateTime.Utc): boolean {
    return this.status === "active" && DateTime.isLessThanOrEqualTo(this.validFrom, now)
  }

  /**
   * Whether its signatures are valid: of tokens and assertions until the overlap is over, of statements without a limit, of
   * a key that the service trusts while it is valid.
   */
  mayVerify(now: DateTime.Utc): boolean {
    if (this.purpose === "verify") return this.status === "active" && this.isValidAt(now)
    if (this.status !== "active" && this.status !== "retired") return false
    return !signsWhatEnds(this.purpose) || !this.isOver(now)
  }

  /** Whether the key was in use at a moment. */
  isValidAt(moment: DateTime.Utc): boolean {
    return DateTime.isLessThanOrEqualTo(this.validFrom, moment) && !this.isOver(moment)
  }

  isOver(now: DateTime.Utc): boolean {
    return this.validUntil !== null && DateTime.isLessThanOrEqualTo(this.validUntil, now)
  }

  statusAt(now: DateTime.Utc): "pending" | "active" | "retired" | "compromised" {
    if (this.status !== "active") return this.status
    if (DateTime.isGreaterThan(this.validFrom, now)) return "pending"
    return this.isOver(now) ? "retired" : "active"
  }
}

/** A key as the API shows it. */
export const AttestationKeyView = Schema.Struct({
  id: AttestationKeyId,
  keyId: Schema.String.annotate({
    description: "RFC 7638 thumbprint of the public key",
    examples: ["kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"]
  }),
  name: Schema.String.annotate({ examples: ["sign-tokens"] }),
  purpose: KeyPurpose,
  algorithm: Schema.String.annotate({ examples: ["EdDSA"] }),
  publicKey: PublicJwk,
  status: Schema.Literals(["pending", "active", "retired", "compromised"]).annotate({
    description: "`pending`: published, and signs from `validFrom` on; `active`: signs, or what it signed still counts",
    examples: ["active"]
  }),
  validFrom: Instant,
  validUntil: Schema.NullOr(Instant).annotate({ description: "null until another key takes its place" }),
  compromisedAt: Schema.NullOr(Instant).annotate({ description: "Since when it may have been in other hands" }),
  createdAt: Instant
}).annotate({ identifier: "AttestationKey" })
export type AttestationKeyView = typeof AttestationKeyView.Type

export const toResponse =
  (now: DateTime.Utc) =>
  (key: AttestationKey): AttestationKeyView => ({
    id: key.id,
    keyId: key.keyId,
    name: key.name,
    purpose: key.purpose,
    algorithm: key.algorithm,
    publicKey: key.publicKey,
    status: key.statusAt(now),
    validFrom: key.validFrom,
    validUntil: key.validUntil,
    compromisedAt: key.compromisedAt,
    createdAt: key.createdAt
  })

export const AttestationKeyCreation = Schema.Struct({
  name: name(200, { examples: ["build server"] }),
  purpose: KeyPurpose,
  publicKey: Schema.optionalKey(
    Schema.Union([text(1, 65_536), Schema.Record(Schema.String, Schema.Json)]).annotate({
      description:
        "For the purpose `verify`, and only there: the key as PEM, as a JWK, or as a chain of X.509 certificates in PEM, its own first; it is trusted while all of the chain are valid",
      examples: [{ kty: "OKP", crv: "Ed25519", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }]
    })
  )
}).annotate({
  identifier: "NewAttestationKey",
  examples: [{ name: "statements, second key", purpose: "sign-statements" }]
})
export type AttestationKeyCreation = typeof AttestationKeyCreation.Type

export const AttestationKeyRotation = Schema.Struct({
  overlapSeconds: Schema.optionalKey(
    Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 604_800 }))).annotate({
      description:
        "How long the old key stays published once the new one signs; when absent 86,460 for tokens and 360 for assertions, so that none outlives its key",
      examples: [86_460]
    })
  )
}).annotate({ identifier: "AttestationKeyRotation" })
export type AttestationKeyRotation = typeof AttestationKeyRotation.Type

export const AttestationKeyEnding = Schema.Struct({
  reason: Schema.Literals(["superseded", "compromised"]).annotate({
    description:
      "`superseded`: it signs no more, and its tokens end; `compromised`: nothing that it ever signed counts any more",
    examples: ["compromised"]
  }),
  compromisedAt: Schema.optionalKey(
    Schema.NullOr(Instant).annotate({ description: "Since when it may have been in other hands; now when absent" })
  )
}).annotate({ identifier: "AttestationKeyEnding", examples: [{ reason: "compromised" }] })
export type AttestationKeyEnding = typeof AttestationKeyEnding.Type

export class AttestationKeyNotFound extends Problem<AttestationKeyNotFound>()("AttestationKeyNotFound", {
  slug: "attestation-key-not-found",
  status: 404,
  meaning: "No key that the service signs with, or trusts, has this id."
}) {}

export class AttestationKeyExists extends Problem<AttestationKeyExists>()("AttestationKeyExists", {
  slug: "attestation-key-exists",
  status: 409,
  meaning: "The installation knows this key already, perhaps as one that it trusts no more."
}) {}

export class AttestationKeyReplaced extends Problem<AttestationKeyReplaced>()("AttestationKeyReplaced", {
  slug: "attestation-key-replaced",
  status: 409,
  meaning: "The key does not sign: another one has taken its place, or it is itself not in use yet."
}) {}

/** The service's own public keys as a JWK set (RFC 7517): those in use, and those that were, for what they have signed. */
export const PublicKeys = Schema.Struct({
  keys: Schema.Array(
    Schema.Struct({
      ...PublicJwk.fields,
      kid: Schema.String.annotate({
        description: "RFC 7638 thumbprint; the `kid` of what the key signed",
        examples: ["kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"]
      }),
      alg: Schema.String.annotate({ examples: ["EdDSA"] }),
      use: Schema.Literal("sig")
    })
  )
}).annotate({ identifier: "AttestationPublicKeys" })
export type PublicKeys = typeof PublicKeys.Type

/** The same with how long clients may keep it. */
export const JsonWebKeys = HttpApiSchema.WithHeaders(PublicKeys, {
  "cache-control": Schema.String.annotate({ examples: [`public, max-age=${keysFreshSeconds}`] })
})

const encode = Schema.encodeSync(AttestationKey.json)

/** A key as the audit log keeps it, never with its private half. */
export const snapshot = (key: typeof AttestationKey.json.Type) => encode(key)
