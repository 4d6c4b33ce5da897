import { Array, Context, DateTime, Effect, Layer, Option } from "effect"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { type AuditDraft } from "../../audit/log/domain.ts"
import { TrialSessions } from "../../trials/sessions/service.ts"
import { type AccountId } from "../accounts/domain.ts"
import { AccountSessions } from "../accounts/service.ts"
import { type AccountSessionId, signInActions } from "./domain.ts"
import { AccountSessionsRepository, type EndedSession } from "./repository.ts"

/**
 * How sign-ins end, each within the caller's change: on this replica before its answer, on the others within a second.
 * They answer the entries that record it.
 */
export class AccountSessionTermination extends Context.Service<AccountSessionTermination>()(
  "app/people/AccountSessionTermination",
  {
    make: Effect.gen(function* () {
      const authCaches = yield* AuthCacheInvalidation
      const repository = yield* AccountSessionsRepository
      const sessions = yield* TrialSessions

      const follow = Effect.fnUntraced(function* (ended: ReadonlyArray<EndedSession>) {
        // Also where no sign-in is left: what the account may do has changed.
        yield* authCaches.announce
        for (const { trialSessionId } of ended) {
          // It may be gone already, and then there is nothing to end.
          if (trialSessionId !== null) yield* Effect.ignore(sessions.end(trialSessionId))
        }
        return Array.map(ended, ({ id, tenantId }): AuditDraft => ({
          action: signInActions.SignedOut,
          entityId: id,
          tenantId
        }))
      })

      return {
        end: Effect.fn("AccountSessionTermination.end")(function* (id: AccountSessionId) {
          return yield* follow(Option.toArray(yield* repository.end(id, yield* DateTime.now)))
        }),
        endAllOf: Effect.fn("AccountSessionTermination.endAllOf")(function* (
          accountId: AccountId,
          kept?: AccountSessionId
        ) {
          return yield* follow(yield* repository.endAllOf(accountId, kept, yield* DateTime.now))
        })
      }
    })
  }
) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = Layer.effect(
    AccountSessions,
    Effect.map(AccountSessionTermination, ({ endAllOf }) => AccountSessions.of({ endAllOf: (id) => endAllOf(id) }))
  ).pipe(Layer.provideMerge(this.layerNoDeps), Layer.provide(AccountSessionsRepository.layer))
}
