import { Effect } from "effect"
import * as jose from "jose"
import { type CredentialAddresses } from "../../src/gateway/credentials/vendor-exchange.ts"
import { type Answerer, json, type ProviderStandIn, type ReceivedRequest, startProvider } from "./provider.ts"
import { anthropicVendor, openAiVendor } from "./vendors.ts"

/** Tokens that the stand-ins issued, and whether they take them. */
export interface IssuedTokens {
  readonly taken: Set<string>
  issued: number
  /** The assertions that were exchanged, as they were checked. */
  readonly assertions: Array<jose.JWTPayload>
  /** Seconds that tokens live. */
  lifetime: number
}

interface Trust {
  readonly issuer: string
  /** Where the issuer is found, which has another port than it says. */
  readonly at: string
  readonly audience: string
  readonly subject: string
}

const refuse = (response: Parameters<Answerer>[1], status: number, error: string, description = error) =>
  json(response, status, { error, error_description: description })

/** Issues a token for an assertion that a vendor would take: by the issuer's own discovery document and keys. */
const exchange = async (
  tokens: IssuedTokens,
  response: Parameters<Answerer>[1],
  assertion: string,
  { at, audience, issuer, subject }: Trust
) => {
  try {
    const found = (await (await fetch(`${at}/.well-known/openid-configuration`)).json()) as {
      readonly issuer: string
      readonly jwks_uri: string
    }
    if (found.issuer !== issuer) throw new Error("The issuer is another one")
    const keys = jose.createRemoteJWKSet(new URL(found.jwks_uri.replace(issuer, at)))
    const { payload } = await jose.jwtVerify(assertion, keys, {
      issuer,
      audience,
      subject,
      algorithms: ["RS256"],
      clockTolerance: 300,
      requiredClaims: ["exp", "iat", "jti"]
    })
    if ((payload.exp ?? 0) - (payload.iat ?? 0) > 3600) throw new Error("It lives too long")
    if (tokens.assertions.some(({ jti }) => jti === payload.jti)) throw new Error("It was used before")
    tokens.assertions.push(payload)
  } catch (error) {
    return refuse(response, 400, "invalid_grant", `${error}`)
  }
  issue(tokens, response)
}

const issue = (tokens: IssuedTokens, response: Parameters<Answerer>[1]) => {
  const token = `vendor-token-${++tokens.issued}-${"x".repeat(20)}`
  tokens.taken.add(token)
  json(response, 200, { access_token: token, token_type: "Bearer", expires_in: tokens.lifetime })
}

const isTaken = (tokens: IssuedTokens, { headers }: ReceivedRequest) =>
  tokens.taken.has((headers.authorization ?? "").replace(/^Bearer /, ""))

const form = (body: unknown) => Object.fromEntries(new URLSearchParams(typeof body === "string" ? body : ""))

/**
 * OpenAI's, Anthropic's and Microsoft's token services, a machine's metadata service, and OpenAI's and Anthropic's APIs behind them; each checks
 * what the vendor checks. `trust` says which issuer they know, by the vendor of the request.
 */
export const startCredentialVendors = Effect.fnUntraced(function* (trust: (vendor: string) => Trust) {
  const tokens: IssuedTokens = { taken: new Set(), issued: 0, assertions: [], lifetime: 3600 }
  const answer: Answerer = (request, response) => {
    const { body, headers, path } = request
    if (path === "/oauth/token") {
      const isWhole =
        body.grant_type === "urn:ietf:params:oauth:grant-type:token-exchange" &&
        body.subject_token_type === "urn:ietf:params:oauth:token-type:jwt" &&
        body.identity_provider_id === "idp_1" &&
        body.service_account_id === "svc_1"
      return isWhole
        ? void exchange(tokens, response, body.subject_token, trust("openai"))
        : refuse(response, 400, "invalid_request")
    }
    if (path === "/api/v1/oauth/token") {
      const given = form(body)
      const isWhole =
        given.grant_type === "urn:ietf:params:oauth:grant-type:token-exchange" &&
        given.subject_token_type === "urn:ietf:params:oauth:token-type:jwt" &&
        given.federation_policy_id === "policy-1"
      return isWhole
        ? void exchange(tokens, response, given.subject_token ?? "", trust("openrouter"))
        : refuse(response, 400, "invalid_request")
    }
    if (path === "/v1/oauth/token") {
      const isWhole =
        body.grant_type === "urn:ietf:params:oauth:grant-type:jwt-bearer" &&
        body.federation_rule_id === "fdrl_1" &&
        body.organization_id === "org_1" &&
        body.service_account_id === "svac_1" &&
        headers["anthropic-beta"] === "oauth-2025-04-20,oidc-federation-2026-04-01"
      return isWhole
        ? void exchange(tokens, response, body.assertion, trust("anthropic"))
        : refuse(response, 400, "invalid_request")
    }
    if (path === "/tenant-1/oauth2/v2.0/token") {
      const given = form(body)
      const isWhole = given.grant_type === "client_credentials" && given.client_id === "client-1"
      if (!isWhole || given.scope !== "https://ai.azure.com/.default") return refuse(response, 400, "invalid_scope")
      if (given.client_assertion !== undefined) {
        return given.client_assertion_type === "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
          ? void exchange(tokens, response, given.client_assertion, trust("entra"))
          : refuse(response, 400, "invalid_request")
      }
      return given.client_secret === "a-secret-of-entra"
        ? issue(tokens, response)
        : refuse(response, 401, "invalid_client", `AADSTS7000215: Invalid client secret ${given.client_secret}`)
    }
    if (path.startsWith("/metadata/identity/oauth2/token?")) {
      const query = new URL(path, "http://metadata").searchParams
      const isWhole = headers.metadata === "true" && query.get("api-version") === "2018-02-01"
      return isWhole && query.get("resource") === "https://ai.azure.com"
        ? issue(tokens, response)
        : refuse(response, 400, "invalid_resource")
    }
    if (!isTaken(tokens, request)) {
      const message = `Incorrect token: ${headers.authorization}`
      return json(response, 401, { error: { message, type: "invalid_request_error", code: "invalid_api_key" } })
    }
    const vendor = path.endsWith("/messages") ? anthropicVendor : openAiVendor
    vendor(request, response)
  }
  const standIn = yield* startProvider(answer)
  return { standIn, tokens }
})

/** Has requests for credentials go to a stand-in, and providers at its address be sent them. */
export const withCredentialVendors = (standIn: () => ProviderStandIn | undefined): CredentialAddresses => ({
  dial: ({ pathname, search }) => {
    const url = standIn()?.url
    return url === undefined ? undefined : new URL(`${url}${pathname}${search}`)
  },
  isTrusted: ({ origin }) => origin === standIn()?.url
})
