import { Context, Effect, Layer } from "effect"
import { type Refusal } from "../audit/log/service.ts"
import { auditActions } from "../kernel/audit-action.ts"
import { type Principal } from "../kernel/principal.ts"

export const agentTokenActions = auditActions("AgentCredential", ["AgentTokenRefused"])

/** The check of agents' access tokens: bearer tokens with two dots in them. */
export class AgentTokens extends Context.Service<
  AgentTokens,
  {
    /** The agent that the token lets in; else what the audit is told, and the caller never is. */
    check(token: string): Effect.Effect<Principal, Refusal>
  }
>()("app/auth/AgentTokens") {
  /** Where no agents are: every token is refused. */
  static readonly layerRefusing = Layer.succeed(
    AgentTokens,
    AgentTokens.of({
      check: () =>
        Effect.fail({ action: agentTokenActions.AgentTokenRefused, target: "no token of ours", reason: "unknown" })
    })
  )
}
