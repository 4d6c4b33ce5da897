import { Data, Effect, Option, Predicate, Redacted, Schema } from "effect"
import { domainOfEmail } from "../../kernel/email.ts"
import { type OutboundHttp } from "../../platform/outbound/outbound-http.ts"
import { type IdentityProvider } from "../identity-providers/domain.ts"
import { type Configuration, type ProviderMetadata } from "../identity-providers/metadata.ts"
import { type IdentityProviders } from "../identity-providers/service.ts"

/** Why a sign-in failed: written to the audit log, and never sent to the caller. */
export class SignInFault extends Data.TaggedError("SignInFault")<{ readonly reason: string }> {}

/** What a provider says of who signs in. */
export type Claims = Readonly<Record<string, unknown>> & { readonly sub: string }

const timeoutSeconds = 10
const maxBytes = 65_536

const Tokens = Schema.Struct({ id_token: Schema.String, access_token: Schema.optionalKey(Schema.String) })
const decodeTokens = Schema.decodeUnknownOption(Schema.fromJsonString(Tokens))
const decodeClaims = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Unknown)))

const fault = (reason: string) => new SignInFault({ reason })

const formEncoded = (text: string): string => new URLSearchParams({ _: text }).toString().slice(2)

/** The steps between the authorization code and the claims of the user (OpenID Connect Core 1.0 §3.1.3). */
export const makeProviderExchange = (options: {
  readonly allowPrivate: boolean
  readonly http: OutboundHttp["Service"]
  readonly metadata: ProviderMetadata["Service"]
  readonly providers: IdentityProviders["Service"]
}) => {
  const { allowPrivate, http, metadata, providers } = options

  const redeem = Effect.fn("OidcSignIn.redeem")(function* (
    provider: IdentityProvider,
    configuration: Configuration,
    code: string,
    verifier: string
  ) {
    const secret = yield* Effect.mapError(providers.clientSecret(provider), () => fault("client-secret-unreadable"))
    const clientId = provider.clientId ?? ""
    const methods = configuration.token_endpoint_auth_methods_supported ?? ["client_secret_basic"]
    const isBasic = secret !== undefined && methods.includes("client_secret_basic")
    const body = new URLSearchParams({
      grant_type: "authorization_code",
      code,
      redirect_uri: providers.redirectUri(provider.id),
      code_verifier: verifier,
      ...(isBasic ? {} : { client_id: clientId }),
      ...(secret === undefined || isBasic ? {} : { client_secret: Redacted.value(secret) })
    })
    // RFC 6749 §2.3.1: both parts are encoded as in a form first.
    const pair = isBasic ? `${formEncoded(clientId)}:${formEncoded(Redacted.value(secret))}` : ""
    const response = yield* http
      .send({
        method: "POST",
        url: configuration.token_endpoint ?? "",
        headers: {
          accept: "application/json",
          "content-type": "application/x-www-form-urlencoded",
          ...(isBasic ? { authorization: `Basic ${Buffer.from(pair).toString("base64")}` } : {})
        },
        body: body.toString(),
        timeoutSeconds,
        maxBytes,
        allowPrivate
      })
      .pipe(Effect.mapError(() => fault("token-endpoint-unreachable")))
    if (response.status !== 200) return yield* fault("code-refused")
    return yield* Effect.fromOption(decodeTokens(response.text)).pipe(Effect.mapError(() => fault("no-id-token")))
  })

  /** The claims of the ID token, if it is for this sign-in. */
  const identify = Effect.fn("OidcSignIn.identify")(function* (
    provider: IdentityProvider,
    configuration: Configuration,
    idToken: string,
    nonce: string
  ) {
    const clientId = provider.clientId ?? ""
    const claims: Claims & { readonly aud?: unknown } = yield* metadata
      .verify(provider, configuration, idToken, [clientId])
      .pipe(Effect.mapError((error) => fault(error._tag === "DiscoveryFailed" ? "keys-unreachable" : error.reason)))
    if (claims.nonce !== nonce) return yield* fault("bad-nonce")
    const isForSeveral = Array.isArray(claims.aud) && claims.aud.length > 1
    return (isForSeveral || claims.azp !== undefined) && claims.azp !== clientId
      ? yield* fault("bad-authorized-party")
      : claims
  })

  /** The claims with those of the UserInfo endpoint, for a provider that puts the mapped ones there alone. */
  const describe = Effect.fn("OidcSignIn.describe")(function* (
    provider: IdentityProvider,
    configuration: Configuration,
    claims: Claims,
    accessToken: string | undefined
  ) {
    const { email, emailVerified } = provider.claimMapping
    const needed = provider.domains.length === 0 ? [email] : [email, emailVerified]
    const url = configuration.userinfo_endpoint
    if (needed.every((name) => claims[name] !== undefined) || url === undefined || accessToken === undefined) {
      return claims
    }
    const headers = { accept: "application/json", authorization: `Bearer ${accessToken}` }
    const response = yield* http
      .send({ method: "GET", url, headers, timeoutSeconds, maxBytes, allowPrivate })
      .pipe(Effect.mapError(() => fault("userinfo-unreachable")))
    const more = response.status === 200 ? Option.getOrUndefined(decodeClaims(response.text)) : undefined
    if (more === undefined) return yield* fault("userinfo-unreadable")
    // §5.3.2: else the answer may be about another person.
    if (more.sub !== claims.sub) return yield* fault("userinfo-of-another")
    // An address and whether it is verified are believed from one place alone.
    return { ...more, ...claims, [email]: more[email], [emailVerified]: more[emailVerified] }
  })

  return { redeem, identify, describe }
}

/** The verified e-mail address of claims, where the provider's domains ask for one; else the address as it is. */
export const emailOf = ({ claimMapping, domains }: IdentityProvider, claims: Claims): string | SignInFault => {
  const email = claims[claimMapping.email]
  if (!Predicate.isString(email) || email === "") return fault("no-email")
  if (domains.length === 0) return email
  if (claims[claimMapping.emailVerified] !== true) return fault("email-not-verified")
  return domains.includes(domainOfEmail(email) ?? "") ? email : fault("foreign-domain")
}
