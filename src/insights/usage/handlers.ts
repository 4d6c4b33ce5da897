import { Effect } from "effect"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { Downloads } from "../../platform/http/downloads.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { UsageApi } from "./api.ts"
import { Usage } from "./service.ts"

export const UsageHandlers = groupHandlers(
  UsageApi,
  Effect.fn(function* (handlers) {
    const downloads = yield* Downloads
    const usage = yield* Usage
    return handlers.handleAll({
      list: ({ query: { cursor, from, limit, search, sort, timeZone, to, ...filter } }) =>
        usage.list(filter, { from, timeZone, to }, cursor, limit ?? pageLimitDefault, search, sort),
      get: ({ params: { id } }) => usage.get(id),
      export: ({ query: { format, from, timeZone, to, ...filter } }) =>
        downloads.respond(usage.export(filter, { from, timeZone, to }, format ?? "jsonl"))
    })
  })
)
