import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { ApprovalsApi } from "./api.ts"
import { Approvals } from "./service.ts"

export const ApprovalsHandlers = groupHandlers(
  ApprovalsApi,
  Effect.fn(function* (handlers) {
    const approvals = yield* Approvals
    return handlers.handleAll({
      list: ({ query: { agentId, tenantId, ...page } }) => approvals.list({ agentId, tenantId }, page),
      approve: ({ params, payload }) => approvals.approve(params.reservationId, payload),
      deny: ({ params, payload }) => approvals.deny(params.reservationId, payload.reason)
    })
  })
)
