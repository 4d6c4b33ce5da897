import { Effect } from "effect"
import { Api } from "../../api.ts"
import { groupHandlers } from "../../platform/fast-path/group-handlers.ts"
import { GatewayContents } from "./service.ts"

export const GatewayContentsHandlers = groupHandlers(
  Api,
  "gatewayContents",
  Effect.fn(function* (handlers) {
    const contents = yield* GatewayContents
    return handlers.handleAll({ get: ({ params }) => contents.get(params.id) })
  })
)
