import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { AgentId, AgentNotFound } from "../../agents/agents/domain.ts"
import { ApiKeyId, ApiKeyNotFound } from "../../agents/api-keys/domain.ts"
import { ApplicationId, ApplicationNotFound } from "../../applications/applications/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { cursor, page, pageQuery } from "../../kernel/http/page.ts"
import { integerParameter } from "../../kernel/http/parameter.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { FlushSettlements } from "../ledger/api.ts"
import { CapId } from "../ledger/domain.ts"
import {
  ApplicableCaps,
  capListing,
  capsSubject,
  Cap,
  CapCreation,
  CapImmutable,
  CapNotFound,
  CapUpdate,
  CapUtilization,
  Grant,
  GrantCreation,
  GrantId,
  GrantNotFound,
  TooManyCaps,
  UsePlace,
  UtilizationKey,
  UtilizationSort
} from "./domain.ts"

const read = requires("budgets:read")
const write = requires("budgets:write")
const id = { id: CapId }
const grantPosition = cursor(GrantId)
const utilizationPosition = cursor(Schema.Union([UtilizationKey, UsePlace]))
const cursorFitsSort = Schema.makeFilter(
  ({ cursor, sort }: { readonly cursor?: UtilizationKey | UsePlace; readonly sort?: UtilizationSort }) =>
    cursor === undefined || (cursor.length === 2 ? undefined : cursor[0]) === sort
      ? undefined
      : { path: ["cursor"], issue: "The cursor is of another order: send it with the same sort" }
)
const CapsStatus = Schema.Struct({ asOf: Instant, ...page(CapUtilization, utilizationPosition).fields }).annotate({
  identifier: "CapsStatus"
})
const etag = Schema.String.annotate({ description: "The cap's version", examples: ['"1"'] })
const Tagged = HttpApiSchema.WithHeaders(Cap, { etag })
const CreatedCap = HttpApiSchema.WithHeaders(Cap.pipe(HttpApiSchema.status(201)), {
  location: Schema.String.annotate({
    description: "Path of the new cap",
    examples: ["/api/budgets/caps/0198a5b0-7c00-7000-8000-00000000002a"]
  }),
  etag
})

export class BudgetCapsApi extends HttpApiGroup.make("budgetCaps")
  .add(
    endpoint.get("list", "/caps", {
      summary: "List budget caps",
      description: "A tenant's caller sees its tenant's caps, a system caller all of them.",
      access: read,
      query: capListing.query({
        tenantId: Schema.optionalKey(TenantId),
        agentId: Schema.optionalKey(AgentId),
        apiKeyId: Schema.optionalKey(ApiKeyId),
        applicationId: Schema.optionalKey(integerParameter(ApplicationId))
      }),
      success: page(Cap, capListing.position)
    }),
    endpoint.get("get", "/caps/:id", {
      summary: "Get a budget cap",
      description: "One cap; its ETag is its version.",
      access: read,
      params: id,
      success: Tagged,
      error: CapNotFound
    }),
    endpoint.post("create", "/caps", {
      summary: "Make a budget cap",
      description:
        "Counts from now on. Without a scope it governs the whole tenant. `tenantId` is for system callers only; null is over all tenants.",
      access: write,
      payload: CapCreation,
      success: CreatedCap,
      error: [
        TenantNotFound,
        AgentNotFound,
        ApiKeyNotFound,
        ApplicationNotFound,
        TooManyCaps,
        ValidationFailed,
        Forbidden
      ]
    }),
    endpoint.put("update", "/caps/:id", {
      summary: "Change a budget cap",
      description:
        "Name, limit, mode, thresholds and status; what is absent of the last three stays. A limit below what is used refuses new reservations and cancels none.",
      access: write,
      params: id,
      payload: CapUpdate,
      success: Tagged,
      error: [CapNotFound, CapImmutable, ValidationFailed]
    }),
    endpoint.delete("delete", "/caps/:id", {
      summary: "Delete a budget cap",
      description: "It governs nothing any more; what it counted stays.",
      access: write,
      params: id,
      error: CapNotFound
    }),
    endpoint.get("status", "/caps-status", {
      summary: "Get the use of the caps",
      description:
        "Read from the counters themselves, so it includes every completed request. A cap that counts each value has an item for each; a value too long to be indexed is shown as its beginning and its SHA-256. `sort=-percentUsed` begins with the caps that are used the most. Each page is read at its own moment, so an item whose use changes between two pages may be on both or on neither.",
      access: read,
      query: Schema.Struct({
        tenantId: Schema.optionalKey(TenantId),
        capId: Schema.optionalKey(CapId),
        sort: Schema.optionalKey(UtilizationSort),
        ...pageQuery(utilizationPosition)
      }).pipe(Schema.check(cursorFitsSort)),
      success: CapsStatus
    }),
    endpoint.get("applicable", "/caps-that-apply", {
      summary: "Get the caps that apply",
      description:
        "Every active cap that counts the requests of an agent, a key or what else is named, with what it has left: first those that apply to all of them, the fullest first, then those that depend on more, such as the model. Of a cap that counts each value of something that is not named, the three counters that are used the most. An API key is asked about with its tenant and application.",
      access: read,
      query: capsSubject,
      success: ApplicableCaps,
      error: [AgentNotFound, ApiKeyNotFound]
    }),
    endpoint.get("listGrants", "/caps/:id/grants", {
      summary: "List the grants of a cap",
      description: "Ended ones too.",
      access: read,
      params: id,
      query: {
        ...pageQuery(grantPosition)
      },
      success: page(Grant, grantPosition),
      error: CapNotFound
    }),
    endpoint.post("createGrant", "/caps/:id/grants", {
      summary: "Raise a cap",
      description: "A bounded raise until `expiresAt`, with its reason.",
      access: write,
      params: id,
      payload: GrantCreation,
      success: Created(Grant),
      error: [CapNotFound, ValidationFailed]
    }),
    endpoint.get("getGrant", "/caps/:id/grants/:grantId", {
      summary: "Get a grant",
      description: "One grant of a cap by id.",
      access: read,
      params: { id: CapId, grantId: GrantId },
      success: Grant,
      error: [CapNotFound, GrantNotFound]
    }),
    endpoint.delete("endGrant", "/caps/:id/grants/:grantId", {
      summary: "End a grant",
      description: "Repeating it is 204.",
      access: write,
      params: { id: CapId, grantId: GrantId },
      error: [CapNotFound, GrantNotFound]
    })
  )
  .middleware(Idempotency)
  .middleware(FlushSettlements)
  .middleware(Access)
  .prefix("/api/budgets")
  .annotateMerge(
    OpenApi.annotations({ title: "Budget caps", description: "What may be spent in a period, by whom and on what." })
  ) {}
