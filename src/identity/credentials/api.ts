import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { AgentId, AgentNotActive, AgentNotFound } from "../agents/domain.ts"
import { Access, requires } from "../../kernel/access.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { OneTimeSecrets } from "../../platform/idempotency/domain.ts"
import { Created } from "../../kernel/location.ts"
import { cursor, page, PageLimit } from "../../kernel/page.ts"
import { integerParameter } from "../../kernel/parameter.ts"
import {
  AgentCredentialView,
  AgentTokenResponse,
  CredentialId,
  CredentialRequest,
  Introspection,
  IntrospectionRequest,
  InvalidRequest,
  InvalidScope
} from "./domain.ts"

const position = cursor(CredentialId)
const IntrospectionForm = IntrospectionRequest.annotate({ identifier: "IntrospectionForm" }).pipe(
  HttpApiSchema.asFormUrlEncoded()
)

export class AgentCredentialsApi extends HttpApiGroup.make("agentCredentials")
  .add(
    HttpApiEndpoint.get("list", "/:id/credentials", {
      params: { id: AgentId },
      query: {
        limit: Schema.optionalKey(integerParameter(PageLimit)),
        cursor: Schema.optionalKey(position)
      },
      success: page(AgentCredentialView, position),
      error: AgentNotFound
    })
      .annotateMerge(requires("agents:read"))
      .annotateMerge(
        OpenApi.annotations({
          summary: "List an agent's credentials",
          description: "Never the tokens. One whose ancestor, grant or key was revoked is revoked itself."
        })
      ),
    HttpApiEndpoint.post("issue", "/:id/credentials", {
      params: { id: AgentId },
      payload: CredentialRequest,
      success: Created(AgentTokenResponse),
      error: [AgentNotFound, AgentNotActive, InvalidScope, InvalidRequest]
    })
      .annotateMerge(requires("agents:write"))
      .annotate(OneTimeSecrets, ["accessToken"])
      .annotateMerge(
        OpenApi.annotations({
          summary: "Issue a credential",
          description:
            "For agents that have no key of their own. The caller needs every scope that it grants. `accessToken` is in this answer only."
        })
      ),
    HttpApiEndpoint.delete("revoke", "/credentials/:credentialId", {
      params: { credentialId: CredentialId },
      success: HttpApiSchema.NoContent
    })
      .annotateMerge(requires("agents:write"))
      .annotateMerge(
        OpenApi.annotations({
          summary: "Revoke a credential",
          description:
            "Ends it and all that was exchanged from it: here before this answer, elsewhere within a second. Always 204, also for what is over, unknown or another's."
        })
      ),
    HttpApiEndpoint.post("introspect", "/introspect", {
      payload: [IntrospectionRequest, IntrospectionForm],
      success: Introspection
    })
      .annotateMerge(requires("agents:introspect", { or: ["agents:read"] }))
      .annotateMerge(
        OpenApi.annotations({
          summary: "Introspect a token",
          description:
            "What a live token may do now (RFC 7662), at once after any revocation here. Whatever is not live, or of another tenant, is `{ active: false }`. `/oauth2/introspect` is the same as a form."
        })
      )
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/agents")
  .annotateMerge(
    OpenApi.annotations({ title: "Agent credentials", description: "Short-lived access tokens of agents." })
  ) {}
