import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { AgentId, AgentNotActive, AgentNotFound } from "../agents/domain.ts"
import {
  delegationListing,
  DelegationCreation,
  DelegationId,
  DelegationInvalid,
  DelegationNotFound,
  DelegationView
} from "./domain.ts"

const read = requires("agents:read")
const write = requires("agents:write")

export class DelegationsApi extends HttpApiGroup.make("delegations")
  .add(
    endpoint.get("list", "/", {
      summary: "List delegation grants",
      description: "For whom the agent may act, or might.",
      access: read,
      params: { id: AgentId },
      query: delegationListing.query({}),
      success: page(DelegationView, delegationListing.position),
      error: AgentNotFound
    }),
    endpoint.post("create", "/", {
      summary: "Create a delegation grant",
      description:
        "Lets the agent exchange tokens of the subject. The scopes stay within the agent's ceiling, and the caller needs every one.",
      access: write,
      params: { id: AgentId },
      payload: DelegationCreation,
      success: Created(DelegationView),
      error: [AgentNotFound, AgentNotActive, DelegationInvalid]
    }),
    endpoint.delete("revoke", "/:grantId", {
      summary: "Revoke a delegation grant",
      description: "Ends it, and every credential that was minted under it. Repeating it is 204.",
      access: write,
      params: { id: AgentId, grantId: DelegationId },
      error: [AgentNotFound, DelegationNotFound]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/agents/:id/delegations")
  .annotateMerge(
    OpenApi.annotations({
      title: "Delegations",
      description: "Permissions for agents to act on behalf of a principal."
    })
  ) {}
