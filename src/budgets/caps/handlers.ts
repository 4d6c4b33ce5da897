import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { created } from "../../kernel/http/location.ts"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { BudgetCapsApi } from "./api.ts"
import { AvailableBudgets } from "./available-budget.ts"
import { type Cap } from "./domain.ts"
import { type UsePlace, type UtilizationKey } from "./domain.ts"
import { Grants } from "./grants.ts"
import { BudgetCaps, tagOf } from "./service.ts"
import { CapUtilizations } from "./utilization.ts"

const tagged = (body: Cap) => HttpApiSchema.withHeaders({ body, headers: { etag: tagOf(body) } })
const createdCap = (body: Cap) =>
  HttpApiSchema.withHeaders({ body, headers: { location: `/api/budgets/caps/${body.id}`, etag: tagOf(body) } })

export const BudgetCapsHandlers = groupHandlers(
  BudgetCapsApi,
  Effect.fn(function* (handlers) {
    const available = yield* AvailableBudgets
    const caps = yield* BudgetCaps
    const grants = yield* Grants
    const utilizations = yield* CapUtilizations
    return handlers.handleAll({
      list: ({ query: { agentId, apiKeyId, applicationId, tenantId, ...page } }) =>
        caps.list({ agentId, apiKeyId, applicationId, tenantId }, page),
      get: ({ params }) => Effect.map(caps.get(params.id), tagged),
      create: ({ payload }) => Effect.map(caps.create(payload), createdCap),
      update: ({ params, payload }) => Effect.map(caps.update(params.id, payload), tagged),
      delete: ({ params }) => caps.delete(params.id),
      status: ({ query: { cursor, limit = pageLimitDefault, sort, ...filter } }) =>
        sort === undefined
          ? utilizations.list(filter, cursor as UtilizationKey | undefined, limit)
          : utilizations.listByUse(filter, sort, cursor as UsePlace | undefined, limit),
      applicable: ({ query }) => available.applying(query),
      listGrants: ({ params, query: { cursor, limit } }) => grants.list(params.id, cursor, limit ?? pageLimitDefault),
      createGrant: ({ params, payload }) =>
        Effect.map(grants.create(params.id, payload), created(`/api/budgets/caps/${params.id}/grants`)),
      getGrant: ({ params }) => grants.get(params.id, params.grantId),
      endGrant: ({ params }) => grants.end(params.id, params.grantId)
    })
  })
)
