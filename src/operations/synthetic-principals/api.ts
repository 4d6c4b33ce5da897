import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { ExpiresInThePast, SyntheticKind } from "../../agents/api-keys/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { OneTimeSecrets } from "../../platform/idempotency/domain.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import {
  syntheticPrincipalListing,
  NewSyntheticPrincipalView,
  SyntheticPrincipalCreation,
  SyntheticPrincipalId,
  SyntheticPrincipalNotFound,
  SyntheticPrincipalPatch,
  SyntheticPrincipalView
} from "./domain.ts"

const read = requires("synthetic-principals:read")
const write = requires("synthetic-principals:write")
const params = { id: SyntheticPrincipalId }
const syntheticPrincipals = crudEndpoints("a synthetic principal", {
  read,
  write,
  id: SyntheticPrincipalId,
  view: SyntheticPrincipalView,
  notFound: SyntheticPrincipalNotFound
})

export class SyntheticPrincipalsApi extends HttpApiGroup.make("syntheticPrincipals")
  .add(
    syntheticPrincipals.list({
      description: "A tenant's caller sees those of its tenant, a system caller all of them. Never their keys.",
      query: syntheticPrincipalListing.query({
        tenantId: Schema.optionalKey(TenantId),
        kind: Schema.optionalKey(SyntheticKind)
      }),
      success: page(SyntheticPrincipalView, syntheticPrincipalListing.position)
    }),
    syntheticPrincipals.get({ description: "One by id, also when it has expired." }),
    endpoint
      .post("create", "/", {
        summary: "Create a synthetic principal",
        description:
          "A principal of a tenant for monitoring or tests, whose doings count in no report, or a canary, whose key is never accepted and raises the alarm when it is used. `key` is in this response only. The caller needs every scope that it grants.",
        access: write,
        payload: SyntheticPrincipalCreation,
        success: Created(NewSyntheticPrincipalView),
        error: [TenantNotFound, ExpiresInThePast, ValidationFailed]
      })
      .annotate(OneTimeSecrets, ["key"]),
    syntheticPrincipals.update({
      description:
        "Name, scopes, expiry, labels. The caller needs every scope that it has before and after. It stays of its kind, and synthetic.",
      payload: SyntheticPrincipalPatch,
      error: [ValidationFailed]
    }),
    endpoint.post("reset", "/:id/reset", {
      summary: "Reset a synthetic principal",
      description:
        "Ends or deletes what it made, and keeps its key: its agents, plans, reservations, caps, subscriptions, integrations and stored responses. A canary counts as not touched again. Charges and audit entries stay.",
      access: write,
      params,
      success: SyntheticPrincipalView,
      error: SyntheticPrincipalNotFound
    }),
    syntheticPrincipals.delete({ description: "Ends its key, then ends or deletes what it made, as a reset does." })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/synthetic-principals")
  .annotateMerge(
    OpenApi.annotations({
      title: "Synthetic principals",
      description: "Monitors, tests and canaries: callers that are no customers."
    })
  ) {}
