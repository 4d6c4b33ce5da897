import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { RegistrationTokensApi } from "./api.ts"
import { RegistrationTokens } from "./service.ts"

export const RegistrationTokensHandlers = groupHandlers(
  RegistrationTokensApi,
  Effect.fn(function* (handlers) {
    const tokens = yield* RegistrationTokens
    return handlers.handleAll({
      list: ({ query }) => tokens.list(query),
      get: ({ params }) => tokens.get(params.id),
      create: ({ payload }) => Effect.map(tokens.create(payload), created("/api/applications/registration-tokens")),
      delete: ({ params }) => tokens.delete(params.id)
    })
  })
)
