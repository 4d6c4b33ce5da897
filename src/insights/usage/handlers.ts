import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { UsageApi } from "./api.ts"
import { Usage } from "./service.ts"

export const UsageHandlers = groupHandlers(
  UsageApi,
  Effect.fn(function* (handlers) {
    const usage = yield* Usage
    return handlers.handleAll({
      list: ({ query: { cursor, from, limit, search, timeZone, to, ...filter } }) =>
        usage.list(filter, { from, timeZone, to }, cursor, limit ?? pageLimitDefault, search),
      export: ({ query: { format, from, timeZone, to, ...filter } }) =>
        Effect.map(
          usage.export(filter, { from, timeZone, to }, format ?? "jsonl"),
          ({ content, contentType, fileName }) =>
            HttpServerResponse.stream(content, {
              contentType,
              headers: { "content-disposition": `attachment; filename="${fileName}"` }
            })
        )
    })
  })
)
