import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { CloudEventsApi } from "./api.ts"
import { EventIngestion } from "./ingestion.ts"
import { CloudEvents } from "./service.ts"

export const CloudEventsHandlers = groupHandlers(
  CloudEventsApi,
  Effect.fn(function* (handlers) {
    const events = yield* CloudEvents
    const ingestion = yield* EventIngestion
    return handlers
      .handleRaw(
        "publish",
        Effect.fnUntraced(function* ({ request }) {
          const bytes = new Uint8Array(yield* Effect.orDie(request.arrayBuffer))
          const receipt = yield* ingestion.publish({ headers: request.headers, bytes })
          return HttpServerResponse.jsonUnsafe(receipt, { status: receipt.accepted > 0 ? 201 : 200 })
        })
      )
      .handleAll({
        list: ({ query }) => events.list(query),
        types: () => Effect.sync(() => events.types().map(({ actionType, type }) => ({ type, actionType }))),
        stream: ({ headers, query, request }) => events.stream(request, query, headers["last-event-id"])
      })
  })
)
