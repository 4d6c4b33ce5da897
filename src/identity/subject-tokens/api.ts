import { HttpApiGroup, OpenApi } from "effect/http-api"
import { AgentNotFound } from "../agents/domain.ts"
import { Access, requiresCredential } from "../../kernel/access.ts"
import { endpoint } from "../../kernel/endpoint.ts"
import { SubjectToken, SubjectTokenRequest } from "./domain.ts"

export class SubjectTokensApi extends HttpApiGroup.make("subjectTokens")
  .add(
    endpoint.post("create", "/subject-token", {
      summary: "Get a subject token for an agent",
      description:
        "What an account hands to an agent that shall act for it, under a delegation grant. It lets nobody in; the agent exchanges it.",
      access: requiresCredential({ accountsOnly: true }),
      payload: SubjectTokenRequest,
      success: SubjectToken,
      error: AgentNotFound
    })
  )
  .middleware(Access)
  .prefix("/api/auth")
  .annotateMerge(
    OpenApi.annotations({ title: "Subject tokens", description: "With which accounts let agents act for them." })
  ) {}
