import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../kernel/authority/access.ts"
import { endpoint } from "../kernel/http/endpoint.ts"
import { Idempotency } from "../platform/idempotency/api.ts"
import { TenantId } from "../kernel/identifier.ts"
import { Created } from "../kernel/http/location.ts"
import { page } from "../kernel/http/page.ts"
import {
  tenantListing,
  Tenant,
  TenantIsDefault,
  TenantNotFound,
  TenantPatch,
  TenantSlugTaken,
  TenantStatus
} from "./domain.ts"

const read = requires("tenants:read", { systemOnly: true })
const write = requires("tenants:write", { systemOnly: true })

export class TenantsApi extends HttpApiGroup.make("tenants")
  .add(
    endpoint.get("list", "/", {
      summary: "List tenants",
      description: "In order of creation.",
      access: read,
      query: tenantListing.query({
        status: Schema.optionalKey(TenantStatus)
      }),
      success: page(Tenant.json, tenantListing.position)
    }),
    endpoint.get("get", "/:id", {
      summary: "Get a tenant",
      description: "One tenant by id.",
      access: read,
      params: { id: TenantId },
      success: Tenant.json,
      error: TenantNotFound
    }),
    endpoint.post("create", "/", {
      summary: "Create a tenant",
      description: "Active at once. Without a slug, one is derived from the name, with a number if it is taken.",
      access: write,
      payload: Tenant.jsonCreate,
      success: Created(Tenant.json),
      error: TenantSlugTaken
    }),
    endpoint.patch("update", "/:id", {
      summary: "Change a tenant",
      description:
        "Any subset of the members; `settings` are replaced as a whole. The principals of a suspended tenant cannot authenticate, from " +
        "the answer on here and within a second on every other replica. The default tenant keeps its slug and is " +
        "never suspended.",
      access: write,
      params: { id: TenantId },
      payload: TenantPatch,
      success: Tenant.json,
      error: [TenantNotFound, TenantSlugTaken, TenantIsDefault]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/tenants")
  .annotateMerge(OpenApi.annotations({ title: "Tenants", description: "The customers of the installation." })) {}
