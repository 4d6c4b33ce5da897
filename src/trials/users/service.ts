import { Context, DateTime, Effect, Layer } from "effect"
import { Model } from "effect/schema"
import { changesOf, unchanged } from "../../audit/log/change-entries.ts"
import { type AuditDraft, type Change } from "../../audit/log/domain.ts"
import { Audit } from "../../audit/log/service.ts"
import { emailKey } from "../../kernel/email.ts"
import { patched } from "../../kernel/http/server-set.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { TrialEndsBeforeStart, TrialUser, trialUserActions, type TrialUserId, type TrialUserPatch } from "./domain.ts"
import { TrialUsersRepository } from "./repository.ts"

/** Ends the sessions of a trial user whose trial ends; provided by the trial sessions. */
export class TrialUserSessions extends Context.Service<
  TrialUserSessions,
  {
    /** Ends every session of a user within the caller's change, and answers the entries that record it. */
    endAllOf(userId: TrialUserId): Effect.Effect<ReadonlyArray<AuditDraft>, never, Change>
  }
>()("app/trials/TrialUserSessions") {}

export class TrialUsers extends Context.Service<TrialUsers>()("app/trials/TrialUsers", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const repository = yield* TrialUsersRepository
    const sessions = yield* TrialUserSessions
    const { trialUsers: settings } = yield* Settings

    const create = Effect.fn("TrialUsers.create")(function* (input: typeof TrialUser.jsonCreate.Type) {
      const now = yield* DateTime.now
      const user = yield* repository.insert(
        TrialUser.insert.make({
          ...input,
          emailKey: emailKey(input.email),
          organization: input.organization ?? null,
          isActive: true,
          emailVerified: false,
          trialStartDate: now,
          trialEndDate: DateTime.add(now, { days: settings.trialDays }),
          createdAt: Model.Override(now)
        })
      )
      return changes.created(trialUserActions.UserCreated, user)
    }, audit.change)

    const update = Effect.fn("TrialUsers.update")(function* (id: TrialUserId, patch: TrialUserPatch) {
      const before = yield* repository.lock({ id })
      const wanted = patched(before, patch, changeable)
      if (wanted === before) return unchanged(before)
      if (DateTime.isLessThan(wanted.trialEndDate, wanted.trialStartDate)) return yield* new TrialEndsBeforeStart({})
      const after = yield* repository.update({ ...wanted, emailKey: emailKey(wanted.email) })
      const now = yield* DateTime.now
      const ended = before.isOpen(now) && !after.isOpen(now) ? yield* sessions.endAllOf(id) : []
      return changes.updated(trialUserActions.UserUpdated, before, after, ended)
    }, audit.change)

    const remove = Effect.fn("TrialUsers.delete")(function* (id: TrialUserId) {
      const before = yield* repository.lock({ id })
      const ended = yield* sessions.endAllOf(id)
      yield* repository.delete(id)
      return changes.deleted(trialUserActions.UserDeleted, before, ended)
    }, audit.change)

    return {
      list: withSpan("TrialUsers.list", repository.list),
      create,
      update,
      delete: remove,
      get: withSpan("TrialUsers.get", repository.get),
      getByEmail: withSpan("TrialUsers.getByEmail", repository.getByEmail),
      /** The user, locked FOR SHARE until the transaction of the change ends. */
      lockShared: (id: TrialUserId) => repository.lock({ id }, "SHARE")
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

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

const changes = changesOf(TrialUser.json, ({ id }) => ({ entityId: id }))
