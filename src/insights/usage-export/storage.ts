import { Data, DateTime, Effect, Option, Redacted } from "effect"
import { hash } from "node:crypto"
import { type AwsCredentials, awsEncoded, signed } from "../../platform/outbound/aws-signature.ts"
import { OutboundHttp, type OutboundResponse } from "../../platform/outbound/outbound-http.ts"
import { type SettingsValues } from "../../platform/settings/settings.ts"

/** Why an object is not in the storage, and what the operator can do about it. */
export class StorageFailure extends Data.TaggedError("StorageFailure")<{ readonly detail: string }> {
  override get message() {
    return this.detail
  }
}

const timeoutSeconds = 60
/** Of a slow line, which a large file takes longer on. */
const bytesASecond = 200_000
const maxAnswerBytes = 16_384
const maxMessage = 200

/** A bucket of S3, or of a server that speaks its protocol. */
export const makeStorage = Effect.fnUntraced(function* ({
  accessKeyId,
  addressing,
  bucket: given,
  endpoint,
  prefix,
  region,
  secretAccessKey
}: SettingsValues["usage"]["export"]) {
  const http = yield* OutboundHttp
  const bucket = Option.getOrThrow(given)
  const credentials: AwsCredentials = {
    accessKeyId: Option.getOrElse(accessKeyId, () => Redacted.make("")),
    secretAccessKey: Option.getOrElse(secretAccessKey, () => Redacted.make(""))
  }
  const at = Option.getOrElse(endpoint, () => new URL(`https://s3.${region}.amazonaws.com`))
  // The certificate of S3 is for names of one part before its own.
  const isPath =
    Option.getOrElse(addressing, () => (Option.isSome(endpoint) || bucket.includes(".") ? "path" : "virtual-host")) ===
    "path"
  const base = `${at.protocol}//${isPath ? "" : `${bucket}.`}${at.host}${at.pathname.replace(/\/+$/, "")}${isPath ? `/${awsEncoded(bucket)}` : ""}`
  const root = prefix.replaceAll(/^\/+|\/+$/g, "")

  const failureOf = ({ headers, status, text }: OutboundResponse, now: DateTime.Utc): string => {
    const member = (name: string) => new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1]
    const code = member("Code") ?? String(status)
    switch (code) {
      case "NoSuchBucket":
      case "404":
        return `The bucket ${bucket} does not exist: create it, or correct Usage:Export:Bucket`
      case "InvalidAccessKeyId":
        return "The storage does not know the key of Usage:Export:AccessKeyId"
      case "SignatureDoesNotMatch":
        return "The storage refuses the signature: Usage:Export:SecretAccessKey is not that of Usage:Export:AccessKeyId, or a proxy changes requests"
      case "AccessDenied":
      case "403":
        return `The key of Usage:Export:AccessKeyId may not write: allow it s3:PutObject on ${bucket}/${root}/* (Usage:Export:Bucket, Usage:Export:Prefix)`
      case "RequestTimeTooSkewed": {
        const theirs = Date.parse(headers["date"] ?? "")
        const skew = Number.isNaN(theirs) ? "" : ` by ${Math.round((now.epochMilliseconds - theirs) / 1000)} seconds`
        return `The clock of this host differs from that of the storage${skew}: synchronise it`
      }
      case "AuthorizationHeaderMalformed":
      case "PermanentRedirect":
      case "301": {
        const expected = member("Region") ?? headers["x-amz-bucket-region"]
        const where = expected === undefined ? "elsewhere" : `in the region ${expected}`
        return `The bucket ${bucket} is ${where}: correct Usage:Export:Region, or Usage:Export:Endpoint`
      }
      default:
        return `The storage answered ${status}${code === String(status) ? "" : ` ${code}`}: ${(member("Message") ?? "").slice(0, maxMessage)}`
    }
  }

  return {
    /** Puts an object at a path below the prefix, in the place of what is there. The storage compares its checksum. */
    put: Effect.fn("UsageStorage.put")(function* (path: string, contentType: string, body: Uint8Array) {
      const now = yield* DateTime.now
      const key = [root, path].filter((part) => part !== "").join("/")
      const url = new URL(`${base}/${key.split("/").map(awsEncoded).join("/")}`)
      const headers = yield* signed(
        {
          method: "PUT",
          url,
          // A bucket whose objects are locked takes none without a checksum of this kind.
          headers: { "content-type": contentType, "content-md5": hash("md5", body, "base64") },
          body,
          service: "s3",
          region,
          at: DateTime.toDateUtc(now)
        },
        credentials
      )
      const answer = yield* http
        .send({
          method: "PUT",
          url: url.href,
          headers,
          body,
          timeoutSeconds: timeoutSeconds + Math.ceil(body.length / bytesASecond),
          maxBytes: maxAnswerBytes,
          allowPrivate: true
        })
        .pipe(
          Effect.mapError(
            ({ detail }) =>
              new StorageFailure({
                detail: `${detail} (${url.origin}, Usage:Export:Endpoint, Usage:Export:Addressing)`
              })
          )
        )
      if (answer.status >= 300) {
        return yield* new StorageFailure({ detail: failureOf(answer, yield* DateTime.now) })
      }
    })
  }
})
