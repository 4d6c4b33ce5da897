import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { Model } from "effect/schema"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { changesOf, unchanged } from "../../audit/log/change-entries.ts"
import { Audit } from "../../audit/log/service.ts"
import { requireAuthority, requireBounds, requireOwnAgent } from "../../kernel/authority/authority.ts"
import { distinct, missing } from "../../kernel/authority/capability.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { type TenantId, uuidIn } from "../../kernel/identifier.ts"
import { IdentityProviders } from "../../people/identity-providers/service.ts"
import { Database } from "../../platform/database/database.ts"
import { makeLastUses } from "../../platform/database/last-use.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { AgentId, AgentNotActive } from "../agents/domain.ts"
import { Agents } from "../agents/service.ts"
import {
  Delegation,
  delegationActions,
  type DelegationCreation,
  type DelegationId,
  DelegationInvalid,
  DelegationView
} from "./domain.ts"
import { DelegationsRepository } from "./repository.ts"

export class Delegations extends Context.Service<Delegations>()("app/agents/Delegations", {
  make: Effect.gen(function* () {
    const agents = yield* Agents
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const database = yield* Database
    const providers = yield* IdentityProviders
    const repository = yield* DelegationsRepository
    const { maxDelegationDepth } = (yield* Settings).agents

    const uses = yield* makeLastUses("delegations", repository.used)

    const list = Effect.fn("Delegations.list")(function* (agentId: AgentId, page: ListRequest<DelegationId>) {
      yield* agents.get(agentId)
      const { items, nextCursor } = yield* database.asCaller(repository.list({ agentId }, page))
      return { items: items.map(toResponse(yield* DateTime.now)), nextCursor }
    })

    /** Refuses a subject that does not exist for the agent's tenant. */
    const checkSubject = Effect.fnUntraced(function* (
      agentId: AgentId,
      tenantId: TenantId,
      { subject, subjectType }: DelegationCreation
    ) {
      if (subjectType === "external") {
        const [issuer = "", ...rest] = subject.split("|")
        if (issuer === "" || rest.join("|") === "") {
          return yield* invalid("subject", "An external subject is written <issuer>|<sub>.")
        }
        const registered = yield* providers.workload(issuer)
        return registered.some((provider) => provider.tenantId === null || provider.tenantId === tenantId)
          ? undefined
          : yield* invalid("subject", "No workload identity provider of this issuer is registered.")
      }
      const unknown = invalid(
        "subject",
        `No ${subjectType === "agent" ? "agent" : "account"} of the tenant has this id.`
      )
      const id = yield* Schema.decodeEffect(AgentId)(subject).pipe(Effect.mapError(() => unknown))
      if (id === agentId) return yield* invalid("subject", "An agent needs no grant to act for itself.")
      const home =
        subjectType === "agent"
          ? Option.map(
              // A token on behalf of a synthetic agent would be used as one that is not.
              Option.filter(yield* Effect.option(agents.get(id)), (agent) => !agent.synthetic),
              (agent) => agent.tenantId
            )
          : yield* repository.tenantOfAccount(id)
      // An account of the whole installation may be a subject in every tenant.
      return Option.exists(home, (its) => its === null || its === tenantId) ? undefined : yield* unknown
    })

    const create = Effect.fn("Delegations.create")(function* (agentId: AgentId, given: DelegationCreation) {
      const isExternal = given.subjectType === "external"
      const input = isExternal ? given : { ...given, subject: uuidIn(given.subject) ?? given.subject }
      const agent = yield* agents.lock(agentId)
      if (agent.status === "retired") return yield* new AgentNotActive({ detail: "The agent is retired." })
      const scopes = distinct(input.scopes)
      const beyond = missing(agent.scopeCeiling, scopes)
      if (beyond.length > 0) return yield* invalid("scopes", `Beyond the agent's ceiling: ${beyond.join(", ")}.`)
      yield* requireOwnAgent(agent)
      yield* requireAuthority(scopes, { toAgent: true })
      yield* requireBounds({ expiresAt: input.expiresAt ?? null, applicationId: agent.applicationId })
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
      return changesIn(agent.tenantId).created(delegationActions.DelegationCreated, view)
    }, audit.change)

    const revoke = Effect.fn("Delegations.revoke")(function* (agentId: AgentId, id: DelegationId) {
      const agent = yield* agents.lock(agentId)
      const { tenantId } = agent
      const before = yield* repository.lock({ id, agentId })
      yield* requireOwnAgent(agent)
      yield* requireAuthority(before.scopes, { toAgent: true })
      if (before.revokedAt !== null) return unchanged(undefined)
      const now = yield* DateTime.now
      const after = yield* repository.revoke(id, now)
      yield* authCaches.announce
      const shown = toResponse(now)
      return {
        ...changesIn(tenantId).updated(delegationActions.DelegationRevoked, shown(before), shown(after)),
        value: undefined
      }
    }, audit.change)

    return {
      list,
      create,
      /** Ends a grant and all that was minted under it; again does nothing. */
      revoke,
      /** Records that a grant was used; written some seconds later. */
      used: uses.record
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(DelegationsRepository.layer))
}

const changesIn = (tenantId: TenantId) => changesOf(DelegationView, ({ id }) => ({ entityId: id, tenantId }))
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
