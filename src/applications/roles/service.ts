import { Context, DateTime, Effect, Layer, Option } from "effect"
import { Model } from "effect/schema"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { changesOf, unchanged } from "../../audit/log/change-entries.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { requireAuthority, requireBounds } from "../../kernel/authority/authority.ts"
import { type Capability, distinct, isOwn } from "../../kernel/authority/capability.ts"
import { patched } from "../../kernel/http/server-set.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { applicationManagerSlug } from "../applications/domain.ts"
import { Applications } from "../applications/service.ts"
import { builtInRoles, Role, roleActions, RoleBuiltIn, type RoleId, type RolePatch } from "./domain.ts"
import { RolesRepository } from "./repository.ts"

export class Roles extends Context.Service<Roles>()("app/applications/Roles", {
  /** Brings the built-in roles up to date before the first request. */
  make: Effect.gen(function* () {
    const applications = yield* Applications
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const repository = yield* RolesRepository
    const manager = yield* Effect.orDie(applications.getBySlug(applicationManagerSlug))

    /** Only roles of the built-in application grant capabilities of this service, so only those require authority. */
    const requireGrantable = ({ applicationId, capabilities }: Pick<Role, "applicationId" | "capabilities">) =>
      applicationId === manager.id ? requireAuthority(distinct(capabilities)) : Effect.void
    const requireAssignable = (role: Pick<Role, "applicationId" | "capabilities">) =>
      role.applicationId === manager.id
        ? Effect.andThen(requireServiceCapabilities(role.capabilities), requireGrantable(role))
        : Effect.void

    const create = Effect.fn("Roles.create")(function* (input: typeof Role.jsonCreate.Type) {
      yield* applications.lockShared(input.applicationId)
      yield* requireAssignable(input)
      const role = yield* repository.insert(
        Role.insert.make({ description: "", ...input, capabilities: distinct(input.capabilities), builtIn: false })
      )
      return changes.created(roleActions.RoleCreated, role)
    }, audit.change)

    /** Locks a role for a change, if it may be changed and the caller has all of its capabilities. */
    const lockForChange = Effect.fnUntraced(function* (id: RoleId) {
      const role = yield* repository.lock({ id })
      if (role.builtIn) return yield* new RoleBuiltIn({})
      yield* requireGrantable(role)
      return role
    })

    const update = Effect.fn("Roles.update")(function* (id: RoleId, patch: RolePatch) {
      const before = yield* lockForChange(id)
      const { applicationId } = before
      const capabilities = patch.capabilities ?? before.capabilities
      yield* requireAssignable({ applicationId, capabilities })
      if (applicationId === manager.id) yield* requireBounds({ expiresAt: null, applicationId: null })
      const wanted = patched(before, { ...patch, capabilities: distinct(capabilities) }, changeable)
      if (wanted === before) return unchanged(before)
      const after = yield* repository.update({ ...wanted, updatedAt: Model.Override(yield* DateTime.now) })
      if (applicationId === manager.id) yield* authCaches.announce
      return changes.updated(roleActions.RoleUpdated, before, after)
    }, audit.change)

    const remove = Effect.fn("Roles.delete")(function* (id: RoleId) {
      const before = yield* lockForChange(id)
      yield* repository.delete(id)
      return changes.deleted(roleActions.RoleDeleted, before)
    }, audit.change)

    /** Creates a built-in role, or gives it the capabilities that this version of the service defines. */
    const writeBuiltIn = Effect.fnUntraced(function* (role: (typeof builtInRoles)[number]) {
      const created = yield* repository.insertIfMissing(
        Role.insert.make({ ...role, applicationId: manager.id, builtIn: true })
      )
      if (Option.isSome(created)) return changes.created(roleActions.RoleCreated, created.value)
      const before = yield* Effect.orDie(repository.lock({ applicationId: manager.id, name: role.name }))
      const wanted = patched(before, role, changeable)
      if (wanted === before) return unchanged(before)
      const after = yield* repository.update({ ...wanted, updatedAt: Model.Override(yield* DateTime.now) })
      yield* authCaches.announce
      return changes.updated(roleActions.RoleUpdated, before, after)
    }, audit.change)
    yield* Effect.forEach(builtInRoles, writeBuiltIn, { discard: true }).pipe(
      asSystem,
      Effect.withSpan("Roles.writeBuiltIn")
    )

    return {
      list: withSpan("Roles.list", repository.list),
      get: withSpan("Roles.get", repository.get),
      create,
      update,
      delete: remove,
      /** Those of `ids` that are roles of `application-manager`, locked FOR SHARE until the transaction of the change ends. */
      lockServiceRoles: (ids: ReadonlyArray<RoleId>) => repository.lockShared(manager.id, ids),
      /** The first 1,000 roles of `application-manager`. */
      serviceRoles: Effect.map(repository.list({ applicationId: manager.id }, { limit: 1000 }), ({ items }) => items),
      /** The role of `application-manager` with this name. */
      getServiceRole: (name: string) => repository.getBy({ applicationId: manager.id, name })
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)
  static readonly layer = this.layerNoDeps.pipe(Layer.provide(RolesRepository.layer))
}

const changeable = ["name", "description", "capabilities"] as const
const changes = changesOf(Role.json, ({ applicationId, id }) => ({ entityId: id, applicationId }))

/** Fails as request validation does, naming every capability that this service does not have. */
const requireServiceCapabilities = (capabilities: ReadonlyArray<Capability>): Effect.Effect<void, ValidationFailed> => {
  const message = "Expected a capability of this service, such as trial-users:read"
  const errors = capabilities.flatMap((capability, index) =>
    isOwn(capability) ? [] : [{ path: ["payload", "capabilities", index], message }]
  )
  const detail = "Roles of application-manager have capabilities of this service only."
  return errors.length === 0 ? Effect.void : Effect.fail(new ValidationFailed({ errors, detail }))
}
