import { Context, Effect, Layer } from "effect"
import { type Refusal } from "../audit/log/service.ts"
import { auditActions } from "../kernel/audit-action.ts"
import { type Principal } from "../kernel/principal.ts"

export const sessionTokenActions = auditActions("SignIn", ["SessionTokenRefused"])

/** The check of the opaque tokens that accounts get at sign-in, from the cookie or as a bearer token. */
export class SessionTokens extends Context.Service<
  SessionTokens,
  {
    /** The account that the token signed in (`isUse`: and which so is not idle); else what the audit is told, and the caller never is. */
    check(token: string, isUse: boolean): Effect.Effect<Principal, Refusal>
  }
>()("app/auth/SessionTokens") {
  /** Where nobody signs in: every token is refused. */
  static readonly layerRefusing = Layer.succeed(
    SessionTokens,
    SessionTokens.of({
      check: () =>
        Effect.fail({ action: sessionTokenActions.SessionTokenRefused, target: "no token of ours", reason: "unknown" })
    })
  )
}
