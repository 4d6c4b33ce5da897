import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { keysFreshSeconds } from "../../audit/signing-keys/domain.ts"
import { fastGroupHandlers } from "../../platform/fast-path/group-handlers.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { AgentTokensApi, TokenMetadataApi } from "./api.ts"
import { TokenMetadata } from "./metadata.ts"
import { AgentGrants } from "./service.ts"
import { OAuthApi } from "./wire-api.ts"
import { makeOAuthWire } from "./wire.ts"

export const AgentTokensHandlers = groupHandlers(
  AgentTokensApi,
  Effect.fn(function* (handlers) {
    const grants = yield* AgentGrants
    return handlers.handleAll({
      token: ({ payload }) => grants.token(payload, "/api/agents/token"),
      exchange: ({ payload }) => grants.exchange(payload, "/api/agents/token/exchange")
    })
  })
)

const cacheable = { "cache-control": `public, max-age=${keysFreshSeconds}` }

export const TokenMetadataHandlers = fastGroupHandlers(
  TokenMetadataApi,
  Effect.fn(function* (handlers) {
    const metadata = yield* TokenMetadata
    return handlers.handleAll({
      keys: () => Effect.map(metadata.keys, (body) => HttpApiSchema.withHeaders({ body, headers: cacheable })),
      authorizationServer: () => Effect.succeed(metadata.authorizationServer),
      openIdConfiguration: () => Effect.succeed(metadata.openIdConfiguration),
      apiResource: () => Effect.succeed(metadata.apiResource),
      gatewayResource: () => Effect.succeed(metadata.gatewayResource)
    })
  })
)

export const OAuthHandlers = groupHandlers(
  OAuthApi,
  Effect.fn(function* (handlers) {
    const { introspect, revoke, token } = yield* makeOAuthWire
    return handlers.handleRaw("token", token).handleRaw("introspect", introspect).handleRaw("revoke", revoke)
  })
)
