import { SignatureV4 } from "@smithy/signature-v4"
import { Effect, Redacted } from "effect"
import { createHash, createHmac, type Hash, type Hmac } from "node:crypto"

/** What AWS, and servers that speak its protocols, know a caller by. */
export interface AwsCredentials {
  readonly accessKeyId: Redacted.Redacted
  readonly secretAccessKey: Redacted.Redacted
  /** Of temporary credentials. */
  readonly sessionToken?: Redacted.Redacted | undefined
}

export interface AwsRequest {
  readonly method: string
  /** Its path is signed as it is given: parts of it are encoded by `awsEncoded`. */
  readonly url: URL
  /** All of them are signed: what proxies change may not be here. Names in small letters. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
  /** As AWS names it in credential scopes, such as `s3` or `bedrock`. */
  readonly service: string
  readonly region: string
  readonly at: Date
}

/** The headers of a request with its signature (AWS Signature Version 4). */
export const signed = (
  { at, body, headers, method, region, service, url }: AwsRequest,
  { accessKeyId, secretAccessKey, sessionToken }: AwsCredentials
): Effect.Effect<Record<string, string>> =>
  Effect.promise(async () => {
    const isStorage = service === "s3"
    const signer = new SignatureV4({
      service,
      region,
      sha256: Sha256,
      // Every service but S3 has the path, as it is sent, encoded once more.
      uriEscapePath: !isStorage,
      // Other services sign the hash of the body without the header; this one compares it with what arrives.
      applyChecksum: isStorage,
      credentials: {
        accessKeyId: Redacted.value(accessKeyId),
        secretAccessKey: Redacted.value(secretAccessKey),
        ...(sessionToken === undefined ? {} : { sessionToken: Redacted.value(sessionToken) })
      }
    })
    const names = new Set(url.searchParams.keys())
    const query = Object.fromEntries(Array.from(names, (name) => [name, url.searchParams.getAll(name)]))
    const { hostname, pathname: path, protocol } = url
    const request = { method, protocol, hostname, path, query, headers: { ...headers, host: url.host }, body }
    const { headers: made } = await signer.sign(request, { signingDate: at })
    const { host: _, ...sent } = made
    return sent
  })

/** A part of a path or a query as AWS encodes it, which leaves fewer characters as they are than URLs do. */
export const awsEncoded = (text: string): string =>
  encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`
  )

type Data = string | ArrayBuffer | ArrayBufferView

const bytesOf = (data: Data): string | Uint8Array => {
  if (typeof data === "string") return data
  return ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data)
}

/** SHA-256, with a key where there is a secret, as the signer wants it. */
class Sha256 {
  private hash: Hash | Hmac
  private readonly secret: Data | undefined

  constructor(secret?: Data) {
    this.secret = secret
    this.hash = this.made()
  }

  update(data: Data): void {
    this.hash.update(bytesOf(data))
  }

  digest(): Promise<Uint8Array> {
    return Promise.resolve(this.hash.digest())
  }

  reset(): void {
    this.hash = this.made()
  }

  private made(): Hash | Hmac {
    return this.secret === undefined ? createHash("sha256") : createHmac("sha256", bytesOf(this.secret))
  }
}
