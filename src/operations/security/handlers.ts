import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { Downloads } from "../../platform/http/downloads.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { SecurityApi } from "./api.ts"
import { Security } from "./service.ts"

export const SecurityHandlers = groupHandlers(
  SecurityApi,
  Effect.fn(function* (handlers) {
    const downloads = yield* Downloads
    const security = yield* Security
    return handlers.handleAll({
      inventory: ({ query: { cursor, kind, limit } }) => security.inventory(kind, cursor, limit ?? pageLimitDefault),
      requestReport: ({ payload }) => Effect.map(security.request(payload), created("/api/security/reports")),
      listReports: ({ query: { cursor, kind, limit } }) => security.reports(kind, cursor, limit ?? pageLimitDefault),
      getReport: ({ params }) => security.report(params.id),
      listFindings: ({ params, query: { cursor, limit, ...filter } }) =>
        security.findings(params.id, filter, cursor, limit ?? pageLimitDefault),
      exportReport: ({ params, query }) => downloads.respond(security.export(params.id, query.format ?? "json")),
      getFinding: ({ params }) => security.finding(params.id),
      decide: ({ params, payload }) => security.decide(params.id, payload)
    })
  })
)
