import { withForeign } from "../../kernel/http/foreign-format.ts"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { accessTokenUrn, idTokenUrn, jwtUrn, maxTokenRequestBytes } from "../agent-credentials/domain.ts"

const tag = {
  name: "OAuth",
  description:
    "The grants of agents, introspection and revocation for standard clients: forms in, JSON and the errors of RFC 6749 out. A request authenticates in exactly one way."
}

const agentId = "0198a5b0-7c00-7000-8000-00000000002a"
const jwt = "eyJhbGciOiJFZERTQSJ9.e30.c2ln"
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
const grants = ["client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange"] as const

const text = (description: string, example: string): Json => ({ type: "string", description, examples: [example] })
const oneOf = (description: string, values: ReadonlyArray<string>): Json => ({
  type: "string",
  description,
  enum: values
})

/** How an agent authenticates (RFC 7521 §4.2). */
const client = {
  client_id: text("The agent; taken from the assertion if absent", agentId),
  client_assertion_type: oneOf("The only supported type of assertion", [assertionType]),
  client_assertion: text("A JWT signed by a key of the agent (RFC 7523, private_key_jwt)", jwt)
}
const presented = {
  token: text("The token to look up or revoke", jwt),
  token_type_hint: text("Accepted and not needed", "access_token")
}

const form = (properties: Json, required: ReadonlyArray<string>, examples: Json): Json => ({
  required: true,
  content: {
    "application/x-www-form-urlencoded": {
      schema: {
        type: "object",
        description: "Each parameter once; an empty one counts as absent, and an unknown one is ignored",
        properties,
        required,
        additionalProperties: true
      },
      examples
    }
  }
})

const tokenAnswer = {
  type: "object",
  description: "A new token (RFC 6749 §5.1)",
  required: ["access_token", "token_type", "expires_in", "scope"],
  properties: {
    access_token: text("The access token (RFC 9068), shown only here", jwt),
    token_type: { type: "string", enum: ["Bearer"] },
    expires_in: { type: "integer", minimum: 0, maximum: 86_400, description: "Seconds", examples: [3600] },
    scope: text("What was granted", "llm:complete"),
    issued_token_type: oneOf("Of an exchange", [accessTokenUrn])
  }
}

const oauthError = {
  type: "object",
  description: "An error of OAuth (RFC 6749 §5.2)",
  required: ["error", "error_description"],
  properties: {
    error: text("What went wrong, for the client", "invalid_request"),
    error_description: text("The same for people", "grant_type is missing.")
  }
}

const reasons = {
  400: "The form is unreadable, incomplete or contradictory, or requests what is not granted",
  401: "The client or its token is not accepted; `WWW-Authenticate` has the details",
  403: "The caller lacks the capability",
  413: `The body is larger than ${maxTokenRequestBytes} bytes`,
  429: "Too many requests; Retry-After says when to retry"
}

const answers = (statuses: ReadonlyArray<keyof typeof reasons>): Json =>
  Object.fromEntries(
    statuses.map((status) => [
      String(status),
      {
        description: reasons[status],
        content: { "application/json": { schema: { $ref: "#/components/schemas/OAuthError" } } }
      }
    ])
  )

const operation = (operationId: string, summary: string, description: string, rest: Json): Json => ({
  post: {
    operationId: `oauth.${operationId}`,
    summary,
    description,
    tags: [tag.name],
    "x-foreign-format": true,
    ...rest
  }
})

// By a key, a bearer token, or the form itself.
const anyCaller = [{ apiKey: [] }, { bearer: [] }, {}]
const asClient = { client_assertion_type: assertionType, client_assertion: jwt }

/** Adds `/oauth2/*` to the document: its forms and errors do not fit the groups of the API. */
export const withOAuth = withForeign({
  tag,
  schemas: { OAuthToken: tokenAnswer, OAuthError: oauthError },
  paths: {
    "/oauth2/token": operation(
      "token",
      "Get a token, or exchange one",
      "RFC 6749 with private_key_jwt (RFC 7523) as the one way to authenticate, and RFC 8693. Does what `/api/agents/token` and `/api/agents/token/exchange` do.",
      {
        security: [],
        requestBody: form(
          {
            grant_type: oneOf("The grant", grants),
            ...client,
            scope: text("Scopes separated by spaces; absent for all that may be granted", "llm:complete"),
            subject_token: text("For an exchange: a token of the principal that the agent acts for", jwt),
            subject_token_type: oneOf("Of an exchange", [accessTokenUrn, jwtUrn, idTokenUrn]),
            requested_token_type: oneOf("For an exchange; access tokens are issued either way", [
              accessTokenUrn,
              jwtUrn
            ]),
            audience: text("This service", "http://127.0.0.1:11402"),
            resource: text("This service", "http://127.0.0.1:11402")
          },
          ["grant_type", "client_assertion_type", "client_assertion"],
          {
            clientCredentials: { value: { grant_type: grants[0], ...asClient, scope: "llm:complete" } },
            tokenExchange: {
              value: { grant_type: grants[1], ...asClient, subject_token: jwt, subject_token_type: accessTokenUrn }
            }
          }
        ),
        responses: {
          200: {
            description: "The token",
            content: { "application/json": { schema: { $ref: "#/components/schemas/OAuthToken" } } }
          },
          ...answers([400, 401, 413, 429])
        }
      }
    ),
    "/oauth2/introspect": operation(
      "introspect",
      "Introspect a token",
      "RFC 7662, by a key, by an access token, or by an agent's assertion. An expired, revoked or foreign token is `{ active: false }`.",
      {
        security: anyCaller,
        "x-required-capability": "agents:introspect",
        "x-or-capabilities": ["agents:read"],
        requestBody: form({ ...presented, ...client }, ["token"], { token: { value: { token: jwt } } }),
        responses: {
          200: {
            description: "What the token allows now",
            content: {
              "application/json": {
                schema: {
                  anyOf: [{ $ref: "#/components/schemas/ActiveToken" }, { $ref: "#/components/schemas/InactiveToken" }]
                }
              }
            }
          },
          ...answers([400, 401, 403, 413, 429])
        }
      }
    ),
    "/oauth2/revoke": operation(
      "revoke",
      "Revoke a token",
      "RFC 7009, by a key, by an access token, or by an agent's assertion. An invalid or foreign token is 200 too, and nothing changes.",
      {
        security: anyCaller,
        "x-required-capability": "agents:write",
        requestBody: form({ ...presented, ...client }, ["token"], { token: { value: { token: jwt } } }),
        responses: {
          200: {
            description: "The token is revoked, or never was valid",
            content: { "application/json": { schema: { type: "object", description: "Empty", maxProperties: 0 } } }
          },
          ...answers([400, 401, 403, 413, 429])
        }
      }
    )
  }
})
