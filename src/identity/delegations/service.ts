import { Context, DateTime, Effect, Layer, Option, Schedule, Schema } from "effect"
import { Model } from "effect/schema"
import { AgentId, AgentNotActive, type AgentNotFound } from "../agents/domain.ts"
import { Agents } from "../agents/service.ts"
import { Audit } from "../../audit/log/service.ts"
import { requireAuthority } from "../../kernel/authority.ts"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { CurrentPrincipal, type Forbidden } from "../../kernel/principal.ts"
import { distinct, missing } from "../../kernel/capability.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Slice, slice } from "../../kernel/page.ts"
import { scopeOf, Database } from "../../platform/database/database.ts"
import { Settings } from "../../platform/settings/settings.ts"
import {
  Delegation,
  delegationActions,
  type DelegationCreation,
  type DelegationId,
  DelegationInvalid,
  type DelegationNotFound,
  DelegationView
} from "./domain.ts"
import { DelegationsRepository } from "./repository.ts"

export class Delegations extends Context.Service<
  Delegations,
  {
    list(
      agentId: AgentId,
      after: DelegationId | undefined,
      limit: number
    ): Effect.Effect<Slice<DelegationView, DelegationId>, AgentNotFound>
    create(
      agentId: AgentId,
      input: DelegationCreation
    ): Effect.Effect<DelegationView, AgentNotActive | AgentNotFound | DelegationInvalid | Forbidden>
    /** Ends a grant and all that was minted under it; again does nothing. */
    revoke(agentId: AgentId, id: DelegationId): Effect.Effect<void, AgentNotFound | DelegationNotFound | Forbidden>
    /** Records that a grant was used; written some seconds later. */
    used(id: DelegationId): Effect.Effect<void>
  }
>()("app/delegations/Delegations") {
  static readonly layerNoDeps = Layer.effect(
    Delegations,
    Effect.gen(function* () {
      const agents = yield* Agents
      const audit = yield* Audit
      const authCaches = yield* AuthCacheInvalidation
      const database = yield* Database
      const repository = yield* DelegationsRepository
      const { maxDelegationDepth } = (yield* Settings).agents

      const uses = new Map<string, number>()
      const flush = Effect.suspend(() => {
        const batch = Array.from(uses, ([id, at]) => ({ id, at }))
        uses.clear()
        return batch.length === 0 ? Effect.void : database.transaction("all", repository.used(batch))
      }).pipe(Effect.catchCause((cause) => Effect.logWarning("Could not store when delegations were used", cause)))
      yield* flush.pipe(Effect.repeat(Schedule.spaced("5 seconds")), Effect.forkScoped)
      yield* Effect.addFinalizer(() => flush)

      const list = Effect.fn("Delegations.list")(function* (
        agentId: AgentId,
        after: DelegationId | undefined,
        limit: number
      ) {
        yield* agents.get(agentId)
        const scope = scopeOf(yield* CurrentPrincipal)
        const now = yield* DateTime.now
        const rows = yield* database.transaction(scope, repository.list(agentId, after, limit + 1))
        return slice(rows.map(toResponse(now)), limit, (grant) => grant.id)
      })

      /** Refuses a subject that does not exist for the agent's tenant. */
      const checkSubject = Effect.fnUntraced(function* (
        agentId: AgentId,
        tenantId: TenantId,
        { subject, subjectType }: DelegationCreation
      ) {
        if (subjectType === "external") {
          return yield* /^[^|]+\|./s.test(subject)
            ? invalid("subject", "No identity provider of this issuer is registered.")
            : invalid("subject", "An external subject is written <issuer>|<sub>.")
        }
        const unknown = invalid(
          "subject",
          `No ${subjectType === "agent" ? "agent" : "account"} of the tenant has this id.`
        )
        const id = yield* Schema.decodeEffect(AgentId)(subject).pipe(Effect.mapError(() => unknown))
        if (id === agentId) return yield* invalid("subject", "An agent needs no grant to act for itself.")
        const home =
          subjectType === "agent"
            ? Option.map(yield* Effect.option(agents.get(id)), (agent) => agent.tenantId)
            : yield* repository.tenantOfAccount(id)
        // An account of the whole installation may be a subject in every tenant.
        return Option.exists(home, (its) => its === null || its === tenantId) ? undefined : yield* unknown
      })

      const create = Effect.fn("Delegations.create")(function* (agentId: AgentId, input: DelegationCreation) {
        const agent = yield* agents.lock(agentId)
        if (agent.status === "retired") return yield* new AgentNotActive({ detail: "The agent is retired." })
        const scopes = distinct(input.scopes)
        const beyond = missing(agent.scopeCeiling, scopes)
        if (beyond.length > 0) return yield* invalid("scopes", `Beyond the agent's ceiling: ${beyond.join(", ")}.`)
        yield* requireAuthority(scopes)
        yield* checkSubject(agentId, agent.tenantId, input)
        const now = yield* DateTime.now
        if (input.expiresAt != null && DateTime.isLessThanOrEqualTo(input.expiresAt, now)) {
          return yield* invalid("expiresAt", "expiresAt is over.")
        }
        const grant = yield* repository.insert(
          Delegation.insert.make({
            tenantId: agent.tenantId,
            agentId,
            subject: input.subject,
            subjectType: input.subjectType,
            scopes,
            maxDepth: input.maxDepth ?? maxDelegationDepth,
            reason: input.reason ?? null,
            createdAt: Model.Override(now),
            createdBy: (yield* CurrentPrincipal).name,
            expiresAt: input.expiresAt ?? null
          })
        )
        yield* authCaches.announce
        const view = toResponse(now)(grant)
        return {
          value: view,
          entries: [
            {
              action: delegationActions.DelegationCreated,
              entityId: grant.id,
              tenantId: agent.tenantId,
              after: snapshot(view)
            }
          ]
        }
      }, audit.change)

      const revoke = Effect.fn("Delegations.revoke")(function* (agentId: AgentId, id: DelegationId) {
        const { tenantId } = yield* agents.lock(agentId)
        const before = yield* repository.lock(agentId, id)
        yield* requireAuthority(before.scopes)
        if (before.revokedAt !== null) return { value: undefined, entries: [] }
        const now = yield* DateTime.now
        const after = yield* repository.revoke(id, now)
        yield* authCaches.announce
        return {
          value: undefined,
          entries: [
            {
              action: delegationActions.DelegationRevoked,
              entityId: id,
              tenantId,
              before: snapshot(toResponse(now)(before)),
              after: snapshot(toResponse(now)(after))
            }
          ]
        }
      }, audit.change)

      const used = (id: DelegationId) =>
        Effect.map(DateTime.now, ({ epochMilliseconds }) => void uses.set(id, epochMilliseconds))

      return Delegations.of({ list, create, revoke, used })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(DelegationsRepository.layer))
}

const snapshot = Schema.encodeSync(DelegationView)
const invalid = (member: string, detail: string) =>
  new DelegationInvalid({ detail, errors: [{ path: ["payload", member], message: detail }] })

const toResponse =
  (now: DateTime.Utc) =>
  (grant: Delegation): DelegationView => ({
    id: grant.id,
    agentId: grant.agentId,
    subject: grant.subject,
    subjectType: grant.subjectType,
    scopes: grant.scopes,
    maxDepth: grant.maxDepth,
    reason: grant.reason,
    status: grant.status(now),
    createdAt: grant.createdAt,
    createdBy: grant.createdBy,
    expiresAt: grant.expiresAt,
    revokedAt: grant.revokedAt,
    lastUsedAt: grant.lastUsedAt
  })
