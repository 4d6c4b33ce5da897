import { DateTime, Schema } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { Scopes } from "../../kernel/authority/capability.ts"
import { listing } from "../../kernel/http/listing.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { generatedId, IntegerId, TenantId, Uuid } from "../../kernel/identifier.ts"
import { CreatedAt, Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { name, text } from "../../kernel/text.ts"

export const ApiKeyId = Uuid.pipe(Schema.brand("ApiKeyId"))
export type ApiKeyId = typeof ApiKeyId.Type

const KeyName = name(100, { examples: ["nightly-import"] })
const OptionalMoment = Model.Field({
  select: Schema.NullOr(InstantFromDate),
  insert: Schema.NullOr(InstantFromDate),
  update: Schema.NullOr(InstantFromDate),
  json: Schema.NullOr(Instant)
})

/** What a synthetic principal is for: `canary` is a trap, whose key is never accepted. */
export const SyntheticKind = Schema.Literals(["monitor", "test", "canary"]).annotate({ examples: ["monitor"] })
export type SyntheticKind = typeof SyntheticKind.Type

/** What a caller attaches to a synthetic principal. */
export const Labels = Schema.Record(text(1, 100), text(0, 200))
  .pipe(Schema.check(Schema.isMaxProperties(20)))
  .annotate({
    component: "Labels",
    description: "The caller's own words, at most 20",
    examples: [{ suite: "checkout" }]
  })
export const StoredLabels = Schema.fromJsonString(Labels)

/** A key as it is stored: its public id and the SHA-256 of its secret, never the key. */
export class ApiKey extends Model.Class<ApiKey>("ApiKey")({
  id: generatedId(ApiKeyId),
  publicId: Model.Field({ select: Schema.String, insert: Schema.String }),
  secretSha256: Model.Field({ select: Schema.Uint8Array, insert: Schema.Uint8Array }),
  name: KeyName,
  scopes: Scopes,
  tenantId: Schema.NullOr(TenantId).pipe(Model.FieldExcept(["update", "jsonUpdate"])),
  applicationId: Schema.NullOr(IntegerId).pipe(Model.FieldExcept(["update", "jsonUpdate"])),
  createdAt: CreatedAt,
  createdBy: Schema.String.pipe(Model.FieldExcept(["update", "jsonCreate", "jsonUpdate"])),
  lastUsedAt: OptionalMoment,
  expiresAt: OptionalMoment,
  revokedAt: OptionalMoment,
  rotatedFrom: Schema.NullOr(ApiKeyId).pipe(Model.FieldExcept(["update", "jsonCreate", "jsonUpdate"])),
  syntheticKind: Model.Field({ select: Schema.NullOr(SyntheticKind), insert: Schema.NullOr(SyntheticKind) }),
  labels: Model.Field({ select: Labels, insert: StoredLabels })
}) {
  status(now: DateTime.Utc): "active" | "revoked" | "expired" {
    if (this.revokedAt !== null && DateTime.isLessThanOrEqualTo(this.revokedAt, now)) return "revoked"
    return this.expiresAt !== null && DateTime.isLessThanOrEqualTo(this.expiresAt, now) ? "expired" : "active"
  }
}

/** How API keys are listed. */
export const apiKeyListing = listing(
  ApiKeyId,
  { createdAt: "moment", name: "text", lastUsedAt: "use" },
  { searches: "the name and the first characters of the key" }
)

const view = {
  id: ApiKeyId,
  name: KeyName,
  start: Schema.String.annotate({
    description: "The first characters of the key, to recognize it",
    examples: ["amk_4fG7hK2mQ9xZ"]
  }),
  scopes: Scopes,
  tenantId: Schema.NullOr(TenantId).annotate({ description: "null for a system key, which acts across tenants" }),
  applicationId: Schema.NullOr(IntegerId),
  status: Schema.Literals(["active", "revoked", "expired"]),
  createdAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }),
  lastUsedAt: Schema.NullOr(Instant),
  expiresAt: Schema.NullOr(Instant),
  rotatedFrom: Schema.NullOr(ApiKeyId),
  synthetic: Schema.Boolean.annotate({ description: "Whether it is the key of a synthetic principal" })
}

