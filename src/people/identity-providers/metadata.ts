import { Cache, Clock, Context, Data, Effect, Exit, Layer, Option, Result, Schema, Semaphore } from "effect"
import * as jose from "jose"
import { OutboundHttp } from "../../platform/outbound/outbound-http.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { DiscoveryFailed, type IdentityProvider } from "./domain.ts"

/** What is used of a provider's OpenID configuration (OpenID Connect Discovery 1.0 §3). */
export const Configuration = Schema.Struct({
  issuer: Schema.String,
  jwks_uri: Schema.String,
  authorization_endpoint: Schema.optionalKey(Schema.String),
  token_endpoint: Schema.optionalKey(Schema.String),
  userinfo_endpoint: Schema.optionalKey(Schema.String),
  response_types_supported: Schema.optionalKey(Schema.Array(Schema.String)),
  id_token_signing_alg_values_supported: Schema.optionalKey(Schema.Array(Schema.String)),
  code_challenge_methods_supported: Schema.optionalKey(Schema.Array(Schema.String)),
  token_endpoint_auth_methods_supported: Schema.optionalKey(Schema.Array(Schema.String)),
  authorization_response_iss_parameter_supported: Schema.optionalKey(Schema.Boolean)
})
export type Configuration = typeof Configuration.Type

/** A token of a provider that does not count. */
export class ProviderTokenRefused extends Data.TaggedError("ProviderTokenRefused")<{ readonly reason: string }> {}

type Trusted = Pick<IdentityProvider, "kind" | "issuer" | "allowedAlgorithms">

interface KeySet {
  readonly find: ReturnType<typeof jose.createLocalJWKSet>
  readonly keys: ReadonlyArray<jose.JWK>
  readonly fetchedAt: number
}

/** What is known of the keys at a URL. */
interface KnownKeys {
  set: KeySet | undefined
  triedAt: number
  /** How often they were fetched, and why the last time was in vain. */
  attempts: number
  failure: DiscoveryFailed | undefined
  /** One attempt to fetch them at a time. */
  readonly one: Semaphore.Semaphore
}

const maxBytes = 65_536
const timeoutSeconds = 5
const freshMillis = 300_000
const staleMillis = 3_600_000
const refetchMillis = 30_000
const skewSeconds = 10
/** The end of the year 9999: no later moment can be stored. */
const lastSecond = 253_402_300_799

