import { Array as Arr, Context, DateTime, Effect, Layer, Option, Redacted, Schema } from "effect"
import { Mac, SecureRandom } from "effect/crypto"
import { createHash } from "node:crypto"
import { RateLimits } from "../../access/rate-limits.ts"
import { type Cookie, setSessionCookie, tokenInCookies } from "../../access/session-cookie.ts"
import { Roles } from "../../applications/roles/service.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal, Unauthenticated } from "../../kernel/authority/principal.ts"
import { Email } from "../../kernel/email.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { Database } from "../../platform/database/database.ts"
import { OutboundHttp } from "../../platform/outbound/outbound-http.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { Tenants } from "../../tenants/service.ts"
import { AccountName } from "../accounts/domain.ts"
import { Accounts } from "../accounts/service.ts"
import { SignInAccounts } from "../accounts/sign-in-accounts.ts"
import {
  type IdentityProvider,
  type IdentityProviderId,
  IdentityProviderUnavailable
} from "../identity-providers/domain.ts"
import { ProviderMetadata } from "../identity-providers/metadata.ts"
import { IdentityProviders } from "../identity-providers/service.ts"
import { signInActions } from "../sign-in/domain.ts"
import { accountPrincipal } from "../sign-in/service.ts"
import { SessionIssuer } from "../sign-in/session-issuer.ts"
import { type Claims, emailOf, makeProviderExchange, SignInFault } from "./provider-exchange.ts"
import { AccountIdentitiesRepository } from "./repository.ts"

/** Where a browser is sent, and the cookies that it gets on the way. */
export interface Redirection {
  readonly location: string
  readonly cookies: ReadonlyArray<string>
}

type Answer = Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

/** What ties the provider's answer to the browser that began: sealed in its cookie, so that any replica can read it. */
const Begun = Schema.fromJsonString(
  Schema.Struct({
    state: Schema.String,
    nonce: Schema.String,
    verifier: Schema.String,
    expiresAt: Schema.Int,
    next: Schema.optionalKey(Schema.String)
  })
)
const encodeBegun = Schema.encodeSync(Begun)
const decodeBegun = Schema.decodeUnknownOption(Begun)

const lifetimeSeconds = 600

/** How many sign-ins may be under way in a browser: each has a cookie, and the cookies of a request have to fit its head. */
const maxUnderWay = 8

