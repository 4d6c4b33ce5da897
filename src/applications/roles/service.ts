import { Array, Context, DateTime, Effect, Equal, Layer, Schema } from "effect"
import { Model } from "effect/schema"
import { applicationManagerSlug, type ApplicationId, type ApplicationNotFound } from "../applications/domain.ts"
import { Applications } from "../applications/service.ts"
import { type Change } from "../../audit/log/domain.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { requireAuthority } from "../../kernel/authority.ts"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { type Forbidden } from "../../kernel/principal.ts"
import { type Capability, distinct, isOwn } from "../../kernel/capability.ts"
import { type Slice, slice } from "../../kernel/page.ts"
import { ValidationFailed } from "../../kernel/problems.ts"
import { given } from "../../kernel/server-set.ts"
import { withSpan } from "../../kernel/with-span.ts"
import {
  builtInRoles,
  Role,
  roleActions,
  RoleBuiltIn,
  type RoleId,
  type RoleInUse,
  type RoleNameTaken,
  RoleNotFound,
  type RolePatch
} from "./domain.ts"
import { RolesRepository } from "./repository.ts"

export class Roles extends Context.Service<
  Roles,
  {
    list(
      applicationId: ApplicationId | undefined,
      after: RoleId | undefined,
      limit: number
    ): Effect.Effect<Slice<Role, RoleId>>
    get(id: RoleId): Effect.Effect<Role, RoleNotFound>
    create(
      input: typeof Role.jsonCreate.Type
    ): Effect.Effect<Role, ApplicationNotFound | RoleNameTaken | ValidationFailed | Forbidden>
    update(
      id: RoleId,
      patch: RolePatch
    ): Effect.Effect<Role, RoleNotFound | RoleNameTaken | RoleBuiltIn | ValidationFailed | Forbidden>
    delete(id: RoleId): Effect.Effect<void, RoleNotFound | RoleBuiltIn | RoleInUse | Forbidden>
    /** Those of `ids` that are roles of `application-manager`, locked FOR SHARE until the transaction of the change ends. */
    lockServiceRoles(ids: ReadonlyArray<RoleId>): Effect.Effect<ReadonlyArray<Role>, never, Change>
    /** The role of `application-manager` with this name. */
    getServiceRole(name: string): Effect.Effect<Role, RoleNotFound>
  }
