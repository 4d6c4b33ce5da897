import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { RegistrationsApi } from "./api.ts"
import { Registrations } from "./service.ts"

export const RegistrationsHandlers = groupHandlers(
  RegistrationsApi,
  Effect.fn(function* (handlers) {
    const registrations = yield* Registrations
    return handlers.handleAll({
      get: ({ params }) => registrations.get(params.id),
      approve: ({ params, payload }) => registrations.approve(params.id, payload),
      reject: ({ params }) => registrations.reject(params.id)
    })
  })
)
