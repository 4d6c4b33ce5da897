import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { Model } from "effect/schema"
import { type AuditDraft, Change } from "../../audit/log/domain.ts"
import { Audit } from "../../audit/log/service.ts"
import { type Slice, slice } from "../../kernel/page.ts"
import { given } from "../../kernel/server-set.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { Settings } from "../../platform/settings/settings.ts"
import {
  type EmailTaken,
  TrialEndsBeforeStart,
  TrialUser,
  trialUserActions,
  type TrialUserId,
  type TrialUserNotFound,
  type TrialUserPatch
} from "./domain.ts"
import { TrialUsersRepository } from "./repository.ts"

/** Ends the sessions of a trial user whose trial ends; provided by the trial sessions. */
export class TrialUserSessions extends Context.Service<
  TrialUserSessions,
  {
    /** Ends every session of a user within the caller's change, and answers the entries that record it. */
    endAllOf(userId: TrialUserId): Effect.Effect<ReadonlyArray<AuditDraft>, never, Change>
  }
>()("app/trial-users/TrialUserSessions") {}

export class TrialUsers extends Context.Service<
  TrialUsers,
  {
    list(
      active: boolean | undefined,
      after: TrialUserId | undefined,
      limit: number
    ): Effect.Effect<Slice<TrialUser, TrialUserId>>
    get(id: TrialUserId): Effect.Effect<TrialUser, TrialUserNotFound>
    getByEmail(email: string): Effect.Effect<TrialUser, TrialUserNotFound>
    create(input: typeof TrialUser.jsonCreate.Type): Effect.Effect<TrialUser, EmailTaken>
    update(
      id: TrialUserId,
      patch: TrialUserPatch
    ): Effect.Effect<TrialUser, TrialUserNotFound | EmailTaken | TrialEndsBeforeStart>
    delete(id: TrialUserId): Effect.Effect<void, TrialUserNotFound>
    /** The user, locked FOR SHARE until the transaction of the change ends. */
    lockShared(id: TrialUserId): Effect.Effect<TrialUser, TrialUserNotFound, Change>
  }
>()("app/trial-users/TrialUsers") {
  static readonly layerNoDeps = Layer.effect(
    TrialUsers,
    Effect.gen(function* () {
      const audit = yield* Audit
      const repository = yield* TrialUsersRepository
      const sessions = yield* TrialUserSessions
      const { trialUsers: settings } = yield* Settings

      const list = Effect.fn("TrialUsers.list")(function* (
        active: boolean | undefined,
        after: TrialUserId | undefined,
        limit: number
      ) {
        return slice(yield* repository.list(active, after, limit + 1), limit, (user) => user.id)
      })

      const create = Effect.fn("TrialUsers.create")(function* (input: typeof TrialUser.jsonCreate.Type) {
        const now = yield* DateTime.now
        const user = yield* repository.insert(
          TrialUser.insert.make({
            ...input,
            organization: input.organization ?? null,
            isActive: true,
            emailVerified: false,
            trialStartDate: now,
            trialEndDate: DateTime.add(now, { days: settings.trialDays }),
            createdAt: Model.Override(now)
          })
        )
        return {
          value: user,
          entries: [{ action: trialUserActions.UserCreated, entityId: user.id, after: snapshot(user) }]
        }
      }, audit.change)

      const update = Effect.fn("TrialUsers.update")(function* (id: TrialUserId, patch: TrialUserPatch) {
        const before = yield* repository.lock(id, "UPDATE")
        const changes = given(patch, changeable)
        const wanted = { ...before, ...changes }
        if (changeable.every((key) => String(before[key]) === String(wanted[key])))
          return { value: before, entries: [] }
        if (DateTime.isLessThan(wanted.trialEndDate, wanted.trialStartDate)) return yield* new TrialEndsBeforeStart({})
        const after = yield* repository.update(wanted)
        const now = yield* DateTime.now
        const ended = before.isOpen(now) && !after.isOpen(now) ? yield* sessions.endAllOf(id) : []
        return {
          value: after,
          entries: [
            { action: trialUserActions.UserUpdated, entityId: id, before: snapshot(before), after: snapshot(after) },
            ...ended
          ]
        }
      }, audit.change)

      const remove = Effect.fn("TrialUsers.delete")(function* (id: TrialUserId) {
        const before = yield* repository.lock(id, "UPDATE")
        const ended = yield* sessions.endAllOf(id)
        yield* repository.delete(id)
        return {
          value: undefined,
          entries: [{ action: trialUserActions.UserDeleted, entityId: id, before: snapshot(before) }, ...ended]
        }
      }, audit.change)

      return TrialUsers.of({
        list,
        create,
        update,
        delete: remove,
        get: withSpan("TrialUsers.get", repository.get),
        getByEmail: withSpan("TrialUsers.getByEmail", repository.getByEmail),
        lockShared: (id) => Change.use(() => repository.lock(id, "SHARE"))
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(TrialUsersRepository.layer))
}

const changeable = [
  "firstName",
  "lastName",
  "email",
  "isActive",
  "emailVerified",
  "trialStartDate",
  "trialEndDate"
] as const

const snapshot = Schema.encodeSync(TrialUser.json)
