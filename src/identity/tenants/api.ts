import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/access.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Created } from "../../kernel/location.ts"
import { cursor, page, PageLimit } from "../../kernel/page.ts"
import { integerParameter } from "../../kernel/parameter.ts"
import { Tenant, TenantIsDefault, TenantNotFound, TenantPatch, TenantSlugTaken, TenantStatus } from "./domain.ts"

const read = requires("tenants:read", { systemOnly: true })
const write = requires("tenants:write", { systemOnly: true })
const position = cursor(TenantId)

export class TenantsApi extends HttpApiGroup.make("tenants")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        status: Schema.optionalKey(TenantStatus),
        limit: Schema.optionalKey(integerParameter(PageLimit)),
        cursor: Schema.optionalKey(position)
      },
      success: page(Tenant.json, position)
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({ summary: "List tenants", description: "In the order in which they were made." })
      ),
    HttpApiEndpoint.get("get", "/:id", { params: { id: TenantId }, success: Tenant.json, error: TenantNotFound })
      .annotateMerge(read)
      .annotateMerge(OpenApi.annotations({ summary: "Get a tenant", description: "One tenant by id." })),
    HttpApiEndpoint.post("create", "/", {
      payload: Tenant.jsonCreate,
      success: Created(Tenant.json),
      error: TenantSlugTaken
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Create a tenant",
          description: "Active at once. Without a slug one is made from the name, with a number when that one is taken."
        })
      ),
    HttpApiEndpoint.patch("update", "/:id", {
      params: { id: TenantId },
      payload: TenantPatch,
      success: Tenant.json,
      error: [TenantNotFound, TenantSlugTaken, TenantIsDefault]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Change a tenant",
          description:
            "Any subset of the members; `settings` are replaced as a whole. A suspended tenant authenticates nobody, from " +
            "the answer on here and within a second on every other replica. The default tenant keeps its slug and is " +
            "never suspended."
        })
      )
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/tenants")
  .annotateMerge(OpenApi.annotations({ title: "Tenants", description: "The customers of the installation." })) {}
