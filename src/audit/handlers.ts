import { Effect } from "effect"
import { declaredActions } from "../kernel/authority/audit-action.ts"
import { pageLimitDefault } from "../kernel/http/page.ts"
import { Downloads } from "../platform/http/downloads.ts"
import { groupHandlers } from "../platform/http/served-api.ts"
import { AuditApi } from "./api.ts"
import { AuditVerification } from "./chain/verification.ts"
import { AuditExport } from "./export/export.ts"
import { entryStream } from "./feed/feed.ts"
import { Audit } from "./log/service.ts"

export const AuditHandlers = groupHandlers(
  AuditApi,
  Effect.fn(function* (handlers) {
    const audit = yield* Audit
    const downloads = yield* Downloads
    const exports = yield* AuditExport
    const follow = yield* entryStream
    const verification = yield* AuditVerification
    return handlers.handleAll({
      list: ({ query: { cursor, limit, ...filter } }) => audit.list(filter, cursor, limit ?? pageLimitDefault),
      types: () => Effect.succeed(declaredActions()),
      checkpoints: ({ query: { cursor, limit } }) => verification.checkpoints(cursor, limit ?? pageLimitDefault),
      verify: ({ query }) => verification.verify(query),
      export: ({ query: { format, ...filter } }) => downloads.respond(exports.run(filter, format ?? "jsonl")),
      stream: ({ headers, query, request }) => follow(request, query, headers["last-event-id"]),
      get: ({ params }) => audit.get(params.id)
    })
  })
)
