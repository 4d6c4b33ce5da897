import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { BillingApi } from "./api.ts"
import { Billing } from "./service.ts"

export const BillingHandlers = groupHandlers(
  BillingApi,
  Effect.fn(function* (handlers) {
    const billing = yield* Billing
    return handlers.handleAll({
      report: ({ payload }) =>
        Effect.map(billing.report(payload), ({ content, contentType, fileName, statementPath }) =>
          HttpServerResponse.stream(content, {
            contentType,
            headers: {
              "content-disposition": `attachment; filename="${fileName}"`,
              ...(statementPath === undefined ? {} : { link: `<${statementPath}>; rel="describedby"` })
            }
          })
        ),
      statement: ({ params }) => billing.statement(params.id)
    })
  })
)
