import { Context, DateTime, Effect, Layer } from "effect"
import { Model } from "effect/schema"
import { AuthCacheInvalidation } from "../access/auth-cache-invalidation.ts"
import { changesOf, unchanged } from "../audit/log/change-entries.ts"
import { Audit } from "../audit/log/service.ts"
import { CurrentPrincipal, Forbidden } from "../kernel/authority/principal.ts"
import { patched } from "../kernel/http/server-set.ts"
import { type TenantId } from "../kernel/identifier.ts"
import { numbered, slugFrom } from "../kernel/slug.ts"
import { withSpan } from "../kernel/with-span.ts"
import { Tenant, tenantActions, TenantIsDefault, type TenantPatch } from "./domain.ts"
import { TenantsRepository } from "./repository.ts"

export class Tenants extends Context.Service<Tenants>()("app/tenants/Tenants", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const repository = yield* TenantsRepository

    const create = Effect.fn("Tenants.create")(function* (input: typeof Tenant.jsonCreate.Type) {
      const slug = input.slug ?? slugFrom(input.name, "tenant")
      const wanted = Tenant.insert.make({ name: input.name, slug, status: "active", settings: input.settings ?? {} })
      const tenant = yield* input.slug === undefined
        ? repository.insertUnderFree(wanted, numbered(slug))
        : repository.insert(wanted)
      return changes.created(tenantActions.TenantCreated, tenant)
    }, audit.change)

    const update = Effect.fn("Tenants.update")(
      function* (id: TenantId, patch: TenantPatch) {
        const before = yield* repository.lock({ id })
        const wanted = patched(before, patch, ["name", "slug", "status", "settings"])
        if (wanted === before) return unchanged(before)
        if (before.isDefault() && (wanted.slug !== before.slug || wanted.status !== "active")) {
          return yield* new TenantIsDefault({})
        }
        const after = yield* repository.update({ ...wanted, updatedAt: Model.Override(yield* DateTime.now) })
        if (after.status !== before.status) yield* authCaches.announce
        return changes.updated(tenantActions.TenantUpdated, before, after)
      },
      audit.change,
      Effect.tap(authCaches.clear)
    )

    const forCreation = Effect.fnUntraced(function* (given: TenantId | undefined) {
      const { tenantId } = yield* CurrentPrincipal
      if (tenantId === undefined) return given ?? (yield* repository.defaultId)
      return given === undefined
        ? tenantId
        : yield* new Forbidden({ missing: [], detail: "Only system callers name a tenant." })
    })

    return {
      list: withSpan("Tenants.list", repository.list),
      get: withSpan("Tenants.get", repository.get),
      create,
      update,
      /** The tenant of what a system principal creates without naming one. */
      defaultId: repository.defaultId,
      /** The tenant of what the caller creates: its own, which it may not name; a system caller names one or gets the default. */
      forCreation
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)
  static readonly layer = this.layerNoDeps.pipe(Layer.provide(TenantsRepository.layer))
}

const changes = changesOf(Tenant.json, ({ id }) => ({ entityId: id }))
