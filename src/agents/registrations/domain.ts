import { Schema } from "effect"
import { Model } from "effect/schema"
import { ApplicationId, ApplicationStatus } from "../../applications/applications/domain.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { isOwn, Scopes } from "../../kernel/authority/capability.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { CreatedAt, Instant, UpdatedAt } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { composed, described, text, visible } from "../../kernel/text.ts"
import { ApiKeyId } from "../api-keys/domain.ts"
import { RegistrationTokenId } from "../registration-tokens/domain.ts"

/** The largest body of a registration. */
export const maxRegistrationBytes = 65_536

/** An administrator reads it beside a button that approves: nothing may reorder or hide what is written. */
const plain = (maximum: number) =>
  text(1, maximum).pipe(
    Schema.check(
      Schema.isPattern(new RegExp(String.raw`^(?=.*${visible})[^\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]*$`, "u"), {
        expected: "text that is not blank and has no control characters",
        toJsonSchema: () => ({ pattern: String.raw`\S` })
      })
    )
  )

const ClientName = composed(plain(100), { examples: ["Billing agent"] })
const Contact = plain(320)
const SoftwareId = plain(255).annotate({ examples: ["4NRB1-0XZABZI9E6-5SM3R"] })
const SoftwareVersion = plain(100).annotate({ examples: ["2.1"] })

/** A URL as it is written, which only its scheme and host are read of; undefined for what parsers read differently. */
const urlIn = (text: string): URL | undefined =>
  /^[\x21-\x5b\x5d-\x7e]{1,2048}$/.test(text) && URL.canParse(text) ? new URL(text) : undefined

const hasAuthority = (text: string, url: URL): boolean =>
  text.slice(url.protocol.length).startsWith("//") && url.hostname !== "" && url.username === "" && url.password === ""

const isLoopback = ({ hostname }: URL): boolean => ["127.0.0.1", "[::1]", "localhost"].includes(hostname)

/** https, http on this machine, or a scheme that is a reversed domain of the application's (RFC 8252 §7). */
const isRedirectUri = (text: string): boolean => {
  const url = urlIn(text)
  if (url === undefined || text.includes("#")) return false
  if (url.protocol === "https:") return hasAuthority(text, url)
  if (url.protocol === "http:") return hasAuthority(text, url) && isLoopback(url)
  return /^[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)+:$/.test(url.protocol)
}

const RedirectUri = Schema.String.pipe(
  Schema.check(
    Schema.makeFilter(isRedirectUri, {
      expected: "an https URL, an http URL of the loopback interface, or one with a scheme such as com.example.app"
    })
  )
).annotate({ examples: ["https://billing.example.com/callback"] })

const isWebUrl = (schemes: ReadonlyArray<string>) => (text: string) => {
  const url = urlIn(text)
  return url !== undefined && schemes.includes(url.protocol) && hasAuthority(text, url)
}
const ClientUri = Schema.String.pipe(
  Schema.check(Schema.makeFilter(isWebUrl(["https:", "http:"]), { expected: "an http or https URL" }))
).annotate({ examples: ["https://billing.example.com"] })
const JwksUri = Schema.String.pipe(
  Schema.check(Schema.makeFilter(isWebUrl(["https:"]), { expected: "an https URL" }))
).annotate({ examples: ["https://billing.example.com/jwks.json"] })

const JwkText = (maximum: number) => Schema.optionalKey(plain(maximum))
const JwkWord = Schema.optionalKey(plain(20).annotate({ component: "JwkWord" }))
const Absent = Schema.optionalKey(Schema.Never)

/** A public key; members of private ones are refused, and unknown ones left out. */
const PublicJwk = Schema.Struct({
  kty: Schema.Literals(["EC", "OKP", "RSA"]),
  kid: JwkText(255),
  use: JwkWord,
  alg: JwkWord,
  crv: JwkWord,
  x: JwkText(200),
  y: JwkText(200),
  n: JwkText(1400),
  e: JwkWord
})
const privateMembers = { d: Absent, p: Absent, q: Absent, dp: Absent, dq: Absent, qi: Absent, oth: Absent, k: Absent }

const Jwks = Schema.Struct({ keys: Schema.Array(PublicJwk).pipe(Schema.check(Schema.isMaxLength(20))) }).annotate({
  identifier: "RegisteredKeys"
})
const PresentedJwks = Schema.Struct({
  keys: Schema.Array(Schema.Struct({ ...PublicJwk.fields, ...privateMembers })).pipe(
    Schema.check(Schema.isMinLength(1), Schema.isMaxLength(20))
  )
})

/** Scopes separated by spaces (RFC 6749 §3.3), each a capability of this service. */
const ScopeText = Schema.String.pipe(
  Schema.check(
    Schema.isMaxLength(20_000),
    Schema.makeFilter((text: string) => scopesIn(text).length <= 200 && scopesIn(text).every(isOwn), {
      expected: "at most 200 capabilities of this service, separated by spaces, such as llm:complete"
    })
  )
)
export const scopesIn = (text: string): ReadonlyArray<string> => [
  ...new Set(text.split(" ").filter((word) => word !== ""))
]

// RFC 7592 §2.2: null means that the member is to be removed.
const given = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

