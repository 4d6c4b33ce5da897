import { Context, Effect, Layer, Option } from "effect"
import { type HttpServerRequest } from "effect/http"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { Tenants } from "../../tenants/service.ts"
import { accountActions } from "../accounts/domain.ts"
import { Passwords } from "../accounts/passwords.ts"
import { Accounts } from "../accounts/service.ts"
import { SignInAccounts } from "../accounts/sign-in-accounts.ts"
import { InvitationInvalid, type InvitationAccepted, signInActions } from "./domain.ts"
import { LinkTokens } from "./link-tokens.ts"
import { accountPrincipal } from "./service.ts"
import { SessionIssuer } from "./session-issuer.ts"
import { AccountSessionTermination } from "./termination.ts"

/** How invited people choose their passwords, and are signed in. */
export class InvitationAcceptance extends Context.Service<InvitationAcceptance>()("app/people/InvitationAcceptance", {
  make: Effect.gen(function* () {
    const accounts = yield* Accounts
    const signInAccounts = yield* SignInAccounts
    const audit = yield* Audit
    const issuer = yield* SessionIssuer
    const links = yield* LinkTokens
    const passwords = yield* Passwords
    const tenants = yield* Tenants
    const termination = yield* AccountSessionTermination

    const refuse = (reason: string, target = "invitation-link") =>
      audit
        .refused({ action: accountActions.AccountInvitationRefused, target, reason })
        .pipe(Effect.andThen(Effect.fail(new InvitationInvalid({}))))

    const accept = Effect.fn("InvitationAcceptance.accept")(function* (
      { password, token }: InvitationAccepted,
      request: HttpServerRequest.HttpServerRequest
    ) {
      const sha256 = yield* links.presented(token, request)
      // Looked at before the password is hashed, which costs much more; what counts is the look under lock.
      const invited = yield* signInAccounts.invited(sha256)
      if (Option.isNone(invited)) return yield* refuse("no live link")
      const id = invited.value
      const account = yield* Effect.option(asSystem(accounts.get(id)))
      if (Option.isNone(account)) return yield* refuse("no live link")
      const { email, name, tenantId } = account.value
      if (tenantId !== null) {
        const tenant = yield* Effect.orDie(asSystem(tenants.get(tenantId)))
        if (tenant.status !== "active") return yield* refuse("tenant-suspended", id)
      }
      const hash = yield* passwords.hash(password, [email, name])
      const accepted = Effect.gen(function* () {
        const before = yield* Effect.mapError(signInAccounts.passwordHash(id), () => "no such account")
        const changed = yield* signInAccounts.replacePassword(id, before, hash)
        if (Option.isNone(changed)) return yield* Effect.fail("account-suspended")
        if (!(yield* signInAccounts.useInvitation(id, sha256))) return yield* Effect.fail("no live link")
        const ended = yield* termination.endAllOf(id)
        const admitted = yield* Effect.flatMap(signInAccounts.admit(id, hash), Effect.fromOption).pipe(Effect.orDie)
        const { id: sessionId, ...issued } = yield* issuer.begin(admitted)
        return {
          value: issued,
          entries: [
            { action: accountActions.AccountInvitationAccepted, entityId: id, tenantId },
            { action: signInActions.SignedIn, entityId: sessionId, tenantId },
            ...ended
          ]
        }
      })
      return yield* accepted.pipe(
        audit.change,
        Effect.provideService(CurrentPrincipal, accountPrincipal(id, tenantId)),
        Effect.catch((reason) => refuse(reason, id))
      )
    })

    return { accept }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(LinkTokens.layer))
}
