import { Schema } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../kernel/audit-action.ts"
import { generatedId, Uuid } from "../kernel/identifier.ts"
import { CreatedAt, Instant, InstantFromDate } from "../kernel/instant.ts"

export const attestationActions = auditActions("AttestationKey", ["AttestationKeyCreated", "AttestationKeyRetired"])

export const AttestationKeyId = Uuid.pipe(Schema.brand("AttestationKeyId"))

export const KeyPurpose = Schema.Literals(["sign-tokens", "sign-statements", "verify"])
export type KeyPurpose = typeof KeyPurpose.Type

/** The public half of a key as JWK (RFC 8037). */
export const PublicJwk = Schema.Struct({
  kty: Schema.String.annotate({ examples: ["OKP"] }),
  crv: Schema.String.annotate({ examples: ["Ed25519"] }),
  x: Schema.String.annotate({ examples: ["11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"] })
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
  createdAt: CreatedAt
}) {}

/** The public keys as a JWK set (RFC 7517): those in use, and those that were, for what they have signed. */
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
