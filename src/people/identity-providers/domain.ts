import { Schema, SchemaGetter } from "effect"
import { Model } from "effect/schema"
import { RoleId } from "../../applications/roles/domain.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { asciiDomain } from "../../kernel/email.ts"
import { listing } from "../../kernel/http/listing.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { CreatedAt, Instant, UpdatedAt } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { legible, text } from "../../kernel/text.ts"

export const IdentityProviderId = Uuid.pipe(Schema.brand("IdentityProviderId"))
export type IdentityProviderId = typeof IdentityProviderId.Type

/** How they are listed. */
export const identityProviderListing = listing(
  IdentityProviderId,
  { createdAt: "id", issuer: "text" },
  { searches: "the issuer, the client id and the domains" }
)

/** `login`: people sign in with it; `workload`: its tokens are subjects of the token exchange. */
export const ProviderKind = Schema.Literals(["login", "workload"]).annotate({
  component: "IdentityProviderKind",
  description: "`login`: people sign in with it; `workload`: agents exchange its tokens",
  examples: ["login"]
})

/** Compared as it is written: two spellings of one URL are two issuers. */
const Issuer = text(9, 512)
  .pipe(
    Schema.check(
      Schema.isPattern(/^https:\/\/[^\s/?#@|]+(?:\/[^\s?#|]*)?$/u, {
        expected: "an https URL without user, query and fragment"
      })
    )
  )
  .annotate({
    component: "Issuer",
    description: "Exactly as in the provider's tokens",
    examples: ["https://login.example.com"]
  })

const ClientId = legible(255).annotate({ examples: ["application-manager"] })
const ClientSecret = Schema.RedactedFromValue(
  text(1, 1024).annotate({
    description: "Stored encrypted and never shown; null for a public client",
    examples: ["a-secret-of-the-client"]
  })
)

const ScopeToken = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^[\x21\x23-\x5b\x5d-\x7e]{1,100}$/u, { expected: "a scope of OAuth" }))
)
const LoginScopes = Schema.Array(ScopeToken)
  .pipe(Schema.check(Schema.isMaxLength(50)))
  .annotate({
    component: "LoginScopes",
    description: "Requested at sign-in; `openid` is among them",
    examples: [["openid", "email", "profile"]]
  })

/** Asymmetric alone: a shared secret must not be mistaken for a public key. */
const SignatureAlgorithm = Schema.Literals([
  "ES256",
  "ES384",
  "ES512",
  "PS256",
  "PS384",
  "PS512",
  "RS256",
  "RS384",
  "RS512",
  "EdDSA",
  "Ed25519"
])
const AllowedAlgorithms = Schema.Array(SignatureAlgorithm)
  .pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(11), Schema.isUnique()))
  .annotate({
    component: "AllowedAlgorithms",
    description: "Which signatures of its tokens count",
    examples: [["RS256", "ES256"]]
  })

const ClaimName = legible(100)
const ClaimMapping = Schema.Struct({
  email: ClaimName.annotate({ examples: ["email"] }),
  emailVerified: ClaimName.annotate({ examples: ["email_verified"] }),
  name: ClaimName.annotate({ examples: ["name"] })
}).annotate({ component: "ClaimMapping", description: "The claims that a new account is made of" })

/** As it is compared: `exämple.de` is stored as `xn--exmple-cua.de`. */
const Domain = Schema.String.annotate({ examples: ["example.com"] }).pipe(
  Schema.decodeTo(
    Schema.String.pipe(
      Schema.check(Schema.makeFilter((domain) => asciiDomain(domain) === domain, { expected: "a domain" }))
    ),
    { decode: SchemaGetter.transform((domain) => asciiDomain(domain) ?? domain), encode: SchemaGetter.passthrough() }
  )
)
const Domains = Schema.Array(Domain)
  .pipe(Schema.check(Schema.isMaxLength(100)))
  .annotate({
    component: "EmailDomains",
    description:
      "Where verified e-mail addresses must be from, of any script; the answer has them in ASCII. Empty: anywhere, also unverified"
  })

const Subjects = Schema.Array(text(1, 255))
  .pipe(Schema.check(Schema.isMaxLength(1000)))
  .annotate({
    component: "ExchangeSubjects",
    description: "The `sub` of the tokens that may be exchanged, each written out; empty: none",
    examples: [["repo:acme/shop:ref:refs/heads/main"]]
  })

const DefaultRoleIds = Schema.Array(RoleId)
  .pipe(Schema.check(Schema.isMaxLength(50), Schema.isUnique()))
  .annotate({
    component: "DefaultRoleIds",
    description: "Roles of `application-manager` that a new account gets",
    examples: [[RoleId.make(3)]]
  })

const ProviderStatus = Schema.Literals(["active", "disabled"]).annotate({ examples: ["active"] })
const ProviderTenant = Schema.NullOr(TenantId).annotate({
  description: "Of the accounts that it makes, or the agents that exchange its tokens; null: of no tenant, or of all"
})

