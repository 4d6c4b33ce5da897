import { Effect } from "effect"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { AnomaliesApi } from "./api.ts"
import { Anomalies } from "./service.ts"

export const AnomaliesHandlers = groupHandlers(
  AnomaliesApi,
  Effect.fn(function* (handlers) {
    const anomalies = yield* Anomalies
    return handlers.handleAll({
      list: ({ query: { cursor, limit, ...filter } }) => anomalies.list(filter, cursor, limit ?? pageLimitDefault),
      get: ({ params }) => anomalies.get(params.id),
      update: ({ params, payload }) => anomalies.update(params.id, payload)
    })
  })
)