/** Where the providers lead and what their keys are, as they publish it; the one place that believes their tokens. */
export class ProviderMetadata extends Context.Service<ProviderMetadata>()("app/people/ProviderMetadata", {
  make: Effect.gen(function* () {
    const http = yield* OutboundHttp
    const { allowPrivateAddresses: allowPrivate } = (yield* Settings).identityProviders

    const read = Effect.fn("ProviderMetadata.read")(function* (url: string) {
      const headers = { accept: "application/json" }
      const response = yield* http
        .send({ method: "GET", url, headers, timeoutSeconds, maxBytes, allowPrivate })
        .pipe(Effect.mapError(({ detail }) => failed(`${url}: ${detail}.`)))
      if (response.status !== 200) return yield* failed(`${url} answers ${response.status} instead of 200.`)
      if (response.isCut) return yield* failed(`${url} answers more than ${maxBytes} bytes.`)
      return yield* Effect.fromOption(decodeJson(response.text)).pipe(
        Effect.mapError(() => failed(`${url} does not answer JSON.`))
      )
    })

    const discover = Effect.fn("ProviderMetadata.discover")(function* (issuer: string) {
      const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`
      const configuration = decodeConfiguration(yield* read(url))
      return Option.isNone(configuration)
        ? yield* failed(`${url} is no OpenID configuration with an issuer and a jwks_uri.`)
        : configuration.value
    })

    const configurations = yield* Cache.makeWith(discover, {
      capacity: 1000,
      // A provider that is away is asked again soon, and not by every sign-in.
      timeToLive: (exit) => (Exit.isSuccess(exit) ? "10 minutes" : "5 seconds")
    })

    const usable = Effect.fnUntraced(function* (provider: Trusted, configuration: Configuration) {
      const fault = faultOf(provider, configuration)
      return fault === undefined ? configuration : yield* failed(fault)
    })

    const fetchKeys = Effect.fn("ProviderMetadata.fetchKeys")(function* (url: string) {
      const decoded = decodeKeys(yield* read(url))
      if (Option.isNone(decoded)) return yield* failed(`${url} is no set of keys (RFC 7517).`)
      const keys = decoded.value.keys as ReadonlyArray<jose.JWK>
      const fetchedAt = yield* Clock.currentTimeMillis
      return { find: jose.createLocalJWKSet({ keys: [...keys] }), keys, fetchedAt } satisfies KeySet
    })

    const sets = new Map<string, KnownKeys>()
    const known = (url: string) => {
      let entry = sets.get(url)
      if (entry === undefined) {
        sets.set(
          url,
          (entry = { set: undefined, triedAt: 0, attempts: 0, failure: undefined, one: Semaphore.makeUnsafe(1) })
        )
      }
      return entry
    }

    /**
     * The keys at a URL, fetched again where they are older than `after`, but not soon after the last attempt. Where the
     * provider is away, `jose.createRemoteJWKSet` would fail instead of using the last keys, and fetch for every token.
     */
    const keysAt = Effect.fn("ProviderMetadata.keysAt")(function* (url: string, after: number) {
      const entry = known(url)
      const { attempts } = entry
      return yield* Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const { set } = entry
        if (set !== undefined && set.fetchedAt > after) return set
        const mayUse = set !== undefined && set.fetchedAt > now - staleMillis
        if (mayUse && entry.triedAt > now - refetchMillis) return set
        // Those that waited for this attempt share its end, where each would wait for one of its own.
        if (!mayUse && entry.failure !== undefined && entry.attempts > attempts) return yield* entry.failure
        entry.triedAt = now
        const fetched = yield* Effect.result(fetchKeys(url))
        entry.attempts += 1
        entry.failure = Result.isFailure(fetched) ? fetched.failure : undefined
        if (Result.isSuccess(fetched)) return (entry.set = fetched.success)
        return mayUse ? set : yield* fetched.failure
      }).pipe(entry.one.withPermits(1))
    })

    const verify = Effect.fn("ProviderMetadata.verify")(function* (
      provider: Trusted,
      { jwks_uri: url }: Configuration,
      token: string,
      audience: ReadonlyArray<string>
    ) {
      const now = yield* Clock.currentTimeMillis
      const attempt = (set: KeySet) =>
        Effect.tryPromise(() =>
          jose.jwtVerify(token, set.find, {
            issuer: provider.issuer,
            audience: [...audience],
            algorithms: [...provider.allowedAlgorithms],
            requiredClaims: ["sub", "exp", "iat"],
            clockTolerance: skewSeconds,
            currentDate: new Date(now)
          })
        )
      const set = yield* keysAt(url, now - freshMillis)
      const { payload, protectedHeader } = yield* attempt(set).pipe(
        Effect.catch((error) =>
          error.cause instanceof jose.errors.JWKSNoMatchingKey
            ? Effect.flatMap(keysAt(url, Math.max(set.fetchedAt, now - refetchMillis)), (newer) =>
                newer === set ? Effect.fail(error) : attempt(newer)
              )
            : Effect.fail(error)
        ),
        Effect.mapError((error) =>
          error instanceof DiscoveryFailed ? error : new ProviderTokenRefused({ reason: reasonOf(error.cause) })
        )
      )
      const { exp = 0, iat = 0 } = payload
      const sub: unknown = payload.sub
      if (exp > lastSecond) return yield* new ProviderTokenRefused({ reason: "expires-too-late" })
      if (protectedHeader.typ !== undefined && !types.has(protectedHeader.typ.toLowerCase())) {
        return yield* new ProviderTokenRefused({ reason: "wrong-type" })
      }
      if (iat > now / 1000 + skewSeconds) return yield* new ProviderTokenRefused({ reason: "issued-in-the-future" })
      // Stored, and written into names of principals.
      if (typeof sub !== "string" || !/^[^\p{Cc}\p{Cs}]{1,255}$/u.test(sub)) {
        return yield* new ProviderTokenRefused({ reason: "bad-subject" })
      }
      return { ...payload, sub }
    })

    return {
      /** The provider's configuration, as it was ten minutes ago at most. */
      configuration: (provider: Trusted) =>
        Effect.flatMap(Cache.get(configurations, provider.issuer), (found) => usable(provider, found)),
      /** The current configuration. */
      currentConfiguration: (provider: Trusted) =>
        Effect.flatMap(Cache.refresh(configurations, provider.issuer), (found) => usable(provider, found)),
      /** The current keys. */
      refreshedKeys: Effect.fnUntraced(function* (configuration: Configuration) {
        const entry = known(configuration.jwks_uri)
        entry.set = yield* fetchKeys(configuration.jwks_uri)
        return entry.set.keys
      }),
      /** The claims of a token that the provider signed, for one of the audiences, and that is valid now. */
      verify
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)
  static readonly layer = this.layerNoDeps
}

const types: ReadonlySet<string> = new Set(["jwt", "application/jwt", "at+jwt", "application/at+jwt"])

const failed = (detail: string) => new DiscoveryFailed({ detail })
const decodeJson = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Unknown))
const decodeConfiguration = Schema.decodeUnknownOption(Configuration)
const decodeKeys = Schema.decodeUnknownOption(
  Schema.Struct({
    keys: Schema.Array(
      Schema.StructWithRest(Schema.Struct({ kty: Schema.String }), [Schema.Record(Schema.String, Schema.Unknown)])
    )
  })
)

const isHttps = (url: string | undefined): boolean =>
  url !== undefined && URL.canParse(url) && new URL(url).protocol === "https:"

/** Why a configuration cannot be used for a provider; undefined when it can. */
const faultOf = ({ allowedAlgorithms, issuer, kind }: Trusted, found: Configuration): string | undefined => {
  const { code_challenge_methods_supported: challenges, response_types_supported: responses } = found
  if (found.issuer !== issuer)
    return `The configuration is of ${JSON.stringify(found.issuer)}, not of ${JSON.stringify(issuer)}.`
  if (!isHttps(found.jwks_uri)) return "jwks_uri is no https URL."
  if (kind === "workload") return undefined
  if (!isHttps(found.authorization_endpoint)) return "authorization_endpoint is no https URL."
  if (!isHttps(found.token_endpoint)) return "token_endpoint is no https URL."
  if (found.userinfo_endpoint !== undefined && !isHttps(found.userinfo_endpoint))
    return "userinfo_endpoint is no https URL."
  if (responses?.includes("code") === false) return "The provider has no authorization code flow."
  if (challenges?.includes("S256") === false) return "The provider has no PKCE with S256."
  const algorithms = found.id_token_signing_alg_values_supported
  return algorithms === undefined ||
    algorithms.some((name) => (allowedAlgorithms as ReadonlyArray<string>).includes(name))
    ? undefined
    : `The provider signs with ${algorithms.join(", ")}, and none of these is in allowedAlgorithms.`
}

const reasonOf = (error: unknown): string => {
  if (error instanceof jose.errors.JWTExpired) return "expired"
  if (error instanceof jose.errors.JWTClaimValidationFailed) return `bad-claim-${error.claim}`
  return error instanceof jose.errors.JOSEError
    ? error.code.replace(/^ERR_/, "").replaceAll("_", "-").toLowerCase()
    : "unreadable"
}
