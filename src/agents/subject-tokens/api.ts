import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requiresCredential } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { AgentNotFound } from "../agents/domain.ts"
import { SubjectToken, SubjectTokenRequest } from "./domain.ts"

export class SubjectTokensApi extends HttpApiGroup.make("subjectTokens")
  .add(
    endpoint.post("create", "/subject-token", {
      summary: "Get a subject token for an agent",
      description:
        "A token that an account gives to an agent, so that the agent can act for it under a delegation grant. It authenticates no request; the agent exchanges it for an access token.",
      access: requiresCredential({ accountsOnly: true }),
      payload: SubjectTokenRequest,
      success: SubjectToken,
      error: AgentNotFound
    })
  )
  .middleware(Access)
  .prefix("/api/auth")
  .annotateMerge(
    OpenApi.annotations({ title: "Subject tokens", description: "Tokens with which agents act for accounts." })
  ) {}