const Words = given(Schema.Array(plain(255)).pipe(Schema.check(Schema.isMaxLength(50))))

/** What holds for each application at the token endpoint, whatever it asks for: an API key is no credential of a grant. */
export const noGrants = { token_endpoint_auth_method: "none", grant_types: [], response_types: [] } as const

/** What a client may say of itself (RFC 7591 §2); other members are ignored. */
export const ClientMetadata = Schema.Struct({
  client_name: given(ClientName),
  client_uri: given(ClientUri),
  redirect_uris: given(Schema.Array(RedirectUri).pipe(Schema.check(Schema.isMaxLength(50)))),
  jwks: given(PresentedJwks),
  jwks_uri: given(JwksUri),
  scope: given(ScopeText),
  contacts: given(Schema.Array(Contact).pipe(Schema.check(Schema.isMaxLength(20)))),
  software_id: given(SoftwareId),
  software_version: given(SoftwareVersion),
  token_endpoint_auth_method: given(plain(255)),
  grant_types: Words,
  response_types: Words
})
export type ClientMetadata = typeof ClientMetadata.Type

const optionalColumn = <S extends Schema.Top>(schema: S) => Schema.NullOr(schema)

/** What an application registered of itself, under the application's id, with the hash of the token that changes it. */
export class Registration extends Model.Class<Registration>("Registration")({
  id: Model.Field({ select: ApplicationId, insert: ApplicationId, update: ApplicationId }),
  accessTokenSha256: Model.Field({ select: Schema.Uint8Array, insert: Schema.Uint8Array }),
  clientName: optionalColumn(ClientName),
  clientUri: optionalColumn(Schema.String),
  redirectUris: Schema.Array(Schema.String),
  jwks: Model.Field({
    select: Schema.NullOr(Jwks),
    insert: Schema.NullOr(Schema.fromJsonString(Jwks)),
    update: Schema.NullOr(Schema.fromJsonString(Jwks))
  }),
  jwksUri: optionalColumn(Schema.String),
  contacts: Schema.Array(Schema.String),
  softwareId: optionalColumn(Schema.String),
  softwareVersion: optionalColumn(Schema.String),
  requestedScopes: Scopes,
  apiKeyId: Schema.NullOr(ApiKeyId),
  sealedSecret: Model.Field({
    select: Schema.NullOr(Schema.Uint8Array),
    insert: Schema.NullOr(Schema.Uint8Array),
    update: Schema.NullOr(Schema.Uint8Array)
  }),
  registrationTokenId: Schema.NullOr(RegistrationTokenId),
  createdAt: CreatedAt,
  updatedAt: UpdatedAt
}) {}

/** A registration as administrators see it, with the state of its application. */
export const RegistrationView = Schema.Struct({
  id: ApplicationId,
  status: ApplicationStatus,
  clientName: Schema.NullOr(ClientName),
  clientUri: Schema.NullOr(ClientUri),
  redirectUris: Schema.Array(RedirectUri),
  jwks: Schema.NullOr(Jwks),
  jwksUri: Schema.NullOr(JwksUri),
  contacts: Schema.Array(Contact.annotate({ examples: ["ops@example.com"] })),
  softwareId: Schema.NullOr(SoftwareId),
  softwareVersion: Schema.NullOr(SoftwareVersion),
  requestedScopes: Scopes.annotate({ examples: [["llm:complete"]] }),
  grantedScopes: Scopes.annotate({
    description: "What its key may do now; none before the approval, and after the key's end",
    examples: [["llm:complete"]]
  }),
  apiKeyId: Schema.NullOr(ApiKeyId).annotate({ description: "The key that the approval issued" }),
  registrationTokenId: Schema.NullOr(RegistrationTokenId).annotate({
    description: "The token that it registered with; null for an open registration"
  }),
  createdAt: Instant,
  updatedAt: Instant
}).annotate({ identifier: "Registration" })
export type RegistrationView = typeof RegistrationView.Type

export const RegistrationApproval = Schema.Struct({
  tenantId: Schema.optionalKey(described(TenantId, { description: "Of the key; the default tenant when absent" })),
  scopes: Schema.optionalKey(
    Scopes.annotate({
      description: "What is granted; when absent, what is requested, if If-Match names the registration that was read"
    })
  )
}).annotate({ identifier: "RegistrationApproval", examples: [{ scopes: ["llm:complete"] }] })
export type RegistrationApproval = typeof RegistrationApproval.Type

export const registrationActions = auditActions("Application", [
  "ApplicationRegistered",
  "ApplicationApproved",
  "ApplicationRejected",
  "ApplicationRegistrationUpdated",
  "ApplicationSecretDelivered",
  "ApplicationDeregistered",
  "ApplicationRegistrationRefused"
])

export class RegistrationNotFound extends Problem<RegistrationNotFound>()("RegistrationNotFound", {
  slug: "registration-not-found",
  status: 404,
  meaning: "The application did not register itself."
}) {}

export class ApplicationNotPending extends Problem<ApplicationNotPending>()("ApplicationNotPending", {
  slug: "application-not-pending",
  status: 409,
  meaning: "The application does not wait for an approval: it was approved, rejected or suspended."
}) {}
