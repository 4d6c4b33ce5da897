import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { fastGroupHandlers } from "../../platform/fast-path/group-handlers.ts"
import { pageLimitDefault } from "../../kernel/page.ts"
import { Refunds } from "./refunds.ts"
import { ReservationQueries } from "./queries.ts"
import { type Reserved, ReservationService } from "./service.ts"
import { SpendApi } from "./api.ts"

const answered = (reserved: Reserved) => {
  const headers = { location: `/api/spend/reservations/${reserved.id}` }
  return reserved.state === "open"
    ? HttpApiSchema.withHeaders({ body: reserved, headers })
    : HttpApiSchema.withHeaders({ body: reserved, headers })
}

export const SpendHandlers = fastGroupHandlers(
  SpendApi,
  Effect.fn(function* (handlers) {
    const refunds = yield* Refunds
    const reservations = yield* ReservationQueries
    const spend = yield* ReservationService
    return handlers.handleAll({
      reserve: ({ payload }) => Effect.map(spend.reserve(payload), answered),
      reconcile: ({ payload }) => spend.reconcile(payload),
      list: ({ query: { cursor, limit, ...filter } }) => reservations.list(filter, cursor, limit ?? pageLimitDefault),
      get: ({ params }) => reservations.get(params.id),
      release: ({ params }) => spend.release(params.id),
      extend: ({ params, payload }) => spend.extend(params.id, payload.ttlSeconds),
      refund: ({ payload }) => refunds.create(payload)
    })
  })
)
