import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
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

export class IdentityProvidersApi extends HttpApiGroup.make("identityProviders")
  .add(
    endpoint.get("list", "/", {
      summary: "List identity providers",
      description: "In order of creation.",
      access: read,
      query: identityProviderListing.query({
        kind: Schema.optionalKey(ProviderKind),
        tenantId: Schema.optionalKey(TenantId)
      }),
      success: page(IdentityProviderView, identityProviderListing.position)
    }),
    endpoint.get("get", "/:id", {
      summary: "Get an identity provider",
      description: "One provider by id; never its secret.",
      access: read,
      params,
      success: IdentityProviderView,
      error: IdentityProviderNotFound
    }),
    endpoint.post("create", "/", {
      summary: "Create an identity provider",
      description:
        "Reads the OpenID configuration of the issuer, over https and from a public address, and refuses the provider if it cannot be used. The caller needs the capabilities of `defaultRoleIds`.",
      access: write,
      payload: IdentityProviderCreation,
      success: Created(IdentityProviderView),
      error: [TenantNotFound, DiscoveryFailed]
    }),
    endpoint.patch("update", "/:id", {
      summary: "Change an identity provider",
      description:
        "Any subset of the members but kind, issuer and tenant. Existing sessions go on. A disabled provider admits no sign-in, and its tokens are not exchanged.",
      access: write,
      params,
      payload: IdentityProviderPatch,
      success: IdentityProviderView,
      error: IdentityProviderNotFound
    }),
    endpoint.delete("delete", "/:id", {
      summary: "Delete an identity provider",
      description: "The accounts that it made stay, and have no way to sign in until they get a password.",
      access: write,
      params,
      error: IdentityProviderNotFound
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
