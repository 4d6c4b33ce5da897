import { Effect, Schema } from "effect"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { Capability, Scopes } from "../../kernel/authority/capability.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { Fault, Problem } from "../../kernel/problems/problem.ts"
import { storable } from "../../kernel/text.ts"
import { AgentId } from "../agents/domain.ts"

export const CredentialId = Uuid.pipe(Schema.brand("CredentialId"))
export type CredentialId = typeof CredentialId.Type

/** The `typ` of our access tokens (RFC 9068 §2.1). */
export const accessTokenType = "at+jwt"
export const accessTokenUrn = "urn:ietf:params:oauth:token-type:access_token"
export const jwtUrn = "urn:ietf:params:oauth:token-type:jwt"
export const idTokenUrn = "urn:ietf:params:oauth:token-type:id_token"
export const maxAssertionCharacters = 8192
export const maxTokenRequestBytes = 16_384

const token = (description: string) =>
  storable(Schema.String).annotate({
    description,
    examples: ["eyJhbGciOiJFZERTQSJ9.e30.c2ln"]
  })

// What a wrong scope is called depends on who asks, so its form is looked at later.
const RequestedScopes = Schema.Array(storable(Schema.String)).annotate({
  description: "Absent for all that may be granted",
  examples: [["llm:complete"]]
})

export const CredentialRequest = Schema.Struct({
  requestedScopes: Schema.optionalKey(RequestedScopes),
  ttlSeconds: Schema.optionalKey(
    Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 86_400 }))).annotate({
      description: "Life of the credential; the agent's maximum when absent",
      examples: [600]
    })
  )
}).annotate({ identifier: "CredentialRequest" })
export type CredentialRequest = typeof CredentialRequest.Type

export const TokenRequest = Schema.Struct({
  agentId: storable(Schema.String).annotate({ examples: ["0198a5b0-7c00-7000-8000-00000000002a"] }),
  clientAssertion: token("A JWT signed by a key of the agent (RFC 7523, private_key_jwt)"),
  requestedScopes: Schema.optionalKey(RequestedScopes)
}).annotate({ identifier: "TokenRequest" })
export type TokenRequest = typeof TokenRequest.Type

export const TokenExchangeRequest = Schema.Struct({
  ...TokenRequest.fields,
  subjectToken: token("A token of the subject that the agent acts for")
}).annotate({ identifier: "TokenExchangeRequest" })
export type TokenExchangeRequest = typeof TokenExchangeRequest.Type

const Lifetime = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 86_400 })))

/** A credential just minted: the one answer that holds the token itself. */
export const AgentTokenResponse = Schema.Struct({
  accessToken: Schema.RedactedFromValue(token("The access token (RFC 9068), shown this once")),
  tokenType: Schema.Literal("Bearer"),
  expiresIn: Lifetime.annotate({ description: "Seconds", examples: [3600] }),
  expiresAt: Instant,
  scopes: Scopes,
  credentialId: CredentialId,
  issuedTokenType: Schema.optionalKey(Schema.Literal(accessTokenUrn))
}).annotate({ identifier: "AgentTokenResponse" })
export type AgentTokenResponse = typeof AgentTokenResponse.Type

const SubjectName = Schema.String.annotate({
  description: "Whose authority it is",
  examples: ["agent:0198a5b0-7c00-7000-8000-00000000002a"]
})

/** A credential as lists show it, never with its token. */
export const AgentCredentialView = Schema.Struct({
  id: CredentialId,
  agentId: AgentId,
  subject: SubjectName,
  actors: Schema.Array(AgentId).annotate({ description: "Who acts for the subject, the latest first" }),
  scopes: Schema.Array(Capability),
  status: Schema.Literals(["active", "expired", "revoked"]),
  keyId: Schema.NullOr(Uuid),
  delegationId: Schema.NullOr(Uuid),
  issuedAt: Instant,
  issuedBy: Schema.String.annotate({ examples: ["service-account"] }),
  expiresAt: Instant,
  revokedAt: Schema.NullOr(Instant)
}).annotate({ identifier: "AgentCredential" })
export type AgentCredentialView = typeof AgentCredentialView.Type

