import { Context, DateTime, Effect, Layer, Option } from "effect"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { Audit } from "../../audit/log/service.ts"
import { requireAuthority, requireBounds, requireOwnAgent } from "../../kernel/authority/authority.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { slice } from "../../kernel/http/page.ts"
import { Database, scopeOf } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { type AgentId, AgentNotActive, ceilingOf, isActiveAt } from "../agents/domain.ts"
import { Agents } from "../agents/service.ts"
import {
  type AgentCredentialView,
  credentialActions,
  type CredentialId,
  type CredentialRequest,
  invalidRequest
} from "./domain.ts"
import { CredentialMint } from "./mint.ts"
import { type CredentialRow, TokensRepository } from "./repository.ts"
import { scopesWithin } from "./scopes.ts"

/** Credentials for operators of agents: issued by hand, listed, revoked. */
export class AgentCredentials extends Context.Service<AgentCredentials>()("app/agents/AgentCredentials", {
  make: Effect.gen(function* () {
    const agents = yield* Agents
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const database = yield* Database
    const minting = yield* CredentialMint
    const repository = yield* TokensRepository

    const purge = Effect.flatMap(DateTime.now, (now) =>
      database.transaction(
        "all",
        repository.purge(DateTime.subtract(now, { minutes: 10 }), DateTime.subtract(now, { days: 30 }))
      )
    )
    yield* repeatJob("remove old agent credentials", "1 hour", purge)

    const attempt = Effect.fnUntraced(function* (agentId: AgentId, request: CredentialRequest) {
      const agent = yield* agents.bounded(agentId)
      const now = yield* DateTime.now
      if (!isActiveAt(agent, now)) return yield* new AgentNotActive({})
      const scopes = yield* scopesWithin(request.requestedScopes, ceilingOf(agent))
      const ttlSeconds = request.ttlSeconds ?? agent.maxCredentialTtlSeconds
      if (ttlSeconds > agent.maxCredentialTtlSeconds) {
        return yield* invalidRequest(`ttlSeconds is above the agent's ${agent.maxCredentialTtlSeconds}.`)
      }
      yield* requireOwnAgent(agent)
      yield* requireAuthority(scopes, { toAgent: true })
      yield* requireBounds({ applicationId: agent.applicationId })
      const expiresAt = DateTime.add(now, { seconds: ttlSeconds })
      return yield* minting
        .mint({ action: credentialActions.AgentCredentialIssued, agent, scopes, now, expiresAt })
        .pipe(Effect.mapError(() => new AgentNotActive({})))
    })

    // The agent may change between its reading and the mint, which then refuses; the second look is at what it is now.
    const issue = Effect.fn("AgentCredentials.issue")((agentId: AgentId, request: CredentialRequest) =>
      Effect.retry(attempt(agentId, request), { times: 1, while: (error) => error._tag === "AgentNotActive" })
    )

    const list = Effect.fn("AgentCredentials.list")(function* (
      agentId: AgentId,
      after: CredentialId | undefined,
      limit: number
    ) {
      yield* agents.get(agentId)
      const scope = scopeOf(yield* CurrentPrincipal)
      const now = yield* DateTime.now
      const rows = yield* database.read(scope, repository.list(agentId, after, limit + 1))
      return slice(rows.map(toResponse(now)), limit, (credential) => credential.id)
    })

    const revoke = Effect.fn("AgentCredentials.revoke")(function* (id: CredentialId) {
      const principal = yield* CurrentPrincipal
      const only = principal.kind === "agent" ? (principal.name.slice("agent:".length) as AgentId) : undefined
      const now = yield* DateTime.now
      const revoked = Option.getOrUndefined(yield* repository.revoke(id, only, now))
      if (revoked === undefined) return { value: undefined, entries: [] }
      yield* authCaches.announce
      const { agentId, subject, tenantId } = revoked
      return {
        value: undefined,
        entries: [
          {
            action: credentialActions.AgentCredentialRevoked,
            entityId: id,
            tenantId,
            before: { agentId, subject, revokedAt: null },
            after: { agentId, subject, revokedAt: DateTime.formatIso(now) }
          }
        ]
      }
    }, audit.change)

    return {
      issue,
      list,
      /** Ends a credential and all below it; one that is over, unknown or another's is left as it is, without a word. */
      revoke
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(TokensRepository.layer))
}

const toResponse =
  (now: DateTime.Utc) =>
  ({ agentKeyId, grantId, live, ...row }: CredentialRow): AgentCredentialView => ({
    id: row.id,
    agentId: row.agentId,
    subject: row.subject,
    actors: row.actors,
    scopes: row.scopes,
    status: statusOf(row.expiresAt, live, now),
    keyId: agentKeyId,
    delegationId: grantId,
    issuedAt: row.issuedAt,
    issuedBy: row.issuedBy,
    expiresAt: row.expiresAt,
    revokedAt: row.revokedAt
  })

const statusOf = (expiresAt: DateTime.Utc, live: boolean, now: DateTime.Utc): AgentCredentialView["status"] => {
  if (!live) return "revoked"
  return DateTime.isLessThanOrEqualTo(expiresAt, now) ? "expired" : "active"
}
