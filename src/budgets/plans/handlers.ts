import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { AllPlansApi, PlansApi } from "./api.ts"
import { Plans } from "./service.ts"

export const PlansHandlers = groupHandlers(
  PlansApi,
  Effect.fn(function* (handlers) {
    const plans = yield* Plans
    return handlers.handleAll({
      start: ({ params: { agentId }, payload }) =>
        Effect.map(plans.start(agentId, payload), created(`/api/agents/${agentId}/plans`)),
      list: ({ params: { agentId }, query: { status, ...page } }) => plans.list(agentId, status, page),
      get: ({ params: { agentId, planId } }) => plans.get(agentId, planId),
      extend: ({ params: { agentId, planId }, payload }) => plans.extend(agentId, planId, payload),
      complete: ({ params: { agentId, planId } }) => plans.complete(agentId, planId),
      abort: ({ params: { agentId, planId } }) => plans.abort(agentId, planId),
      heartbeat: ({ params: { agentId, planId } }) => plans.heartbeat(agentId, planId)
    })
  })
)

export const AllPlansHandlers = groupHandlers(
  AllPlansApi,
  Effect.fn(function* (handlers) {
    const plans = yield* Plans
    return handlers.handleAll({
      list: ({ query: { agentId, status, tenantId, ...page } }) => plans.listAll({ agentId, status, tenantId }, page)
    })
  })
)
