import { Effect } from "effect"
import { Downloads } from "../../platform/http/downloads.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { BillingApi } from "./api.ts"
import { Billing } from "./service.ts"

export const BillingHandlers = groupHandlers(
  BillingApi,
  Effect.fn(function* (handlers) {
    const billing = yield* Billing
    const downloads = yield* Downloads
    return handlers.handleAll({
      report: ({ payload }) =>
        downloads.respond(
          Effect.map(billing.report(payload), ({ statementPath, ...file }) => ({
            ...file,
            headers: statementPath === undefined ? {} : { link: `<${statementPath}>; rel="describedby"` }
          }))
        ),
      statement: ({ params }) => billing.statement(params.id)
    })
  })
)
