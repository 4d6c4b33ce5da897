import { Effect } from "effect"
import * as jose from "jose"
import { type CredentialAddresses } from "../../src/gateway/credentials/vendor-exchange.ts"
import { type Answerer, json, type ProviderStandIn, type ReceivedRequest, sse, startProvider } from "./provider.ts"
import { anthropicVendor, openAiVendor, said } from "./vendors.ts"

type Response = Parameters<Answerer>[1]

const scope = "https://www.googleapis.com/auth/cloud-platform"
export const accountEmail = "gateway@my-project.iam.gserviceaccount.com"
export const otherEmail = "models@my-project.iam.gserviceaccount.com"
export const poolProvider =
  "//iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/pool/providers/ours"
/** What the file of a machine elsewhere holds, which the pool takes too. */
export const fileToken = "a-subject-token-of-another-issuer"

/** What of Google Cloud a test decides. */
export interface GoogleCloud {
  readonly standIn: ProviderStandIn
  /** The key file of a service account, which its token service knows. */
  readonly keyFile: Readonly<Record<string, unknown>>
  /** Tokens that Vertex AI takes, by what they were issued for. */
  readonly taken: Map<string, string>
  /** For whom tokens were issued, in order. */
  readonly issued: Array<string>
  /** Seconds that tokens live. */
  lifetime: number
  metadata: "up" | "silent" | "another server"
  /** Where the issuer of assertions is, which says another address of itself. */
  issuer: { readonly issuer: string; readonly at: string } | undefined
}

const refuse = (response: Response, status: number, error: string, description = error) =>
  json(response, status, { error, error_description: description })

const apiError = (response: Response, code: number, status: string, message: string, isListed = false) => {
  const error = { error: { code, message, status } }
  json(response, code, isListed ? [error] : error)
}

const formIn = ({ body, headers }: ReceivedRequest): Readonly<Record<string, string | undefined>> =>
  headers["content-type"] === "application/x-www-form-urlencoded"
    ? Object.fromEntries(new URLSearchParams(typeof body === "string" ? body : ""))
    : {}

const issue = (cloud: GoogleCloud, of: string): string => {
  const token = `ya29.token-${cloud.issued.push(of)}-${"x".repeat(20)}`
  cloud.taken.set(token, of)
  return token
}

const bearerIn = ({ headers }: ReceivedRequest) => (headers.authorization ?? "").replace(/^Bearer /, "")

/** A token for the assertion of a service account (Google, "Using OAuth 2.0 for server to server applications"). */
const tokenForKey = async (cloud: GoogleCloud, key: jose.CryptoKey, request: ReceivedRequest, response: Response) => {
  const { assertion = "", grant_type: grant } = formIn(request)
  if (grant !== "urn:ietf:params:oauth:grant-type:jwt-bearer") return refuse(response, 400, "unsupported_grant_type")
  try {
    const { payload, protectedHeader } = await jose.jwtVerify(assertion, key, {
      algorithms: ["RS256"],
      audience: "https://oauth2.googleapis.com/token",
      issuer: accountEmail,
      clockTolerance: 300,
      requiredClaims: ["iat", "exp", "scope"]
    })
    const { exp = 0, iat = 0 } = payload
    if (protectedHeader.kid !== cloud.keyFile.private_key_id) throw new Error("No such key")
    if (payload.scope !== scope) return refuse(response, 400, "invalid_scope")
    if (exp - iat > 3600 || Math.abs(iat - Date.now() / 1000) > 300)
      throw new Error("Token must be a short-lived token")
  } catch (error) {
    return refuse(response, 400, "invalid_grant", `Invalid JWT Signature. ${error}`)
  }
  json(response, 200, { access_token: issue(cloud, accountEmail), token_type: "Bearer", expires_in: cloud.lifetime })
}

/** A federated token (RFC 8693, as Google's Security Token Service takes it). */
const exchanged = async (cloud: GoogleCloud, request: ReceivedRequest, response: Response) => {
  const form = formIn(request)
  const isWhole =
    form.grant_type === "urn:ietf:params:oauth:grant-type:token-exchange" &&
    form.requested_token_type === "urn:ietf:params:oauth:token-type:access_token" &&
    form.subject_token_type === "urn:ietf:params:oauth:token-type:jwt" &&
    form.scope === scope
  if (!isWhole) return refuse(response, 400, "invalid_request")
  if (form.audience !== poolProvider) return refuse(response, 400, "invalid_target")
  try {
    if (form.subject_token !== fileToken) {
      const { at = "", issuer = "" } = cloud.issuer ?? {}
      const found = (await (await fetch(`${at}/.well-known/openid-configuration`)).json()) as {
        readonly issuer: string
        readonly jwks_uri: string
      }
      if (found.issuer !== issuer) throw new Error("The issuer is another one")
      await jose.jwtVerify(
        form.subject_token ?? "",
        jose.createRemoteJWKSet(new URL(found.jwks_uri.replace(issuer, at))),
        {
          issuer,
          // Unless others are allowed, the full name of the provider with a scheme is.
          audience: `https:${poolProvider}`,
          algorithms: ["RS256"],
          clockTolerance: 300,
          requiredClaims: ["iat", "exp", "sub"]
        }
      )
    }
  } catch (error) {
    return refuse(response, 400, "invalid_grant", `${error}`)
  }
  json(response, 200, {
    access_token: issue(cloud, "federated"),
    issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
    token_type: "Bearer",
    expires_in: cloud.lifetime
  })
}

