import { Context, type Effect } from "effect"
import { type HttpServerRequest } from "effect/http"
import { type Refusal } from "../audit/log/service.ts"
import { auditActions } from "../kernel/authority/audit-action.ts"
import { type Principal, type RateLimited, type Unauthenticated } from "../kernel/authority/principal.ts"

// The checks of credentials. The features that issue them provide each check, so that authentication needs none of them.

export const apiKeyRefusals = auditActions("ApiKey", ["ApiKeyRefused"])
export const agentTokenActions = auditActions("AgentCredential", ["AgentTokenRefused"])
export const sessionTokenActions = auditActions("SignIn", ["SessionTokenRefused"])

/** Why an API key was refused: recorded in the audit log, and never sent to the caller. */
export type ApiKeyRefusalReason =
  | "malformed"
  | "unknown"
  | "wrong-secret"
  | "revoked"
  | "expired"
  | "tenant-suspended"
  | "application-suspended"
  | "canary"

/** The check of API keys. */
export class ApiKeyCheck extends Context.Service<
  ApiKeyCheck,
  {
    /** The principal of the key; otherwise the refusal to record, which has no more of the key than its public part. */
    check(key: string): Effect.Effect<Principal, Refusal>
  }
>()("app/access/ApiKeyCheck") {}

/** The check of agents' access tokens, which are JWTs; see `isAgentToken`. */
export class AgentTokenCheck extends Context.Service<
  AgentTokenCheck,
  {
    /** The agent that the token authenticates; otherwise the refusal to record, which the caller never sees. */
    check(token: string): Effect.Effect<Principal, Refusal>
  }
>()("app/access/AgentTokenCheck") {}

/** The check of the opaque tokens that accounts get at sign-in, from the cookie or as a bearer token. */
export class SessionTokenCheck extends Context.Service<
  SessionTokenCheck,
  {
    /**
     * The account that the token authenticates; otherwise the refusal to record, which the caller never sees. `isUse` says
     * whether the check counts as activity, which keeps the session from becoming idle.
     */
    check(token: string, isUse: boolean): Effect.Effect<Principal, Refusal>
  }
>()("app/access/SessionTokenCheck") {}

/** Authentication of gateway calls by the gateway's own policy, which admits and refuses other credentials than the API. */
export class GatewayCredentialCheck extends Context.Service<
  GatewayCredentialCheck,
  {
    /** Undefined where the request has none of the gateway's credentials, so that a session counts. */
    identify(
      request: HttpServerRequest.HttpServerRequest
    ): Effect.Effect<Principal | undefined, RateLimited | Unauthenticated>
  }
>()("app/access/GatewayCredentialCheck") {}
