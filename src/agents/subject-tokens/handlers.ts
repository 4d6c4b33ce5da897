import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { SubjectTokensApi } from "./api.ts"
import { SubjectTokens } from "./service.ts"

export const SubjectTokensHandlers = groupHandlers(
  SubjectTokensApi,
  Effect.fn(function* (handlers) {
    const tokens = yield* SubjectTokens
    return handlers.handleAll({ create: ({ payload }) => tokens.issue(payload) })
  })
)
