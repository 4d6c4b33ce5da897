import { Effect } from "effect"
import { Api } from "../api.ts"
import { groupHandlers } from "../kernel/group-handlers.ts"
import { pageLimitDefault } from "../kernel/page.ts"
import { Approvals } from "./approvals.ts"

export const ApprovalsHandlers = groupHandlers(
  Api,
  "approvals",
  Effect.fn(function* (handlers) {
    const approvals = yield* Approvals
    return handlers.handleAll({
      list: ({ query: { cursor, limit, ...filter } }) => approvals.list(filter, cursor, limit ?? pageLimitDefault),
      approve: ({ params, payload }) => approvals.approve(params.reservationId, payload),
      deny: ({ params, payload }) => approvals.deny(params.reservationId, payload.reason)
    })
  })
)