/** A token of a service account for the token of one that may have it. */
const impersonated = (cloud: GoogleCloud, request: ReceivedRequest, response: Response, email: string) => {
  const { body } = request
  if (!cloud.taken.has(bearerIn(request)))
    return apiError(response, 401, "UNAUTHENTICATED", "Request had invalid credentials.")
  if (email !== otherEmail)
    return apiError(response, 403, "PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getAccessToken' denied")
  const seconds = Number(/^(\d+)s$/.exec(`${body?.lifetime}`)?.[1])
  if (!Array.isArray(body?.scope) || body.scope.join() !== scope || !(seconds > 0 && seconds <= 43_200)) {
    return apiError(response, 400, "INVALID_ARGUMENT", "Request contains an invalid argument.")
  }
  const expireTime = new Date(Date.now() + Math.min(seconds, cloud.lifetime) * 1000).toISOString()
  json(response, 200, { accessToken: issue(cloud, email), expireTime })
}

const metadata = (cloud: GoogleCloud, { headers, path }: ReceivedRequest, response: Response) => {
  if (cloud.metadata === "silent") return
  if (headers["metadata-flavor"] !== "Google") return json(response, 403, {})
  if (new URL(path, "http://metadata").searchParams.get("scopes") !== scope) return json(response, 400, {})
  json(
    response,
    200,
    { access_token: issue(cloud, "machine"), token_type: "Bearer", expires_in: cloud.lifetime },
    cloud.metadata === "up" ? { "metadata-flavor": "Google" } : {}
  )
}

const geminiUsage = {
  promptTokenCount: 100,
  cachedContentTokenCount: 40,
  candidatesTokenCount: 15,
  thoughtsTokenCount: 5,
  totalTokenCount: 120,
  trafficType: "ON_DEMAND"
}

const candidate = (text: string, finishReason?: string) => ({
  candidates: [
    { content: { role: "model", parts: [{ text }] }, ...(finishReason === undefined ? {} : { finishReason }) }
  ]
})

const unknownIn = (body: object, known: ReadonlyArray<string>) =>
  Object.keys(body).find((name) => !known.includes(name))

const generateMembers = [
  "contents",
  "systemInstruction",
  "tools",
  "toolConfig",
  "generationConfig",
  "safetySettings",
  "labels"
]
const countMembers = ["contents", "systemInstruction", "tools", "generationConfig"]

const gemini = (method: string, { body }: ReceivedRequest, response: Response) => {
  if (method === "predict") {
    const unknown =
      unknownIn(body, ["instances", "parameters"]) ?? unknownIn(body.instances[0], ["content", "task_type", "title"])
    if (unknown !== undefined) return apiError(response, 400, "INVALID_ARGUMENT", `Unknown name "${unknown}"`)
    const texts: ReadonlyArray<{ readonly content: string }> = body.instances
    const predictions = texts.map(({ content: { length } }) => ({
      embeddings: { values: [0.5, length], statistics: { token_count: length, truncated: false } }
    }))
    return json(response, 200, { predictions, metadata: { billableCharacterCount: 3 } })
  }
  const unknown = unknownIn(body, method === "countTokens" ? countMembers : generateMembers)
  if (unknown !== undefined || !Array.isArray(body.contents)) {
    const message = `Invalid JSON payload received. Unknown name "${unknown}": Cannot find field.`
    return apiError(response, 400, "INVALID_ARGUMENT", message)
  }
  switch (method) {
    case "countTokens":
      return json(response, 200, { totalTokens: 42, totalBillableCharacters: 99 })
    case "streamGenerateContent?alt=sse":
      sse(response, [candidate(said.slice(0, 5)), { ...candidate(said.slice(5), "STOP"), usageMetadata: geminiUsage }])
      return response.end()
    case "generateContent":
      return json(response, 200, { ...candidate(said, "STOP"), usageMetadata: geminiUsage, modelVersion: "gemini" })
    default:
      return apiError(response, 404, "NOT_FOUND", "Method not found.")
  }
}

