import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { AgentNotFound } from "../agents/domain.ts"
import { Access, requiresCredential } from "../../kernel/access.ts"
import { SubjectToken, SubjectTokenRequest } from "./domain.ts"

export class SubjectTokensApi extends HttpApiGroup.make("subjectTokens")
  .add(
    HttpApiEndpoint.post("create", "/subject-token", {
      payload: SubjectTokenRequest,
      success: SubjectToken,
      error: AgentNotFound
    })
      .annotateMerge(requiresCredential({ accountsOnly: true }))
      .annotateMerge(
        OpenApi.annotations({
          summary: "Get a subject token for an agent",
          description:
            "What an account hands to an agent that shall act for it, under a delegation grant. It lets nobody in; the agent exchanges it."
        })
      )
  )
  .middleware(Access)
  .prefix("/api/auth")
  .annotateMerge(
    OpenApi.annotations({ title: "Subject tokens", description: "With which accounts let agents act for them." })
  ) {}
