import { Effect } from "effect"
import { groupHandlers } from "../../platform/fast-path/group-handlers.ts"
import { GatewayContents } from "./service.ts"
import { GatewayContentsApi } from "./api.ts"

export const GatewayContentsHandlers = groupHandlers(
  GatewayContentsApi,
  Effect.fn(function* (handlers) {
    const contents = yield* GatewayContents
    return handlers.handleAll({ get: ({ params }) => contents.get(params.id) })
  })
)
