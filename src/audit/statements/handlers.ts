import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { StatementsApi } from "./api.ts"
import { Statements } from "./service.ts"

export const StatementsHandlers = groupHandlers(
  StatementsApi,
  Effect.fn(function* (handlers) {
    const statements = yield* Statements
    return handlers.handleAll({
      sign: ({ payload }) => statements.sign(payload),
      verify: ({ payload }) => statements.verify(payload.statement)
    })
  })
)