/** An OpenID Connect provider that the installation trusts to authenticate people or workloads. */
export class IdentityProvider extends Model.Class<IdentityProvider>("IdentityProvider")({
  id: Model.Field({ select: IdentityProviderId, insert: IdentityProviderId, update: IdentityProviderId }),
  kind: ProviderKind,
  issuer: Issuer,
  clientId: Schema.NullOr(ClientId),
  sealedClientSecret: Model.Field({
    select: Schema.NullOr(Schema.Uint8Array),
    insert: Schema.NullOr(Schema.Uint8Array),
    update: Schema.NullOr(Schema.Uint8Array)
  }),
  scopes: LoginScopes,
  allowedAlgorithms: AllowedAlgorithms,
  claimMapping: Model.Field({
    select: ClaimMapping,
    insert: Schema.fromJsonString(ClaimMapping),
    update: Schema.fromJsonString(ClaimMapping)
  }),
  domains: Domains,
  subjects: Subjects,
  defaultRoleIds: DefaultRoleIds,
  tenantId: Schema.NullOr(TenantId),
  status: ProviderStatus,
  createdAt: CreatedAt,
  createdBy: Schema.String,
  updatedAt: UpdatedAt
}) {}

/** A provider as the API shows it. */
export const IdentityProviderView = Schema.Struct({
  id: IdentityProviderId,
  kind: ProviderKind,
  issuer: Issuer,
  clientId: Schema.NullOr(ClientId),
  hasClientSecret: Schema.Boolean,
  scopes: LoginScopes,
  allowedAlgorithms: AllowedAlgorithms,
  claimMapping: ClaimMapping,
  domains: Domains,
  subjects: Subjects,
  defaultRoleIds: DefaultRoleIds,
  tenantId: ProviderTenant,
  status: ProviderStatus,
  createdAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }),
  updatedAt: Instant
}).annotate({ identifier: "IdentityProvider" })
export type IdentityProviderView = typeof IdentityProviderView.Type

const changeable = {
  clientId: Schema.optionalKey(Schema.NullOr(ClientId)),
  clientSecret: Schema.optionalKey(Schema.NullOr(ClientSecret)),
  scopes: Schema.optionalKey(LoginScopes),
  allowedAlgorithms: Schema.optionalKey(AllowedAlgorithms),
  claimMapping: Schema.optionalKey(ClaimMapping),
  domains: Schema.optionalKey(Domains),
  subjects: Schema.optionalKey(Subjects),
  defaultRoleIds: Schema.optionalKey(DefaultRoleIds),
  status: Schema.optionalKey(ProviderStatus)
}

export const IdentityProviderCreation = Schema.Struct({
  kind: ProviderKind,
  issuer: Issuer,
  tenantId: Schema.optionalKey(ProviderTenant),
  ...changeable
}).annotate({
  identifier: "IdentityProviderCreation",
  examples: [{ kind: "login", issuer: "https://login.example.com", clientId: "application-manager" }]
})
export type IdentityProviderCreation = typeof IdentityProviderCreation.Type

/** Any subset of what may be changed. Who its users are depends on the issuer, so that stays; so do kind and tenant. */
export const IdentityProviderPatch = Schema.Struct({
  kind: Schema.optionalKey(ProviderKind),
  issuer: Schema.optionalKey(Issuer),
  tenantId: Schema.optionalKey(ProviderTenant),
  ...changeable,
  ...serverSet("id", "hasClientSecret", "createdAt", "createdBy", "updatedAt")
}).annotate({ identifier: "IdentityProviderPatch", examples: [{ status: "disabled" }] })
export type IdentityProviderPatch = typeof IdentityProviderPatch.Type

const WebUrl = Schema.String.annotate({ examples: ["https://login.example.com/authorize"] })

/** What a test of a provider found: where it leads, and the keys that sign its tokens. */
export const IdentityProviderTest = Schema.Struct({
  issuer: Schema.String.annotate({ examples: ["https://login.example.com"] }),
  authorizationEndpoint: Schema.NullOr(WebUrl),
  tokenEndpoint: Schema.NullOr(WebUrl),
  jwksUri: WebUrl,
  redirectUri: Schema.NullOr(
    Schema.String.annotate({
      description: "To be registered with a login provider",
      examples: ["https://manager.example.com/api/auth/oidc/0198a5b0-7c00-7000-8000-00000000002a/callback"]
    })
  ),
  keys: Schema.Array(
    Schema.Struct({
      kid: Schema.NullOr(Schema.String.annotate({ examples: ["2026-01"] })),
      algorithm: Schema.NullOr(Schema.String.annotate({ examples: ["RS256"] }))
    })
  )
}).annotate({ identifier: "IdentityProviderTest" })
export type IdentityProviderTest = typeof IdentityProviderTest.Type

export const identityProviderActions = auditActions("IdentityProvider", [
  "IdentityProviderCreated",
  "IdentityProviderUpdated",
  "IdentityProviderDeleted"
])

export class IdentityProviderNotFound extends Problem<IdentityProviderNotFound>()("IdentityProviderNotFound", {
  slug: "identity-provider-not-found",
  status: 404,
  meaning: "There is no identity provider with this id, or it is none that this can be done with."
}) {}

export class DiscoveryFailed extends Problem<DiscoveryFailed>()("DiscoveryFailed", {
  slug: "discovery-failed",
  status: 400,
  meaning: "The provider's OpenID configuration or its keys cannot be used; `detail` says why."
}) {}

export class IdentityProviderUnavailable extends Problem<IdentityProviderUnavailable>()("IdentityProviderUnavailable", {
  slug: "identity-provider-unavailable",
  status: 502,
  meaning: "The identity provider cannot be reached, or its configuration cannot be used any more; try again later."
}) {}
