import { DateTime, Schema, SchemaGetter } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { listing } from "../../kernel/http/listing.ts"
import { generatedId, TenantId, Uuid } from "../../kernel/identifier.ts"
import { CreatedAt, Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { legible, text } from "../../kernel/text.ts"
import { AgentId } from "../agents/domain.ts"

export const AgentKeyId = Uuid.pipe(Schema.brand("AgentKeyId"))
export type AgentKeyId = typeof AgentKeyId.Type

/** How they are listed. */
export const agentKeyListing = listing(AgentKeyId, { createdAt: "id" }, { searches: "the key id" })

export const KeyAlgorithm = Schema.Literals(["ES256", "EdDSA", "PS256", "RS256"]).annotate({ examples: ["ES256"] })
export type KeyAlgorithm = typeof KeyAlgorithm.Type

/** `Ed25519` is another name of EdDSA (RFC 9864). */
const GivenAlgorithm = Schema.Literals(["ES256", "EdDSA", "Ed25519", "PS256", "RS256"])
  .annotate({ examples: ["ES256"] })
  .pipe(
    Schema.decodeTo(KeyAlgorithm, {
      decode: SchemaGetter.transform((algorithm) => (algorithm === "Ed25519" ? "EdDSA" : algorithm)),
      encode: SchemaGetter.passthrough()
    })
  )

export const Kid = legible(128).annotate({
  description: "What assertions name the key by; unique for the agent",
  examples: ["2026-01"]
})

const examplePem =
  "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n"
const PublicKeyPem = text(1, 4096).annotate({
  description: "One SPKI block in PEM",
  examples: [examplePem]
})

const stored = { select: InstantFromDate, insert: InstantFromDate, json: Instant }

/** A public key that an agent signs its assertions with, inside the time that it is good for. */
export class AgentKey extends Model.Class<AgentKey>("AgentKey")({
  id: generatedId(AgentKeyId),
  tenantId: TenantId.pipe(Model.FieldExcept(["update", "jsonUpdate"])),
  agentId: AgentId.pipe(Model.FieldExcept(["update", "jsonUpdate"])),
  kid: Kid,
  algorithm: KeyAlgorithm,
  publicKeyPem: PublicKeyPem,
  thumbprint: Schema.String,
  validFrom: Model.Field(stored),
  validUntil: Model.Field(stored),
  createdAt: CreatedAt,
  createdBy: Schema.String,
  revokedAt: Model.Field({ select: Schema.NullOr(InstantFromDate) }),
  credentialsRevoked: Model.Field({ select: Schema.Boolean })
}) {
  status(now: DateTime.Utc): "active" | "pending" | "expired" | "revoked" {
    if (this.revokedAt !== null) return "revoked"
    if (DateTime.isLessThanOrEqualTo(this.validUntil, now)) return "expired"
    return DateTime.isGreaterThan(this.validFrom, now) ? "pending" : "active"
  }
}

/** A key as the API shows it. */
export const AgentKeyView = Schema.Struct({
  id: AgentKeyId,
  agentId: AgentId,
  kid: Kid,
  algorithm: KeyAlgorithm,
  publicKeyPem: PublicKeyPem,
  thumbprint: Schema.String.annotate({
    description: "RFC 7638 thumbprint (SHA-256, base64url)",
    examples: ["kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"]
  }),
  validFrom: Instant,
  validUntil: Instant,
  status: Schema.Literals(["active", "pending", "expired", "revoked"]),
  createdAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }),
  revokedAt: Schema.NullOr(Instant)
}).annotate({ identifier: "AgentKey" })
export type AgentKeyView = typeof AgentKeyView.Type

const Until = Instant.pipe(Schema.annotateEncoded({ examples: ["2026-12-31T23:59:59.000Z"] }))

export const AgentKeyRegistration = Schema.Struct({
  kid: Kid,
  algorithm: GivenAlgorithm,
  publicKeyPem: PublicKeyPem,
  validFrom: Schema.optionalKey(Instant),
  validUntil: Schema.optionalKey(Until),
  proof: Schema.optionalKey(
    text(1, 8192).annotate({
      description: "A JWT by the key's private half: typ key-proof+jwt, aud the issuer, sub the agent, iat now",
      examples: ["eyJ0eXAiOiJrZXktcHJvb2Yrand0In0.e30.c2lnbmF0dXJl"]
    })
  )
}).annotate({
  identifier: "AgentKeyRegistration",
  examples: [{ kid: "2026-01", algorithm: "EdDSA", publicKeyPem: examplePem }]
})
export type AgentKeyRegistration = typeof AgentKeyRegistration.Type

export const agentKeyActions = auditActions("AgentKey", ["AgentKeyRegistered", "AgentKeyRevoked"])

export class AgentKeyNotFound extends Problem<AgentKeyNotFound>()("AgentKeyNotFound", {
  slug: "agent-key-not-found",
  status: 404,
  meaning: "The agent has no key with this id that the caller may see."
}) {}

export class AgentKeyTaken extends Problem<AgentKeyTaken>()("AgentKeyTaken", {
  slug: "agent-key-taken",
  status: 409,
  meaning: "The agent has a key of this `kid`, or the tenant has this public key already."
}) {}

export class AgentKeyLimit extends Problem<AgentKeyLimit>()("AgentKeyLimit", {
  slug: "agent-key-limit",
  status: 409,
  meaning: "The agent has five live keys; revoke one first."
}) {}

export class AgentKeyUnusable extends Problem<AgentKeyUnusable>()("AgentKeyUnusable", {
  slug: "agent-key-unusable",
  status: 400,
  meaning: "The public key, its window or its proof is not acceptable; `detail` says why."
}) {}
