import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { type AuditDraft } from "../../audit/log/domain.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { type AuditAction } from "../../kernel/authority/audit-action.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type TrialUserId } from "../users/domain.ts"
import { TrialUserSessions } from "../users/service.ts"
import { Session, sessionActions } from "./domain.ts"
import { SessionsRepository } from "./repository.ts"

/** Ends sessions without a request to do so: together with their user, or after inactivity. */
export class TrialSessionTermination extends Context.Service<TrialSessionTermination>()(
  "app/trials/TrialSessionTermination",
  {
    make: Effect.gen(function* () {
      const audit = yield* Audit
      const authCaches = yield* AuthCacheInvalidation
      const repository = yield* SessionsRepository
      const { sessions: settings } = yield* Settings

      const endAllOf = Effect.fn("TrialSessionTermination.endAllOf")(function* (userId: TrialUserId) {
        const sessions = yield* repository.endAllOf(userId)
        if (sessions.some(({ isSignIn }) => isSignIn)) yield* authCaches.announce
        return sessions.map(ended(sessionActions.SessionEnded))
      })

      const endBatch = Effect.gen(function* () {
        const now = yield* DateTime.now
        const idleSince = DateTime.subtract(now, { seconds: settings.idleTimeoutSeconds })
        const sessions = yield* repository.endIdle(DateTime.toDateUtc(idleSince), 500)
        if (sessions.some(({ isSignIn }) => isSignIn)) yield* authCaches.announce
        return { value: sessions.length, entries: sessions.map(ended(sessionActions.SessionExpired)) }
      }).pipe(audit.change, asSystem)

      const endIdle = Effect.gen(function* () {
        let total = 0
        let count = 0
        do {
          count = yield* endBatch
          total += count
        } while (count > 0)
        return total
      }).pipe(Effect.withSpan("TrialSessionTermination.endIdle"))

      yield* repeatJob("end idle sessions", "15 seconds", endIdle)

      return {
        /** Ends every session of a user within the caller's change, and answers the entries that record it. */
        endAllOf,
        /** Ends the sessions that have been idle for too long; answers how many. */
        endIdle
      }
    })
  }
) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = Layer.effect(
    TrialUserSessions,
    Effect.map(TrialSessionTermination, ({ endAllOf }) => TrialUserSessions.of({ endAllOf }))
  ).pipe(Layer.provideMerge(this.layerNoDeps), Layer.provide(SessionsRepository.layer))
}

const snapshot = Schema.encodeSync(Session.json)

/** The entry of a session that ended. */
export const ended =
  (action: AuditAction) =>
  (session: Session): AuditDraft => ({
    action,
    entityId: session.id,
    before: { ...snapshot(session), isActive: true },
    after: snapshot(session)
  })
