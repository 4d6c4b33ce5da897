import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../kernel/authority/access.ts"
import { crudEndpoints } from "../kernel/http/crud-endpoints.ts"
import { page } from "../kernel/http/page.ts"
import { TenantId } from "../kernel/identifier.ts"
import { Idempotency } from "../platform/idempotency/api.ts"
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
const tenants = crudEndpoints("a tenant", { read, write, id: TenantId, view: Tenant.json, notFound: TenantNotFound })

export class TenantsApi extends HttpApiGroup.make("tenants")
  .add(
    tenants.list({
      description: "In order of creation.",
      query: tenantListing.query({
        status: Schema.optionalKey(TenantStatus)
      }),
      success: page(Tenant.json, tenantListing.position)
    }),
    tenants.get({ description: "One tenant by id." }),
    tenants.create({
      description: "Active at once. Without a slug, one is derived from the name, with a number if it is taken.",
      payload: Tenant.jsonCreate,
      error: [TenantSlugTaken]
    }),
    tenants.update({
      description:
        "Any subset of the members; `settings` are replaced as a whole. The principals of a suspended tenant cannot authenticate, from " +
        "the answer on here and within a second on every other replica. The default tenant keeps its slug and is " +
        "never suspended.",
      payload: TenantPatch,
      error: [TenantSlugTaken, TenantIsDefault]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/tenants")
  .annotateMerge(OpenApi.annotations({ title: "Tenants", description: "The customers of the installation." })) {}
