import { Effect } from "effect"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { InsightsApi } from "./api.ts"
import { Reports } from "./service.ts"

export const InsightsHandlers = groupHandlers(
  InsightsApi,
  Effect.fn(function* (handlers) {
    const reports = yield* Reports
    return handlers.handleAll({
      overview: ({ query: { from, timeZone, to, ...filter } }) => reports.overview(filter, { from, timeZone, to }),
      by: ({ params, query: { cursor, from, limit, sort, timeZone, to, ...filter } }) =>
        reports.by(
          params.dimension,
          filter,
          { from, timeZone, to },
          { sort, after: cursor },
          limit ?? pageLimitDefault
        ),
      spend: ({ params, query: { from, keys, to, ...filter } }) =>
        reports.spend(params.dimension, filter, { from, to }, keys),
      capsStatus: ({ query: { cursor, from, limit, timeZone, to, ...filter } }) =>
        reports.capsStatus(filter, { from, timeZone, to }, cursor, limit ?? pageLimitDefault)
    })
  })
)
