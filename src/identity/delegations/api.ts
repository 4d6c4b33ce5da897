import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { AgentId, AgentNotActive, AgentNotFound } from "../agents/domain.ts"
import { Access, requires } from "../../kernel/access.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { Created } from "../../kernel/location.ts"
import { cursor, page, PageLimit } from "../../kernel/page.ts"
import { integerParameter } from "../../kernel/parameter.ts"
import { DelegationCreation, DelegationId, DelegationInvalid, DelegationNotFound, DelegationView } from "./domain.ts"

const read = requires("agents:read")
const write = requires("agents:write")
const position = cursor(DelegationId)

export class DelegationsApi extends HttpApiGroup.make("delegations")
  .add(
    HttpApiEndpoint.get("list", "/", {
      params: { id: AgentId },
      query: {
        limit: Schema.optionalKey(integerParameter(PageLimit)),
        cursor: Schema.optionalKey(position)
      },
      success: page(DelegationView, position),
      error: AgentNotFound
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({ summary: "List delegation grants", description: "For whom the agent may act, or might." })
      ),
    HttpApiEndpoint.post("create", "/", {
      params: { id: AgentId },
      payload: DelegationCreation,
      success: Created(DelegationView),
      error: [AgentNotFound, AgentNotActive, DelegationInvalid]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Create a delegation grant",
          description:
            "Lets the agent exchange tokens of the subject. The scopes stay within the agent's ceiling, and the caller needs every one."
        })
      ),
    HttpApiEndpoint.delete("revoke", "/:grantId", {
      params: { id: AgentId, grantId: DelegationId },
      success: HttpApiSchema.NoContent,
      error: [AgentNotFound, DelegationNotFound]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Revoke a delegation grant",
          description: "Ends it, and every credential that was minted under it. Again is 204."
        })
      )
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/agents/:id/delegations")
  .annotateMerge(
    OpenApi.annotations({ title: "Delegations", description: "Leave for agents to act on somebody's behalf." })
  ) {}
