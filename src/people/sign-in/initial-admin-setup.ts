import { Context, DateTime, Effect, Layer } from "effect"
import { type HttpServerRequest } from "effect/http"
import { RateLimits } from "../../access/rate-limits.ts"
import { Roles } from "../../applications/roles/service.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { OneTimeLinks } from "../accounts/one-time-links.ts"
import { Accounts } from "../accounts/service.ts"
import { SignInAccounts } from "../accounts/sign-in-accounts.ts"
import { type Claim, claimActions, ClaimInvalid, signInActions } from "./domain.ts"
import { InitialAdminRepository } from "./initial-admin-repository.ts"
import { LinkTokens } from "./link-tokens.ts"
import { accountPrincipal } from "./service.ts"
import { SessionIssuer } from "./session-issuer.ts"

const ttlSeconds = 1800

/** The links that create the first administrator, each for half an hour. */
export class ClaimLinks extends Context.Service<ClaimLinks>()("app/people/ClaimLinks", {
  make: Effect.gen(function* () {
    const signInAccounts = yield* SignInAccounts
    const audit = yield* Audit
    const links = yield* OneTimeLinks
    const repository = yield* InitialAdminRepository

    const insert = Effect.gen(function* () {
      const { expiresAt, link, sha256 } = yield* links.make("amc", ttlSeconds)
      yield* repository.insert(sha256, expiresAt)
      return { value: link, entries: [{ action: claimActions.ClaimLinkMade, entityId: "claim-link" }] }
    }).pipe(audit.change, asSystem)
    const isClaimed = signInAccounts.exist

    return {
      /** Whether the installation has an account, and so no use for a link. */
      isClaimed,
      /** A new link, to be shown once; none when the installation has an account. */
      make: Effect.flatMap(isClaimed, (claimed) => (claimed ? Effect.succeedNone : Effect.asSome(insert)))
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(
    Layer.provide(Layer.merge(InitialAdminRepository.layer, OneTimeLinks.layer))
  )
}

/** The first run: a claim link creates the first administrator. */
export class InitialAdminSetup extends Context.Service<InitialAdminSetup>()("app/people/InitialAdminSetup", {
  make: Effect.gen(function* () {
    const accounts = yield* Accounts
    const signInAccounts = yield* SignInAccounts
    const audit = yield* Audit
    const issuer = yield* SessionIssuer
    const limits = yield* RateLimits
    const links = yield* LinkTokens
    const repository = yield* InitialAdminRepository
    const roles = yield* Roles

    const invalid = audit
      .refused({ action: claimActions.ClaimRefused, target: "claim-link", reason: "no live link" })
      .pipe(Effect.andThen(Effect.fail(new ClaimInvalid({}))))

    const claim = Effect.fn("InitialAdminSetup.claim")(function* (
      { email, name, password, token }: Claim,
      request: HttpServerRequest.HttpServerRequest
    ) {
      const sha256 = yield* links.presented(token, request)
      // Looked at before the password is hashed, which costs much more; what counts is the look under lock.
      if (!(yield* repository.isLive(sha256, yield* DateTime.now))) return yield* invalid
      const administrator = yield* Effect.orDie(roles.getServiceRole("Administrator"))

      const used = Effect.gen(function* () {
        const isLive = yield* repository.use(sha256, yield* DateTime.now)
        if (!isLive || (yield* signInAccounts.exist)) return yield* new ClaimInvalid({})
        const roleIds = [administrator.id]
        const { id: accountId } = yield* accounts.create({ email, name, password, roleIds, tenantId: null })
        const hash = yield* Effect.orDie(signInAccounts.passwordHash(accountId))
        const account = yield* Effect.flatMap(signInAccounts.admit(accountId, hash), (admitted) =>
          Effect.orDie(Effect.fromOption(admitted))
        )
        const begun = yield* issuer
          .begin(account)
          .pipe(Effect.orDie, Effect.provideService(CurrentPrincipal, accountPrincipal(account.id, null)))
        const { id, ...issued } = begun
        return {
          value: issued,
          entries: [
            { action: claimActions.InstallationClaimed, entityId: account.id },
            { action: signInActions.SignedIn, entityId: id }
          ]
        }
      })
      return yield* used.pipe(
        audit.change,
        asSystem,
        Effect.catchTags({
          ClaimInvalid: () => invalid,
          TenantNotFound: Effect.die,
          TrialUserNotFound: Effect.die
        })
      )
    })

    return {
      claim,
      /** Whether the installation is claimed, which anyone may know. */
      installation: Effect.andThen(
        limits.anonymous,
        Effect.map(signInAccounts.exist, (claimed) => ({ claimed }))
      )
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.merge(InitialAdminRepository.layer, LinkTokens.layer))
  )
}
