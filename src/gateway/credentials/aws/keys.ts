import { Clock, Effect, Redacted } from "effect"
import { type Json } from "../../../kernel/json/parsed-json.ts"
import { type AwsCredentials, signed } from "../../../platform/outbound/aws-signature.ts"
import { type AwsCredential } from "../domain.ts"
import { type CredentialSources } from "../sources.ts"
import { CredentialUnavailable, type Obtained } from "../token-source.ts"
import { type CredentialHttp, jsonOf } from "../vendor-exchange.ts"
import { awsTokenHost } from "./hosts.ts"
import { type AwsClock } from "./signer.ts"

/** What a role is assumed with. */
export interface AwsContext {
  readonly region: string
  readonly clock: AwsClock
}

interface SessionContext extends AwsContext {
  /** What AWS's logs call the session. */
  readonly session: string
}

export type AwsKeys = Obtained<AwsCredentials>

/** The `aud` of assertions for AWS (IAM, "Create an OpenID Connect identity provider"). */
export const awsAudience = "sts.amazonaws.com"
const usualSession = "application-manager"
const containerOrigin = "http://169.254.170.2"
const metadataOrigin = "http://169.254.169.254"
const metadataTokenSeconds = "21600"

/** Keys without an end are looked up again after it. */
const lookedUpMillis = 900_000

const unavailable = (detail: string) => new CredentialUnavailable({ detail })

/** Keys of an answer whose end is a time of its issuer's clock, which tells its own time by the header `date`. */
const keysIn = Effect.fnUntraced(function* (
  from: string,
  keys: { readonly id: unknown; readonly secret: unknown; readonly token: unknown; readonly expiration: unknown },
  date: string | undefined
): Effect.fn.Return<AwsKeys, CredentialUnavailable> {
  const { expiration, id, secret, token } = keys
  const isWhole =
    typeof id === "string" &&
    typeof secret === "string" &&
    typeof token === "string" &&
    typeof expiration === "string" &&
    /^\w{16,128}$/.test(id) &&
    /^[\w+/=-]{16,256}$/.test(secret) &&
    /^[\x21-\x3b\x3d\x3f-\x7e]{1,65536}$/.test(token) &&
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z$/.test(expiration)
  const theirs = Date.parse(date ?? "")
  const now = Number.isNaN(theirs) ? yield* Clock.currentTimeMillis : theirs
  const lifetimeMillis = isWhole ? Date.parse(expiration) - now : Number.NaN
  if (!isWhole || Number.isNaN(lifetimeMillis)) return yield* unavailable(`${from} answered without credentials`)
  if (lifetimeMillis <= 0) return yield* unavailable(`${from} answered with credentials that have expired`)
  return {
    value: {
      accessKeyId: Redacted.make(id),
      secretAccessKey: Redacted.make(secret, { label: "aws-secret" }),
      sessionToken: Redacted.make(token, { label: "aws-session-token" })
    },
    lifetimeMillis
  }
})

/** The text of the one element of a name; undefined if there is none or more, or it has elements or entities. */
const elementIn = (xml: string, name: string): string | undefined => {
  const found = [...xml.matchAll(new RegExp(`<${name}>([^<&]*)</${name}>`, "g"))]
  return found.length === 1 ? found[0]?.[1] : undefined
}

/** Assumes a role at the token service of the region (AWS STS API reference). */
const assumed = Effect.fnUntraced(function* (
  http: CredentialHttp,
  { clock, region, session }: SessionContext,
  parameters: Readonly<Record<string, string>>,
  base: AwsCredentials | undefined
): Effect.fn.Return<AwsKeys, CredentialUnavailable> {
  const host = awsTokenHost(region)
  const url = `https://${host}/`
  const body = new URLSearchParams({ Version: "2011-06-15", RoleSessionName: session, ...parameters }).toString()
  const headers = { "content-type": "application/x-www-form-urlencoded; charset=utf-8" }
  const send = Effect.suspend(() =>
    Effect.flatMap(
      base === undefined
        ? Effect.succeed(headers)
        : signed({ method: "POST", url: new URL(url), headers, body, service: "sts", region, at: clock.now() }, base),
      (authorized) =>
        http.toVendor({ method: "POST", url, headers: { ...authorized, accept: "text/xml" }, body }, [host])
    )
  )
  const first = yield* send
  const isLate = base !== undefined && first.status >= 400 && (yield* clock.correct(first.headers.date))
  const answer = isLate ? yield* send : first
  const { isCut, status, text } = answer
  if (status !== 200 || isCut) {
    const code = elementIn(text, "Code")
    const named = code !== undefined && /^[A-Za-z0-9.]{1,100}$/.test(code) ? ` ${code}` : ""
    return yield* unavailable(`${host} answered ${status}${named}`)
  }
  return yield* keysIn(
    host,
    {
      id: elementIn(text, "AccessKeyId"),
      secret: elementIn(text, "SecretAccessKey"),
      token: elementIn(text, "SessionToken"),
      expiration: elementIn(text, "Expiration")
    },
    answer.headers.date
  )
})

/** What a container's or a machine's metadata service answers. */
const keysOfMetadata = (from: string, answer: Json, date: string | undefined) =>
  answer.Code === undefined || answer.Code === "Success"
    ? keysIn(
        from,
        { id: answer.AccessKeyId, secret: answer.SecretAccessKey, token: answer.Token, expiration: answer.Expiration },
        date
      )
    : Effect.fail(unavailable(`${from} has no credentials`))

/** The addresses that a container's credentials may come from by plain HTTP: the machine itself, and those of ECS and EKS. */
const containerHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]|169\.254\.170\.2|169\.254\.170\.23|\[fd00:ec2::23\])$/

