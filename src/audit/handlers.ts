import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api.ts"
import { declaredActions } from "../kernel/audit-action.ts"
import { pageLimitDefault } from "../kernel/page.ts"
import { Audit } from "./service.ts"

export const AuditHandlers = HttpApiBuilder.group(
  Api,
  "auditLogs",
  Effect.fn(function* (handlers) {
    const audit = yield* Audit
    return handlers.handleAll({
      list: ({ query: { cursor, limit, ...filter } }) => audit.list(filter, cursor, limit ?? pageLimitDefault),
      types: () => Effect.succeed(declaredActions()),
      get: ({ params }) => audit.get(params.id)
    })
  })
)
