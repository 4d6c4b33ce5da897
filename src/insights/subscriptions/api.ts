import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { FlushSettlements } from "../../budgets/ledger/api.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { page } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
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
const subscriptions = crudEndpoints("a subscription", {
  read,
  write,
  id: SubscriptionId,
  view: Subscription,
  notFound: SubscriptionNotFound
})

export class SubscriptionsApi extends HttpApiGroup.make("subscriptions")
  .add(
    subscriptions.list({
      description: "In order of creation.",
      query: subscriptionListing.query({ tenantId: Schema.optionalKey(TenantId) }),
      success: page(Subscription, subscriptionListing.position)
    }),
    subscriptions.get({ description: "One subscription with the change that waits for its next period." }),
    subscriptions.create({
      description:
        "A quota at a provider that is paid for each period. With the routing strategy `subscription-first` the gateway uses it before targets that are paid by use.",
      payload: SubscriptionCreation,
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
    subscriptions.delete({ description: "What was used under it stays in the reports." }),
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
