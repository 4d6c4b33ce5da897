import { Context, DateTime, Effect, Layer, Redacted } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { sessionCookie, setSessionCookie } from "../../access/session-cookie.ts"
import { generate, sha256Of } from "../../platform/crypto/opaque-tokens.ts"
import { CurrentRequest } from "../../platform/http/request.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { TrialSessions } from "../../trials/sessions/service.ts"
import { type TrialUserId } from "../../trials/users/domain.ts"
import { type AccountView } from "../accounts/domain.ts"
import { type SignedIn } from "./domain.ts"
import { AccountSessionsRepository, type NewSession, type StoredSession } from "./repository.ts"

/** A sign-in as it is answered: the body, and the cookie that goes with it. */
export interface Issued {
  readonly signedIn: SignedIn
  readonly cookie: string
}

/** Sign-ins and their tokens as they are given out. */
export class SessionIssuer extends Context.Service<SessionIssuer>()("app/people/SessionIssuer", {
  make: Effect.gen(function* () {
    const digest = yield* Digest.Digest
    const random = yield* SecureRandom.SecureRandom
    const repository = yield* AccountSessionsRepository
    const sessions = yield* TrialSessions
    const settings = yield* Settings
    const cookie = sessionCookie(settings)
    const { sessionIdleSeconds, sessionLifetimeSeconds } = settings.auth

    const issue = Effect.fn("SessionIssuer.issue")(function* (
      session: StoredSession,
      account: AccountView,
      given?: Redacted.Redacted
    ) {
      const now = yield* DateTime.now
      const token = given ?? (yield* generate(random, "amt"))
      const { expiresAt: end, id: sessionId, tenantId } = session
      yield* repository.insertToken({ sha256: yield* sha256Of(digest, token), sessionId, tenantId }, now)
      const seconds = Math.max(0, Math.ceil((end.epochMilliseconds - now.epochMilliseconds) / 1000))
      return {
        signedIn: {
          token,
          tokenType: "Session" as const,
          expiresAt: DateTime.min(DateTime.add(now, { seconds: sessionIdleSeconds }), end),
          account
        },
        cookie: setSessionCookie(cookie, Redacted.value(token), seconds)
      }
    })

    const openTrialSession = Effect.fnUntraced(function* (trialUserId: TrialUserId, ipAddress: string | null) {
      const session = yield* Effect.mapError(
        sessions.openSignIn({ trialUserId, ipAddress: ipAddress ?? "0.0.0.0" }),
        () => "trial-closed" as const
      )
      return session.id
    })

    const begin = Effect.fn("SessionIssuer.begin")(function* (account: AccountView) {
      const request = yield* CurrentRequest
      const now = yield* DateTime.now
      const ipAddress = request?.ipAddress ?? null
      const latest = DateTime.add(now, { seconds: sessionLifetimeSeconds })
      const session: NewSession = {
        accountId: account.id,
        tenantId: account.tenantId,
        rotationSecret: yield* random.randomBytes(32),
        ipAddress,
        userAgent: request?.userAgent?.slice(0, 512) ?? null,
        trialSessionId: account.trialUserId === null ? null : yield* openTrialSession(account.trialUserId, ipAddress),
        createdAt: now,
        lastUsedAt: now,
        expiresAt: account.expiresAt === null ? latest : DateTime.min(latest, account.expiresAt)
      }
      const id = yield* repository.insert(session)
      return { ...(yield* issue({ ...session, id }, account)), id }
    })

    return {
      cookie,
      /** Begins a sign-in of an account, and with it the interface session of its trial user; fails when that may have none. */
      begin,
      /** Gives a sign-in a token; a random one unless it is given. */
      issue
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AccountSessionsRepository.layer))
}
