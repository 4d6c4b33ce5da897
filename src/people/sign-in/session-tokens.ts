import { Cache, Clock, Context, DateTime, Effect, Exit, Layer, Option, Redacted } from "effect"
import { Digest } from "effect/crypto"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { SessionTokenCheck, sessionTokenActions } from "../../access/credential-checks.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { type Principal } from "../../kernel/authority/principal.ts"
import { sha256Of } from "../../platform/crypto/opaque-tokens.ts"
import { Database } from "../../platform/database/database.ts"
import { makeLastUses } from "../../platform/database/last-use.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { TrialSessions } from "../../trials/sessions/service.ts"
import { signInActions } from "./domain.ts"
import { AccountSessionsRepository, type TokenOwner } from "./repository.ts"
import { AccountSessionTermination } from "./termination.ts"

/** Why a session token was refused: recorded in the audit log, never sent to the caller. */
type RefusalReason =
  | "malformed"
  | "unknown"
  | "ended"
  | "expired"
  | "idle"
  | "reused"
  | "account-suspended"
  | "tenant-suspended"

/** What a token is worth now. */
export interface Judgement {
  readonly owner: TokenOwner | undefined
  /** undefined when the token is valid. */
  readonly reason: RefusalReason | undefined
}

/** How long a token works after another took its place, for tabs that were asking at that moment. */
const overlapMillis = 10_000
/** How long ended sign-ins are kept, so that a late stolen token is still distinguished from an unknown one. */
const kept = { days: 7 } as const

/** The check of session tokens: cached for a second, emptied by any change of authority. */
export class SessionTokens extends Context.Service<SessionTokens>()("app/people/SessionTokens", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const clock = yield* Clock.Clock
    const database = yield* Database
    const digest = yield* Digest.Digest
    const termination = yield* AccountSessionTermination
    const repository = yield* AccountSessionsRepository
    const sessions = yield* TrialSessions
    const idleMillis = (yield* Settings).auth.sessionIdleSeconds * 1000

    const cache = yield* Cache.makeWith(
      (sha256Hex: string) =>
        Effect.map(
          repository.owner(new Uint8Array(Buffer.from(sha256Hex, "hex"))),
          Option.map((owner) => ({ owner, principal: principalOf(owner) }))
        ),
      // Failed lookups are not cached: the token may be valid, and the database may be available again.
      { capacity: 10_000, timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 second" : 0) }
    )
    yield* authCaches.onChange(Cache.invalidateAll(cache))

    const uses = yield* makeLastUses("sign-ins", repository.used, {
      millis: Math.min(5000, idleMillis / 4),
      stored: Effect.forEach(({ trialSessionId }) =>
        trialSessionId === null ? Effect.void : Effect.ignore(sessions.touch(trialSessionId))
      )
    })

    const purge = Effect.flatMap(DateTime.now, (now) =>
      database.transaction("all", repository.purge(DateTime.subtract(now, kept)))
    )
    yield* repeatJob("remove sign-ins that are over", "1 hour", purge)

    const reasonOf = (owner: TokenOwner, now: number): RefusalReason | undefined => {
      if (owner.isEnded) return "ended"
      const { accountExpiresAt, expiresAt } = owner
      if (Math.min(expiresAt.epochMilliseconds, accountExpiresAt?.epochMilliseconds ?? Infinity) <= now)
        return "expired"
      const lastUsedAt = Math.max(owner.lastUsedAt.epochMilliseconds, uses.last(owner.sessionId) ?? 0)
      if (lastUsedAt + idleMillis <= now) return "idle"
      if (owner.accountStatus !== "active") return "account-suspended"
      if (owner.tenantStatus !== null && owner.tenantStatus !== "active") return "tenant-suspended"
      const { replacedAt } = owner
      return replacedAt !== null && replacedAt.epochMilliseconds + overlapMillis < now ? "reused" : undefined
    }

    /** The newer token may be in the wrong hands, so the sign-in ends. */
    const endReused = Effect.fn("SessionTokens.endReused")(
      function* (owner: TokenOwner) {
        const ended = yield* termination.end(owner.sessionId)
        const { sessionId: entityId, tenantId } = owner
        const reused = { action: signInActions.SignInTokenReused, entityId, tenantId }
        return { value: undefined, entries: ended.length === 0 ? [] : [reused, ...ended] }
      },
      audit.change,
      asSystem
    )

    const look = Effect.fnUntraced(function* (token: Redacted.Redacted, isUse: boolean) {
      if (!wellFormed.test(Redacted.value(token))) return { reason: "malformed" as const, found: undefined }
      const sha256 = yield* sha256Of(digest, token)
      const found = Option.getOrUndefined(yield* Cache.get(cache, Buffer.from(sha256).toString("hex")))
      if (found === undefined) return { reason: "unknown" as const, found }
      const reason = reasonOf(found.owner, clock.currentTimeMillisUnsafe())
      if (reason !== "reused") return { reason, found }
      // A stream was opened while the token was valid, so it follows its session.
      if (!isUse) return { reason: undefined, found }
      yield* endReused(found.owner)
      return { reason, found }
    })

    return {
      /** Judges a token; one that comes back too late after its replacement ends the whole sign-in. */
      judge: (token: Redacted.Redacted) =>
        Effect.map(look(token, true), ({ found, reason }) => ({ owner: found?.owner, reason })),
      /** Like `judge`, for authentication. */
      check: (token: string, isUse: boolean) =>
        Effect.flatMap(look(Redacted.make(token), isUse), ({ found, reason }) => {
          if (found !== undefined && reason === undefined) {
            if (isUse) uses.recordAt(found.owner.sessionId, clock.currentTimeMillisUnsafe())
            return Effect.succeed(found.principal)
          }
          return Effect.fail({
            action: sessionTokenActions.SessionTokenRefused,
            target: found?.owner.sessionId ?? "no token of ours",
            reason: reason ?? "unknown",
            tenantId: found?.owner.tenantId
          })
        })
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AccountSessionsRepository.layer))
}

/** The session check of authentication. */
export const SessionTokenCheckLayer = Layer.effect(
  SessionTokenCheck,
  Effect.map(SessionTokens, ({ check }) => SessionTokenCheck.of({ check }))
)

const wellFormed = /^amt_[A-Za-z0-9_-]{43}$/

const principalOf = (owner: TokenOwner): Principal => ({
  kind: "account",
  name: `account:${owner.accountId}`,
  capabilities: owner.capabilities,
  tenantId: owner.tenantId ?? undefined,
  applicationId: owner.applicationId ?? undefined,
  expiresAt: owner.accountExpiresAt ?? undefined,
  sessionId: owner.sessionId
})
