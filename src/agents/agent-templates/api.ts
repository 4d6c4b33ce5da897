import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { AgentLimitsInvalid } from "./limits-domain.ts"
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

const read = requires("agents:read")
const write = requires("agents:write")
const params = { id: AgentTemplateId }

export class AgentTemplatesApi extends HttpApiGroup.make("agentTemplates")
  .add(
    endpoint.get("list", "/", {
      summary: "List agent templates",
      description: "In order of creation.",
      access: read,
      query: agentTemplateListing.query({
        tenantId: Schema.optionalKey(TenantId)
      }),
      success: page(AgentTemplate.json, agentTemplateListing.position)
    }),
    endpoint.get("get", "/:id", {
      summary: "Get an agent template",
      description: "One template by id.",
      access: read,
      params,
      success: AgentTemplate.json,
      error: AgentTemplateNotFound
    }),
    endpoint.post("create", "/", {
      summary: "Create an agent template",
      description:
        "A template sets the defaults of the agents created from it and limits their ceiling, lifetime and budget.",
      access: write,
      payload: AgentTemplateCreation,
      success: Created(AgentTemplate.json),
      error: [TenantNotFound, AgentTemplateNameTaken, AgentLimitsInvalid]
    }),
    endpoint.patch("update", "/:id", {
      summary: "Change an agent template",
      description:
        "Limits its agents from now on, in the scopes that they have and in those they are granted. Their own limits stay stored and apply again when the template is widened.",
      access: write,
      params,
      payload: AgentTemplatePatch,
      success: AgentTemplate.json,
      error: [AgentTemplateNotFound, AgentTemplateNameTaken, AgentLimitsInvalid]
    }),
    endpoint.delete("delete", "/:id", {
      summary: "Delete an agent template",
      description: "Only one whose agents are all retired; they have no template afterwards.",
      access: write,
      params,
      error: [AgentTemplateNotFound, AgentTemplateInUse]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/agents/templates")
  .annotateMerge(
    OpenApi.annotations({ title: "Agent templates", description: "Defaults and limits that agents share." })
  ) {}
