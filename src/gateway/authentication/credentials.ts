import { Effect, Layer } from "effect"
import { RateLimited, Unauthenticated } from "../../kernel/principal.ts"
import { GatewayCredentials } from "../../access/credentials.ts"
import { GatewayAuthentication } from "./gateway-authentication.ts"

/** The gateway's policy for its own words: who calls, or why nobody does, as a problem. */
export const GatewayCredentialsLayer = Layer.effect(
  GatewayCredentials,
  Effect.map(GatewayAuthentication, (authentication) =>
    GatewayCredentials.of({
      identify: (request) =>
        Effect.mapError(authentication.admit(request), ({ error, headers = {} }) =>
          error.status === 429
            ? new RateLimited({ detail: error.message, retryAfterSeconds: Number(headers["retry-after"] ?? 1) })
            : new Unauthenticated({ detail: error.message })
        )
    })
  )
)