>()("app/roles/Roles") {
  /** Creates the missing built-in roles before the first request. */
  static readonly layerNoDeps = Layer.effect(
    Roles,
    Effect.gen(function* () {
      const applications = yield* Applications
      const audit = yield* Audit
      const authCaches = yield* AuthCacheInvalidation
      const repository = yield* RolesRepository
      const manager = yield* Effect.orDie(applications.getBySlug(applicationManagerSlug))

      /** Only roles of the built-in application grant capabilities of this service, so only those require authority. */
      const requireAuthorityIn = (applicationId: ApplicationId, capabilities: ReadonlyArray<Capability>) =>
        applicationId === manager.id ? requireAuthority(distinct(capabilities)) : Effect.void
      const requireOwnIn = (applicationId: ApplicationId, capabilities: ReadonlyArray<Capability>) =>
        applicationId === manager.id ? requireOwn(capabilities) : Effect.void

      const list = Effect.fn("Roles.list")(function* (
        applicationId: ApplicationId | undefined,
        after: RoleId | undefined,
        limit: number
      ) {
        return slice(yield* repository.list(applicationId, after, limit + 1), limit, (role) => role.id)
      })

      const create = Effect.fn("Roles.create")(function* (input: typeof Role.jsonCreate.Type) {
        yield* applications.lockShared(input.applicationId)
        yield* requireOwnIn(input.applicationId, input.capabilities)
        yield* requireAuthorityIn(input.applicationId, input.capabilities)
        const role = yield* repository.insert(
          Role.insert.make({
            ...input,
            description: input.description ?? "",
            capabilities: distinct(input.capabilities),
            builtIn: false
          })
        )
        return { value: role, entries: [createdEntry(role)] }
      }, audit.change)

      /** Takes a role under lock for a change, if it may be changed and the caller has all that it can do. */
      const take = Effect.fnUntraced(function* (id: RoleId) {
        const role = yield* repository.lock(id)
        if (role.builtIn) return yield* new RoleBuiltIn({})
        yield* requireAuthorityIn(role.applicationId, role.capabilities)
        return role
      })

      const update = Effect.fn("Roles.update")(function* (id: RoleId, patch: RolePatch) {
        const before = yield* take(id)
        const { capabilities = before.capabilities, ...changes } = given(patch, changeable)
        yield* requireOwnIn(before.applicationId, capabilities)
        yield* requireAuthorityIn(before.applicationId, capabilities)
        const wanted = { ...before, ...changes, capabilities: distinct(capabilities) }
        if (changeable.every((key) => Equal.equals(before[key], wanted[key]))) return { value: before, entries: [] }
        const after = yield* repository.update({ ...wanted, updatedAt: Model.Override(yield* DateTime.now) })
        if (before.applicationId === manager.id) yield* authCaches.announce
        return {
          value: after,
          entries: [
            {
              action: roleActions.RoleUpdated,
              entityId: id,
              applicationId: before.applicationId,
              before: snapshot(before),
              after: snapshot(after)
            }
          ]
        }
      }, audit.change)

      const remove = Effect.fn("Roles.delete")(function* (id: RoleId) {
        const before = yield* take(id)
        yield* repository.delete(id)
        return {
          value: undefined,
          entries: [
            {
              action: roleActions.RoleDeleted,
              entityId: id,
              applicationId: before.applicationId,
              before: snapshot(before)
            }
          ]
        }
      }, audit.change)

      const makeBuiltIn = Effect.fnUntraced(function* (role: (typeof builtInRoles)[number]) {
        const made = yield* repository.insertIfMissing(
          Role.insert.make({ ...role, applicationId: manager.id, builtIn: true })
        )
        return { value: undefined, entries: Array.fromOption(made).map(createdEntry) }
      }, audit.change)
      yield* Effect.forEach(builtInRoles, makeBuiltIn, { discard: true }).pipe(
        asSystem,
        Effect.withSpan("Roles.makeBuiltIn")
      )

      const getServiceRole = Effect.fn("Roles.getServiceRole")(function* (name: string) {
        const role = yield* repository.findNamed(manager.id, name)
        return yield* Effect.fromOption(role).pipe(Effect.mapError(() => new RoleNotFound({})))
      })

      return Roles.of({
        list,
        create,
        update,
        delete: remove,
        get: withSpan("Roles.get", repository.get),
        lockServiceRoles: Effect.fn("Roles.lockServiceRoles")((ids) => repository.lockShared(manager.id, ids)),
        getServiceRole
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(RolesRepository.layer))
}

const changeable = ["name", "description", "capabilities"] as const

const snapshot = Schema.encodeSync(Role.json)

const createdEntry = (role: Role) => ({
  action: roleActions.RoleCreated,
  entityId: role.id,
  applicationId: role.applicationId,
  after: snapshot(role)
})

/** Fails as the reading of a request does, naming every capability that is none of this service. */
const requireOwn = (capabilities: ReadonlyArray<Capability>): Effect.Effect<void, ValidationFailed> => {
  const errors = capabilities.flatMap((capability, index) =>
    isOwn(capability)
      ? []
      : [
          {
            path: ["payload", "capabilities", index],
            message: "Expected a capability of this service, such as trial-users:read"
          }
        ]
  )
  return errors.length === 0
    ? Effect.void
    : Effect.fail(
        new ValidationFailed({
          errors,
          detail: "Roles of application-manager have capabilities of this service only."
        })
      )
}