export const IntrospectionRequest = Schema.Struct({
  token: token("The token to look at"),
  token_type_hint: Schema.optionalKey(
    storable(Schema.String).annotate({ description: "Taken, and not needed", examples: ["access_token"] })
  )
}).annotate({ identifier: "IntrospectionRequest" })

/** Who acts for the subject, and in whose place before (RFC 8693 §4.1). */
export interface Act {
  readonly sub: string
  readonly act?: Act
}
const Act = Schema.Struct({
  sub: Schema.String.annotate({ examples: ["agent:0198a5b0-7c00-7000-8000-00000000002a"] }),
  act: Schema.optionalKey(
    Schema.suspend((): Schema.Codec<Act> => Act).annotate({ description: "Who acted before, in the same form" })
  )
}).annotate({ identifier: "Act", examples: [{ sub: "agent:0198a5b0-7c00-7000-8000-00000000002a" }] })

const Seconds = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 253_402_300_799 }))).annotate({
  description: "Seconds since 1970",
  examples: [1_769_850_600]
})

/** The introspection response of a live token. */
export const ActiveToken = Schema.Struct({
  active: Schema.Literal(true),
  scope: Schema.String.annotate({ examples: ["llm:complete agents:read"] }),
  client_id: AgentId,
  sub: SubjectName,
  aud: Schema.String.annotate({ examples: ["http://127.0.0.1:11402"] }),
  iss: Schema.String.annotate({ examples: ["http://127.0.0.1:11402"] }),
  exp: Seconds,
  iat: Seconds,
  nbf: Seconds,
  jti: CredentialId,
  token_type: Schema.Literal("Bearer"),
  act: Schema.optionalKey(Act),
  synthetic: Schema.optionalKey(Schema.Literal(true)).annotate({
    description: "Of an agent that a synthetic principal registered"
  }),
  tenant_id: TenantId,
  agent_id: AgentId,
  credential_id: CredentialId,
  delegation_id: Schema.NullOr(Uuid),
  allowed_task_types: Schema.Array(Schema.String),
  default_task_type: Schema.NullOr(Schema.String),
  per_turn_budget: Schema.NullOr(
    Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 8_388_608 })))
  ).annotate({ description: "US dollars" })
}).annotate({ identifier: "ActiveToken" })
export type ActiveToken = typeof ActiveToken.Type

export const InactiveToken = Schema.Struct({ active: Schema.Literal(false) }).annotate({ identifier: "InactiveToken" })
export const Introspection = Schema.Union([ActiveToken, InactiveToken])
export type Introspection = typeof Introspection.Type

export const credentialActions = auditActions("AgentCredential", [
  "AgentCredentialIssued",
  "AgentCredentialExchanged",
  "AgentCredentialRevoked",
  "AgentTokenDenied"
])

const oauth = <const Code extends string>(code: Code, description: string) => ({
  error: Schema.Literal(code).pipe(Schema.withConstructorDefault(Effect.succeed(code))),
  error_description: Schema.String.annotate({ examples: [description] }).pipe(
    Schema.withConstructorDefault(Effect.succeed(description))
  )
})

const clientMeaning = "The client could not be authenticated."
export class InvalidClient extends Problem<InvalidClient>()(
  "InvalidClient",
  { slug: "invalid-client", status: 401, meaning: clientMeaning },
  oauth("invalid_client", clientMeaning)
) {}

const requestMeaning = "A member is missing or of the wrong type, or the subject token is bad or has no live grant."
export class InvalidRequest extends Problem<InvalidRequest>()(
  "InvalidRequest",
  { slug: "invalid-request", status: 400, meaning: requestMeaning },
  { ...oauth("invalid_request", requestMeaning), errors: Schema.optionalKey(Schema.Array(Fault)) }
) {}

const scopeMeaning = "A scope that was asked for cannot be granted, or none can."
export class InvalidScope extends Problem<InvalidScope>()(
  "InvalidScope",
  { slug: "invalid-scope", status: 400, meaning: scopeMeaning },
  oauth("invalid_scope", scopeMeaning)
) {}

export const invalidRequest = (detail: string) => new InvalidRequest({ detail, error_description: detail })
export const invalidScope = (detail: string) => new InvalidScope({ detail, error_description: detail })
export const badSubject = "The subject token is bad, or nothing lets the agent act on its behalf."
