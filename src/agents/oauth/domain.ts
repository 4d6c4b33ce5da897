import { Schema } from "effect"
import { text } from "../../kernel/http/foreign-endpoint.ts"

const url = (path: string) => Schema.String.annotate({ examples: [`http://127.0.0.1:11402${path}`] })
const words = (...examples: ReadonlyArray<string>) => Schema.Array(Schema.String).annotate({ examples: [examples] })

/** What RFC 8414 lets a client find out by itself. */
export const AuthorizationServer = Schema.Struct({
  issuer: url(""),
  token_endpoint: url("/oauth2/token"),
  introspection_endpoint: url("/oauth2/introspect"),
  revocation_endpoint: url("/oauth2/revoke"),
  jwks_uri: url("/.well-known/jwks.json"),
  registration_endpoint: url("/api/applications/register"),
  grant_types_supported: words("client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange"),
  response_types_supported: Schema.Array(Schema.String).annotate({ examples: [[]] }),
  scopes_supported: words("llm:complete"),
  token_endpoint_auth_methods_supported: words("private_key_jwt"),
  token_endpoint_auth_signing_alg_values_supported: words("ES256", "EdDSA"),
  introspection_endpoint_auth_methods_supported: words("private_key_jwt"),
  introspection_endpoint_auth_signing_alg_values_supported: words("ES256", "EdDSA"),
  revocation_endpoint_auth_methods_supported: words("private_key_jwt"),
  revocation_endpoint_auth_signing_alg_values_supported: words("ES256", "EdDSA")
}).annotate({ identifier: "AuthorizationServer" })
export type AuthorizationServer = typeof AuthorizationServer.Type

/** The same where clients of OpenID Connect ask for it first, with the members that they require; no ID token is issued. */
export const OpenIdConfiguration = Schema.Struct({
  ...AuthorizationServer.fields,
  subject_types_supported: words("public"),
  id_token_signing_alg_values_supported: Schema.Array(Schema.String).annotate({ examples: [[]] })
}).annotate({ identifier: "OpenIdConfiguration" })

/** What RFC 9728 lets a client find out of a resource that refused it. */
export const ProtectedResource = Schema.Struct({
  resource: url("/v1"),
  authorization_servers: Schema.Array(url("")),
  jwks_uri: url("/.well-known/jwks.json"),
  scopes_supported: words("llm:complete"),
  bearer_methods_supported: words("header"),
  resource_name: Schema.String.annotate({ examples: ["Application Manager: gateway"] })
}).annotate({ identifier: "ProtectedResource" })

/** An error of OAuth (RFC 6749 §5.2), with examples. */
export const oauthError = (component: string, description: string, error: string, error_description: string) =>
  Schema.Struct({
    error: text("What went wrong, for the client", error),
    error_description: text("The same for people", error_description)
  }).annotate({ component, description, additionalProperties: null })
