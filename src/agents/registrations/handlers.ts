import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { RegistrationsApi } from "./api.ts"
import { Registrations } from "./service.ts"
import { RegistrationApi } from "./wire-api.ts"
import { makeRegistrationWire } from "./wire.ts"

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

export const RegistrationHandlers = groupHandlers(
  RegistrationApi,
  Effect.fn(function* (handlers) {
    const wire = yield* makeRegistrationWire
    return handlers
      .handleRaw("register", wire.register)
      .handleRaw("read", wire.read)
      .handleRaw("update", wire.update)
      .handleRaw("delete", wire.delete)
  })
)
