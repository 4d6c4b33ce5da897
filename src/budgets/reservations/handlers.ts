import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { fastGroupHandlers } from "../../platform/fast-path/group-handlers.ts"
import { SpendApi } from "./api.ts"
import { ReservationQueries } from "./queries.ts"
import { ReservationService, type Reserved } from "./service.ts"

const answered = (reserved: Reserved) => {
  const headers = { location: `/api/spend/reservations/${reserved.id}` }
  // The two states are responses of their own, so each is typed apart.
  return reserved.state === "open"
    ? HttpApiSchema.withHeaders({ body: reserved, headers })
    : HttpApiSchema.withHeaders({ body: reserved, headers })
}

export const SpendHandlers = fastGroupHandlers(
  SpendApi,
  Effect.fn(function* (handlers) {
    const queries = yield* ReservationQueries
    const reservations = yield* ReservationService
    return handlers.handleAll({
      reserve: ({ payload }) => Effect.map(reservations.reserve(payload), answered),
      reconcile: ({ payload }) => reservations.reconcile(payload),
      list: ({ query: { agentId, capId, planId, state, tenantId, ...page } }) =>
        queries.list({ agentId, capId, planId, state, tenantId }, page),
      get: ({ params }) => queries.get(params.id),
      release: ({ params }) => reservations.release(params.id),
      extend: ({ params, payload }) => reservations.extend(params.id, payload.ttlSeconds),
      refund: ({ payload }) => reservations.refund(payload)
    })
  })
)
