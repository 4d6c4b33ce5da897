import { HttpApiGroup, HttpApiMiddleware, OpenApi } from "effect/http-api"
import { JsonWebKeys } from "../../audit/signing-keys/domain.ts"
import { RateLimited } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import {
  AgentTokenResponse,
  InvalidClient,
  InvalidRequest,
  InvalidScope,
  maxTokenRequestBytes,
  TokenExchangeRequest,
  TokenRequest
} from "../agent-credentials/domain.ts"
import { AuthorizationServer, OpenIdConfiguration, ProtectedResource } from "./domain.ts"

/** Answers a request that cannot be read with OAuth's `invalid_request`. */
export class OAuthRequests extends HttpApiMiddleware.Service<OAuthRequests>()("app/agents/OAuthRequests", {
  error: InvalidRequest
}) {}

export class AgentTokensApi extends HttpApiGroup.make("agentTokens")
  .add(
    endpoint.post("token", "/token", {
      summary: "Get a token for an assertion",
      description:
        "RFC 7523 private_key_jwt. The assertion names the agent as `iss` and `sub` and the issuer or this URL as its one `aud`; it lives five minutes at most, is signed by a live key of the agent named by `kid`, and its `jti` is good once. The audit log alone records which check failed. `/oauth2/token` is the same as a form.",
      maxBodyBytes: maxTokenRequestBytes,
      payload: TokenRequest,
      success: AgentTokenResponse,
      error: [InvalidClient, InvalidScope, RateLimited]
    }),
    endpoint.post("exchange", "/token/exchange", {
      summary: "Exchange a token to act on behalf of another principal",
      description:
        "RFC 8693. The client authenticates as above and needs an active delegation grant from the subject. The granted scopes are those that the request, the subject, the grant and the agent's ceiling have in common; the token expires with the subject's.",
      maxBodyBytes: maxTokenRequestBytes,
      payload: TokenExchangeRequest,
      success: AgentTokenResponse,
      error: [InvalidClient, InvalidScope, RateLimited]
    })
  )
  .prefix("/api/agents")
  .middleware(OAuthRequests)
  .annotateMerge(
    OpenApi.annotations({ title: "Agent tokens", description: "Where agents get their tokens; no API key is needed." })
  ) {}

export class TokenMetadataApi extends HttpApiGroup.make("tokenMetadata")
  .add(
    endpoint.get("keys", "/.well-known/jwks.json", {
      summary: "Get the keys that tokens are signed with",
      description:
        "A JWK set (RFC 7517), to be kept for five minutes; a new key is in it before it signs. No credential.",
      success: JsonWebKeys
    }),
    endpoint.get("authorizationServer", "/.well-known/oauth-authorization-server", {
      summary: "Get the authorization server's metadata",
      description: "RFC 8414. No credential.",
      success: AuthorizationServer
    }),
    endpoint.get("openIdConfiguration", "/.well-known/openid-configuration", {
      summary: "Get the same as an OpenID configuration",
      description:
        "For clients that ask for it first. The service issues access tokens alone: it has no authorization endpoint and signs no ID tokens. No credential.",
      success: OpenIdConfiguration
    }),
    endpoint.get("apiResource", "/.well-known/oauth-protected-resource/api", {
      summary: "Get the API's metadata as a protected resource",
      description: "RFC 9728, for clients that /api refused. No credential.",
      success: ProtectedResource
    }),
    endpoint.get("gatewayResource", "/.well-known/oauth-protected-resource/v1", {
      summary: "Get the gateway's metadata as a protected resource",
      description: "RFC 9728, for clients that /v1 refused. No credential.",
      success: ProtectedResource
    })
  )
  .annotateMerge(
    OpenApi.annotations({ title: "Token metadata", description: "What clients and verifiers of tokens need to know." })
  ) {}
