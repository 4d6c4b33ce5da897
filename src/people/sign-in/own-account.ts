import { Context, DateTime, Effect, Layer, Option } from "effect"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal, Forbidden, type Principal, Unauthenticated } from "../../kernel/authority/principal.ts"
import { slice } from "../../kernel/http/page.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { Database, scopeOf } from "../../platform/database/database.ts"
import { CurrentRequest } from "../../platform/http/request.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { Tenants } from "../../tenants/service.ts"
import { accountActions, AccountId } from "../accounts/domain.ts"
import { Passwords } from "../accounts/passwords.ts"
import { Accounts } from "../accounts/service.ts"
import { SignInAccounts } from "../accounts/sign-in-accounts.ts"
import { LoginThrottle, pause } from "../login-throttle/service.ts"
import { AccountSessionId, AccountSessionNotFound, CurrentPasswordWrong, type PasswordChange } from "./domain.ts"
import { AccountSessionsRepository } from "./repository.ts"
import { SessionIssuer } from "./session-issuer.ts"
import { AccountSessionTermination } from "./termination.ts"

/** What callers may see and change of themselves. */
export class OwnAccount extends Context.Service<OwnAccount>()("app/people/OwnAccount", {
  make: Effect.gen(function* () {
    const accounts = yield* Accounts
    const signInAccounts = yield* SignInAccounts
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const database = yield* Database
    const delays = yield* LoginThrottle
    const termination = yield* AccountSessionTermination
    const issuer = yield* SessionIssuer
    const passwords = yield* Passwords
    const repository = yield* AccountSessionsRepository
    const tenants = yield* Tenants
    const { sessionIdleSeconds } = (yield* Settings).auth

    const me = Effect.fnUntraced(function* () {
      const { capabilities, kind, name, synthetic = false, tenantId } = yield* CurrentPrincipal
      const accountId = accountIdOf(name)
      const tenant = tenantId === undefined ? null : yield* Effect.orDie(tenants.get(tenantId))
      return {
        principal: name,
        kind,
        capabilities,
        synthetic,
        tenant: tenant === null ? null : { id: tenant.id, name: tenant.name, slug: tenant.slug },
        account: accountId === undefined ? null : yield* Effect.orDie(accounts.get(accountId))
      }
    })

    const changePassword = Effect.fn("OwnAccount.changePassword")(function* (input: PasswordChange) {
      const { accountId, sessionId } = yield* signedIn
      const account = yield* Effect.mapError(accounts.get(accountId), () => gone)
      const request = yield* CurrentRequest
      // What is wrong with the new one is no failure to know the old one.
      const after = yield* passwords.hash(input.newPassword, [account.email, account.name], "newPassword")
      // A stolen session must not allow guessing the password.
      const attempt = yield* delays.begin(account.email, request?.network ?? "unknown")
      yield* pause(attempt)
      const before = yield* Effect.mapError(signInAccounts.passwordHash(accountId), () => gone)
      if (!(yield* passwords.verify(input.currentPassword, before))) return yield* new CurrentPasswordWrong({})
      return yield* Effect.gen(function* () {
        const changed = yield* signInAccounts.replacePassword(accountId, before, after)
        const session = yield* repository.lock(sessionId)
        if (Option.isNone(changed) || Option.isNone(session)) return yield* gone
        yield* attempt.succeeded
        yield* signInAccounts.endInvitation(accountId)
        const ended = yield* termination.endAllOf(accountId, sessionId)
        yield* repository.dropTokens(sessionId)
        yield* authCaches.announce
        const entry = {
          action: accountActions.AccountPasswordChanged,
          entityId: accountId,
          tenantId: account.tenantId
        }
        return { value: yield* issuer.issue(session.value, changed.value), entries: [entry, ...ended] }
      }).pipe(audit.change)
    })

    const sessions = Effect.fn("OwnAccount.sessions")(function* (before: AccountSessionId | undefined, limit: number) {
      const { accountId, principal, sessionId } = yield* signedIn
      const now = yield* DateTime.now
      const idleSince = DateTime.subtract(now, { seconds: sessionIdleSeconds })
      const rows = yield* database.read(
        scopeOf(principal),
        repository.list(accountId, now, idleSince, before, limit + 1)
      )
      const shown = rows.map(({ createdAt, expiresAt, id, ipAddress, lastUsedAt, userAgent }) => ({
        id,
        createdAt,
        lastUsedAt,
        expiresAt,
        ipAddress,
        userAgent,
        isCurrent: id === sessionId
      }))
      return slice(shown, limit, (session) => session.id)
    })

    const endSession = Effect.fn("OwnAccount.endSession")(function* (id: AccountSessionId) {
      const { accountId } = yield* signedIn
      const session = yield* repository.lock(id)
      if (Option.isNone(session) || session.value.accountId !== accountId) {
        return yield* new AccountSessionNotFound({})
      }
      return { value: undefined, entries: yield* termination.end(id) }
    }, audit.change)

    const endOtherSessions = Effect.gen(function* () {
      const { accountId, sessionId } = yield* signedIn
      return { value: undefined, entries: yield* termination.endAllOf(accountId, sessionId) }
    }).pipe(audit.change, Effect.withSpan("OwnAccount.endOtherSessions"))

    return {
      me: Effect.suspend(withSpan("OwnAccount.me", me)),
      /** Ends every other sign-in, and gives this one a new token. */
      changePassword,
      sessions,
      endSession,
      /** Ends every sign-in but the one that the caller came with. */
      endOtherSessions
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AccountSessionsRepository.layer))
}

const gone = new Unauthenticated({ detail: "The session has ended; sign in again." })

const accountIdOf = (principal: string): AccountId | undefined =>
  principal.startsWith("account:") ? AccountId.make(principal.slice("account:".length)) : undefined

/** Whose account and which sign-in the caller came with. */
const signedIn: Effect.Effect<
  { readonly principal: Principal; readonly accountId: AccountId; readonly sessionId: AccountSessionId },
  Forbidden
> = Effect.flatMap(CurrentPrincipal, (principal) => {
  const accountId = accountIdOf(principal.name)
  return accountId === undefined || principal.sessionId === undefined
    ? Effect.fail(new Forbidden({ missing: [], detail: "Only an account that signed in has this." }))
    : Effect.succeed({ principal, accountId, sessionId: AccountSessionId.make(principal.sessionId) })
})
