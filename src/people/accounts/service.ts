import { Context, DateTime, Effect, Equal, Layer, Schema, Struct } from "effect"
import { type RoleId } from "../../applications/roles/domain.ts"
import { Roles } from "../../applications/roles/service.ts"
import { type AuditDraft, type Change } from "../../audit/log/domain.ts"
import { Audit } from "../../audit/log/service.ts"
import { callerBounds, onlyStops, requireAuthority, requireBounds } from "../../kernel/authority/authority.ts"
import { distinct, missing } from "../../kernel/authority/capability.ts"
import { CurrentPrincipal, Forbidden, type Principal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { given } from "../../kernel/http/server-set.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Database, scopeOf } from "../../platform/database/database.ts"
import { type TrialUserId } from "../../trials/users/domain.ts"
import { TrialUsers } from "../../trials/users/service.ts"
import {
  accountActions,
  type AccountCreation,
  type AccountId,
  AccountIsCaller,
  type AccountPatch,
  AccountView,
  type AssignableRole
} from "./domain.ts"
import { InvitationRepository } from "./invitation-repository.ts"
import { Passwords } from "./passwords.ts"
import { type Account, AccountsRepository, toResponse } from "./repository.ts"

/** Ends the sign-ins of an account when it is changed or deleted; provided by sign-in. */
export class AccountSessions extends Context.Service<
  AccountSessions,
  {
    /** Ends every sign-in of an account within the caller's change, and answers the entries that record it. */
    endAllOf(accountId: AccountId): Effect.Effect<ReadonlyArray<AuditDraft>, never, Change>
  }
>()("app/people/AccountSessions") {}

export class Accounts extends Context.Service<Accounts>()("app/people/Accounts", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const accountSessions = yield* AccountSessions
    const invitations = yield* InvitationRepository
    const passwords = yield* Passwords
    const repository = yield* AccountsRepository
    const roles = yield* Roles
    const trialUsers = yield* TrialUsers

    /** Holds the roles as they are, if the caller may give all that they do. */
    const requireRoles = Effect.fnUntraced(function* (ids: ReadonlyArray<RoleId>) {
      const held = yield* roles.lockServiceRoles(ids)
      const errors = ids.flatMap((id, index) =>
        held.some((role) => role.id === id)
          ? []
          : [
              {
                path: ["payload", "roleIds", index],
                message: "Expected a role of the application application-manager"
              }
            ]
      )
      if (errors.length > 0) {
        return yield* new ValidationFailed({ errors, detail: "An account has roles of application-manager only." })
      }
      yield* requireAuthority(distinct(held.flatMap((role) => role.capabilities)))
    })

    const requireTrialUser = Effect.fnUntraced(function* (principal: Principal, id: TrialUserId | null) {
      if (id === null) return
      if (principal.tenantId !== undefined) {
        return yield* new Forbidden({
          missing: [],
          detail: "Trial users belong to the installation, not to a tenant."
        })
      }
      yield* trialUsers.lockShared(id)
    })

    const assignableRoles = Effect.fn("Accounts.assignableRoles")(function* () {
      const { capabilities } = yield* CurrentPrincipal
      const all = yield* roles.serviceRoles
      return all
        .filter((role) => missing(capabilities, role.capabilities).length === 0)
        .map((role): AssignableRole => Struct.pick(role, ["id", "name", "description"]))
    })

    const list = Effect.fn("Accounts.list")(function* (
      filter: { readonly tenantId?: TenantId | undefined },
      page: ListRequest<AccountId>
    ) {
      const { items, nextCursor } = yield* database.asCaller(repository.list(filter, page))
      return { items: items.map(toResponse), nextCursor }
    })

    const get = Effect.fn("Accounts.get")(function* (id: AccountId) {
      const principal = yield* CurrentPrincipal
      return toResponse(yield* database.read(scopeOf(principal), repository.get(id)))
    })

    const insert = Effect.fnUntraced(function* (
      input: Omit<AccountCreation, "password">,
      tenantId: TenantId | null,
      passwordHash: string | null
    ) {
      const principal = yield* CurrentPrincipal
      const trialUserId = input.trialUserId ?? null
      yield* requireRoles(input.roleIds)
      yield* requireTrialUser(principal, trialUserId)
      const { email, name } = input
      const account = yield* repository.insert({
        email,
        name,
        passwordHash,
        tenantId,
        trialUserId,
        roleIds: sorted(input.roleIds),
        ...(yield* callerBounds),
        status: "active",
        createdAt: yield* DateTime.now,
        createdBy: principal.name
      })
      const view = toResponse(account)
      return {
        value: view,
        entries: [{ action: accountActions.AccountCreated, entityId: view.id, tenantId, after: snapshot(view) }]
      }
    }, audit.change)

    /** The tenant of a new account. */
    const tenantOf = Effect.fnUntraced(function* (asked: TenantId | null | undefined) {
      const principal = yield* CurrentPrincipal
      const tenantId = asked === undefined ? (principal.tenantId ?? null) : asked
      if (principal.tenantId !== undefined && tenantId !== principal.tenantId) {
        return yield* new Forbidden({
          missing: [],
          detail: "A tenant's caller makes accounts of its own tenant only."
        })
      }
      return tenantId
    })

    const create = Effect.fn("Accounts.create")(function* (input: AccountCreation) {
      const tenantId = yield* tenantOf(input.tenantId)
      // Slow, and so before the transaction and its connection.
      const passwordHash = yield* passwords.hash(input.password, [input.email, input.name])
      return yield* insert(input, tenantId, passwordHash)
    })

    /** Takes an account under lock for a change, if the caller has all that it can do. */
    const take = Effect.fnUntraced(function* (id: AccountId) {
      const account = yield* repository.lock(id)
      const held = yield* roles.lockServiceRoles(account.roleIds)
      yield* requireAuthority(distinct(held.flatMap((role) => role.capabilities)))
      return account
    })

    /** The same of an account that the caller is to get into the hands of another. */
    const takeToInvite = Effect.fnUntraced(function* (id: AccountId) {
      const principal = yield* CurrentPrincipal
      const account = yield* take(id)
      yield* requireBounds(account)
      if (principal.name === `account:${id}`) return yield* new AccountIsCaller({})
      yield* repository.heldBy(id, principal.name)
      return toResponse(account)
    })

    const change = Effect.fnUntraced(function* (id: AccountId, patch: AccountPatch, passwordHash: string | undefined) {
      const principal = yield* CurrentPrincipal
      const before = yield* take(id)
      if (!onlyStops(patch)) yield* requireBounds(before)
      const roleIds = patch.roleIds === undefined ? before.roleIds : sorted(patch.roleIds)
      const isSelf = principal.name === `account:${id}`
      const isStopped = patch.status === "suspended" && before.status !== "suspended"
      if (isSelf && (isStopped || passwordHash !== undefined)) return yield* new AccountIsCaller({})
      if (patch.roleIds !== undefined) yield* requireRoles(patch.roleIds)
      if (patch.trialUserId !== undefined && patch.trialUserId !== before.trialUserId) {
        yield* requireTrialUser(principal, patch.trialUserId)
      }
      const email = patch.email ?? before.email
      // A link may be in other hands than those of the new address, and is not needed beside a new password.
      const endsInvitation = passwordHash !== undefined || email !== before.email
      const wanted: Account = {
        ...before,
        ...given(patch, plain),
        roleIds,
        passwordHash: passwordHash ?? before.passwordHash
      }
      const isSame = changeable.every((member) => Equal.equals(before[member], wanted[member]))
      if (isSame && passwordHash === undefined) return { value: toResponse(before), entries: [] }
      if (endsInvitation) yield* invitations.end(id)
      const after = yield* repository.update(wanted)
      if (passwordHash !== undefined) yield* repository.heldBy(id, principal.name)
      // An account with other capabilities or another e-mail address has to sign in again.
      const isOther =
        isStopped ||
        passwordHash !== undefined ||
        before.email !== after.email ||
        !Equal.equals(before.roleIds, after.roleIds) ||
        before.trialUserId !== after.trialUserId
      const ended = isOther ? yield* accountSessions.endAllOf(id) : []
      const tenantId = before.tenantId
      const views = { before: snapshot(toResponse(before)), after: snapshot(toResponse(after)) }
      const updated = { action: accountActions.AccountUpdated, entityId: id, tenantId, ...views }
      const reset = { action: accountActions.AccountPasswordChanged, entityId: id, tenantId }
      return {
        value: toResponse(after),
        entries: [...(isSame ? [] : [updated]), ...(passwordHash === undefined ? [] : [reset]), ...ended]
      }
    }, audit.change)

    const update = Effect.fn("Accounts.update")(function* (id: AccountId, patch: AccountPatch) {
      if (patch.password === undefined) return yield* change(id, patch, undefined)
      const before = yield* get(id)
      const about = [patch.email ?? before.email, patch.name ?? before.name]
      return yield* change(id, patch, yield* passwords.hash(patch.password, about))
    })

    const remove = Effect.fn("Accounts.delete")(function* (id: AccountId) {
      const principal = yield* CurrentPrincipal
      const before = yield* take(id)
      if (principal.name === `account:${id}`) return yield* new AccountIsCaller({})
      const ended = yield* accountSessions.endAllOf(id)
      yield* repository.delete(id)
      return {
        value: undefined,
        entries: [
          {
            action: accountActions.AccountDeleted,
            entityId: id,
            tenantId: before.tenantId,
            before: snapshot(toResponse(before))
          },
          ...ended
        ]
      }
    }, audit.change)

    return {
      assignableRoles,
      list,
      get,
      create,
      /** For a person who signs in with an identity provider. */
      createWithoutPassword: (input: Omit<AccountCreation, "password">, tenantId: TenantId | null) =>
        insert(input, tenantId, null),
      /** For a person who is invited. */
      createInvited: (input: Omit<AccountCreation, "password">) =>
        Effect.flatMap(tenantOf(input.tenantId), (tenantId) => insert(input, tenantId, null)),
      take,
      takeToInvite,
      update,
      delete: remove
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.merge(AccountsRepository.layer, InvitationRepository.layer))
  )
}

const plain = ["email", "name", "trialUserId", "status"] as const
const changeable = [...plain, "roleIds"] as const

const snapshot = Schema.encodeSync(AccountView)

const sorted = (ids: ReadonlyArray<RoleId>): ReadonlyArray<RoleId> => ids.toSorted((a, b) => a - b)
