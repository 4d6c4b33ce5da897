import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { page } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import {
  agentTemplateListing,
  AgentTemplate,
  AgentTemplateCreation,
  AgentTemplateId,
  AgentTemplateInUse,
  AgentTemplateNameTaken,
  AgentTemplateNotFound,
  AgentTemplatePatch
} from "./domain.ts"
import { AgentLimitsInvalid } from "./limits-domain.ts"

const read = requires("agents:read")
const write = requires("agents:write")
const agentTemplates = crudEndpoints("an agent template", {
  read,
  write,
  id: AgentTemplateId,
  view: AgentTemplate.json,
  notFound: AgentTemplateNotFound
})

export class AgentTemplatesApi extends HttpApiGroup.make("agentTemplates")
  .add(
    agentTemplates.list({
      description: "In order of creation.",
      query: agentTemplateListing.query({
        tenantId: Schema.optionalKey(TenantId)
      }),
      success: page(AgentTemplate.json, agentTemplateListing.position)
    }),
    agentTemplates.get({ description: "One template by id." }),
    agentTemplates.create({
      description:
        "A template sets the defaults of the agents created from it and limits their ceiling, lifetime and budget.",
      payload: AgentTemplateCreation,
      error: [TenantNotFound, AgentTemplateNameTaken, AgentLimitsInvalid]
    }),
    agentTemplates.update({
      description:
        "Limits its agents from now on, in the scopes that they have and in those they are granted. Their own limits stay stored and apply again when the template is widened.",
      payload: AgentTemplatePatch,
      error: [AgentTemplateNameTaken, AgentLimitsInvalid]
    }),
    agentTemplates.delete({
      description: "Only one whose agents are all retired; they have no template afterwards.",
      error: [AgentTemplateInUse]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/agents/templates")
  .annotateMerge(
    OpenApi.annotations({ title: "Agent templates", description: "Defaults and limits that agents share." })
  ) {}
