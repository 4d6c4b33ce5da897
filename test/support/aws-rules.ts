import { createHash, createHmac } from "node:crypto"
import { type ReceivedRequest } from "./provider.ts"

/** Keys that AWS knows. */
export interface KnownKeys {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
  /** In milliseconds since 1970. */
  readonly expiresAt?: number
}

/** Where a request is signed for. */
export interface SignedFor {
  readonly host: string
  readonly service: string
  readonly region: string
  /** AWS's time, in milliseconds since 1970. */
  readonly now: number
}

/** An error as AWS's services answer it. */
export interface AwsRefusal {
  readonly code: string
  readonly message: string
}

const fiveMinutes = 300_000

const sha256 = (content: string | Uint8Array) => createHash("sha256").update(content).digest("hex")
const hmac = (key: string | Buffer, text: string) => createHmac("sha256", key).update(text).digest()

/** RFC 3986's unreserved characters stay; a percent sign of what arrives is encoded again. */
const encoded = (text: string) =>
  [...Buffer.from(text)]
    .map((byte) => {
      const character = String.fromCharCode(byte)
      return /[A-Za-z0-9._~-]/.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`
    })
    .join("")

const canonicalQuery = (query: string) =>
  query
    .split("&")
    .filter((pair) => pair !== "")
    .map((pair) => {
      const [name = "", value = ""] = pair.split("=")
      return `${encoded(decodeURIComponent(name))}=${encoded(decodeURIComponent(value))}`
    })
    .toSorted()
    .join("&")

const momentOf = (text: string) =>
  Date.parse(text.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"))

const invalid = {
  code: "UnrecognizedClientException",
  message: "The security token included in the request is invalid."
}
const expired = { code: "ExpiredTokenException", message: "The security token included in the request is expired" }

const mismatch = (message: string) => ({ code: "InvalidSignatureException", message })

/**
 * The fault of a request by the rules of Signature Version 4, with the signature computed from the bytes that arrived
 * (IAM User Guide, "Create a signed AWS API request"); undefined for a good one.
 */
export const signatureFault = (
  { bytes, headers, method, path }: ReceivedRequest,
  known: ReadonlyMap<string, KnownKeys>,
  { host, now, region, service }: SignedFor
): AwsRefusal | undefined => {
  const given =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? ""
    )
  if (given === null) return { code: "MissingAuthenticationTokenException", message: "Missing Authentication Token" }
  const [, id = "", day = "", inRegion, forService, names = "", signature] = given
  const keys = known.get(id)
  const token = headers["x-amz-security-token"]
  if (keys === undefined || keys.sessionToken !== token) return invalid
  if (keys.expiresAt !== undefined && keys.expiresAt <= now) return expired
  if (inRegion !== region || forService !== service) {
    return mismatch(`Credential should be scoped to a valid region and service, not ${inRegion}/${forService}`)
  }
  const moment = String(headers["x-amz-date"])
  const at = momentOf(moment)
  if (!moment.startsWith(day) || !(Math.abs(at - now) <= fiveMinutes)) {
    return mismatch(`Signature expired: ${moment} is now earlier than ${new Date(now - fiveMinutes).toISOString()}`)
  }
  const signed = names.split(";")
  const required = [
    "host",
    ...Object.keys(headers).filter((name) => name === "content-type" || name.startsWith("x-amz-"))
  ]
  const unsigned = required.filter((name) => !signed.includes(name))
  if (unsigned.length > 0) return mismatch(`Not signed: ${unsigned.join(", ")}`)
  const unstable = signed.filter((name) => ["connection", "user-agent", "traceparent"].includes(name))
  if (unstable.length > 0) return mismatch(`A proxy may have changed: ${unstable.join(", ")}`)
  const [pathname = "", query = ""] = path.split("?")
  const canonical = [
    method,
    pathname.split("/").map(encoded).join("/"),
    canonicalQuery(query),
    ...signed.map((name) => `${name}:${(name === "host" ? host : String(headers[name])).trim().replace(/ +/g, " ")}`),
    "",
    names,
    sha256(bytes)
  ].join("\n")
  const scope = [day, region, service, "aws4_request"]
  const key = scope.reduce<string | Buffer>((made, part) => hmac(made, part), `AWS4${keys.secretAccessKey}`)
  const expected = hmac(key, ["AWS4-HMAC-SHA256", moment, scope.join("/"), sha256(canonical)].join("\n")).toString(
    "hex"
  )
  return signature === expected
    ? undefined
    : mismatch(
        `The request signature we calculated does not match the signature you provided. The Canonical String for this request should have been\n'${canonical}'`
      )
}