/** Credentials of the task or the pod (AWS SDKs, "Container credential provider"). */
const ofContainer = Effect.fnUntraced(function* (http: CredentialHttp, sources: CredentialSources, url: URL | null) {
  if (url === null || (url.protocol !== "https:" && !(url.protocol === "http:" && containerHost.test(url.hostname)))) {
    return yield* unavailable("AWS_CONTAINER_CREDENTIALS_… is no address of a container's credentials")
  }
  const file = sources.environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
  const token =
    file === undefined
      ? sources.environment("AWS_CONTAINER_AUTHORIZATION_TOKEN")
      : Redacted.value(yield* sources.tokenFile(file))
  if (token !== undefined && !/^[\x20-\x7e]{1,65536}$/.test(token)) {
    return yield* unavailable("AWS_CONTAINER_AUTHORIZATION_TOKEN is no header")
  }
  const headers = { accept: "application/json", ...(token === undefined ? {} : { authorization: token }) }
  const answer = yield* http.toMetadata({ method: "GET", url: url.href, headers }, [url.origin])
  return yield* keysOfMetadata("the container", yield* jsonOf(url.href, answer), answer.headers.date)
})

/** Credentials of the instance's role (EC2, "Use IMDSv2"). */
const ofInstance = Effect.fnUntraced(function* (http: CredentialHttp) {
  const ask = (method: "GET" | "PUT", path: string, headers: Readonly<Record<string, string>>) =>
    http.toMetadata({ method, url: `${metadataOrigin}${path}`, headers }, [metadataOrigin])
  const text = Effect.fnUntraced(function* (answer: Effect.Success<ReturnType<typeof ask>>, what: RegExp) {
    const found = answer.status === 200 && !answer.isCut ? answer.text.trim() : ""
    if (!what.test(found)) return yield* unavailable(`The machine's metadata service answered ${answer.status}`)
    return found
  })
  const token = yield* text(
    yield* ask("PUT", "/latest/api/token", { "x-aws-ec2-metadata-token-ttl-seconds": metadataTokenSeconds }),
    /^[\x21-\x7e]{1,4096}$/
  )
  const headers = { "x-aws-ec2-metadata-token": token }
  const path = "/latest/meta-data/iam/security-credentials/"
  const role = yield* text(yield* ask("GET", path, headers), /^[\w+=,.@-]{1,64}$/)
  const answer = yield* ask("GET", `${path}${role}`, headers)
  return yield* keysOfMetadata("the machine", yield* jsonOf(metadataOrigin, answer), answer.headers.date)
})

/** The credentials that the environment names, or else the machine's; the first that is named counts, whatever it gives. */
const found = Effect.fnUntraced(function* (
  http: CredentialHttp,
  sources: CredentialSources,
  context: SessionContext
): Effect.fn.Return<AwsKeys, CredentialUnavailable> {
  const { environment } = sources
  const id = environment("AWS_ACCESS_KEY_ID")
  const secret = environment("AWS_SECRET_ACCESS_KEY")
  if (id !== undefined && secret !== undefined) {
    const token = environment("AWS_SESSION_TOKEN")
    return {
      value: {
        accessKeyId: Redacted.make(id),
        secretAccessKey: Redacted.make(secret),
        sessionToken: token === undefined ? undefined : Redacted.make(token)
      },
      lifetimeMillis: lookedUpMillis
    }
  }
  const file = environment("AWS_WEB_IDENTITY_TOKEN_FILE")
  const role = environment("AWS_ROLE_ARN")
  if (file !== undefined && role !== undefined) {
    return yield* byAssertion(http, context, role, yield* sources.tokenFile(file))
  }
  const relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
  if (relative !== undefined) return yield* ofContainer(http, sources, URL.parse(relative, containerOrigin))
  const full = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI")
  if (full !== undefined) return yield* ofContainer(http, sources, URL.parse(full))
  if (environment("AWS_EC2_METADATA_DISABLED")?.toLowerCase() === "true") {
    return yield* unavailable("The environment names no credentials of AWS")
  }
  return yield* ofInstance(http)
})

const byAssertion = (http: CredentialHttp, context: SessionContext, roleArn: string, assertion: Redacted.Redacted) =>
  assumed(
    http,
    context,
    { Action: "AssumeRoleWithWebIdentity", RoleArn: roleArn, WebIdentityToken: Redacted.value(assertion) },
    undefined
  )

/**
 * Keys for AWS: of the role that is configured, assumed by an assertion or by the keys that are found; else those that are
 * found: in the environment, by its web identity, of the container, of the machine (AWS SDKs and Tools Reference Guide,
 * "Standardized credential providers"). Profiles, SSO and processes are for people's machines.
 */
export const awsKeys = Effect.fnUntraced(function* (
  http: CredentialHttp,
  sources: CredentialSources,
  { assertion, externalId, roleArn }: AwsCredential,
  given: AwsContext
): Effect.fn.Return<AwsKeys, CredentialUnavailable> {
  const context = { ...given, session: sources.environment("AWS_ROLE_SESSION_NAME") ?? usualSession }
  if (assertion !== undefined) {
    const role = roleArn ?? sources.environment("AWS_ROLE_ARN")
    if (role === undefined) return yield* unavailable("An assertion needs `roleArn`")
    return yield* byAssertion(http, context, role, yield* sources.assertion(assertion, awsAudience))
  }
  const base = yield* found(http, sources, context)
  return roleArn === undefined
    ? base
    : yield* assumed(
        http,
        context,
        { Action: "AssumeRole", RoleArn: roleArn, ...(externalId === undefined ? {} : { ExternalId: externalId }) },
        base.value
      )
})
