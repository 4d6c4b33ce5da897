import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api.ts"
import { AttestationKeys } from "./service.ts"

export const AttestationHandlers = HttpApiBuilder.group(
  Api,
  "attestation",
  Effect.fn(function* (handlers) {
    const keys = yield* AttestationKeys
    return handlers.handleAll({ publicKeys: () => keys.published })
  })
)
