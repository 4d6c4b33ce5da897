import { Effect } from "effect"
import * as jose from "jose"
import { once } from "node:events"
import * as https from "node:https"
import { type AddressInfo } from "node:net"
import { trustedCertificate } from "./certificate.ts"

type Answer = { readonly status?: number; readonly body: unknown; readonly headers?: Record<string, string> }

/** An issuer whose every answer a test decides: what no honest provider says. */
export interface TestIssuer {
  readonly issuer: string
  /** What is answered at a path; a test may replace or delete it. */
  readonly answers: Map<string, Answer>
  /** How often a path was asked. */
  readonly asked: Map<string, number>
  /** Members of the OpenID configuration other than the usual ones. */
  configure(members: object): void
  /** Puts a new key in the place of the published ones. */
  rotate(): Promise<void>
  /** A token by the newest key; members of header and claims that are undefined are left out. */
  sign(claims: object, header?: object): Promise<string>
}

export const listenHttps = async (listener: https.ServerOptions | Parameters<typeof https.createServer>[1]) => {
  const server = https.createServer(trustedCertificate(), listener as Parameters<typeof https.createServer>[1])
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return { server, url: `https://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

export const closing = (server: https.Server) =>
  Effect.sync(() => {
    server.close()
    server.closeAllConnections()
  })

const start = async () => {
  const answers: TestIssuer["answers"] = new Map()
  const asked: TestIssuer["asked"] = new Map()
  const { server, url: issuer } = await listenHttps((request, response) => {
    const path = new URL(request.url ?? "", "https://localhost").pathname
    asked.set(path, (asked.get(path) ?? 0) + 1)
    const { body, headers = {}, status = 200 } = answers.get(path) ?? { status: 404, body: "" }
    request.resume()
    response.writeHead(status, { "content-type": "application/json", ...headers })
    response.end(typeof body === "string" ? body : JSON.stringify(body))
  })
  let key: { readonly kid: string; readonly privateKey: CryptoKey } | undefined
  let made = 0
  const configure = (members: object) =>
    void answers.set("/.well-known/openid-configuration", {
      body: {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/keys`,
        response_types_supported: ["code"],
        id_token_signing_alg_values_supported: ["ES256"],
        ...members
      }
    })
  const rotate = async () => {
    const pair = await jose.generateKeyPair("ES256", { extractable: true })
    key = { kid: `key-${(made += 1)}`, privateKey: pair.privateKey }
    const jwk = { ...(await jose.exportJWK(pair.publicKey)), kid: key.kid, alg: "ES256", use: "sig" }
    answers.set("/keys", { body: { keys: [jwk] } })
  }
  const sign = (claims: object, header: object = {}) => {
    const now = Math.floor(Date.now() / 1000)
    const payload = JSON.stringify({ iss: issuer, iat: now, exp: now + 300, ...claims })
    const protectedHeader = JSON.parse(JSON.stringify({ alg: "ES256", kid: key?.kid, ...header })) as { alg: string }
    return new jose.CompactSign(new TextEncoder().encode(payload))
      .setProtectedHeader(protectedHeader)
      .sign(key?.privateKey ?? new Uint8Array())
  }
  configure({})
  await rotate()
  return { server, found: { issuer, answers, asked, configure, rotate, sign } satisfies TestIssuer }
}

/** An issuer of its own, on a free port of this machine, until the scope ends. */
export const makeIssuer = Effect.map(
  Effect.acquireRelease(
    Effect.promise(() => start()),
    ({ server }) => closing(server)
  ),
  ({ found }): TestIssuer => found
)
