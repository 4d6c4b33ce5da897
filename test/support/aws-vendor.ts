import { Effect } from "effect"
import * as jose from "jose"
import { randomBytes } from "node:crypto"
import { type ServerResponse } from "node:http"
import { crc32 } from "node:zlib"
import { type AwsRefusal, type KnownKeys, signatureFault } from "./aws-rules.ts"
import { type Answerer, json, keptResponse, type ReceivedRequest, startProvider } from "./provider.ts"
import { anthropicVendor, openAiVendor } from "./vendors.ts"

type Response = ServerResponse

/** How the stand-in for AWS stands. */
export interface AwsState {
  /** The keys that it knows, by their id. */
  readonly keys: Map<string, KnownKeys>
  /** Keys that it gave out. */
  issued: number
  /** Seconds that they live. */
  lifetime: number
  /** How far its clock is ahead of the machine's, in milliseconds. */
  ahead: number
  /** What it answers to calls of models in the place of an answer. */
  refusal: (AwsRefusal & { readonly status: number }) | undefined
  /** What becomes of the frames of a stream. */
  frames: (frames: ReadonlyArray<Buffer>) => ReadonlyArray<Buffer>
  /** How the bytes of streams are cut; whole frames unless given. */
  cut: ((bytes: Buffer) => ReadonlyArray<Buffer>) | undefined
  /** Whether the metadata services answer nothing. */
  hangs: boolean
  /** The token that the container's service asks for. */
  containerToken: string
}

export const region = "us-east-1"
export const bearerKey = "bedrock-api-key-of-a-test"
export const role = "arn:aws:iam::123456789012:role/bedrock"
export const externalId = "gateway-1"
export const environmentKeys: KnownKeys = {
  accessKeyId: "AKIAENVIRONMENT00001",
  secretAccessKey: "environment/secret+of+a+test/0123456789"
}
const tokenHost = `sts.${region}.amazonaws.com`

const sum = (bytes: Buffer) => {
  const made = Buffer.alloc(4)
  made.writeUInt32BE(crc32(bytes))
  return made
}

/** A frame of an event stream, by the description of its encoding. */
export const frame = (headers: Readonly<Record<string, string>>, payload: string): Buffer => {
  const names = Object.entries(headers).map(([name, value]) => {
    const length = Buffer.alloc(2)
    length.writeUInt16BE(Buffer.byteLength(value))
    return Buffer.concat([Buffer.from([name.length]), Buffer.from(name), Buffer.from([7]), length, Buffer.from(value)])
  })
  const head = Buffer.concat(names)
  const body = Buffer.from(payload)
  const prelude = Buffer.alloc(8)
  prelude.writeUInt32BE(16 + head.length + body.length, 0)
  prelude.writeUInt32BE(head.length, 4)
  const before = Buffer.concat([prelude, sum(prelude), head, body])
  return Buffer.concat([before, sum(before)])
}

/** A frame with an event of Anthropic's messages. */
export const chunkFrame = (event: object): Buffer =>
  frame(
    { ":event-type": "chunk", ":content-type": "application/json", ":message-type": "event" },
    JSON.stringify({ bytes: Buffer.from(JSON.stringify(event)).toString("base64"), p: "abcdefgh" })
  )

export const exceptionFrame = (type: string, message: string): Buffer =>
  frame(
    { ":exception-type": type, ":content-type": "application/json", ":message-type": "exception" },
    JSON.stringify({ message })
  )

const refuse = (response: Response, status: number, { code, message }: AwsRefusal, state: AwsState) =>
  json(
    response,
    status,
    { message },
    { ...dated(state), "x-amzn-errortype": `${code}:http://internal.amazon.com/coral/` }
  )

const dated = ({ ahead }: AwsState) => ({ date: new Date(Date.now() + ahead).toUTCString() })

const xml = (response: Response, status: number, state: AwsState, body: string) =>
  response.writeHead(status, { "content-type": "text/xml", ...dated(state) }).end(body)

const issue = (state: AwsState): Required<KnownKeys> & { readonly sessionToken: string } => {
  const made = {
    accessKeyId: `ASIAISSUED${String(++state.issued).padStart(10, "0")}`,
    secretAccessKey: `issued/secret+${randomBytes(15).toString("base64")}`,
    sessionToken: `session-token-${randomBytes(60).toString("base64")}==`,
    expiresAt: Date.now() + state.ahead + state.lifetime * 1000
  }
  state.keys.set(made.accessKeyId, made)
  return made
}

