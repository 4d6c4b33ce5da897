import { type Clock, Effect, Redacted } from "effect"
import { type AwsCredentials, signed } from "../../../platform/outbound/aws-signature.ts"
import { type Credential, noCredential } from "../../providers/credential.ts"
import { awsErrorCode } from "../../providers/platforms/bedrock-errors.ts"
import { type TokenSource } from "../token-source.ts"
import { type AwsService } from "./hosts.ts"

/** The time that signatures for AWS have. */
export interface AwsClock {
  readonly now: () => Date
  /** Sets it by the header `date` of an answer, if that is too far from it for a signature; answers whether it did. */
  correct(date: string | undefined): Effect.Effect<boolean>
}

/** A little less than the five minutes that AWS allows. */
const allowedMillis = 240_000

/** A clock that is the host's until an answer of AWS shows that the host's is wrong. */
export const makeAwsClock = (clock: Clock.Clock): AwsClock => {
  let offsetMillis = 0
  const now = () => clock.currentTimeMillisUnsafe() + offsetMillis
  return {
    now: () => new Date(now()),
    correct: (date) =>
      Effect.suspend(() => {
        const behindMillis = Date.parse(date ?? "") - now()
        if (Number.isNaN(behindMillis) || Math.abs(behindMillis) < allowedMillis) return Effect.succeed(false)
        offsetMillis += behindMillis
        const seconds = Math.round(offsetMillis / 1000)
        return Effect.as(
          Effect.logWarning(`The clock of this host is ${seconds} seconds behind that of AWS: synchronise it`),
          true
        )
      })
  }
}

/** Refusals of the time of a signature, or of the signature as a whole. */
const timeRefused = new Set([
  "InvalidSignatureException",
  "RequestExpired",
  "RequestTimeTooSkewed",
  "SignatureDoesNotMatch"
])

/** Refusals of keys: they have expired, or are not known. */
const keysRefused = new Set([
  ...timeRefused,
  "ExpiredToken",
  "ExpiredTokenException",
  "InvalidAccessKeyId",
  "InvalidClientTokenId",
  "UnrecognizedClientException"
])

/** What a service checks besides the host and the body. What callers' headers have cannot spoil a signature. */
const signedHeaders = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name === "content-type" || name.startsWith("x-amz")))

/** Which keys a request was signed with. */
const signedWith =
  ({ accessKeyId, sessionToken }: AwsCredentials) =>
  (sent: Readonly<Record<string, string>>) =>
    (sent.authorization ?? "").includes(` Credential=${Redacted.value(accessKeyId)}/`) &&
    sent["x-amz-security-token"] === (sessionToken && Redacted.value(sessionToken))

/** A credential that signs each request, for a service of AWS. */
export const awsSigner = (
  source: TokenSource<AwsCredentials>,
  { region, service }: AwsService,
  clock: AwsClock
): Credential => ({
  signs: true,
  authorize: ({ body, headers, method, url }) =>
    source.get.pipe(
      Effect.mapError(() => noCredential),
      Effect.flatMap((keys) =>
        signed({ method, url, headers: signedHeaders(headers), body, service, region, at: clock.now() }, keys)
      )
    ),
  refused: (answer, sent) => {
    const { headers, status } = answer
    if (status !== 400 && status !== 401 && status !== 403) return Effect.succeed(false)
    const code = awsErrorCode(answer)
    const give =
      status === 401 || keysRefused.has(code ?? "")
        ? source.giveUp((keys) => signedWith(keys)(sent))
        : Effect.succeed(false)
    return timeRefused.has(code ?? "")
      ? Effect.flatMap(clock.correct(headers.date), (isCorrected) => (isCorrected ? Effect.succeed(true) : give))
      : give
  },
  secrets: () => {
    const held = source.held()
    return held === undefined
      ? []
      : [held.secretAccessKey, held.sessionToken].flatMap((secret) =>
          secret === undefined ? [] : [Redacted.value(secret)]
        )
  },
  state: source.state
})
