import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { cursor, page, pageQuery } from "../../kernel/http/page.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { OneTimeSecrets } from "../../platform/idempotency/domain.ts"
import { AgentId, AgentNotActive, AgentNotFound } from "../agents/domain.ts"
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
    endpoint.get("list", "/:id/credentials", {
      summary: "List an agent's credentials",
      description: "Never the tokens. One whose ancestor, grant or key was revoked is revoked itself.",
      access: requires("agents:read"),
      params: { id: AgentId },
      query: {
        ...pageQuery(position)
      },
      success: page(AgentCredentialView, position),
      error: AgentNotFound
    }),
    endpoint
      .post("issue", "/:id/credentials", {
        summary: "Issue a credential",
        description:
          "For agents without a key of their own. The caller needs every scope that it grants. `accessToken` is in this response only.",
        access: requires("agents:write"),
        params: { id: AgentId },
        payload: CredentialRequest,
        success: Created(AgentTokenResponse),
        error: [AgentNotFound, AgentNotActive, InvalidScope, InvalidRequest]
      })
      .annotate(OneTimeSecrets, ["accessToken"]),
    endpoint.delete("revoke", "/credentials/:credentialId", {
      summary: "Revoke a credential",
      description:
        "Ends it and all that was exchanged from it: here before this answer, elsewhere within a second. Always 204, also for what is over, unknown or another's.",
      access: requires("agents:write"),
      params: { credentialId: CredentialId }
    }),
    endpoint.post("introspect", "/introspect", {
      summary: "Introspect a token",
      description:
        "What a live token may do now (RFC 7662), at once after any revocation here. Whatever is not live, or of another tenant, is `{ active: false }`. `/oauth2/introspect` is the same as a form.",
      access: requires("agents:introspect", { or: ["agents:read"] }),
      payload: [IntrospectionRequest, IntrospectionForm],
      success: Introspection
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/agents")
  .annotateMerge(
    OpenApi.annotations({ title: "Agent credentials", description: "Short-lived access tokens of agents." })
  ) {}
