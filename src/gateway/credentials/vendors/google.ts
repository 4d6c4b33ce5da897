import { Clock, Effect, Redacted } from "effect"
import * as jose from "jose"
import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { bearerTokenIn } from "../bearer-token.ts"
import { type GoogleCredential } from "../domain.ts"
import { type CredentialSources } from "../sources.ts"
import { CredentialUnavailable, type Token } from "../token-source.ts"
import { type CredentialHttp, jsonOf } from "../vendor-exchange.ts"

const scope = "https://www.googleapis.com/auth/cloud-platform"
const tokenHost = "oauth2.googleapis.com"
const stsHost = "sts.googleapis.com"
const impersonationHost = "iamcredentials.googleapis.com"
const metadataAddress = "169.254.169.254"
/** What the variable `GCE_METADATA_HOST` may name: the machine itself, its link, or Google's name and address for the latter. */
const metadataHosts =
  /^(?:metadata\.google\.internal\.?|localhost|127(?:\.\d{1,3}){3}|169\.254(?:\.\d{1,3}){2}|\[::1\]|\[fd20:ce::254\])(?::\d{1,5})?$/
const lifetimeSeconds = 3600
const [shortestSeconds, longestSeconds] = [600, 43_200]

const formType = { "content-type": "application/x-www-form-urlencoded", accept: "application/json" }
const unavailable = (detail: string) => new CredentialUnavailable({ detail })

/** A request to one of Google's token services; it answers with a JSON object. */
const asked = Effect.fnUntraced(function* (
  http: CredentialHttp,
  host: string,
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string
) {
  return yield* jsonOf(url, yield* http.toVendor({ method: "POST", url, headers, body }, [host]))
})

const formOf = (members: Readonly<Record<string, string>>) => new URLSearchParams(members).toString()

const textIn = (document: Json, name: string): string | undefined => {
  const value = document[name]
  return typeof value === "string" && value !== "" ? value : undefined
}

/** The assertion of a service account (Google, "Using OAuth 2.0 for server to server applications"; RFC 7523). */
const signedAssertion = Effect.fnUntraced(function* (key: Json) {
  const [email, id, pem] = ["client_email", "private_key_id", "private_key"].map((name) => textIn(key, name))
  if (email === undefined || pem === undefined) {
    return yield* unavailable("The key of the service account has no `client_email` or no `private_key`")
  }
  const seconds = Math.floor((yield* Clock.currentTimeMillis) / 1000)
  return yield* Effect.tryPromise({
    try: async () =>
      new jose.SignJWT({ iss: email, scope, aud: `https://${tokenHost}/token` })
        .setProtectedHeader({ alg: "RS256", typ: "JWT", ...(id === undefined ? {} : { kid: id }) })
        .setIssuedAt(seconds)
        .setExpirationTime(seconds + lifetimeSeconds)
        .sign(await jose.importPKCS8(pem, "RS256")),
    catch: () => unavailable("The `private_key` of the service account is no RSA key in PKCS #8")
  })
})

/** A token for the key of a service account. */
const tokenOfKey = Effect.fnUntraced(function* (http: CredentialHttp, key: Json) {
  const assertion = yield* signedAssertion(key)
  const grant = { grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion }
  const url = textIn(key, "token_uri") ?? `https://${tokenHost}/token`
  return yield* bearerTokenIn(tokenHost, yield* asked(http, tokenHost, url, formType, formOf(grant)))
})

interface Exchange {
  readonly url: string
  readonly audience: string
  readonly subjectTokenType: string
  readonly subjectToken: Redacted.Redacted
  /** The project that pays for requests of people's pools; undefined for those of workloads. */
  readonly userProject?: string | undefined
}

/** A federated token for another issuer's (AIP-4117; RFC 8693). */
const exchanged = Effect.fnUntraced(function* (http: CredentialHttp, exchange: Exchange) {
  const grant = {
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    audience: exchange.audience,
    scope,
    requested_token_type: "urn:ietf:params:oauth:token-type:access_token",
    subject_token_type: exchange.subjectTokenType,
    subject_token: Redacted.value(exchange.subjectToken),
    ...(exchange.userProject === undefined ? {} : { options: JSON.stringify({ userProject: exchange.userProject }) })
  }
  return yield* bearerTokenIn(stsHost, yield* asked(http, stsHost, exchange.url, formType, formOf(grant)))
})

/** The token in a file that an `external_account` names, as a text or as a member of an object. */
const subjectToken = Effect.fnUntraced(function* (sources: CredentialSources, source: Json) {
  const file = textIn(source, "file")
  if (file === undefined) {
    const [kind = "without a file"] = ["executable", "url", "certificate", "environment_id"].flatMap((name) =>
      source[name] === undefined ? [] : [`of the kind \`${name}\``]
    )
    return yield* unavailable(`A \`credential_source\` ${kind} is not read: only tokens in files are`)
  }
  const { format } = source
  if (!isJson(format) || format.type !== "json") return yield* sources.tokenFile(file)
  const name = textIn(format, "subject_token_field_name") ?? ""
  const token = textIn(Redacted.value(yield* sources.document(file)), name)
  return token === undefined
    ? yield* unavailable(`${file} has no token in a member \`${name}\``)
    : Redacted.make(token, { label: "subject-token" })
})

