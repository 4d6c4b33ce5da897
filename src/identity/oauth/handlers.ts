import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { keysFreshSeconds } from "../../audit/signing-keys/domain.ts"
import { fastGroupHandlers } from "../../platform/fast-path/group-handlers.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { pageLimitDefault } from "../../kernel/page.ts"
import { AgentCredentials } from "../credentials/credentials.ts"
import { type AgentTokenResponse } from "../credentials/domain.ts"
import { TokenIntrospection } from "./introspection.ts"
import { TokenMetadata } from "./metadata.ts"
import { AgentGrants } from "./service.ts"
import { SubjectTokens } from "../credentials/subject-tokens.ts"
import { AgentCredentialsApi } from "../credentials/credential-api.ts"
import { AgentTokensApi, TokenMetadataApi } from "./api.ts"
import { SubjectTokensApi } from "../credentials/subject-api.ts"

const issued = (body: AgentTokenResponse) =>
  HttpApiSchema.withHeaders({ body, headers: { location: `/api/agents/credentials/${body.credentialId}` } })

export const AgentCredentialsHandlers = groupHandlers(
  AgentCredentialsApi,
  Effect.fn(function* (handlers) {
    const credentials = yield* AgentCredentials
    const tokens = yield* TokenIntrospection
    return handlers.handleAll({
      list: ({ params, query }) => credentials.list(params.id, query.cursor, query.limit ?? pageLimitDefault),
      issue: ({ params, payload }) => Effect.map(credentials.issue(params.id, payload), issued),
      revoke: ({ params }) => credentials.revoke(params.credentialId),
      introspect: ({ payload }) => tokens.introspect(payload.token)
    })
  })
)

export const AgentTokensHandlers = fastGroupHandlers(
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
      authorizationServer: () => Effect.succeed(metadata.authorizationServer)
    })
  })
)

export const SubjectTokensHandlers = groupHandlers(
  SubjectTokensApi,
  Effect.fn(function* (handlers) {
    const tokens = yield* SubjectTokens
    return handlers.handleAll({ create: ({ payload }) => tokens.issue(payload) })
  })
)
