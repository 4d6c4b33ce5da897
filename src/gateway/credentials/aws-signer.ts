import { Clock, Effect, Redacted } from "effect"
import { type AwsCredentials, signed } from "../../platform/outbound/aws-signature.ts"
import { type Credential } from "../providers/credential.ts"
import { type ProviderFailure } from "../providers/provider.ts"
import { type AwsScope } from "./aws.ts"
import { type TokenSource } from "./token-source.ts"

/** What AWS calls a request whose keys have ended, or are not known any more. */
const ofKeys = /^(?:ExpiredToken|ExpiredTokenException|UnrecognizedClientException|InvalidClientTokenId)\b/
/** What it calls one that was signed at another time than its own. */
const ofTime = /^(?:RequestTimeTooSkewed|RequestExpired|InvalidSignatureException|SignatureDoesNotMatch)\b/
/** AWS takes signatures of five minutes before and after. */
const toleratedMillis = 240_000

const keyIdIn = (sent: Readonly<Record<string, string>>) => /Credential=([^/]+)\//.exec(sent.authorization ?? "")?.[1]

/** Signs each request with AWS's keys (Signature Version 4), at the time of AWS where the clock here is wrong. */
export const awsSigner = (
  source: TokenSource<AwsCredentials>,
  { region, service }: AwsScope,
  noCredential: ProviderFailure
): Credential => {
  let aheadMillis = 0
  return {
    authorize: Effect.fnUntraced(function* ({ body, headers, method, url }) {
      const keys = yield* Effect.mapError(source.get, () => noCredential)
      const at = new Date((yield* Clock.currentTimeMillis) + aheadMillis)
      const type = headers["content-type"]
      const covered: Record<string, string> = type === undefined ? {} : { "content-type": type }
      return signed({ method, url, headers: covered, body, service, region, at }, keys)
    }),
    refused: Effect.fnUntraced(function* ({ headers, status }, sent) {
      if (status !== 400 && status !== 401 && status !== 403) return false
      const name = headers["x-amzn-errortype"] ?? ""
      if (ofKeys.test(name))
        return yield* source.giveUp(({ accessKeyId }) => Redacted.value(accessKeyId) === keyIdIn(sent))
      const ahead = Date.parse(headers.date ?? "") - (yield* Clock.currentTimeMillis)
      if (!ofTime.test(name) || !(Math.abs(ahead - aheadMillis) > toleratedMillis)) return false
      aheadMillis = ahead
      return true
    }),
    secrets: () => {
      const held = source.held()
      return held === undefined
        ? []
        : [held.secretAccessKey, held.sessionToken].flatMap((secret) =>
            secret === undefined ? [] : [Redacted.value(secret)]
          )
    },
    state: source.state
  }
}