/** Sign-in of people by the authorization code flow of OpenID Connect, with PKCE, state, nonce and `iss`. */
export class OidcSignIn extends Context.Service<OidcSignIn>()("app/people/OidcSignIn", {
  make: Effect.gen(function* () {
    const accounts = yield* Accounts
    const signInAccounts = yield* SignInAccounts
    const audit = yield* Audit
    const database = yield* Database
    const http = yield* OutboundHttp
    const issuer = yield* SessionIssuer
    const limits = yield* RateLimits
    const metadata = yield* ProviderMetadata
    const providers = yield* IdentityProviders
    const random = yield* SecureRandom.SecureRandom
    const repository = yield* AccountIdentitiesRepository
    const roles = yield* Roles
    const sealing = yield* Sealing
    const tenants = yield* Tenants
    const { api, identityProviders } = yield* Settings
    const allowPrivate = identityProviders.allowPrivateAddresses
    const { describe, identify, redeem } = makeProviderExchange({ allowPrivate, http, metadata, providers })

    const { secure } = issuer.cookie
    const underWay = Arr.makeBy(maxUnderWay, (place) => ({
      name: `${secure ? "__Host-" : ""}am_oidc_${place}`,
      secure
    }))

    /** The cookie of one more sign-in: one that the browser does not have, at random, since two may begin at once. */
    const freeCookie = Effect.fnUntraced(function* (cookies: string | undefined) {
      const free = underWay.filter((cookie) => tokenInCookies(cookie, cookies) === undefined)
      const choice = free.length === 0 ? underWay : free
      const [byte = 0] = yield* random.randomBytes(1)
      return choice[byte % choice.length] ?? { name: "am_oidc", secure }
    })
    const frontPage = new URL("./", `${api.publicUrl}/`).pathname
    const randomText = Effect.map(random.randomBytes(32), (bytes) => Buffer.from(bytes).toString("base64url"))
    const configurationOf = (provider: IdentityProvider) =>
      Effect.mapError(metadata.configuration(provider), ({ detail }) => new IdentityProviderUnavailable({ detail }))

    const list = Effect.fn("OidcSignIn.providers")(function* (tenantId: TenantId | undefined) {
      yield* limits.anonymous
      const found = yield* providers.loginProviders(tenantId)
      return found.map(({ id, issuer: url }) => ({
        id,
        name: new URL(url).host,
        startUrl: `${api.publicUrl}/api/auth/oidc/${id}/start`
      }))
    })

    const start = Effect.fn("OidcSignIn.start")(function* (
      id: IdentityProviderId,
      next: string | undefined,
      cookies: string | undefined
    ) {
      yield* limits.anonymous
      const provider = yield* providers.login(id)
      const { authorization_endpoint: endpoint = "" } = yield* configurationOf(provider)
      const [state, nonce, verifier] = yield* Effect.all([randomText, randomText, randomText])
      const location = new URL(endpoint)
      for (const [name, value] of Object.entries({
        response_type: "code",
        client_id: provider.clientId ?? "",
        redirect_uri: providers.redirectUri(id),
        scope: provider.scopes.join(" "),
        state,
        nonce,
        code_challenge: createHash("sha256").update(verifier).digest("base64url"),
        code_challenge_method: "S256"
      })) {
        location.searchParams.set(name, value)
      }
      const { epochMilliseconds } = DateTime.add(yield* DateTime.now, { seconds: lifetimeSeconds })
      const begun = new TextEncoder().encode(
        encodeBegun({ state, nonce, verifier, expiresAt: epochMilliseconds, ...(next === undefined ? {} : { next }) })
      )
      const sealed = Buffer.from(yield* sealing.seal(Redacted.make(begun), placeOf(id))).toString("base64url")
      const cookie = yield* freeCookie(cookies)
      return { location: location.href, cookies: [setSessionCookie(cookie, sealed, lifetimeSeconds)] }
    })

    /** What a cookie began with this provider; none where it began nothing with it. */
    const opened = Effect.fnUntraced(function* (id: IdentityProviderId, cookie: Cookie, cookies: string | undefined) {
      const sealed = tokenInCookies(cookie, cookies)
      if (sealed === undefined) return Option.none()
      const bytes = yield* Effect.option(sealing.open(Buffer.from(sealed, "base64url"), placeOf(id)))
      return Option.map(
        Option.flatMap(bytes, (secret) => decodeBegun(new TextDecoder().decode(Redacted.value(secret)))),
        (begun) => ({ ...begun, cookie })
      )
    })

    /** The sign-in with this provider that the browser began under a state, if it is not over. */
    const begunIn = Effect.fnUntraced(function* (
      id: IdentityProviderId,
      state: Answer[string],
      cookies: string | undefined
    ) {
      const some = Arr.getSomes(yield* Effect.forEach(underWay, (cookie) => opened(id, cookie, cookies)))
      if (some.length === 0) return yield* fault("not-begun-here")
      const begun = some.find((one) => isSame(state, one.state))
      if (begun === undefined) return yield* fault("bad-state")
      const now = yield* DateTime.now
      return begun.expiresAt <= now.epochMilliseconds ? yield* fault("begun-too-long-ago") : begun
    })

    /** The account of a user of the provider; made at the first sign-in. */
    const accountOf = Effect.fn("OidcSignIn.accountOf")(function* (
      provider: IdentityProvider,
      claims: Claims,
      address: string | undefined
    ) {
      const identity = { providerId: provider.id, subject: claims.sub }
      const known = yield* database.read("all", repository.find(identity))
      if (Option.isSome(known)) return known.value
      const email = yield* Effect.mapError(Schema.decodeUnknownEffect(Email)(address), () => fault("no-email"))
      const name = decodeName(claims[provider.claimMapping.name])
      const { tenantId } = provider
      return yield* Effect.gen(function* () {
        if (Option.isNone(yield* repository.lockProvider(provider.id))) return yield* fault("provider-gone")
        const meanwhile = yield* repository.find(identity)
        if (Option.isSome(meanwhile)) return { value: meanwhile.value, entries: [] }
        // A role that was deleted since is no reason to refuse the sign-in.
        const held = yield* roles.lockServiceRoles(provider.defaultRoleIds)
        const { id: accountId } = yield* accounts.createWithoutPassword(
          { email, name: Option.getOrElse(name, () => email.slice(0, 100)), roleIds: held.map(({ id }) => id) },
          tenantId
        )
        yield* repository.insert({ ...identity, accountId, tenantId, createdAt: yield* DateTime.now })
        return { value: { accountId, tenantId }, entries: [] }
      }).pipe(
        audit.change,
        asSystem,
        Effect.catchTags({
          AccountEmailTaken: () => Effect.fail(fault("email-of-another-account")),
          TenantNotFound: Effect.die,
          TrialUserNotFound: Effect.die,
          Forbidden: Effect.die,
          ValidationFailed: Effect.die
        })
      )
    })

    const admit = Effect.fnUntraced(function* ({ accountId, tenantId }: Effect.Success<ReturnType<typeof accountOf>>) {
      if (tenantId !== null) {
        const tenant = yield* Effect.orDie(asSystem(tenants.get(tenantId)))
        if (tenant.status !== "active") return yield* fault("tenant-suspended")
      }
      return yield* Effect.gen(function* () {
        const account = yield* signInAccounts.admit(accountId, undefined)
        if (Option.isNone(account)) return yield* fault("account-suspended")
        const { id, ...issued } = yield* Effect.mapError(issuer.begin(account.value), fault)
        return { value: issued, entries: [{ action: signInActions.SignedIn, entityId: id, tenantId }] }
      }).pipe(audit.change, Effect.provideService(CurrentPrincipal, accountPrincipal(accountId, tenantId)))
    })

    const signIn = Effect.fnUntraced(function* (
      provider: IdentityProvider,
      answer: Answer,
      cookies: string | undefined
    ) {
      const { cookie, next = frontPage, nonce, verifier } = yield* begunIn(provider.id, answer.state, cookies)
      const configuration = yield* configurationOf(provider)
      const mustName = configuration.authorization_response_iss_parameter_supported === true
      if ((mustName || answer.iss !== undefined) && answer.iss !== provider.issuer) return yield* fault("bad-issuer")
      if (answer.error !== undefined) return yield* fault("refused-by-provider")
      if (typeof answer.code !== "string" || answer.code === "") return yield* fault("no-code")
      const tokens = yield* redeem(provider, configuration, answer.code, verifier)
      const identified = yield* identify(provider, configuration, tokens.id_token, nonce)
      const claims = yield* describe(provider, configuration, identified, tokens.access_token)
      const address = emailOf(provider, claims)
      // A person with an account already needs an address only where the provider's domains ask for one.
      if (address instanceof SignInFault && provider.domains.length > 0) return yield* address
      const account = yield* accountOf(provider, claims, address instanceof SignInFault ? undefined : address)
      return { ...(yield* admit(account)), begunIn: cookie, next }
    })

    const callback = Effect.fn("OidcSignIn.callback")(function* (
      id: IdentityProviderId,
      answer: Answer,
      cookies: string | undefined
    ) {
      yield* limits.anonymous
      const provider = yield* providers.login(id)
      const issued = yield* signIn(provider, answer, cookies).pipe(
        Effect.catchTag("SignInFault", ({ reason }) =>
          Effect.andThen(
            audit.refused({
              action: signInActions.SignInRefused,
              target: `identity-provider:${id}`,
              reason,
              tenantId: provider.tenantId
            }),
            Effect.fail(refused)
          )
        )
      )
      return { location: issued.next, cookies: [issued.cookie, setSessionCookie(issued.begunIn, "", 0)] }
    })

    return {
      /** The providers that a page for signing in offers. */
      providers: list,
      /** Where to send a browser so that a person signs in with the provider. */
      start,
      /** Signs a person in by what the provider answered through the browser. */
      callback
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AccountIdentitiesRepository.layer))
}

const placeOf = (id: IdentityProviderId) => `oidc-sign-in:${id}`
const fault = (reason: string) => new SignInFault({ reason })
const decodeName = Schema.decodeUnknownOption(AccountName)

const isSame = (presented: Answer[string], expected: string): boolean =>
  typeof presented === "string" &&
  presented.length === expected.length &&
  Mac.timingSafeEqual(Buffer.from(presented), Buffer.from(expected))

/** One answer for every sign-in that fails, whatever the reason. */
const refused = new Unauthenticated({
  detail: "The sign-in with the identity provider failed. Start again; the audit log has the reason."
})
