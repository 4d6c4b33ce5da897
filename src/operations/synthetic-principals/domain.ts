import { DateTime, Schema } from "effect"
import { Model } from "effect/schema"
import { Labels, StoredLabels, SyntheticKind } from "../../agents/api-keys/domain.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { Scopes } from "../../kernel/authority/capability.ts"
import { listing } from "../../kernel/http/listing.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { generatedId, TenantId, Uuid } from "../../kernel/identifier.ts"
import { CreatedAt, Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { described, name } from "../../kernel/text.ts"

export const SyntheticPrincipalId = Uuid.pipe(Schema.brand("SyntheticPrincipalId"))
export type SyntheticPrincipalId = typeof SyntheticPrincipalId.Type

/** How they are listed. */
export const syntheticPrincipalListing = listing(
  SyntheticPrincipalId,
  { createdAt: "id", name: "text", lastUsedAt: "use" },
  { searches: "the name" }
)

const PrincipalName = name(100, { examples: ["checkout probe"] })
const Moment = Schema.NullOr(InstantFromDate)

/** An API key that monitors, tests, or is a trap. */
export class SyntheticPrincipal extends Model.Class<SyntheticPrincipal>("SyntheticPrincipal")({
  id: generatedId(SyntheticPrincipalId),
  publicId: Model.Field({ select: Schema.String }),
  kind: Model.Field({ select: SyntheticKind }),
  name: PrincipalName,
  tenantId: Model.Field({ select: TenantId }),
  applicationId: Model.Field({ select: Schema.NullOr(Schema.Int) }),
  scopes: Scopes,
  labels: Model.Field({ select: Labels, update: StoredLabels }),
  createdAt: CreatedAt,
  createdBy: Model.Field({ select: Schema.String }),
  lastUsedAt: Model.Field({ select: Moment, update: Moment }),
  expiresAt: Model.Field({ select: Moment, update: Moment }),
  revokedAt: Model.Field({ select: Moment, update: Moment })
}) {}

export const statusOf = ({ expiresAt }: Pick<SyntheticPrincipal, "expiresAt">, now: DateTime.Utc) =>
  expiresAt !== null && DateTime.isLessThanOrEqualTo(expiresAt, now) ? "expired" : "active"

const view = {
  id: SyntheticPrincipalId,
  kind: SyntheticKind,
  name: PrincipalName,
  tenantId: TenantId,
  scopes: Scopes,
  expiresAt: Schema.NullOr(Instant),
  labels: Labels,
  status: Schema.Literals(["active", "expired"]),
  synthetic: Schema.Literal(true),
  start: Schema.String.annotate({
    description: "The first characters of its key, to recognize it",
    examples: ["amk_4fG7hK2mQ9xZ"]
  }),
  createdAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }),
  lastUsedAt: Schema.NullOr(Instant).annotate({ description: "Of a canary: when it was last touched" })
}

export const SyntheticPrincipalView = Schema.Struct(view).annotate({ identifier: "SyntheticPrincipal" })
export type SyntheticPrincipalView = typeof SyntheticPrincipalView.Type

export const NewSyntheticPrincipalView = Schema.Struct({
  ...view,
  key: Schema.RedactedFromValue(
    Schema.String.annotate({
      description: "Its API key, shown this once",
      examples: ["amk_4fG7hK2mQ9xZexampleOfASecretThatNobodyHasAnywhere000000000000"]
    })
  )
}).annotate({ identifier: "NewSyntheticPrincipal" })

const Expiry = Instant.pipe(Schema.annotateEncoded({ examples: ["2099-12-31T23:59:59.000Z"] })).annotate({
  description:
    "A monitor ends within 30 days of its creation, a test within 24 hours, and both need it; a canary does not"
})

export const SyntheticPrincipalCreation = Schema.Struct({
  kind: SyntheticKind,
  name: PrincipalName,
  tenantId: Schema.optionalKey(described(TenantId, { description: "From system callers only" })),
  scopes: Scopes,
  expiresAt: Schema.optionalKey(Schema.NullOr(Expiry)),
  labels: Schema.optionalKey(Labels)
}).annotate({ identifier: "SyntheticPrincipalCreation" })
export type SyntheticPrincipalCreation = typeof SyntheticPrincipalCreation.Type

export const SyntheticPrincipalPatch = Schema.Struct({
  name: Schema.optionalKey(PrincipalName),
  scopes: Schema.optionalKey(Scopes),
  expiresAt: Schema.optionalKey(Schema.NullOr(Expiry)),
  labels: Schema.optionalKey(Labels),
  ...serverSet("id", "kind", "tenantId", "status", "synthetic", "start", "createdAt", "createdBy", "lastUsedAt")
}).annotate({ identifier: "SyntheticPrincipalPatch" })
export type SyntheticPrincipalPatch = typeof SyntheticPrincipalPatch.Type

const hourMillis = 3_600_000

/** How long a kind may live, in hours; a canary may have no end. */
const maxHours: Readonly<Record<SyntheticKind, number>> = { monitor: 30 * 24, test: 24, canary: Infinity }

/** Why a principal of a kind may not end at a moment; undefined when it may. */
export const faultOfEnd = (kind: SyntheticKind, expiresAt: DateTime.Utc | null, createdAt: DateTime.Utc) => {
  const hours = maxHours[kind]
  if (hours === Infinity) return undefined
  if (expiresAt === null) return `Required for the kind ${kind}`
  const latest = createdAt.epochMilliseconds + hours * hourMillis
  return expiresAt.epochMilliseconds <= latest
    ? undefined
    : `Expected at most ${hours} hours after the creation: ${new Date(latest).toISOString()}`
}

/** What a synthetic principal made, and what ends it. */
export const madeKinds = [
  "integration",
  "event-subscription",
  "plan",
  "reservation",
  "cap",
  "subscription",
  "response",
  "transcript",
  "agent"
] as const
export const Made = Schema.Struct({
  kind: Schema.Literals(madeKinds),
  id: Schema.String,
  agentId: Schema.NullOr(Schema.String)
})
export type Made = typeof Made.Type

export const syntheticActions = auditActions("SyntheticPrincipal", [
  "SyntheticPrincipalCreated",
  "SyntheticPrincipalUpdated",
  "SyntheticPrincipalReset",
  "SyntheticPrincipalDeleted"
])

export class SyntheticPrincipalNotFound extends Problem<SyntheticPrincipalNotFound>()("SyntheticPrincipalNotFound", {
  slug: "synthetic-principal-not-found",
  status: 404,
  meaning: "No synthetic principal that the caller may see has this id."
}) {}
