import { Effect } from "effect"
import * as jose from "jose"
import { type IncomingMessage, type ServerResponse } from "node:http"
import { type JWK, Provider } from "oidc-provider"
import { closing, listenHttps } from "./issuer.ts"

/** A person whom the provider knows, by the claims that it says of them. */
export type TestUser = Readonly<Record<string, unknown>> & { readonly sub: string }

export interface TestProvider {
  readonly issuer: string
  readonly client: { readonly clientId: string; readonly clientSecret: string }
  /** Where the client may send browsers back to. */
  allowRedirect(uri: string): void
  /** Who signs in from now on. */
  user: TestUser
}

const start = async () => {
  const { privateKey } = await jose.generateKeyPair("RS256", { extractable: true })
  const jwk = { ...(await jose.exportJWK(privateKey)), kid: "rsa", alg: "RS256", use: "sig" } as JWK
  const client = { clientId: "application manager", clientSecret: "a secret: with & all = of+it" }
  const redirects = new Set<string>()
  let handler: ((request: IncomingMessage, response: ServerResponse) => void) | undefined
  const { server, url: issuer } = await listenHttps((request: IncomingMessage, response: ServerResponse) =>
    handler?.(request, response)
  )
  const users = new Map<string, TestUser>()
  const found = {
    issuer,
    client,
    allowRedirect: (uri: string) => void redirects.add(uri),
    user: { sub: "ada" } as TestUser
  }
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: client.clientId,
        client_secret: client.clientSecret,
        redirect_uris: ["https://localhost/replaced-below"],
        response_types: ["code"],
        grant_types: ["authorization_code"]
      }
    ],
    jwks: { keys: [jwk] },
    cookies: { keys: ["a key of the test"] },
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    ttl: { AccessToken: 600, AuthorizationCode: 60, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
    pkce: { required: () => true },
    findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ ...users.get(sub), sub }) }),
    loadExistingGrant: async ({ oidc }) => {
      const grant = new provider.Grant({
        clientId: oidc.client?.clientId ?? "",
        accountId: oidc.session?.accountId ?? ""
      })
      grant.addOIDCScope("openid email profile")
      await grant.save()
      return grant
    }
  })
  // The id of our provider, which is in the address, is known only after this one runs.
  provider.Client.prototype.redirectUriAllowed = (uri) => redirects.has(uri)
  const serve = provider.callback()
  handler = (request, response) => {
    if (request.url?.startsWith("/interaction/") !== true) return void serve(request, response)
    users.set(found.user.sub, found.user)
    void provider.interactionFinished(request, response, { login: { accountId: found.user.sub } })
  }
  return { server, found: found satisfies TestProvider as TestProvider }
}

/** A provider of OpenID Connect on a free port of this machine, with one confidential client, until the scope ends. */
export const makeProvider = Effect.map(
  Effect.acquireRelease(
    Effect.promise(() => start()),
    ({ server }) => closing(server)
  ),
  ({ found }) => found
)

/** What a browser does at a provider: follows redirects with its cookies, until one leads away. */
export const visit = async (
  provider: { readonly issuer: string },
  location: string,
  jar: ReadonlyMap<string, string> = new Map()
): Promise<string> => {
  if (!location.startsWith(provider.issuer)) return location
  const cookie = Array.from(jar, ([name, value]) => `${name}=${value}`).join("; ")
  const response = await fetch(location, { redirect: "manual", headers: { cookie } })
  const to = response.headers.get("location")
  if (to === null) throw new Error(`${location} answers ${response.status}: ${await response.text()}`)
  const set = response.headers.getSetCookie().map((one) => /^([^=]+)=([^;]*)/.exec(one) ?? [])
  const next = new Map([...jar, ...set.map(([, name = "", value = ""]) => [name, value] as const)])
  return visit(provider, new URL(to, location).href, next)
}
