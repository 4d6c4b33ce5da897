import { Redacted } from "effect"
import { createHash, createHmac } from "node:crypto"

/** What AWS, and servers that speak its protocols, know a caller by. */
export interface AwsCredentials {
  readonly accessKeyId: Redacted.Redacted
  readonly secretAccessKey: Redacted.Redacted
  /** Of temporary credentials. */
  readonly sessionToken?: Redacted.Redacted
}

export interface AwsRequest {
  readonly method: string
  readonly url: URL
  /** All of them are signed: what proxies change may not be here. Names in small letters. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
  /** As AWS names it in credential scopes, such as `s3` or `bedrock`. */
  readonly service: string
  readonly region: string
  readonly at: Date
}

export const sha256Hex = (content: string | Uint8Array): string => createHash("sha256").update(content).digest("hex")

/** The headers of a request with its signature (AWS Signature Version 4). */
export const signed = (
  { at, body, headers, method, region, service, url }: AwsRequest,
  { accessKeyId, secretAccessKey, sessionToken }: AwsCredentials
): Record<string, string> => {
  const moment = at.toISOString().replaceAll(/[-:]|\.\d{3}/g, "")
  const day = moment.slice(0, 8)
  const bodyHash = sha256Hex(body)
  const all: Record<string, string> = {
    ...headers,
    "x-amz-date": moment,
    // Other services sign the hash of the body without the header; this one compares it with what arrives.
    ...(service === "s3" ? { "x-amz-content-sha256": bodyHash } : {}),
    ...(sessionToken === undefined ? {} : { "x-amz-security-token": Redacted.value(sessionToken) })
  }
  const names = Object.keys({ ...all, host: url.host }).toSorted()
  const request = [
    method,
    canonicalPath(url, service),
    canonicalQuery(url),
    ...names.map((name) => `${name}:${(name === "host" ? url.host : (all[name] ?? "")).trim().replaceAll(/ +/g, " ")}`),
    "",
    names.join(";"),
    bodyHash
  ].join("\n")
  const scope = `${day}/${region}/${service}/aws4_request`
  const key = [day, region, service, "aws4_request"].reduce<string | Buffer>(
    (signing, part) => hmac(signing, part),
    `AWS4${Redacted.value(secretAccessKey)}`
  )
  const signature = hmac(key, ["AWS4-HMAC-SHA256", moment, scope, sha256Hex(request)].join("\n")).toString("hex")
  return {
    ...all,
    authorization: `AWS4-HMAC-SHA256 Credential=${Redacted.value(accessKeyId)}/${scope}, SignedHeaders=${names.join(";")}, Signature=${signature}`
  }
}

/** A part of a path or a query as AWS encodes it, which leaves fewer characters as they are than URLs do. */
export const awsEncoded = (text: string): string =>
  encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`
  )

const hmac = (key: string | Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest()

/** Every service but S3 has the path, as it is sent, encoded once more. */
const canonicalPath = ({ pathname }: URL, service: string): string =>
  pathname
    .split("/")
    .map((segment) => awsEncoded(service === "s3" ? decodeURIComponent(segment) : segment))
    .join("/")

const canonicalQuery = ({ searchParams }: URL): string =>
  Array.from(searchParams, ([name, value]) => [awsEncoded(name), awsEncoded(value)] as const)
    // By the names alone first: with the sign between, `a-b` would come before `a`.
    .toSorted(([name, value], [other, another]) => order(name, other) || order(value, another))
    .map((pair) => pair.join("="))
    .join("&")

const order = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0)
