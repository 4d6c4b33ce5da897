import { Schema } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { listing } from "../../kernel/http/listing.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { generatedId, TenantId, Uuid } from "../../kernel/identifier.ts"
import { CreatedAt, UpdatedAt } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import {
  AgentDescription,
  AgentName,
  CredentialTtlSeconds,
  DefaultTaskType,
  limitMembers,
  PerTurnBudget,
  ScopeCeiling,
  TaskTypes
} from "./limits-domain.ts"

export const AgentTemplateId = Uuid.pipe(Schema.brand("AgentTemplateId"))
export type AgentTemplateId = typeof AgentTemplateId.Type

/** How they are listed. */
export const agentTemplateListing = listing(
  AgentTemplateId,
  { createdAt: "id", name: "text" },
  { searches: "the name and the description" }
)

/** What many agents have in common: the limits that they get when they name none, and may not go beyond. */
export class AgentTemplate extends Model.Class<AgentTemplate>("AgentTemplate")({
  id: generatedId(AgentTemplateId),
  tenantId: TenantId.pipe(Model.FieldExcept(["update", "jsonUpdate"])),
  name: AgentName,
  description: AgentDescription,
  scopeCeiling: ScopeCeiling,
  maxCredentialTtlSeconds: CredentialTtlSeconds,
  perTurnBudget: PerTurnBudget,
  allowedTaskTypes: TaskTypes,
  defaultTaskType: DefaultTaskType,
  createdAt: CreatedAt,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }).pipe(
    Model.FieldExcept(["update", "jsonCreate", "jsonUpdate"])
  ),
  updatedAt: UpdatedAt
}) {}

export const AgentTemplateCreation = Schema.Struct({
  name: AgentName,
  description: Schema.optionalKey(AgentDescription),
  tenantId: Schema.optionalKey(TenantId),
  ...limitMembers
}).annotate({ identifier: "AgentTemplateCreation" })
export type AgentTemplateCreation = typeof AgentTemplateCreation.Type

export const AgentTemplatePatch = Schema.Struct({
  name: Schema.optionalKey(AgentName),
  description: Schema.optionalKey(AgentDescription),
  ...limitMembers,
  ...serverSet("id", "tenantId", "createdAt", "createdBy", "updatedAt")
}).annotate({ identifier: "AgentTemplatePatch" })
export type AgentTemplatePatch = typeof AgentTemplatePatch.Type

export const agentTemplateActions = auditActions("AgentTemplate", [
  "AgentTemplateCreated",
  "AgentTemplateUpdated",
  "AgentTemplateDeleted"
])

export class AgentTemplateNotFound extends Problem<AgentTemplateNotFound>()("AgentTemplateNotFound", {
  slug: "agent-template-not-found",
  status: 404,
  meaning: "No agent template that the caller may see has this id."
}) {}

export class AgentTemplateNameTaken extends Problem<AgentTemplateNameTaken>()("AgentTemplateNameTaken", {
  slug: "agent-template-name-taken",
  status: 409,
  meaning: "Another template of the tenant has this name."
}) {}

export class AgentTemplateInUse extends Problem<AgentTemplateInUse>()("AgentTemplateInUse", {
  slug: "agent-template-in-use",
  status: 409,
  meaning: "Agents that are not retired were made from the template; it stays as long as they do."
}) {}
