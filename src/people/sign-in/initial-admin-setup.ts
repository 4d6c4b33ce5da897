import { Context, DateTime, Effect, Layer, Redacted } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { type HttpServerRequest } from "effect/http"
import { RateLimits } from "../../access/rate-limits.ts"
import { isFromAnotherSite } from "../../access/session-cookie.ts"
import { Roles } from "../../applications/roles/service.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal, Forbidden } from "../../kernel/authority/principal.ts"
import { generate, sha256Of } from "../../platform/crypto/opaque-tokens.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { Accounts } from "../accounts/service.ts"
import { SignInAccounts } from "../accounts/sign-in-accounts.ts"
import { type Claim, claimActions, ClaimInvalid, signInActions } from "./domain.ts"
import { InitialAdminRepository } from "./initial-admin-repository.ts"
import { accountPrincipal } from "./service.ts"
import { SessionIssuer } from "./session-issuer.ts"

const lifetimeMinutes = 30

/** The links that create the first administrator, each for half an hour. */
export class ClaimLinks extends Context.Service<ClaimLinks>()("app/people/ClaimLinks", {
  make: Effect.gen(function* () {
    const signInAccounts = yield* SignInAccounts
    const audit = yield* Audit
    const digest = yield* Digest.Digest
    const random = yield* SecureRandom.SecureRandom
    const repository = yield* InitialAdminRepository
    const { api } = yield* Settings

    const insert = Effect.gen(function* () {
      const token = yield* generate(random, "amc")
      const expiresAt = DateTime.add(yield* DateTime.now, { minutes: lifetimeMinutes })
      yield* repository.insert(yield* sha256Of(digest, token), expiresAt)
      // Behind the #, which no browser sends and no proxy writes down.
      const link = Redacted.make(`${api.publicUrl}/console/claim#${Redacted.value(token)}`, { label: "claim-link" })
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
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(InitialAdminRepository.layer))
}

/** The first run: a claim link creates the first administrator. */
export class InitialAdminSetup extends Context.Service<InitialAdminSetup>()("app/people/InitialAdminSetup", {
  make: Effect.gen(function* () {
    const accounts = yield* Accounts
    const signInAccounts = yield* SignInAccounts
    const audit = yield* Audit
    const digest = yield* Digest.Digest
    const issuer = yield* SessionIssuer
    const limits = yield* RateLimits
    const repository = yield* InitialAdminRepository
    const roles = yield* Roles

    const invalid = audit
      .refused({ action: claimActions.ClaimRefused, target: "claim-link", reason: "no live link" })
      .pipe(Effect.andThen(Effect.fail(new ClaimInvalid({}))))

    const claim = Effect.fn("InitialAdminSetup.claim")(function* (
      { email, name, password, token }: Claim,
      request: HttpServerRequest.HttpServerRequest
    ) {
      if (isFromAnotherSite(issuer.cookie, request.method, request.headers)) {
        return yield* new Forbidden({ missing: [], detail: "Another site's page sent this request." })
      }
      yield* limits.anonymous
      const sha256 = yield* sha256Of(digest, token)
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

    return { claim }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(InitialAdminRepository.layer))
}
