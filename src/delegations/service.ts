import { Cache, Context, Data, DateTime, Effect, Exit, Layer, Schedule, Schema } from "effect"
import { Model } from "effect/schema"
import { AgentId, type AgentNotFound } from "../agents/domain.ts"
import { Agents } from "../agents/service.ts"
import { Audit, scopeOf } from "../audit/service.ts"
import { requireAuthority } from "../auth/authority.ts"
import { AuthorityChanges } from "../auth/authority-changes.ts"
import { CurrentPrincipal, type Forbidden } from "../auth/domain.ts"
import { distinct, missing } from "../kernel/capability.ts"
import { type TenantId } from "../kernel/identifier.ts"
import { type Slice, slice } from "../kernel/page.ts"
import { Database } from "../platform/database.ts"
import { Settings } from "../platform/settings.ts"
import {
  Delegation,
  delegationActions,
  type DelegationCreation,
  type DelegationId,
  DelegationInvalid,
  type DelegationNotFound,
  DelegationView,
  type SubjectType
} from "./domain.ts"
import { DelegationsRepository } from "./repository.ts"

/** Who acts, and on whose behalf. */
export interface Pair {
  readonly agentId: AgentId
  readonly subjectType: SubjectType
  readonly subject: string
}

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
    ): Effect.Effect<DelegationView, AgentNotFound | DelegationInvalid | Forbidden>
    /** Ends a grant and all that was minted under it; again does nothing. */
    revoke(agentId: AgentId, id: DelegationId): Effect.Effect<void, AgentNotFound | DelegationNotFound | Forbidden>
    /** The live grants between an agent and a subject, a second old at most. */
    between(pair: Pair): Effect.Effect<ReadonlyArray<Delegation>>
    /** Notes that a grant was used; written some seconds later. */
    used(id: DelegationId): Effect.Effect<void>
  }
>()("app/delegations/Delegations") {
  static readonly layerNoDeps = Layer.effect(
    Delegations,
    Effect.gen(function* () {
      const agents = yield* Agents
      const audit = yield* Audit
      const changes = yield* AuthorityChanges
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

      const grants = yield* Cache.makeWith((key: PairKey) => repository.between(key), {
        capacity: 10_000,
        timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 second" : 0)
      })
      yield* changes.onChange(Cache.invalidateAll(grants))

      const list = Effect.fn("Delegations.list")(function* (
        agentId: AgentId,
        after: DelegationId | undefined,
        limit: number
      ) {
        yield* agents.get(agentId)
        const scope = scopeOf(yield* CurrentPrincipal)
        const now = yield* DateTime.now
        const rows = yield* database.transaction(scope, repository.list(agentId, after, limit + 1))
        return slice(rows.map(viewAt(now)), limit, (grant) => grant.id)
      })

      /** Refuses a subject of the wrong form, and an agent that is itself or of another tenant. */
      const checkSubject = Effect.fnUntraced(function* (
        agentId: AgentId,
        tenantId: TenantId,
        { subject, subjectType }: DelegationCreation
      ) {
        if (subjectType === "external") {
          return /^[^|]+\|./s.test(subject)
            ? undefined
            : yield* invalid("An external subject is written <issuer>|<sub>.")
        }
        const unknown = invalid(`The subject is the id of ${subjectType === "agent" ? "an agent" : "an account"}.`)
        const id = yield* Schema.decodeEffect(AgentId)(subject).pipe(Effect.mapError(() => unknown))
        if (subjectType === "user") return undefined
        if (id === agentId) return yield* invalid("An agent needs no grant to act for itself.")
        const other = yield* Effect.mapError(agents.get(id), () => unknown)
        return other.tenantId === tenantId ? undefined : yield* unknown
      })

      const create = Effect.fn("Delegations.create")(function* (agentId: AgentId, input: DelegationCreation) {
        const agent = yield* agents.lock(agentId)
        yield* checkSubject(agentId, agent.tenantId, input)
        const scopes = distinct(input.scopes)
        const beyond = missing(agent.scopeCeiling, scopes)
        if (beyond.length > 0) return yield* invalid(`Beyond the agent's ceiling: ${beyond.join(", ")}.`)
        yield* requireAuthority(scopes)
        const now = yield* DateTime.now
        if (input.expiresAt != null && DateTime.isLessThanOrEqualTo(input.expiresAt, now)) {
          return yield* invalid("expiresAt is over.")
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
        yield* changes.announce
        const view = viewAt(now)(grant)
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
        yield* changes.announce
        return {
          value: undefined,
          entries: [
            {
              action: delegationActions.DelegationRevoked,
              entityId: id,
              tenantId,
              before: snapshot(viewAt(now)(before)),
              after: snapshot(viewAt(now)(after))
            }
          ]
        }
      }, audit.change)

      const between = Effect.fn("Delegations.between")(function* (pair: Pair) {
        const now = yield* DateTime.now
        const found = yield* Cache.get(grants, new PairKey(pair))
        return found.filter((grant) => grant.status(now) === "active")
      })

      const used = (id: DelegationId) =>
        Effect.map(DateTime.now, ({ epochMilliseconds }) => void uses.set(id, epochMilliseconds))

      return Delegations.of({ list, create, revoke, between, used })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(DelegationsRepository.layer))
}

/** A pair that equals another of the same parts, as a cache needs it. */
class PairKey extends Data.Class<Pair> {}

const snapshot = Schema.encodeSync(DelegationView)
const invalid = (detail: string) => new DelegationInvalid({ detail })

const viewAt =
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
