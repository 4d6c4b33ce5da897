import { Context, DateTime, Effect, Layer, Option, Redacted } from "effect"
import { Digest } from "effect/crypto"
import { type HttpServerRequest } from "effect/http"
import { bearerToken } from "../../access/authorization-header.ts"
import { RateLimits } from "../../access/rate-limits.ts"
import { Rejections } from "../../access/rejections.ts"
import { isFromAnotherSite, setSessionCookie, tokenInCookies } from "../../access/session-cookie.ts"
import { Audit, type Refusal } from "../../audit/log/service.ts"
import { CurrentPrincipal, Forbidden, type Principal, Unauthenticated } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { sha256Of, successor } from "../../platform/crypto/opaque-tokens.ts"
import { CurrentRequest } from "../../platform/http/request.ts"
import { type AccountId } from "../accounts/domain.ts"
import { Passwords } from "../accounts/passwords.ts"
import { type SignInCandidate } from "../accounts/repository.ts"
import { Accounts } from "../accounts/service.ts"
import { SignInAccounts } from "../accounts/sign-in-accounts.ts"
import { LoginThrottle, pause } from "../login-throttle/service.ts"
import { type AccountSessionId, type Login, signInActions } from "./domain.ts"
import { AccountSessionsRepository } from "./repository.ts"
import { SessionIssuer } from "./session-issuer.ts"
import { SessionTokens } from "./session-tokens.ts"
import { AccountSessionTermination } from "./termination.ts"

type Request = HttpServerRequest.HttpServerRequest

