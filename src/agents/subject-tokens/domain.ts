import { Schema } from "effect"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { Instant } from "../../kernel/instant.ts"
import { AgentId } from "../agents/domain.ts"

/** The `typ` of a subject token: it is no access token, and authenticates no caller. */
export const subjectTokenType = "subject+jwt"
export const subjectTokenSeconds = 300

export const SubjectTokenRequest = Schema.Struct({ agentId: AgentId }).annotate({ identifier: "SubjectTokenRequest" })
export type SubjectTokenRequest = typeof SubjectTokenRequest.Type

/** What an account hands to an agent that shall act for it. */
export const SubjectToken = Schema.Struct({
  subjectToken: Schema.RedactedFromValue(
    Schema.String.annotate({
      description: "Good for five minutes at most, as long as the sign-in lasts, and for exchanges by this agent alone",
      examples: ["eyJ0eXAiOiJzdWJqZWN0K2p3dCJ9.e30.c2lnbmF0dXJl"]
    })
  ),
  expiresIn: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 300 }))).annotate({
    description: "Seconds",
    examples: [300]
  }),
  expiresAt: Instant
}).annotate({ identifier: "SubjectToken" })
export type SubjectToken = typeof SubjectToken.Type

export const subjectTokenActions = auditActions("SubjectToken", ["SubjectTokenIssued"])
