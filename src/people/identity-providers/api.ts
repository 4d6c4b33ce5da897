import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { page } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import {
  identityProviderListing,
  DiscoveryFailed,
  IdentityProviderCreation,
  IdentityProviderId,
  IdentityProviderNotFound,
  IdentityProviderPatch,
  IdentityProviderTest,
  IdentityProviderView,
  ProviderKind
} from "./domain.ts"

const read = requires("identity-providers:read", { systemOnly: true })
const write = requires("identity-providers:write", { systemOnly: true })
const params = { id: IdentityProviderId }
const identityProviders = crudEndpoints("an identity provider", {
  read,
  write,
  id: IdentityProviderId,
  view: IdentityProviderView,
  notFound: IdentityProviderNotFound
})

export class IdentityProvidersApi extends HttpApiGroup.make("identityProviders")
  .add(
    identityProviders.list({
      description: "In order of creation.",
      query: identityProviderListing.query({
        kind: Schema.optionalKey(ProviderKind),
        tenantId: Schema.optionalKey(TenantId)
      }),
      success: page(IdentityProviderView, identityProviderListing.position)
    }),
    identityProviders.get({ description: "One provider by id; never its secret." }),
    identityProviders.create({
      description:
        "Reads the OpenID configuration of the issuer, over https and from a public address, and refuses the provider if it cannot be used. The caller needs the capabilities of `defaultRoleIds`.",
      payload: IdentityProviderCreation,
      error: [TenantNotFound, DiscoveryFailed]
    }),
    identityProviders.update({
      description:
        "Any subset of the members but kind, issuer and tenant. Existing sessions go on. A disabled provider admits no sign-in, and its tokens are not exchanged.",
      payload: IdentityProviderPatch
    }),
    identityProviders.delete({
      description: "The accounts that it made stay, and have no way to sign in until they get a password."
    }),
    endpoint.post("test", "/:id/test", {
      evaluation: "ahead",
      summary: "Test an identity provider",
      description: "Reads its OpenID configuration and its keys again, and changes nothing.",
      access: read,
      params,
      success: IdentityProviderTest,
      error: [IdentityProviderNotFound, DiscoveryFailed]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/identity-providers")
  .annotateMerge(
    OpenApi.annotations({
      title: "Identity providers",
      description:
        "External issuers that the installation trusts: for people who sign in, and for workloads whose tokens agents exchange."
    })
  ) {}
