import { Clock, Effect, Redacted } from "effect"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { type AwsCredentials, signed } from "../../platform/outbound/aws-signature.ts"
import { type OutboundResponse } from "../../platform/outbound/outbound-http.ts"
import { type AwsCredential } from "./domain.ts"
import { type CredentialSources } from "./sources.ts"
import { CredentialUnavailable, type Obtained } from "./token-source.ts"
import { type CredentialHttp, jsonOf } from "./vendor-exchange.ts"

/** What a request to a host is signed for. */
export interface AwsScope {
  readonly service: string
  readonly region: string
}

const services: Readonly<Record<string, string>> = {
  "bedrock-runtime": "bedrock",
  "bedrock-runtime-fips": "bedrock",
  "bedrock-agent-runtime": "bedrock",
  "bedrock-mantle": "bedrock-mantle",
  "aws-external-anthropic": "aws-external-anthropic"
}

const hostForm =
  /(?:^|\.)([a-z0-9-]+)\.([a-z]{2}(?:-[a-z]+)+-\d+)\.(?:vpce\.)?(?:amazonaws\.com|amazonaws\.com\.cn|api\.aws)$/

/** What requests to an address are signed for: as its host says, or for Bedrock in the region that is given. */
export const awsScopeOf = (baseUrl: string, { region: given }: AwsCredential): AwsScope | undefined => {
  const [, prefix = "", named = ""] = hostForm.exec(URL.parse(baseUrl)?.hostname ?? "") ?? []
  const service = services[prefix]
  const region = given ?? (service === undefined ? undefined : named)
  return region === undefined ? undefined : { service: service ?? "bedrock", region }
}

/** Keys that are read from the environment are read again so often. */
const environmentMillis = 900_000
const imdsOrigin = "http://169.254.169.254"
const containerOrigin = "http://169.254.170.2"
/** The Pod Identity agent of EKS, and the metadata address of ECS. */
const containerHosts = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]|169\.254\.170\.2|169\.254\.170\.23|\[fd00:ec2::23\])$/
const stsVersion = "2011-06-15"
const sessionSeconds = 3600

const unavailable = (detail: string) => new CredentialUnavailable({ detail })

/** How long keys live: until the time of their end, by the clock of the answer that has it. */
const lifetimeOf = (expiration: unknown, { headers }: OutboundResponse, now: number): number | undefined => {
  const ends = typeof expiration === "string" ? Date.parse(expiration) : Number.NaN
  const date = Date.parse(headers.date ?? "")
  const lifetime = ends - (Number.isNaN(date) ? now : date)
  return lifetime > 0 ? Math.min(lifetime, 12 * 3_600_000) : undefined
}

const keysIn = Effect.fnUntraced(function* (
  from: string,
  answer: OutboundResponse,
  {
    accessKeyId,
    expiration,
    secretAccessKey,
    sessionToken
  }: Readonly<Record<"accessKeyId" | "expiration" | "secretAccessKey" | "sessionToken", unknown>>
) {
  const lifetimeMillis = lifetimeOf(expiration, answer, yield* Clock.currentTimeMillis)
  if (
    typeof accessKeyId !== "string" ||
    typeof secretAccessKey !== "string" ||
    typeof sessionToken !== "string" ||
    lifetimeMillis === undefined
  ) {
    return yield* unavailable(`${from} answered without keys that are valid`)
  }
  const value: AwsCredentials = {
    accessKeyId: Redacted.make(accessKeyId),
    secretAccessKey: Redacted.make(secretAccessKey),
    sessionToken: Redacted.make(sessionToken)
  }
  return { value, lifetimeMillis }
})

/** The keys in an answer of a metadata service. */
const keysInJson = (
  from: string,
  answer: OutboundResponse,
  { AccessKeyId, Expiration, SecretAccessKey, Token }: Json
) =>
  keysIn(from, answer, {
    accessKeyId: AccessKeyId,
    secretAccessKey: SecretAccessKey,
    sessionToken: Token,
    expiration: Expiration
  })

const elementIn = (xml: string, name: string): string | undefined =>
  new RegExp(`<${name}>([^<>&]{1,16384})</${name}>`).exec(xml)?.[1]

/** The keys in an answer of STS, whose members occur once and have no markup in them. */
const keysInXml = (host: string, answer: OutboundResponse) => {
  const { status, text } = answer
  if (status < 200 || status >= 300) {
    return Effect.fail(unavailable(`${host} answered ${[status, elementIn(text, "Code")].join(" ").trim()}`))
  }
  return keysIn(host, answer, {
    accessKeyId: elementIn(text, "AccessKeyId"),
    secretAccessKey: elementIn(text, "SecretAccessKey"),
    sessionToken: elementIn(text, "SessionToken"),
    expiration: elementIn(text, "Expiration")
  })
}

/**
 * Keys of AWS, by the first of these that is configured: variables of the environment; a web identity, which is an assertion or
 * the file of `AWS_WEB_IDENTITY_TOKEN_FILE`; the metadata service of a container, then of a machine (AWS SDKs and Tools
 * Reference Guide, "Standardized credential providers"). With `roleArn` they are exchanged for those of that role.
 */