/** Sign-in, refresh and sign-out of accounts. */
export class SignIn extends Context.Service<SignIn>()("app/people/SignIn", {
  make: Effect.gen(function* () {
    const accounts = yield* Accounts
    const signInAccounts = yield* SignInAccounts
    const audit = yield* Audit
    const sessions = yield* SessionTokens
    const loginThrottle = yield* LoginThrottle
    const digest = yield* Digest.Digest
    const termination = yield* AccountSessionTermination
    const issuer = yield* SessionIssuer
    const limits = yield* RateLimits
    const rejections = yield* Rejections
    const passwords = yield* Passwords
    const repository = yield* AccountSessionsRepository
    const { cookie } = issuer

    const callerNetwork = Effect.map(CurrentRequest, (request) => request?.network ?? "unknown")

    const login = Effect.fn("SignIn.login")(function* ({ email, password, tenantId }: Login, request: Request) {
      yield* requireOwnSite(request)
      yield* limits.anonymous
      const attempt = yield* loginThrottle
        .begin(email, yield* callerNetwork)
        .pipe(Effect.tapError(() => audit.refused(refusalOf(undefined, undefined, "delayed"))))
      yield* pause(attempt)
      const candidates = yield* signInAccounts.candidates(email, tenantId ?? null)
      const right: Array<SignInCandidate> = []
      for (const one of candidates) if (yield* passwords.verify(password, one.passwordHash)) right.push(one)
      // The same work whether there is such an account or not.
      if (candidates.length === 0) yield* passwords.verify(password, undefined)
      const candidate = right.find(({ status }) => status === "active") ?? right[0] ?? candidates[0]
      const refuse = (reason: string) =>
        Effect.andThen(
          audit.refused(refusalOf(candidate?.id, candidate?.tenantId, reason, email)),
          Effect.fail(wrongCredentials)
        )
      if (candidate === undefined) return yield* refuse("unknown-account")
      if (right.length === 0) return yield* refuse("wrong-password")
      if (candidate.status !== "active") return yield* refuse("account-suspended")
      if (candidate.expiresAt !== null && DateTime.isLessThanOrEqualTo(candidate.expiresAt, yield* DateTime.now)) {
        return yield* refuse("account-expired")
      }
      if (candidate.tenantStatus !== null && candidate.tenantStatus !== "active") {
        return yield* refuse("tenant-suspended")
      }
      const begun = Effect.gen(function* () {
        const account = yield* signInAccounts.admit(candidate.id, candidate.passwordHash)
        if (Option.isNone(account)) return yield* Effect.fail("changed-meanwhile" as const)
        yield* attempt.succeeded
        const { id, ...issued } = yield* issuer.begin(account.value)
        const entry = { action: signInActions.SignedIn, entityId: id, tenantId: candidate.tenantId }
        return { value: issued, entries: [entry] }
      }).pipe(audit.change, Effect.provideService(CurrentPrincipal, accountPrincipal(candidate.id, candidate.tenantId)))
      return yield* Effect.catch(begun, refuse)
    })

    const requireOwnSite = (request: Request) =>
      isFromAnotherSite(cookie, request.method, request.headers)
        ? Effect.fail(new Forbidden({ missing: [], detail: "Another site's page sent this request." }))
        : Effect.void

    /** The session token that a request came with: a bearer token, else the cookie of one of our pages; none beside a key. */
    const presented = Effect.fnUntraced(function* (request: Request) {
      const { authorization, cookie: cookies, "x-api-key": key } = request.headers
      if (key !== undefined && key !== "") return undefined
      const given = authorization === undefined ? tokenInCookies(cookie, cookies) : bearerToken(authorization)
      if (authorization === undefined && given !== undefined) yield* requireOwnSite(request)
      return given === undefined ? undefined : Redacted.make(given)
    })

    const refresh = Effect.fn("SignIn.refresh")(function* (request: Request) {
      const token = yield* presented(request)
      if (token === undefined) return yield* Effect.andThen(rejections.reject(undefined), Effect.fail(notSignedIn))
      const { owner, reason } = yield* sessions.judge(token)
      if (owner === undefined || reason !== undefined) {
        yield* rejections.reject(refusalOf(undefined, owner?.tenantId, reason ?? "unknown"))
        return yield* notSignedIn
      }
      const principal = accountPrincipal(owner.accountId, owner.tenantId)
      return yield* Effect.gen(function* () {
        const now = yield* DateTime.now
        const session = Option.getOrUndefined(yield* repository.lock(owner.sessionId))
        if (session === undefined) return yield* notSignedIn
        const account = yield* Effect.mapError(accounts.get(owner.accountId), () => notSignedIn)
        // A change of password may have dropped it while this waited for the session.
        if (!(yield* repository.replaceToken(yield* sha256Of(digest, token), now))) return yield* notSignedIn
        yield* repository.touch(session.id, now)
        return {
          value: yield* issuer.issue(session, account, successor(token, session.rotationSecret)),
          entries: [{ action: signInActions.SignInRefreshed, entityId: session.id, tenantId: session.tenantId }]
        }
      }).pipe(audit.change, Effect.provideService(CurrentPrincipal, principal))
    })

    const logout = Effect.fn("SignIn.logout")(function* (request: Request) {
      const token = yield* presented(request)
      const { owner } = token === undefined ? { owner: undefined } : yield* sessions.judge(token)
      if (token !== undefined && owner === undefined) yield* rejections.reject(undefined)
      if (owner !== undefined && !owner.isEnded) {
        yield* Effect.map(termination.end(owner.sessionId), (entries) => ({ value: undefined, entries })).pipe(
          audit.change,
          Effect.provideService(CurrentPrincipal, accountPrincipal(owner.accountId, owner.tenantId))
        )
      }
      return setSessionCookie(cookie, "", 0)
    })

    return {
      login,
      /** Puts a new token in the place of the one that the request came with. */
      refresh,
      /** Ends the sign-in that the request came with, if it came with any; answers the Set-Cookie header that removes the cookie from the browser. */
      logout
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AccountSessionsRepository.layer))
}

/**
 * What was refused, for the audit log; never the address that was typed, which may be a password. It is counted by it all the
 * same: else the first refusal of an account would be written, and take longer, where one of an unknown account is counted.
 */
const refusalOf = (
  id: AccountId | undefined,
  tenantId: TenantId | null | undefined,
  reason: string,
  typed: string = ""
): Refusal => ({
  action: signInActions.SignInRefused,
  target: id ?? "no account of ours",
  reason,
  tenantId,
  countedBy: typed
})

/** One answer for every sign-in that fails, whatever the reason. */
const wrongCredentials = new Unauthenticated({ detail: "The e-mail address or the password is wrong." })
const notSignedIn = new Unauthenticated({ detail: "The session has ended, or there was none; sign in again." })

/** An account at the moment in which it signs in or out, when what else it may do does not matter. */
export const accountPrincipal = (
  id: AccountId,
  tenantId: TenantId | null,
  sessionId?: AccountSessionId
): Principal => ({
  kind: "account",
  name: `account:${id}`,
  capabilities: [],
  tenantId: tenantId ?? undefined,
  applicationId: undefined,
  ...(sessionId === undefined ? {} : { sessionId })
})