const expirationOf = ({ expiresAt }: { readonly expiresAt: number }) =>
  new Date(expiresAt).toISOString().replace(/\.\d+Z$/, "Z")

const tokenAnswer = (action: string, state: AwsState) => {
  const keys = issue(state)
  return `<${action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <${action}Result>
    <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/bedrock/application-manager</Arn></AssumedRoleUser>
    <Credentials>
      <AccessKeyId>${keys.accessKeyId}</AccessKeyId>
      <SecretAccessKey>${keys.secretAccessKey}</SecretAccessKey>
      <SessionToken>${keys.sessionToken}</SessionToken>
      <Expiration>${expirationOf(keys)}</Expiration>
    </Credentials>
  </${action}Result>
  <ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>
</${action}Response>`
}

const tokenRefusal = (code: string, message: string) =>
  `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error><RequestId>1</RequestId></ErrorResponse>`

/** What makes an assertion good. */
export interface AwsTrust {
  readonly keys: jose.JWTVerifyGetKey
  readonly issuer: string
  readonly subject: string
}

const token = async (request: ReceivedRequest, response: Response, state: AwsState, trust: AwsTrust | undefined) => {
  const given = Object.fromEntries(new URLSearchParams(request.bytes.toString()))
  const refused = (status: number, code: string, message: string) =>
    xml(response, status, state, tokenRefusal(code, message))
  if (given.Version !== "2011-06-15" || !/^[\w+=,.@-]{2,64}$/.test(given.RoleSessionName ?? "")) {
    return refused(400, "ValidationError", "RoleSessionName")
  }
  if (given.RoleArn !== role) return refused(403, "AccessDenied", `Not authorized to perform sts:${given.Action}`)
  if (given.Action === "AssumeRoleWithWebIdentity") {
    if (request.headers.authorization !== undefined) return refused(400, "ValidationError", "It is not to be signed")
    try {
      if (trust === undefined) throw new Error("No provider")
      await jose.jwtVerify(given.WebIdentityToken ?? "", trust.keys, {
        issuer: trust.issuer,
        subject: trust.subject,
        audience: "sts.amazonaws.com",
        algorithms: ["RS256"]
      })
    } catch (error) {
      return refused(400, "InvalidIdentityToken", `${given.WebIdentityToken}: ${error}`)
    }
  } else {
    const now = Date.now() + state.ahead
    const fault = signatureFault(request, state.keys, { host: tokenHost, service: "sts", region, now })
    if (fault !== undefined) return refused(403, fault.code.replace(/Exception$/, ""), fault.message)
    if (given.ExternalId !== externalId) return refused(403, "AccessDenied", "Not authorized to perform sts:AssumeRole")
  }
  return xml(response, 200, state, tokenAnswer(given.Action ?? "", state))
}

const metadataKeys = (response: Response, state: AwsState) => {
  const keys = issue(state)
  const { accessKeyId, secretAccessKey, sessionToken } = keys
  const answer = {
    Code: "Success",
    Type: "AWS-HMAC",
    AccessKeyId: accessKeyId,
    SecretAccessKey: secretAccessKey,
    Token: sessionToken,
    Expiration: expirationOf(keys)
  }
  json(response, 200, answer, dated(state))
}

const instanceToken = "instance-token-0123456789=="
const instanceRole = "gateway-role"

const metadata = (request: ReceivedRequest, response: Response, state: AwsState) => {
  const { headers, method, path } = request
  if (state.hangs) return
  const text = (status: number, body: string) => response.writeHead(status, { "content-type": "text/plain" }).end(body)
  if (path === "/latest/api/token") {
    const seconds = Number(headers["x-aws-ec2-metadata-token-ttl-seconds"])
    return method === "PUT" && seconds > 0 && seconds <= 21_600 ? text(200, instanceToken) : text(400, "")
  }
  if (headers["x-aws-ec2-metadata-token"] !== instanceToken) return text(401, "")
  const under = "/latest/meta-data/iam/security-credentials/"
  if (path === under) return text(200, instanceRole)
  return path === `${under}${instanceRole}` ? metadataKeys(response, state) : text(404, "")
}

