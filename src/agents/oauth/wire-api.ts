import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { foreignEndpoints, oneOf, text } from "../../kernel/http/foreign-endpoint.ts"
import { accessTokenUrn, idTokenUrn, Introspection, jwtUrn, maxTokenRequestBytes } from "../agent-credentials/domain.ts"
import { oauthError } from "./domain.ts"

const agentId = "0198a5b0-7c00-7000-8000-00000000002a"
const jwt = "eyJhbGciOiJFZERTQSJ9.e30.c2ln"
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
const grants = ["client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange"] as const
const optional = Schema.optionalKey

/** How an agent authenticates (RFC 7521 §4.2). */
const clientId = optional(text("The agent; taken from the assertion if absent", agentId))
const assertion = {
  client_assertion_type: oneOf("The only supported type of assertion", assertionType),
  client_assertion: text("A JWT signed by a key of the agent (RFC 7523, private_key_jwt)", jwt)
}

const form = <Fields extends Schema.Struct.Fields>(component: string, fields: Fields) =>
  Schema.Struct(fields)
    .annotate({
      component,
      description: "Each parameter once, but for lists; an empty one counts as absent, and an unknown one is ignored",
      additionalProperties: true
    })
    .pipe(HttpApiSchema.asFormUrlEncoded())

const targets = Schema.Array(Schema.String).annotate({
  description: "This service, /api or /v1 of it; several if repeated",
  examples: [["http://127.0.0.1:11402/api"]]
})

const TokenRequest = form("TokenRequest", {
  grant_type: oneOf("The grant", ...grants),
  client_id: clientId,
  ...assertion,
  scope: optional(text("Scopes separated by spaces; absent for all that may be granted", "llm:complete")),
  subject_token: optional(text("For an exchange: a token of the principal that the agent acts for", jwt)),
  subject_token_type: optional(oneOf("Of an exchange", accessTokenUrn, jwtUrn, idTokenUrn)),
  requested_token_type: optional(oneOf("For an exchange; access tokens are issued either way", accessTokenUrn, jwtUrn)),
  audience: optional(targets),
  resource: optional(targets)
})

const PresentedToken = form("PresentedToken", {
  token: text("The token to look up or revoke", jwt),
  token_type_hint: optional(text("Accepted and not needed", "access_token")),
  client_id: clientId,
  client_assertion_type: optional(assertion.client_assertion_type),
  client_assertion: optional(assertion.client_assertion)
})

const OAuthToken = Schema.Struct({
  access_token: text("The access token (RFC 9068), shown only here", jwt),
  token_type: Schema.Literal("Bearer"),
  expires_in: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 86_400 })).annotate({
    description: "Seconds",
    examples: [3600]
  }),
  scope: text("What was granted", "llm:complete"),
  issued_token_type: optional(oneOf("Of an exchange", accessTokenUrn))
}).annotate({ component: "OAuthToken", description: "A new token (RFC 6749 §5.1)", additionalProperties: null })

const Empty = Schema.Record(Schema.String, Schema.Unknown)
  .check(Schema.isMaxProperties(0))
  .annotate({ description: "Empty" })

const asClient = { client_assertion_type: assertionType, client_assertion: jwt }

const endpoint = foreignEndpoints({
  error: oauthError("OAuthError", "An error of OAuth (RFC 6749 §5.2)", "invalid_request", "grant_type is missing."),
  reasons: {
    400: "The form is unreadable, incomplete or contradictory, or requests what is not granted",
    401: "The client or its token is not accepted; `WWW-Authenticate` has the details",
    403: "The caller lacks the capability",
    412: "If-Match names a tag, which nothing here has",
    413: `The body is larger than ${maxTokenRequestBytes} bytes`,
    429: "Too many requests; Retry-After says when to retry"
  },
  // By a key, a bearer token, or the form itself.
  security: [{ apiKey: [] }, { bearer: [] }, {}]
})

const ofPresentedToken = {
  payload: PresentedToken,
  failures: [400, 401, 403, 412, 413, 429],
  examples: { token: { value: { token: jwt } } }
}

/** `/oauth2/*`: its forms and errors do not fit the other groups of the API. */
export class OAuthApi extends HttpApiGroup.make("oauth")
  .add(
    endpoint.post("token", "/token", {
      payload: TokenRequest,
      success: OAuthToken,
      failures: [400, 401, 412, 413, 429],
      summary: "Get a token, or exchange one",
      description:
        "RFC 6749 with private_key_jwt (RFC 7523) as the one way to authenticate, and RFC 8693. Does what `/api/agents/token` and `/api/agents/token/exchange` do.",
      security: [],
      examples: {
        clientCredentials: { value: { grant_type: grants[0], ...asClient, scope: "llm:complete" } },
        tokenExchange: {
          value: { grant_type: grants[1], ...asClient, subject_token: jwt, subject_token_type: accessTokenUrn }
        }
      },
      answer: "The token"
    }),
    endpoint.post("introspect", "/introspect", {
      ...ofPresentedToken,
      success: Introspection,
      summary: "Introspect a token",
      description:
        "RFC 7662, by a key, by an access token, or by an agent's assertion. An expired, revoked or foreign token is `{ active: false }`.",
      operation: { "x-required-capability": "agents:introspect", "x-or-capabilities": ["agents:read"] },
      answer: "What the token allows now"
    }),
    endpoint.post("revoke", "/revoke", {
      ...ofPresentedToken,
      success: Empty,
      summary: "Revoke a token",
      description:
        "RFC 7009, by a key, by an access token, or by an agent's assertion. An invalid or foreign token is 200 too, and nothing changes.",
      operation: { "x-required-capability": "agents:write" },
      answer: "The token is revoked, or never was valid"
    })
  )
  .prefix("/oauth2")
  .annotateMerge(
    OpenApi.annotations({
      title: "OAuth",
      description:
        "The grants of agents, introspection and revocation for standard clients: forms in, JSON and the errors of RFC 6749 out. A request authenticates in exactly one way."
    })
  ) {}
