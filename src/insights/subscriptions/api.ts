import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { FlushSettlements } from "../../budgets/ledger/api.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import {
  Subscription,
  SubscriptionCreation,
  SubscriptionId,
  subscriptionListing,
  SubscriptionNotFound,
  SubscriptionUpdate,
  SubscriptionUtilization
} from "./domain.ts"

const read = requires("subscriptions:read")
const write = requires("subscriptions:write")
const params = { id: SubscriptionId }

export class SubscriptionsApi extends HttpApiGroup.make("subscriptions")
  .add(
    endpoint.get("list", "/", {
      summary: "List subscriptions",
      description: "In order of creation.",
      access: read,
      query: subscriptionListing.query({ tenantId: Schema.optionalKey(TenantId) }),
      success: page(Subscription, subscriptionListing.position)
    }),
    endpoint.get("get", "/:id", {
      summary: "Get a subscription",
      description: "One subscription with the change that waits for its next period.",
      access: read,
      params,
      success: Subscription,
      error: SubscriptionNotFound
    }),
    endpoint.post("create", "/", {
      summary: "Create a subscription",
      description:
        "A quota at a provider that is paid for each period. With the routing strategy `subscription-first` the gateway uses it before targets that are paid by use.",
      access: write,
      payload: SubscriptionCreation,
      success: Created(Subscription),
      error: [TenantNotFound, ValidationFailed, Forbidden]
    }),
    endpoint.put("update", "/:id", {
      summary: "Change a subscription",
      description:
        "Another quota or price applies from the next period on, and is `pending` until then, unless `effective` is immediate or the period is another; `pending: null` cancels it, and a `pending` that is sent back is ignored. What is absent of the optional members stays.",
      access: write,
      params,
      payload: SubscriptionUpdate,
      success: Subscription,
      error: [SubscriptionNotFound, ValidationFailed]
    }),
    endpoint.delete("delete", "/:id", {
      summary: "Delete a subscription",
      description: "What was used under it stays in the reports.",
      access: write,
      params,
      error: SubscriptionNotFound
    }),
    endpoint.get("utilization", "/:id/utilization", {
      summary: "Get the utilization of a subscription",
      description: "What the tenant has used of the quota in the current period, and what that means for its end.",
      access: read,
      params,
      success: SubscriptionUtilization,
      error: SubscriptionNotFound
    })
  )
  .middleware(Idempotency)
  .middleware(FlushSettlements)
  .middleware(Access)
  .prefix("/api/subscriptions")
  .annotateMerge(OpenApi.annotations({ title: "Subscriptions", description: "Quotas that are paid for ahead." })) {}
