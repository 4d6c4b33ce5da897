import { Cache, Context, DateTime, Effect, Exit, Layer } from "effect"
import { Model } from "effect/schema"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { changesOf, unchanged } from "../../audit/log/change-entries.ts"
import { Audit } from "../../audit/log/service.ts"
import {
  callerBounds,
  onlyStops,
  requireAuthority,
  requireBounds,
  requireOwnAgent
} from "../../kernel/authority/authority.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Database } from "../../platform/database/database.ts"
import { makeLastUses } from "../../platform/database/last-use.ts"
import { Tenants } from "../../tenants/service.ts"
import { type AgentTemplateId, AgentTemplateNotFound } from "../agent-templates/domain.ts"
import { limitMembers, limitsFrom, noLimitsGiven, validateLimits } from "../agent-templates/limits-domain.ts"
import { AgentTemplatesRepository } from "../agent-templates/repository.ts"
import {
  Agent,
  agentActions,
  type AgentId,
  AgentNotActive,
  AgentNotFound,
  type AgentPatch,
  type AgentRegistration,
  isActiveAt
} from "./domain.ts"
import { type AgentFilter, AgentsRepository } from "./repository.ts"

export class Agents extends Context.Service<Agents>()("app/agents/Agents", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const database = yield* Database
    const repository = yield* AgentsRepository
    const templates = yield* AgentTemplatesRepository
    const tenants = yield* Tenants

    const sightings = yield* makeLastUses("agents", repository.seen)

    const list = Effect.fn("Agents.list")(function* (filter: AgentFilter, page: ListRequest<AgentId>) {
      const principal = yield* CurrentPrincipal
      const itself = principal.kind === "agent" ? { id: idOf(principal.name) } : {}
      return yield* database.asCaller(repository.list({ ...filter, ...itself }, page))
    })

    const get = Effect.fn("Agents.get")(function* (id: AgentId) {
      yield* visible(id)
      return yield* database.asCaller(repository.get(id))
    })

    const bounded = Effect.fn("Agents.bounded")(function* (id: AgentId) {
      yield* visible(id)
      return yield* database.asCaller(repository.bounded(id))
    })

    const homes = yield* Cache.makeWith(
      (id: AgentId) => Effect.map(database.read("all", repository.get(id)), ({ tenantId }) => tenantId),
      { capacity: 50_000, timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 day" : 0) }
    )
    const tenantOf = Effect.fnUntraced(function* (id: AgentId) {
      yield* visible(id)
      const home = yield* Cache.get(homes, id)
      const { tenantId } = yield* CurrentPrincipal
      return tenantId === undefined || tenantId === home ? home : yield* new AgentNotFound({})
    })

    const states = yield* Cache.makeWith((id: AgentId) => database.read("all", repository.get(id)), {
      capacity: 50_000,
      timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 second" : 0)
    })
    yield* authCaches.onChange(Cache.invalidateAll(states))
    const activeTenantOf = Effect.fnUntraced(function* (id: AgentId) {
      const tenantId = yield* tenantOf(id)
      return isActiveAt(yield* Cache.get(states, id), yield* DateTime.now) ? tenantId : yield* new AgentNotActive({})
    })

    const templateOf = (id: AgentTemplateId | null | undefined, tenantId: TenantId) =>
      id === null || id === undefined
        ? Effect.undefined
        : Effect.flatMap(templates.lockShared(id), (template) =>
            template.tenantId === tenantId ? Effect.succeed(template) : Effect.fail(new AgentTemplateNotFound({}))
          )

    const register = Effect.fn("Agents.register")(function* (input: AgentRegistration) {
      const tenantId = yield* tenants.forCreation(input.tenantId)
      const template = yield* templateOf(input.templateId, tenantId)
      const limits = limitsFrom(input, template ?? noLimitsGiven)
      yield* validateLimits(limits, template)
      yield* requireAuthority(limits.scopeCeiling, { toAgent: true })
      const principal = yield* CurrentPrincipal
      const now = yield* DateTime.now
      const agent = yield* repository.insert(
        Agent.insert.make({
          tenantId,
          name: input.name,
          description: input.description ?? "",
          ownerUserId: input.ownerUserId ?? null,
          ...limits,
          templateId: template?.id ?? null,
          ...(yield* callerBounds),
          status: "active",
          createdAt: Model.Override(now),
          createdBy: principal.name,
          synthetic: principal.synthetic === true,
          updatedAt: Model.Override(now)
        })
      )
      return changes.created(agentActions.AgentRegistered, agent)
    }, audit.change)

    const lock = (id: AgentId) => Effect.andThen(visible(id), repository.lock(id))

    const take = Effect.fnUntraced(function* (id: AgentId) {
      const agent = yield* lock(id)
      yield* requireOwnAgent(agent)
      yield* requireAuthority(agent.scopeCeiling, { toAgent: true })
      return agent
    })

    /** Stores an agent and invalidates the caches; its new version differs from the one that a concurrent mint has read. */
    const store = Effect.fnUntraced(function* (before: Agent, wanted: Agent) {
      const now = yield* DateTime.now
      const updatedAt = DateTime.max(now, DateTime.add(before.updatedAt, { milliseconds: 1 }))
      const after = yield* repository.update({ ...wanted, updatedAt: Model.Override(updatedAt) })
      yield* authCaches.announce
      return after
    })

    const update = Effect.fn("Agents.update")(function* (id: AgentId, patch: AgentPatch) {
      const before = yield* take(id)
      if (!onlyStops(patch)) yield* requireBounds(before)
      const limits = limitsFrom(patch, before)
      const template = yield* templateOf(
        patch.templateId === undefined ? before.templateId : patch.templateId,
        before.tenantId
      )
      const wanted = {
        ...before,
        ...limits,
        name: patch.name ?? before.name,
        description: patch.description ?? before.description,
        ownerUserId: patch.ownerUserId === undefined ? before.ownerUserId : patch.ownerUserId,
        templateId: template?.id ?? null,
        status: patch.status ?? before.status
      }
      if (changes.areSame(before, wanted as Agent)) return unchanged(before)
      if (before.status === "retired") return yield* new AgentNotActive({ detail: "A retired agent stays as it is." })
      // A template that was narrowed since bounds what is minted, and prevents only changes of the limits.
      if (Object.keys(patch).some((member) => bounding.has(member))) yield* validateLimits(limits, template)
      yield* requireAuthority(limits.scopeCeiling, { toAgent: true })
      return changes.updated(agentActions.AgentUpdated, before, yield* store(before, wanted))
    }, audit.change)

    const retire = Effect.fn("Agents.retire")(function* (id: AgentId) {
      const before = yield* take(id)
      if (before.status === "retired") return unchanged(undefined)
      const after = yield* Effect.orDie(store(before, { ...before, status: "retired" }))
      return { ...changes.updated(agentActions.AgentRetired, before, after), value: undefined }
    }, audit.change)

    return {
      list,
      /** The agent, if the caller may see it: an agent sees itself alone. */
      get,
      /** The agent with the current limits of its template, if the caller may see it. */
      bounded,
      /** The tenant of an agent that the caller may see; remembered, since it never changes. */
      tenantOf,
      /** The same, if the agent may act: it is neither suspended nor retired. */
      activeTenantOf,
      register,
      update,
      /** Ends the agent for good; again does nothing. */
      retire,
      /** The agent under lock until the transaction ends. */
      lock,
      /** Takes an agent under lock to change what it can do, if the caller has all of that. */
      take,
      /** Records that an agent was active; written some seconds later. */
      seen: sightings.record
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.merge(AgentsRepository.layer, AgentTemplatesRepository.layer))
  )
}

/** What a template has a say in. */
const bounding: ReadonlySet<string> = new Set(["templateId", ...Object.keys(limitMembers)])

const changes = changesOf(Agent.json, ({ id, tenantId }) => ({ entityId: id, tenantId }))

const idOf = (principal: string): AgentId => principal.slice("agent:".length) as AgentId

/** An agent acts for itself alone: for it there is no other. */
const visible = (id: AgentId): Effect.Effect<void, AgentNotFound> =>
  Effect.flatMap(CurrentPrincipal, ({ kind, name }) =>
    kind === "agent" && name !== `agent:${id}` ? Effect.fail(new AgentNotFound({})) : Effect.void
  )