const anthropic = (model: string, method: string, request: ReceivedRequest, response: Response) => {
  const { body, headers } = request
  const isCount = model === "count-tokens"
  const { anthropic_version: version, ...rest } = body
  const isKnown = version === "vertex-2023-10-16" || version === "2026-10-21"
  const fault = !isKnown
    ? "anthropic_version: Input should be 'vertex-2023-10-16'"
    : !isCount && body.model !== undefined
      ? "model: Extra inputs are not permitted"
      : headers["anthropic-version"] !== undefined
        ? "anthropic-version: is a member of the body here"
        : (method === "streamRawPredict") !== (body.stream === true)
          ? "stream: does not fit the method"
          : undefined
  if (fault !== undefined)
    return json(response, 400, { type: "error", error: { type: "invalid_request_error", message: fault } })
  const path = isCount ? "/v1/messages/count_tokens" : "/v1/messages"
  const direct = { ...headers, "anthropic-version": "2023-06-01", "x-api-key": "k" }
  anthropicVendor({ ...request, path, headers: direct, body: isCount ? rest : { ...rest, model } }, response)
}

const place = "/projects/my-project/locations/us-central1/"

/** Vertex AI of one project in one region. */
const vertex = (cloud: GoogleCloud, request: ReceivedRequest, response: Response) => {
  const { method, path } = request
  if (!cloud.taken.has(bearerIn(request))) {
    return apiError(
      response,
      401,
      "UNAUTHENTICATED",
      `Request had invalid authentication credentials: ${bearerIn(request)}`
    )
  }
  const [, listed] = /^\/v1beta1\/publishers\/(google|anthropic)\/models\?pageSize=1000$/.exec(path) ?? []
  if (method === "GET" && listed !== undefined) {
    const models = listed === "google" ? ["gemini-2.5-flash"] : ["claude-opus-4-5"]
    return json(response, 200, { publisherModels: models.map((id) => ({ name: `publishers/${listed}/models/${id}` })) })
  }
  const rest = path.replace(/^\/v1(?:beta1)?(?=\/)/, "")
  if (method !== "POST" || !rest.startsWith(place))
    return apiError(response, 403, "PERMISSION_DENIED", "Permission denied")
  const at = rest.slice(place.length)
  if (at === "endpoints/openapi/chat/completions") {
    if (!/^[a-z]+\/[a-z0-9.-]+$/.test(request.body.model)) {
      return apiError(response, 400, "INVALID_ARGUMENT", `Malformed publisher model: ${request.body.model}`, true)
    }
    return openAiVendor({ ...request, path: "/v1/chat/completions" }, response)
  }
  const [, publisher, model = "", action = ""] =
    /^publishers\/(google|anthropic)\/models\/([^/:]+):(.+)$/.exec(at) ?? []
  if (publisher === "google") return gemini(action, request, response)
  if (publisher === "anthropic") return anthropic(decodeURIComponent(model), action, request, response)
  apiError(response, 404, "NOT_FOUND", "Not found")
}

/** Google's token services, its metadata server, and Vertex AI behind them; each checks what Google checks. */
export const startGoogleCloud = Effect.gen(function* () {
  const { privateKey, publicKey } = yield* Effect.promise(() =>
    jose.generateKeyPair("RS256", { extractable: true, modulusLength: 2048 })
  )
  const pem = yield* Effect.promise(() => jose.exportPKCS8(privateKey))
  const standIn = yield* startProvider((request, response) => {
    const [, host = "", path = ""] = /^\/at\/([^/]+)(\/.*)$/.exec(request.path) ?? []
    const [, email = ""] = /^\/v1\/projects\/-\/serviceAccounts\/([^/:]+):generateAccessToken$/.exec(path) ?? []
    if (host === "oauth2.googleapis.com" && path === "/token")
      return void tokenForKey(cloud, publicKey, request, response)
    if (host === "sts.googleapis.com" && path === "/v1/token") return void exchanged(cloud, request, response)
    if (host === "iamcredentials.googleapis.com" && email !== "") return impersonated(cloud, request, response, email)
    if (host === "169.254.169.254") return metadata(cloud, request, response)
    vertex(cloud, request, response)
  })
  const cloud: GoogleCloud = {
    standIn,
    keyFile: {
      type: "service_account",
      project_id: "my-project",
      private_key_id: "key-1",
      private_key: pem,
      client_email: accountEmail,
      token_uri: "https://oauth2.googleapis.com/token",
      universe_domain: "googleapis.com"
    },
    taken: new Map(),
    issued: [],
    lifetime: 3600,
    metadata: "up",
    issuer: undefined
  }
  return cloud
})

/** Has requests for Google's credentials go to a stand-in, by the host that they are for, and providers at its address be sent them. */
export const withGoogleCloud = (standIn: () => ProviderStandIn | undefined): CredentialAddresses => ({
  dial: ({ hostname, pathname, search }) => {
    const url = standIn()?.url
    return url === undefined ? undefined : new URL(`${url}/at/${hostname}${pathname}${search}`)
  },
  isTrusted: ({ origin }) => origin === standIn()?.url
})
