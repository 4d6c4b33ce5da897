import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { AgentTemplateNotFound } from "../agent-templates/domain.ts"
import { AgentLimitsInvalid } from "../agent-templates/limits-domain.ts"
import {
  agentListing,
  Agent,
  AgentId,
  AgentNameTaken,
  AgentNotActive,
  AgentNotFound,
  AgentPatch,
  AgentRegistration,
  AgentStatus,
  OwnerUserId
} from "./domain.ts"

const read = requires("agents:read")
const write = requires("agents:write")
const agents = crudEndpoints("an agent", { read, write, id: AgentId, view: Agent.json, notFound: AgentNotFound })

export class AgentsApi extends HttpApiGroup.make("agents")
  .add(
    agents.list({
      description: "A tenant's caller sees its tenant's agents, a system caller all of them, an agent itself.",
      query: agentListing.query({
        status: Schema.optionalKey(AgentStatus),
        ownerUserId: Schema.optionalKey(OwnerUserId),
        tenantId: Schema.optionalKey(TenantId)
      }),
      success: page(Agent.json, agentListing.position)
    }),
    agents.get({ description: "One agent by id." }),
    endpoint.post("register", "/", {
      summary: "Register an agent",
      description:
        "Active at once. What is absent comes from the template, else: no scopes, an hour, no budget, no task types. The caller needs every scope of the ceiling. `tenantId` is for system callers only.",
      access: write,
      payload: AgentRegistration,
      success: Created(Agent.json),
      error: [TenantNotFound, AgentTemplateNotFound, AgentNameTaken, AgentLimitsInvalid]
    }),
    agents.update({
      description:
        "Any subset of the members. Suspending stops every path at once: no new credential, and the live ones are inactive until the agent is active again. A smaller ceiling holds for live credentials too.",
      payload: AgentPatch,
      error: [AgentTemplateNotFound, AgentNameTaken, AgentNotActive, AgentLimitsInvalid]
    }),
    endpoint.delete("retire", "/:id", {
      summary: "Retire an agent",
      description: "Ends the agent and all its credentials for good. Repeating it is 204.",
      access: write,
      params: { id: AgentId },
      error: AgentNotFound
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/agents")
  .annotateMerge(
    OpenApi.annotations({ title: "Agents", description: "Programs that act by themselves, and the most they may do." })
  ) {}
