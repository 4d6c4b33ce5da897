import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { Audit } from "../../audit/log/service.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { type TrialUserId } from "../users/domain.ts"
import { TrialUsers } from "../users/service.ts"
import {
  type NewSession,
  Session,
  sessionActions,
  type SessionId,
  SessionInactive,
  TrialUserInactive
} from "./domain.ts"
import { SessionsRepository } from "./repository.ts"
import { ended } from "./termination.ts"

export class TrialSessions extends Context.Service<TrialSessions>()("app/trials/TrialSessions", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const repository = yield* SessionsRepository
    const trialUsers = yield* TrialUsers

    const list = Effect.fn("TrialSessions.list")(function* (
      filter: { readonly userId: TrialUserId | undefined; readonly active: boolean | undefined },
      page: ListRequest<SessionId>
    ) {
      return yield* repository.list(filter, page)
    })

    const open = Effect.fnUntraced(function* (input: NewSession, isSignIn: boolean) {
      const user = yield* trialUsers.lockShared(input.trialUserId)
      const now = yield* DateTime.now
      if (!user.isOpen(now)) return yield* new TrialUserInactive({})
      const session = yield* repository.insert(
        Session.insert.make({ ...input, startedAt: now, lastActivityAt: now, isActive: true, isSignIn })
      )
      return {
        value: session,
        entries: [{ action: sessionActions.SessionStarted, entityId: session.id, after: snapshot(session) }]
      }
    }, audit.change)

    const touch = Effect.fn("TrialSessions.touch")(function* (id: SessionId) {
      const touched = yield* repository.touch(id, DateTime.toDateUtc(yield* DateTime.now))
      if (touched) return
      yield* repository.get(id)
      return yield* new SessionInactive({})
    })

    const end = Effect.fn("TrialSessions.end")(function* (id: SessionId) {
      const session = yield* repository.end(id)
      if (Option.isNone(session)) yield* repository.get(id)
      else if (session.value.isSignIn) yield* authCaches.announce
      return {
        value: undefined,
        entries: Option.toArray(Option.map(session, ended(sessionActions.SessionEnded)))
      }
    }, audit.change)

    const create = Effect.fn("TrialSessions.create")((input: NewSession) => open(input, false))
    const openSignIn = Effect.fn("TrialSessions.openSignIn")((input: NewSession) => open(input, true))

    return {
      list,
      create,
      /** Like `create`, for an account that signs in: when the session ends, it is signed out. */
      openSignIn,
      touch,
      end,
      get: withSpan("TrialSessions.get", repository.get)
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(SessionsRepository.layer))
}

const snapshot = Schema.encodeSync(Session.json)