/** A key as the API shows it. */
export const ApiKeyView = Schema.Struct(view).annotate({ identifier: "ApiKey" })
export type ApiKeyView = typeof ApiKeyView.Type

/** A key just made: the one answer that holds the key itself. */
export const NewApiKeyView = Schema.Struct({
  ...view,
  key: Schema.RedactedFromValue(
    Schema.String.annotate({
      description: "The key, shown this once",
      examples: ["amk_4fG7hK2mQ9xZexampleOfASecretThatNobodyHasAnywhere000000000000"]
    })
  )
}).annotate({ identifier: "NewApiKey" })
export type NewApiKeyView = typeof NewApiKeyView.Type

const Expiry = Instant.pipe(Schema.annotateEncoded({ examples: ["2099-12-31T23:59:59.000Z"] }))

export const ApiKeyCreation = Schema.Struct({
  name: KeyName,
  scopes: Scopes,
  tenantId: Schema.optionalKey(Schema.NullOr(TenantId)),
  applicationId: Schema.optionalKey(Schema.NullOr(IntegerId)),
  expiresAt: Schema.optionalKey(Schema.NullOr(Expiry))
}).annotate({ identifier: "ApiKeyCreation" })
export type ApiKeyCreation = typeof ApiKeyCreation.Type

export const ApiKeyPatch = Schema.Struct({
  name: Schema.optionalKey(KeyName),
  scopes: Schema.optionalKey(Scopes),
  expiresAt: Schema.optionalKey(Schema.NullOr(Expiry)),
  ...serverSet(
    "id",
    "start",
    "tenantId",
    "applicationId",
    "status",
    "createdAt",
    "createdBy",
    "lastUsedAt",
    "rotatedFrom",
    "synthetic"
  )
}).annotate({ identifier: "ApiKeyPatch" })
export type ApiKeyPatch = typeof ApiKeyPatch.Type

export const ApiKeyRotation = Schema.Struct({
  graceSeconds: Schema.optionalKey(
    Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 604_800 }))).annotate({
      description: "How long the old key goes on working; 86,400 when absent, 0 ends it at once",
      examples: [86_400]
    })
  )
}).annotate({ identifier: "ApiKeyRotation" })
export type ApiKeyRotation = typeof ApiKeyRotation.Type

export const apiKeyActions = auditActions("ApiKey", [
  "ApiKeyCreated",
  "ApiKeyUpdated",
  "ApiKeyRotated",
  "ApiKeyRevoked"
])

/** The key of a canary, which is a trap, was used. */
export const canaryActions = auditActions("SyntheticPrincipal", ["CanaryTouched"])

export class ApiKeyNotFound extends Problem<ApiKeyNotFound>()("ApiKeyNotFound", {
  slug: "api-key-not-found",
  status: 404,
  meaning: "No API key that the caller may see has this id."
}) {}

export class ApiKeySynthetic extends Problem<ApiKeySynthetic>()("ApiKeySynthetic", {
  slug: "api-key-synthetic",
  status: 409,
  meaning: "The key is that of a synthetic principal: change or delete the principal."
}) {}

export class ApiKeyRotated extends Problem<ApiKeyRotated>()("ApiKeyRotated", {
  slug: "api-key-rotated",
  status: 409,
  meaning: "Another key took this one's place; it can only be revoked before its grace ends."
}) {}

export class ExpiresInThePast extends Problem<ExpiresInThePast>()("ExpiresInThePast", {
  slug: "expires-in-the-past",
  status: 400,
  meaning: "A key cannot have an `expiresAt` that is over."
}) {}

export class ApiKeyInactive extends Problem<ApiKeyInactive>()("ApiKeyInactive", {
  slug: "api-key-inactive",
  status: 409,
  meaning: "The key is revoked or expired; make a new one."
}) {}