const impersonationUrl = (email: string) =>
  `https://${impersonationHost}/v1/projects/-/serviceAccounts/${email}:generateAccessToken`

/** A service account whose token an identity asks for. */
interface Impersonation {
  readonly url: string
  readonly seconds: number
}

/** A token of a service account for one of an identity that may have it (IAM, "projects.serviceAccounts.generateAccessToken"). */
const impersonated = Effect.fnUntraced(function* (
  http: CredentialHttp,
  { value }: Token,
  { seconds, url }: Impersonation
) {
  const headers = {
    authorization: `Bearer ${Redacted.value(value)}`,
    "content-type": "application/json",
    accept: "application/json"
  }
  const body = JSON.stringify({ scope: [scope], lifetime: `${seconds}s` })
  const { accessToken, expireTime } = yield* asked(http, impersonationHost, url, headers, body)
  const ends = typeof expireTime === "string" ? Date.parse(expireTime) : Number.NaN
  const left = Math.floor((ends - (yield* Clock.currentTimeMillis)) / 1000)
  const lifetime = left > 0 ? Math.min(left, seconds) : undefined
  return yield* bearerTokenIn(impersonationHost, { access_token: accessToken, expires_in: lifetime })
})

/** What a file asks for besides the identity itself. */
const impersonationIn = (document: Json): Impersonation | undefined => {
  const url = textIn(document, "service_account_impersonation_url")
  const { service_account_impersonation: settings } = document
  const given = isJson(settings) ? Number(settings.token_lifetime_seconds) : Number.NaN
  const seconds = given >= shortestSeconds && given <= longestSeconds ? Math.floor(given) : lifetimeSeconds
  return url === undefined ? undefined : { url, seconds }
}

/** A token for what a file of credentials has, with the service account that it is to be exchanged for. */
const tokenOfDocument = Effect.fnUntraced(function* (
  http: CredentialHttp,
  sources: CredentialSources,
  document: Json
): Effect.fn.Return<Token, CredentialUnavailable> {
  const type = textIn(document, "type") ?? ""
  if (type === "service_account") return yield* tokenOfKey(http, document)
  if (type !== "external_account") {
    return yield* unavailable(
      `Credentials of the type \`${type.slice(0, 50)}\` are not read: Expected \`service_account\` or \`external_account\``
    )
  }
  const [audience, subjectTokenType] = [textIn(document, "audience"), textIn(document, "subject_token_type")]
  if (audience === undefined || subjectTokenType === undefined) {
    return yield* unavailable("The `external_account` has no `audience` or no `subject_token_type`")
  }
  const token = yield* exchanged(http, {
    url: textIn(document, "token_url") ?? `https://${stsHost}/v1/token`,
    audience,
    subjectTokenType,
    subjectToken: yield* subjectToken(sources, isJson(document.credential_source) ? document.credential_source : {}),
    userProject: textIn(document, "workforce_pool_user_project")
  })
  const impersonation = impersonationIn(document)
  return impersonation === undefined ? token : yield* impersonated(http, token, impersonation)
})

/** A token of the service account of the machine, from its metadata server (Compute Engine, "Authenticate workloads"). */
const tokenOfMachine = Effect.fnUntraced(function* (http: CredentialHttp, sources: CredentialSources) {
  const host = sources.environment("GCE_METADATA_HOST") ?? metadataAddress
  const origin = metadataHosts.test(host) ? URL.parse(`http://${host}`)?.origin : undefined
  const query = formOf({ scopes: scope })
  const url = `http://${host}/computeMetadata/v1/instance/service-accounts/default/token?${query}`
  const request = { method: "GET", url, headers: { "metadata-flavor": "Google" } } as const
  const answer = yield* http.toMetadata(request, origin === undefined ? [] : [origin])
  if (answer.headers["metadata-flavor"] !== "Google") {
    return yield* unavailable(`What answers at ${host} is not Google's metadata server`)
  }
  return yield* bearerTokenIn("the metadata server", yield* jsonOf(url, answer))
})

/**
 * A token of Google Cloud, by the order of its application default credentials (AIP-4110): for a file of credentials, for an
 * assertion that a workload identity pool takes, or for the machine; of another service account where one is named.
 */
export const googleToken = Effect.fnUntraced(function* (
  http: CredentialHttp,
  sources: CredentialSources,
  { assertion = "issuer", audience, impersonate, keyFile }: GoogleCredential
): Effect.fn.Return<Token, CredentialUnavailable> {
  const own = Effect.gen(function* () {
    if (audience !== undefined) {
      return yield* exchanged(http, {
        url: `https://${stsHost}/v1/token`,
        audience,
        subjectTokenType: "urn:ietf:params:oauth:token-type:jwt",
        subjectToken: yield* sources.assertion(assertion, `https:${audience}`)
      })
    }
    const from = keyFile ?? sources.environment("GOOGLE_APPLICATION_CREDENTIALS")
    if (from === undefined) return yield* tokenOfMachine(http, sources)
    return yield* tokenOfDocument(http, sources, Redacted.value(yield* sources.document(from)))
  })
  const token = yield* own
  return impersonate === undefined
    ? token
    : yield* impersonated(http, token, { url: impersonationUrl(impersonate), seconds: lifetimeSeconds })
})
