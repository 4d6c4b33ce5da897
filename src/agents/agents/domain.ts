import { DateTime, Schema } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { Capability, intersection, missing } from "../../kernel/authority/capability.ts"
import { listing } from "../../kernel/http/listing.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { generatedId, IntegerId, TenantId, Uuid } from "../../kernel/identifier.ts"
import { CreatedAt, Instant, InstantFromDate, UpdatedAt } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { described, name } from "../../kernel/text.ts"
import { AgentTemplateId } from "../agent-templates/domain.ts"
import {
  AgentDescription,
  AgentName,
  CredentialTtlSeconds,
  DefaultTaskType,
  limitMembers,
  PerTurnBudget,
  ScopeCeiling,
  TaskTypes
} from "../agent-templates/limits-domain.ts"

export const AgentId = Uuid.pipe(Schema.brand("AgentId"))
export type AgentId = typeof AgentId.Type

/** How they are listed. */
export const agentListing = listing(
  AgentId,
  { createdAt: "moment", name: "text", lastSeenAt: "use" },
  { searches: "the name and the owner" }
)

/** Only an active agent gets credentials; a retired one stays retired. */
export const AgentStatus = Schema.Literals(["active", "suspended", "retired"]).annotate({ examples: ["active"] })
export type AgentStatus = typeof AgentStatus.Type

export const OwnerUserId = name(200, {
  component: "OwnerUserId",
  description: "Whose agent it is, in the caller's own terms; not checked against anything",
  examples: ["user-42"]
})

/** A program that acts by itself: who it is, whose it is, and the most that it may ever do. */
export class Agent extends Model.Class<Agent>("Agent")({
  id: generatedId(AgentId),
  tenantId: TenantId.pipe(Model.FieldExcept(["update", "jsonUpdate"])),
  name: AgentName,
  description: AgentDescription,
  ownerUserId: Schema.NullOr(OwnerUserId),
  scopeCeiling: ScopeCeiling,
  maxCredentialTtlSeconds: CredentialTtlSeconds,
  perTurnBudget: PerTurnBudget,
  allowedTaskTypes: TaskTypes,
  defaultTaskType: DefaultTaskType,
  templateId: Schema.NullOr(AgentTemplateId),
  applicationId: Schema.NullOr(IntegerId)
    .annotate({ description: "The application of the credential that registered it", examples: [null] })
    .pipe(Model.FieldExcept(["update", "jsonCreate", "jsonUpdate"])),
  status: AgentStatus,
  expiresAt: Model.Field({
    select: Schema.NullOr(InstantFromDate),
    insert: Schema.NullOr(InstantFromDate),
    json: Schema.NullOr(Instant).annotate({
      description: "When it ends, with the credential that registered it",
      examples: [null]
    })
  }),
  createdAt: CreatedAt,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }).pipe(
    Model.FieldExcept(["update", "jsonCreate", "jsonUpdate"])
  ),
  synthetic: Schema.Boolean.annotate({ description: "Whether a synthetic principal registered it" }).pipe(
    Model.FieldExcept(["update", "jsonCreate", "jsonUpdate"])
  ),
  updatedAt: UpdatedAt,
  lastSeenAt: Model.Field({ select: Schema.NullOr(InstantFromDate), json: Schema.NullOr(Instant) })
}) {}

export const AgentRegistration = Schema.Struct({
  name: AgentName,
  description: Schema.optionalKey(AgentDescription),
  ownerUserId: Schema.optionalKey(Schema.NullOr(OwnerUserId)),
  templateId: Schema.optionalKey(Schema.NullOr(AgentTemplateId)),
  tenantId: Schema.optionalKey(described(TenantId, { description: "From system callers only" })),
  ...limitMembers
}).annotate({
  identifier: "AgentRegistration",
  examples: [
    {
      name: "invoice-reader",
      description: "Reads invoices and files them",
      ownerUserId: "user-42",
      scopeCeiling: ["llm:complete", "agents:read"],
      maxCredentialTtlSeconds: 3600
    }
  ]
})
export type AgentRegistration = typeof AgentRegistration.Type

export const AgentPatch = Schema.Struct({
  name: Schema.optionalKey(AgentName),
  description: Schema.optionalKey(AgentDescription),
  ownerUserId: Schema.optionalKey(Schema.NullOr(OwnerUserId)),
  templateId: Schema.optionalKey(Schema.NullOr(AgentTemplateId)),
  status: Schema.optionalKey(AgentStatus),
  ...limitMembers,
  ...serverSet(
    "id",
    "tenantId",
    "applicationId",
    "expiresAt",
    "createdAt",
    "createdBy",
    "synthetic",
    "updatedAt",
    "lastSeenAt"
  )
}).annotate({ identifier: "AgentPatch" })
export type AgentPatch = typeof AgentPatch.Type

export const agentActions = auditActions("Agent", ["AgentRegistered", "AgentUpdated", "AgentRetired"])

export class AgentNotFound extends Problem<AgentNotFound>()("AgentNotFound", {
  slug: "agent-not-found",
  status: 404,
  meaning: "No agent that the caller may see has this id."
}) {}

export class AgentNameTaken extends Problem<AgentNameTaken>()("AgentNameTaken", {
  slug: "agent-name-taken",
  status: 409,
  meaning: "Another live agent of the tenant has this name."
}) {}

export class AgentNotActive extends Problem<AgentNotActive>()("AgentNotActive", {
  slug: "agent-not-active",
  status: 409,
  meaning: "The agent is suspended or retired, or has expired; a retired agent stays so."
}) {}

/** An agent with what bounds it now: its own limits, and those of its template as that is now. */
export const BoundedAgent = Schema.Struct({
  id: AgentId,
  tenantId: TenantId,
  status: AgentStatus,
  scopeCeiling: Schema.Array(Capability),
  templateCeiling: Schema.NullOr(Schema.Array(Capability)),
  maxCredentialTtlSeconds: Schema.Int,
  perTurnBudget: Schema.NullOr(Schema.BigInt),
  allowedTaskTypes: Schema.Array(Schema.String),
  defaultTaskType: Schema.NullOr(Schema.String),
  /** Another one whenever the agent or its template was changed. */
  version: Schema.String,
  applicationId: Schema.NullOr(Schema.Int),
  expiresAt: Schema.NullOr(InstantFromDate),
  synthetic: Schema.Boolean,
  createdBy: Schema.String
})
export type BoundedAgent = typeof BoundedAgent.Type

/** Whether an agent may act at a moment. */
export const isActiveAt = (
  { expiresAt, status }: { readonly expiresAt: DateTime.Utc | null; readonly status: string },
  now: DateTime.Utc
): boolean => status === "active" && (expiresAt === null || DateTime.isGreaterThan(expiresAt, now))

/** The most that the agent may be granted now. */
export const ceilingOf = ({
  scopeCeiling,
  templateCeiling
}: Pick<BoundedAgent, "scopeCeiling" | "templateCeiling">): ReadonlyArray<Capability> =>
  templateCeiling === null || missing(templateCeiling, scopeCeiling).length === 0
    ? scopeCeiling
    : intersection(scopeCeiling, templateCeiling)
