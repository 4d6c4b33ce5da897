import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { AttestationKeys } from "../signing-keys/service.ts"
import { AttestationApi, AttestationKeysApi } from "./api.ts"
import { AttestationKeyCreations } from "./creation.ts"
import { AttestationKeyRevocation } from "./revocation.ts"
import { AttestationKeyRotations } from "./rotation.ts"

export const AttestationHandlers = groupHandlers(
  AttestationApi,
  Effect.fn(function* (handlers) {
    const keys = yield* AttestationKeys
    return handlers.handleAll({ publicKeys: () => keys.published })
  })
)

export const AttestationKeysHandlers = groupHandlers(
  AttestationKeysApi,
  Effect.fn(function* (handlers) {
    const creations = yield* AttestationKeyCreations
    const revocation = yield* AttestationKeyRevocation
    const rotations = yield* AttestationKeyRotations
    return handlers.handleAll({
      list: ({ query }) => rotations.list(query.cursor, query.limit ?? pageLimitDefault),
      create: ({ payload }) => Effect.map(creations.create(payload), created("/api/attestation/keys")),
      get: ({ params }) => rotations.get(params.id),
      rotate: ({ params, payload }) =>
        Effect.map(rotations.rotate(params.id, payload), created("/api/attestation/keys")),
      end: ({ params, payload }) => revocation.end(params.id, payload)
    })
  })
)
