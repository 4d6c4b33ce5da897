import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { fastGroupHandlers } from "../../platform/fast-path/group-handlers.ts"
import { AgentCredentialsApi } from "./api.ts"
import { type AgentTokenResponse } from "./domain.ts"
import { TokenIntrospection } from "./introspection.ts"
import { AgentCredentials } from "./service.ts"

const issued = (body: AgentTokenResponse) =>
  HttpApiSchema.withHeaders({ body, headers: { location: `/api/agents/credentials/${body.credentialId}` } })

export const AgentCredentialsHandlers = fastGroupHandlers(
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
