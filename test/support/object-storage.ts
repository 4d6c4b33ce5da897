import aws4 from "aws4"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import * as http from "node:http"
import { type AddressInfo } from "node:net"

/** What a storage answers in the place of taking an object. */
export interface Refusal {
  readonly status: number
  readonly code: string
  readonly more?: string
  readonly headers?: Readonly<Record<string, string>>
}

export interface Put {
  readonly host: string
  readonly path: string
  readonly body: Buffer
}

export interface ObjectStorage {
  readonly url: string
  /** The objects by their path, with the bucket first. */
  readonly objects: Map<string, Buffer>
  /** Every object that came with a good signature, in order, whatever was answered. */
  readonly puts: Array<Put>
  refusal: Refusal | undefined
  /** Runs when an object has come, before it is stored; while it has not ended, nothing is answered. */
  before: (put: Put) => Effect.Effect<void>
  /** The same, once it is stored. */
  after: (put: Put) => Effect.Effect<void>
}

export const storageKeys = { accessKeyId: "AKIDSTORAGE", secretAccessKey: "storage-secret/with+signs" }
export const storageRegion = "eu-test-1"
export const bucket = "warehouse"

/** The types of the library lack this: it would sign the length, too. */
const unsigned = { extraHeadersToIgnore: { "content-length": true } }
const minutes = 60_000
const mostSkew = 15 * minutes

/** The fault of a request by the rules of S3; the signature is computed by another library than the service's own. */
const faultOf = ({ headers, method = "", url = "" }: http.IncomingMessage, body: Buffer): Refusal | undefined => {
  const authorization = headers.authorization ?? ""
  const [, accessKeyId, region] = /Credential=([^/]+)\/\d{8}\/([^/]+)\/s3\/aws4_request/.exec(authorization) ?? []
  const names = /SignedHeaders=([^,]+)/.exec(authorization)?.[1]?.split(";") ?? []
  const moment = String(headers["x-amz-date"]).replace(
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/,
    "$1-$2-$3T$4:$5:$6Z"
  )
  if (accessKeyId !== storageKeys.accessKeyId) return { status: 403, code: "InvalidAccessKeyId" }
  if (region !== storageRegion) {
    return { status: 400, code: "AuthorizationHeaderMalformed", more: `<Region>${storageRegion}</Region>` }
  }
  if (!(Math.abs(Date.now() - Date.parse(moment)) < mostSkew)) return { status: 403, code: "RequestTimeTooSkewed" }
  if (headers["x-amz-content-sha256"] !== createHash("sha256").update(body).digest("hex")) {
    return { status: 400, code: "XAmzContentSHA256Mismatch" }
  }
  const expected = aws4.sign(
    {
      host: headers.host ?? "",
      path: url,
      method,
      service: "s3",
      region,
      headers: Object.fromEntries(names.map((name) => [name, headers[name]])) as Record<string, string>,
      ...unsigned,
      body
    },
    storageKeys
  ).headers?.["Authorization"]
  const isAll = ["host", "content-type", "x-amz-date", "x-amz-content-sha256"].every((name) => names.includes(name))
  return isAll && expected === authorization ? undefined : { status: 403, code: "SignatureDoesNotMatch" }
}

/** A server of one bucket that speaks the part of S3 that puts objects, on a free loopback port until the scope closes. */
export const startStorage = Effect.acquireRelease(
  Effect.promise(async () => {
    const answer = async (request: http.IncomingMessage, response: http.ServerResponse) => {
      const chunks: Array<Buffer> = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const body = Buffer.concat(chunks)
      const host = request.headers.host ?? ""
      const path = decodeURIComponent(new URL(request.url ?? "", "http://storage").pathname).slice(1)
      const inHost = host.startsWith(`${bucket}.`)
      const put: Put = { host, path: inHost ? `${bucket}/${path}` : path, body }
      let fault = faultOf(request, body)
      if (fault === undefined) {
        storage.puts.push(put)
        await Effect.runPromise(storage.before(put))
        fault = storage.refusal
      }
      if (fault === undefined && !put.path.startsWith(`${bucket}/`)) fault = { status: 404, code: "NoSuchBucket" }
      if (fault !== undefined) {
        const { code, headers, more = "", status } = fault
        response.writeHead(status, { "content-type": "application/xml", ...headers })
        response.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>Refused.</Message>${more}</Error>`)
        return
      }
      storage.objects.set(put.path, body)
      await Effect.runPromise(storage.after(put))
      response.writeHead(200, { etag: `"${createHash("md5").update(body).digest("hex")}"` }).end()
    }
    const server = http.createServer((request, response) => {
      // A client that was killed closes its connection, whose request has no end.
      answer(request, response).catch(() => response.destroy())
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const storage: ObjectStorage = {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      objects: new Map(),
      puts: [],
      refusal: undefined,
      before: () => Effect.void,
      after: () => Effect.void
    }
    return { storage, server }
  }),
  ({ server }) =>
    Effect.promise(async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    })
).pipe(Effect.map(({ storage }) => storage))

/** The settings with which a service exports to a storage, as soon as there is something. */
export const exportTo = (storage: ObjectStorage): Record<string, string> => ({
  Usage__Export__Bucket: bucket,
  Usage__Export__Endpoint: storage.url,
  Usage__Export__Region: storageRegion,
  Usage__Export__AccessKeyId: storageKeys.accessKeyId,
  Usage__Export__SecretAccessKey: storageKeys.secretAccessKey,
  Usage__Export__EverySeconds: "1"
})