export const awsKeys = (
  http: CredentialHttp,
  sources: CredentialSources,
  { assertion, externalId, roleArn }: AwsCredential,
  { region }: AwsScope
): Effect.Effect<Obtained<AwsCredentials>, CredentialUnavailable> => {
  const { environment } = sources
  const stsHost = `sts.${region}.${region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com"}`
  const contentType = "application/x-www-form-urlencoded; charset=utf-8"

  const sts = Effect.fnUntraced(function* (parameters: Readonly<Record<string, string>>, keys?: AwsCredentials) {
    const url = `https://${stsHost}/`
    const body = new URLSearchParams({ Version: stsVersion, ...parameters }).toString()
    const plain = { "content-type": contentType }
    const at = new Date(yield* Clock.currentTimeMillis)
    const request = { method: "POST", url: new URL(url), headers: plain, body, service: "sts", region, at }
    const headers = keys === undefined ? plain : signed(request, keys)
    return yield* keysInXml(stsHost, yield* http.toVendor({ method: "POST", url, headers, body }, [stsHost]))
  })

  const sessionName = environment("AWS_ROLE_SESSION_NAME") ?? "application-manager"
  const session = { RoleSessionName: sessionName, DurationSeconds: `${sessionSeconds}` }

  const byWebIdentity = (role: string, token: Effect.Effect<Redacted.Redacted, CredentialUnavailable>) =>
    Effect.flatMap(token, (proof) =>
      sts({ Action: "AssumeRoleWithWebIdentity", RoleArn: role, WebIdentityToken: Redacted.value(proof), ...session })
    )

  const byContainer = Effect.fnUntraced(function* (given: string) {
    const url = URL.parse(given)
    if (url === null || (url.protocol !== "https:" && !containerHosts.test(url.hostname))) {
      return yield* unavailable("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor of this machine")
    }
    const file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    const token =
      file === undefined
        ? environment("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        : Redacted.value(yield* sources.tokenFile(file))
    const headers: Record<string, string> = token === undefined ? {} : { authorization: token }
    const answer = yield* http.toMetadata({ method: "GET", url: url.href, headers }, [url.origin])
    return yield* keysInJson("the container's metadata service", answer, yield* jsonOf(url.href, answer))
  })

  const byMachine = Effect.fnUntraced(function* () {
    if (environment("AWS_EC2_METADATA_DISABLED")?.toLowerCase() === "true") {
      return yield* unavailable("Nothing is configured that gives keys, and AWS_EC2_METADATA_DISABLED is set")
    }
    const at = (path: string) => `${imdsOrigin}/latest/${path}`
    const session = yield* http.toMetadata(
      { method: "PUT", url: at("api/token"), headers: { "x-aws-ec2-metadata-token-ttl-seconds": "21600" } },
      [imdsOrigin]
    )
    if (session.status !== 200) return yield* unavailable(`the machine's metadata service answered ${session.status}`)
    const get = (path: string) =>
      http.toMetadata({ method: "GET", url: at(path), headers: { "x-aws-ec2-metadata-token": session.text.trim() } }, [
        imdsOrigin
      ])
    const roles = "meta-data/iam/security-credentials/"
    const role = yield* get(roles)
    const name = role.text.trim()
    if (role.status !== 200 || !/^[\w+=,.@-]{1,128}$/.test(name)) {
      return yield* unavailable("The machine has no role")
    }
    const answer = yield* get(`${roles}${name}`)
    return yield* keysInJson("the machine's metadata service", answer, yield* jsonOf(at(roles), answer))
  })

  const basic = (): Effect.Effect<Obtained<AwsCredentials>, CredentialUnavailable> => {
    const id = environment("AWS_ACCESS_KEY_ID")
    const secret = environment("AWS_SECRET_ACCESS_KEY")
    if (id !== undefined && secret !== undefined) {
      const token = environment("AWS_SESSION_TOKEN")
      const value = {
        accessKeyId: Redacted.make(id),
        secretAccessKey: Redacted.make(secret),
        ...(token === undefined ? {} : { sessionToken: Redacted.make(token) })
      }
      return Effect.succeed({ value, lifetimeMillis: environmentMillis })
    }
    const file = environment("AWS_WEB_IDENTITY_TOKEN_FILE")
    const role = environment("AWS_ROLE_ARN")
    if (file !== undefined && role !== undefined) return byWebIdentity(role, sources.tokenFile(file))
    const relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    const full = relative === undefined ? environment("AWS_CONTAINER_CREDENTIALS_FULL_URI") : containerOrigin + relative
    return full === undefined ? byMachine() : byContainer(full)
  }

  if (assertion !== undefined) {
    return roleArn === undefined
      ? Effect.fail(unavailable("`roleArn` is needed with an assertion"))
      : byWebIdentity(roleArn, sources.assertion(assertion, "sts.amazonaws.com"))
  }
  if (roleArn === undefined) return basic()
  return Effect.flatMap(basic(), ({ value }) =>
    sts(
      {
        Action: "AssumeRole",
        RoleArn: roleArn,
        ...session,
        ...(externalId === undefined ? {} : { ExternalId: externalId })
      },
      value
    )
  )
}
