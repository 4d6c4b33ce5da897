import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { Model } from "effect/schema"
import { Audit } from "../../audit/log/service.ts"
import { requireAuthority } from "../../kernel/authority.ts"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { CurrentPrincipal, type Forbidden } from "../../kernel/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Slice, slice } from "../../kernel/page.ts"
import { Database, scopeOf } from "../../platform/database/database.ts"
import { type TenantNotFound } from "../tenants/domain.ts"
import { type AgentLimitsInvalid, limitsFrom, noLimitsGiven, validateLimits } from "./limits-domain.ts"
import {
  AgentTemplate,
  agentTemplateActions,
  type AgentTemplateCreation,
  type AgentTemplateId,
  type AgentTemplateInUse,
  type AgentTemplateNameTaken,
  type AgentTemplateNotFound,
  type AgentTemplatePatch
} from "./domain.ts"
import { AgentTemplatesRepository } from "./repository.ts"
import { Tenants } from "../tenants/service.ts"

export class AgentTemplates extends Context.Service<
  AgentTemplates,
  {
    list(
      tenantId: TenantId | undefined,
      after: AgentTemplateId | undefined,
      limit: number
    ): Effect.Effect<Slice<AgentTemplate, AgentTemplateId>>
    get(id: AgentTemplateId): Effect.Effect<AgentTemplate, AgentTemplateNotFound>
    create(
      input: AgentTemplateCreation
    ): Effect.Effect<AgentTemplate, Forbidden | TenantNotFound | AgentTemplateNameTaken | AgentLimitsInvalid>
    update(
      id: AgentTemplateId,
      patch: AgentTemplatePatch
    ): Effect.Effect<AgentTemplate, Forbidden | AgentTemplateNotFound | AgentTemplateNameTaken | AgentLimitsInvalid>
    delete(id: AgentTemplateId): Effect.Effect<void, Forbidden | AgentTemplateNotFound | AgentTemplateInUse>
  }
>()("app/agents/AgentTemplates") {
  static readonly layerNoDeps = Layer.effect(
    AgentTemplates,
    Effect.gen(function* () {
      const audit = yield* Audit
      const authCaches = yield* AuthCacheInvalidation
      const database = yield* Database
      const repository = yield* AgentTemplatesRepository
      const tenants = yield* Tenants

      const list = Effect.fn("AgentTemplates.list")(function* (
        tenantId: TenantId | undefined,
        after: AgentTemplateId | undefined,
        limit: number
      ) {
        const scope = scopeOf(yield* CurrentPrincipal)
        const rows = yield* database.transaction(scope, repository.list(tenantId, after, limit + 1))
        return slice(rows, limit, (template) => template.id)
      })

      const get = Effect.fn("AgentTemplates.get")(function* (id: AgentTemplateId) {
        return yield* database.transaction(scopeOf(yield* CurrentPrincipal), repository.get(id))
      })

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
        const after = snapshot(template)
        return {
          value: template,
          entries: [{ action: agentTemplateActions.AgentTemplateCreated, entityId: template.id, tenantId, after }]
        }
      }, audit.change)

      const update = Effect.fn("AgentTemplates.update")(function* (id: AgentTemplateId, patch: AgentTemplatePatch) {
        const before = yield* repository.lock(id)
        const limits = limitsFrom(patch, before)
        yield* validateLimits(limits)
        yield* requireAuthority([...before.scopeCeiling, ...limits.scopeCeiling])
        const wanted = {
          ...before,
          ...limits,
          name: patch.name ?? before.name,
          description: patch.description ?? before.description
        }
        if (JSON.stringify(snapshot(before)) === JSON.stringify(snapshot(wanted))) return { value: before, entries: [] }
        // Its agents are bounded by it from now on; a concurrent mint detects the change by `updatedAt`.
        const now = yield* DateTime.now
        const updatedAt = DateTime.max(now, DateTime.add(before.updatedAt, { milliseconds: 1 }))
        const after = yield* repository.update({ ...wanted, updatedAt: Model.Override(updatedAt) })
        yield* authCaches.announce
        return {
          value: after,
          entries: [
            {
              action: agentTemplateActions.AgentTemplateUpdated,
              entityId: id,
              tenantId: before.tenantId,
              before: snapshot(before),
              after: snapshot(after)
            }
          ]
        }
      }, audit.change)

      const remove = Effect.fn("AgentTemplates.delete")(function* (id: AgentTemplateId) {
        const before = yield* repository.lock(id)
        yield* requireAuthority(before.scopeCeiling)
        yield* repository.delete(id)
        return {
          value: undefined,
          entries: [
            {
              action: agentTemplateActions.AgentTemplateDeleted,
              entityId: id,
              tenantId: before.tenantId,
              before: snapshot(before)
            }
          ]
        }
      }, audit.change)

      return AgentTemplates.of({ list, get, create, update, delete: remove })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AgentTemplatesRepository.layer))
}

const snapshot = Schema.encodeSync(AgentTemplate.json)
