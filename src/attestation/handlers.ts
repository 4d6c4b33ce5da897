import { Effect } from "effect"
import { Api } from "../api.ts"
import { groupHandlers } from "../kernel/group-handlers.ts"
import { AttestationKeys } from "./service.ts"

export const AttestationHandlers = groupHandlers(
  Api,
  "attestation",
  Effect.fn(function* (handlers) {
    const keys = yield* AttestationKeys
    return handlers.handleAll({ publicKeys: () => keys.published })
  })
)