const container = ({ headers }: ReceivedRequest, response: Response, state: AwsState) => {
  if (state.hangs) return
  return headers.authorization === state.containerToken
    ? metadataKeys(response, state)
    : json(response, 401, { code: "AccessDenied", message: "The token is another one" })
}

const stream = (response: Response, state: AwsState, events: string) => {
  const frames = events
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => chunkFrame(JSON.parse(/^data: (.*)$/m.exec(event)?.[1] ?? "")))
  response.writeHead(200, { "content-type": "application/vnd.amazon.eventstream", "x-amzn-requestid": "request-1" })
  const bytes = Buffer.concat(state.frames(frames))
  for (const piece of state.cut?.(bytes) ?? [bytes]) response.write(piece)
  response.end()
}

/** InvokeModel and InvokeModelWithResponseStream, for Anthropic's messages. */
const invoke = (
  request: ReceivedRequest,
  response: Response,
  state: AwsState,
  [, given = "", streams]: RegExpExecArray
) => {
  const { anthropic_beta: _, anthropic_version: version, ...body } = request.body
  const invalid = (message: string) => refuse(response, 400, { code: "ValidationException", message }, state)
  const model = decodeURIComponent(given)
  if (!/^(?:[a-z]{2,6}\.)?anthropic\.claude|^arn:aws:bedrock:/.test(model)) {
    return invalid("The provided model identifier is invalid.")
  }
  if (!knownVersions.has(version)) return invalid("#: required key [anthropic_version] not found")
  if (body.model !== undefined || body.stream !== undefined) {
    return invalid("#: extraneous key [model] is not permitted, please reformat your input and try again.")
  }
  const { made, response: keeping } = keptResponse()
  anthropicVendor(
    {
      ...request,
      path: "/v1/messages",
      headers: { ...request.headers, "anthropic-version": "2023-06-01" },
      body: { ...body, model, stream: streams !== undefined }
    },
    keeping
  )
  if (made.status !== 200) {
    return invalid(JSON.parse(made.text).error.message)
  }
  if (streams !== undefined) return stream(response, state, made.text)
  json(response, 200, JSON.parse(made.text), { "x-amzn-requestid": "request-1" })
}

/** The first, and the one that Anthropic's own client sends. */
const knownVersions = new Set(["bedrock-2023-05-31", "2026-10-21"])

const invocation = /^\/model\/([^/]+)\/invoke(-with-response-stream)?$/

/**
 * Bedrock's runtime, the token service, a machine's and a container's metadata services; each checks what AWS checks.
 * `trust` says which issuer the token service knows.
 */
export const startAws = Effect.fnUntraced(function* (trust?: AwsTrust) {
  const state: AwsState = {
    keys: new Map([[environmentKeys.accessKeyId, environmentKeys]]),
    issued: 0,
    lifetime: 3600,
    ahead: 0,
    refusal: undefined,
    frames: (frames) => frames,
    cut: undefined,
    hangs: false,
    containerToken: "container-token"
  }
  const answer: Answerer = (request, response) => {
    const { headers, path } = request
    if (path === "/") return void token(request, response, state, trust)
    if (path.startsWith("/latest/")) return metadata(request, response, state)
    if (path.startsWith("/v2/credentials/")) return container(request, response, state)
    const now = Date.now() + state.ahead
    const isKey = headers.authorization === `Bearer ${bearerKey}`
    const host = headers.host ?? ""
    const fault = isKey ? undefined : signatureFault(request, state.keys, { host, service: "bedrock", region, now })
    if (fault !== undefined) return refuse(response, 403, fault, state)
    if (state.refusal !== undefined) return refuse(response, state.refusal.status, state.refusal, state)
    const invoked = invocation.exec(path)
    if (invoked !== null) return invoke(request, response, state, invoked)
    if (path === "/anthropic/v1/messages") return anthropicVendor({ ...request, path: "/v1/messages" }, response)
    if (path.startsWith("/openai/v1/"))
      return openAiVendor({ ...request, path: path.slice("/openai".length) }, response)
    refuse(response, 404, { code: "UnknownOperationException", message: "" }, state)
  }
  return { standIn: yield* startProvider(answer), state }
})
