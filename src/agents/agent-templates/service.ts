import { Context, DateTime, Effect, Layer } from "effect"
import { Model } from "effect/schema"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { changesOf, unchanged } from "../../audit/log/change-entries.ts"
import { Audit } from "../../audit/log/service.ts"
import { requireAuthority, requireBounds } from "../../kernel/authority/authority.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Database } from "../../platform/database/database.ts"
import { Tenants } from "../../tenants/service.ts"
import {
  AgentTemplate,
  agentTemplateActions,
  type AgentTemplateCreation,
  type AgentTemplateId,
  type AgentTemplatePatch
} from "./domain.ts"
import { limitsFrom, noLimitsGiven, validateLimits } from "./limits-domain.ts"
import { AgentTemplatesRepository } from "./repository.ts"

export class AgentTemplates extends Context.Service<AgentTemplates>()("app/agents/AgentTemplates", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const database = yield* Database
    const repository = yield* AgentTemplatesRepository
    const tenants = yield* Tenants

    const create = Effect.fn("AgentTemplates.create")(function* (input: AgentTemplateCreation) {
      const tenantId = yield* tenants.forCreation(input.tenantId)
      const limits = limitsFrom(input, noLimitsGiven)
      yield* validateLimits(limits)
      yield* requireAuthority(limits.scopeCeiling)
      const now = yield* DateTime.now
      const template = yield* repository.insert(
        AgentTemplate.insert.make({
          tenantId,
          name: input.name,
          description: input.description ?? "",
          ...limits,
          createdAt: Model.Override(now),
          createdBy: (yield* CurrentPrincipal).name,
          updatedAt: Model.Override(now)
        })
      )
      return changes.created(agentTemplateActions.AgentTemplateCreated, template)
    }, audit.change)

    const update = Effect.fn("AgentTemplates.update")(function* (id: AgentTemplateId, patch: AgentTemplatePatch) {
      const before = yield* repository.lock({ id })
      const limits = limitsFrom(patch, before)
      yield* validateLimits(limits)
      yield* requireAuthority([...before.scopeCeiling, ...limits.scopeCeiling])
      yield* requireBounds({ expiresAt: null, applicationId: null })
      const wanted = {
        ...before,
        ...limits,
        name: patch.name ?? before.name,
        description: patch.description ?? before.description
      }
      if (changes.areSame(before, wanted as AgentTemplate)) return unchanged(before)
      // Its agents are bounded by it from now on; a concurrent mint detects the change by `updatedAt`, which must be another.
      const now = yield* DateTime.now
      const updatedAt = DateTime.max(now, DateTime.add(before.updatedAt, { milliseconds: 1 }))
      const after = yield* repository.update({ ...wanted, updatedAt: Model.Override(updatedAt) })
      yield* authCaches.announce
      return changes.updated(agentTemplateActions.AgentTemplateUpdated, before, after)
    }, audit.change)

    const remove = Effect.fn("AgentTemplates.delete")(function* (id: AgentTemplateId) {
      const before = yield* repository.lock({ id })
      yield* requireAuthority(before.scopeCeiling)
      yield* repository.delete(id)
      return changes.deleted(agentTemplateActions.AgentTemplateDeleted, before)
    }, audit.change)

    return {
      list: Effect.fn("AgentTemplates.list")((tenantId: TenantId | undefined, page: ListRequest<AgentTemplateId>) =>
        database.asCaller(repository.list({ tenantId }, page))
      ),
      get: Effect.fn("AgentTemplates.get")((id: AgentTemplateId) => database.asCaller(repository.get(id))),
      create,
      update,
      delete: remove
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AgentTemplatesRepository.layer))
}

const changes = changesOf(AgentTemplate.json, ({ id, tenantId }) => ({ entityId: id, tenantId }))
