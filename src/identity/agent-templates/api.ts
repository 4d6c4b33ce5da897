import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/access.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Created } from "../../kernel/location.ts"
import { cursor, page, PageLimit } from "../../kernel/page.ts"
import { integerParameter } from "../../kernel/parameter.ts"
import { TenantNotFound } from "../tenants/domain.ts"
import { AgentLimitsInvalid } from "./limits-domain.ts"
import {
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
const position = cursor(AgentTemplateId)
const params = { id: AgentTemplateId }

export class AgentTemplatesApi extends HttpApiGroup.make("agentTemplates")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        tenantId: Schema.optionalKey(TenantId),
        limit: Schema.optionalKey(integerParameter(PageLimit)),
        cursor: Schema.optionalKey(position)
      },
      success: page(AgentTemplate.json, position)
    })
      .annotateMerge(read)
      .annotateMerge(OpenApi.annotations({ summary: "List agent templates", description: "In the order of making." })),
    HttpApiEndpoint.get("get", "/:id", { params, success: AgentTemplate.json, error: AgentTemplateNotFound })
      .annotateMerge(read)
      .annotateMerge(OpenApi.annotations({ summary: "Get an agent template", description: "One template by id." })),
    HttpApiEndpoint.post("create", "/", {
      payload: AgentTemplateCreation,
      success: Created(AgentTemplate.json),
      error: [TenantNotFound, AgentTemplateNameTaken, AgentLimitsInvalid]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Create an agent template",
          description: "Gives agents their defaults, and bounds ceiling, lifetime and budget of those made from it."
        })
      ),
    HttpApiEndpoint.patch("update", "/:id", {
      params,
      payload: AgentTemplatePatch,
      success: AgentTemplate.json,
      error: [AgentTemplateNotFound, AgentTemplateNameTaken, AgentLimitsInvalid]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Change an agent template",
          description:
            "Bounds its agents from now on, in what they hold and in what they are given; their own limits stay as they are, and hold again where it is widened."
        })
      ),
    HttpApiEndpoint.delete("delete", "/:id", {
      params,
      success: HttpApiSchema.NoContent,
      error: [AgentTemplateNotFound, AgentTemplateInUse]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Delete an agent template",
          description: "Only one whose agents are all retired; they have no template afterwards."
        })
      )
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/agents/templates")
  .annotateMerge(OpenApi.annotations({ title: "Agent templates", description: "What many agents have in common." })) {}
