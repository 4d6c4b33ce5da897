import { Context, DateTime, Effect, Equal, Layer, Schema } from "effect"
import { Model } from "effect/schema"
import { Audit } from "../../audit/log/service.ts"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Slice, slice } from "../../kernel/page.ts"
import { given } from "../../kernel/server-set.ts"
import { numbered, slugFrom } from "../../kernel/slug.ts"
import { withSpan } from "../../kernel/with-span.ts"
import {
  Tenant,
  tenantActions,
  TenantIsDefault,
  type TenantNotFound,
  type TenantPatch,
  type TenantSlugTaken,
  type TenantStatus
} from "./domain.ts"
import { TenantsRepository } from "./repository.ts"
import { CurrentPrincipal, Forbidden } from "../../kernel/principal.ts"

export class Tenants extends Context.Service<
  Tenants,
  {
    list(
      status: TenantStatus | undefined,
      after: TenantId | undefined,
      limit: number
    ): Effect.Effect<Slice<Tenant, TenantId>>
    get(id: TenantId): Effect.Effect<Tenant, TenantNotFound>
    /** The tenant of what a system principal creates without naming one. */
    readonly defaultId: Effect.Effect<TenantId>
    /** The tenant of what the caller creates: its own, which it may not name; a system caller names one or gets the default. */
    forCreation(given: TenantId | undefined): Effect.Effect<TenantId, Forbidden>
    create(input: typeof Tenant.jsonCreate.Type): Effect.Effect<Tenant, TenantSlugTaken>
    update(id: TenantId, patch: TenantPatch): Effect.Effect<Tenant, TenantNotFound | TenantSlugTaken | TenantIsDefault>
  }
>()("app/tenants/Tenants") {
  static readonly layerNoDeps = Layer.effect(
    Tenants,
    Effect.gen(function* () {
      const audit = yield* Audit
      const authCaches = yield* AuthCacheInvalidation
      const repository = yield* TenantsRepository

      const list = Effect.fn("Tenants.list")(function* (
        status: TenantStatus | undefined,
        after: TenantId | undefined,
        limit: number
      ) {
        return slice(yield* repository.list(status, after, limit + 1), limit, (tenant) => tenant.id)
      })

      const create = Effect.fn("Tenants.create")(function* (input: typeof Tenant.jsonCreate.Type) {
        const slug = input.slug ?? slugFrom(input.name, "tenant")
        const wanted = Tenant.insert.make({ name: input.name, slug, status: "active", settings: input.settings ?? {} })
        const tenant = yield* input.slug === undefined
          ? repository.insertUnderFree(wanted, numbered(slug))
          : repository.insert(wanted)
        return {
          value: tenant,
          entries: [{ action: tenantActions.TenantCreated, entityId: tenant.id, after: snapshot(tenant) }]
        }
      }, audit.change)

      const update = Effect.fn("Tenants.update")(
        function* (id: TenantId, patch: TenantPatch) {
          const before = yield* repository.lock(id)
          const wanted = { ...before, ...given(patch, changeable) }
          if (changeable.every((key) => Equal.equals(before[key], wanted[key]))) return { value: before, entries: [] }
          if (before.isDefault() && (wanted.slug !== before.slug || wanted.status !== "active")) {
            return yield* new TenantIsDefault({})
          }
          const after = yield* repository.update({ ...wanted, updatedAt: Model.Override(yield* DateTime.now) })
          if (after.status !== before.status) yield* authCaches.announce
          return {
            value: after,
            entries: [
              { action: tenantActions.TenantUpdated, entityId: id, before: snapshot(before), after: snapshot(after) }
            ]
          }
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

      return Tenants.of({
        list,
        forCreation,
        create,
        update,
        get: withSpan("Tenants.get", repository.get),
        defaultId: repository.defaultId
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(TenantsRepository.layer))
}

const changeable = ["name", "slug", "status", "settings"] as const

const snapshot = Schema.encodeSync(Tenant.json)
