import { DateTime, Schema } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { Scopes } from "../../kernel/authority/capability.ts"
import { listing } from "../../kernel/http/listing.ts"
import { generatedId, TenantId, Uuid } from "../../kernel/identifier.ts"
import { CreatedAt, Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Fault, Problem } from "../../kernel/problems/problem.ts"
import { composed, legible, text } from "../../kernel/text.ts"
import { AgentId } from "../agents/domain.ts"

export const DelegationId = Uuid.pipe(Schema.brand("DelegationId"))
export type DelegationId = typeof DelegationId.Type

/** How they are listed. */
export const delegationListing = listing(
  DelegationId,
  { createdAt: "id", lastUsedAt: "use" },
  { searches: "the subject and the reason" }
)

/** `user`: an account of the tenant or of the whole installation; `agent`: another agent of the tenant; `external`: a user of a registered identity provider. */
export const SubjectType = Schema.Literals(["user", "agent", "external"]).annotate({ examples: ["agent"] })
export type SubjectType = typeof SubjectType.Type

const Subject = legible(512).annotate({
  description: "The id of the account or agent; for an external subject `<issuer>|<sub>`",
  examples: ["0198a5b0-7c00-7000-8000-00000000002a"]
})
const DelegatedScopes = Scopes.pipe(Schema.check(Schema.isMinLength(1)))
const MaxDepth = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 32 }))).annotate({
  description: "How many agents may act one on behalf of another in a chain that this grant is part of",
  examples: [1]
})
const Reason = composed(text(0, 500), { examples: ["Files the invoices of the quarter"] })
const nullableMoment = {
  select: Schema.NullOr(InstantFromDate),
  insert: Schema.NullOr(InstantFromDate),
  json: Schema.NullOr(Instant)
}

/** Leave for an agent to act on behalf of a subject, with some scopes and for some time. */
export class Delegation extends Model.Class<Delegation>("Delegation")({
  id: generatedId(DelegationId),
  tenantId: TenantId.pipe(Model.FieldExcept(["update", "jsonUpdate"])),
  agentId: AgentId.pipe(Model.FieldExcept(["update", "jsonUpdate"])),
  subject: Subject,
  subjectType: SubjectType,
  scopes: Scopes,
  maxDepth: MaxDepth,
  reason: Schema.NullOr(Reason),
  createdAt: CreatedAt,
  createdBy: Schema.String,
  expiresAt: Model.Field(nullableMoment),
  revokedAt: Model.Field({ select: Schema.NullOr(InstantFromDate) }),
  lastUsedAt: Model.Field({ select: Schema.NullOr(InstantFromDate) })
}) {
  status(now: DateTime.Utc): "active" | "expired" | "revoked" {
    if (this.revokedAt !== null) return "revoked"
    return this.expiresAt !== null && DateTime.isLessThanOrEqualTo(this.expiresAt, now) ? "expired" : "active"
  }
}

/** A grant as the API shows it. */
export const DelegationView = Schema.Struct({
  id: DelegationId,
  agentId: AgentId,
  subject: Subject,
  subjectType: SubjectType,
  scopes: Scopes,
  maxDepth: MaxDepth,
  reason: Schema.NullOr(Reason),
  status: Schema.Literals(["active", "expired", "revoked"]),
  createdAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }),
  expiresAt: Schema.NullOr(Instant),
  revokedAt: Schema.NullOr(Instant),
  lastUsedAt: Schema.NullOr(Instant)
}).annotate({ identifier: "Delegation" })
export type DelegationView = typeof DelegationView.Type

const Expiry = Instant.pipe(Schema.annotateEncoded({ examples: ["2099-12-31T23:59:59.000Z"] }))

export const DelegationCreation = Schema.Struct({
  subject: Subject,
  subjectType: SubjectType,
  scopes: DelegatedScopes,
  expiresAt: Schema.optionalKey(Schema.NullOr(Expiry)),
  maxDepth: Schema.optionalKey(MaxDepth),
  reason: Schema.optionalKey(Schema.NullOr(Reason))
}).annotate({
  identifier: "DelegationCreation",
  examples: [
    {
      subject: "0198a5b0-7c00-7000-8000-00000000002a",
      subjectType: "agent",
      scopes: ["llm:complete"],
      reason: "Files the invoices of the quarter"
    }
  ]
})
export type DelegationCreation = typeof DelegationCreation.Type

export const delegationActions = auditActions("Delegation", ["DelegationCreated", "DelegationRevoked"])

export class DelegationNotFound extends Problem<DelegationNotFound>()("DelegationNotFound", {
  slug: "delegation-not-found",
  status: 404,
  meaning: "The agent has no delegation grant with this id that the caller may see."
}) {}

export class DelegationInvalid extends Problem<DelegationInvalid>()(
  "DelegationInvalid",
  {
    slug: "delegation-invalid",
    status: 400,
    meaning: "The subject, the scopes or the expiry of the grant is not acceptable; `errors` says which, and why."
  },
  { errors: Schema.Array(Fault) }
) {}
