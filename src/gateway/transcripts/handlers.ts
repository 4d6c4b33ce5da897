import { Effect } from "effect"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { GatewayContents } from "./service.ts"
import { GatewayContentsApi } from "./api.ts"

export const GatewayContentsHandlers = groupHandlers(
  GatewayContentsApi,
  Effect.fn(function* (handlers) {
    const contents = yield* GatewayContents
    return handlers.handleAll({ get: ({ params }) => contents.get(params.id) })
  })
)
