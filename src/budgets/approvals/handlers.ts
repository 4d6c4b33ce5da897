import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { Approvals } from "./service.ts"
import { ApprovalsApi } from "./api.ts"

export const ApprovalsHandlers = groupHandlers(
  ApprovalsApi,
  Effect.fn(function* (handlers) {
    const approvals = yield* Approvals
    return handlers.handleAll({
      list: ({ query: { cursor, limit, ...filter } }) => approvals.list(filter, cursor, limit ?? pageLimitDefault),
      approve: ({ params, payload }) => approvals.approve(params.reservationId, payload),
      deny: ({ params, payload }) => approvals.deny(params.reservationId, payload.reason)
    })
  })
)
