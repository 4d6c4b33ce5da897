import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { keysFreshSeconds } from "../../../audit/signing-keys/domain.ts"
import { groupHandlers } from "../../../platform/http/served-api.ts"
import { WorkloadApi } from "./api.ts"
import { WorkloadIssuer } from "./workload-issuer.ts"

const cacheable = { "cache-control": `public, max-age=${keysFreshSeconds}` }

export const WorkloadHandlers = groupHandlers(
  WorkloadApi,
  Effect.fn(function* (handlers) {
    const issuer = yield* WorkloadIssuer
    return handlers.handleAll({
      configuration: () => Effect.succeed(issuer.configuration),
      keys: () => Effect.map(issuer.keys, (body) => HttpApiSchema.withHeaders({ body, headers: cacheable }))
    })
  })
)
