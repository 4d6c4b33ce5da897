import { Effect, Redacted } from "effect"
import { bearerTokenIn } from "../bearer-token.ts"
import { type AnthropicFederation, type OpenAiFederation, type OpenRouterFederation } from "../domain.ts"
import { type CredentialSources } from "../sources.ts"
import { CredentialUnavailable, type Token } from "../token-source.ts"
import { type CredentialHttp, jsonOf } from "../vendor-exchange.ts"

const anthropicHost = "api.anthropic.com"
const openAiHost = "auth.openai.com"
const openRouterHost = "openrouter.ai"
const anthropicAudience = "https://api.anthropic.com"
const openAiAudience = "https://api.openai.com/v1"
const openRouterAudience = "https://openrouter.ai"
const formType = "application/x-www-form-urlencoded"
const tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
const jwtType = "urn:ietf:params:oauth:token-type:jwt"
/** What its requests need that have such a token. */
export const anthropicOauthBeta = "oauth-2025-04-20"
const anthropicExchangeBeta = "oidc-federation-2026-04-01"
/** Anthropic takes no longer one ("WIF reference"). */
const longestAssertion = 16_384

interface Exchange {
  readonly host: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  body(assertion: string): Readonly<Record<string, string>>
  /** Whether the body is a form, and not JSON. */
  readonly isForm?: boolean
}

const exchanged = Effect.fnUntraced(function* (
  http: CredentialHttp,
  assertion: Effect.Effect<Redacted.Redacted, CredentialUnavailable>,
  { body, headers, host, isForm = false, path }: Exchange
) {
  const proof = Redacted.value(yield* assertion)
  if (proof.length > longestAssertion) {
    return yield* new CredentialUnavailable({ detail: `The assertion is longer than ${longestAssertion} bytes` })
  }
  const url = `https://${host}${path}`
  const answer = yield* http.toVendor(
    {
      method: "POST",
      url,
      headers: { "content-type": isForm ? formType : "application/json", accept: "application/json", ...headers },
      body: isForm ? new URLSearchParams(body(proof)).toString() : JSON.stringify(body(proof))
    },
    [host]
  )
  return yield* bearerTokenIn(host, yield* jsonOf(url, answer))
})

/** A token of Anthropic for an assertion (RFC 7523; Anthropic, "Workload Identity Federation", "WIF reference"). */
const anthropicToken = (
  http: CredentialHttp,
  sources: CredentialSources,
  given: AnthropicFederation
): Effect.Effect<Token, CredentialUnavailable> =>
  exchanged(http, sources.assertion(given.assertion ?? "issuer", given.audience ?? anthropicAudience), {
    host: anthropicHost,
    path: "/v1/oauth/token",
    headers: { "anthropic-beta": `${anthropicOauthBeta},${anthropicExchangeBeta}` },
    body: (assertion) => ({
      grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
      assertion,
      federation_rule_id: given.ruleId,
      organization_id: given.organizationId,
      service_account_id: given.serviceAccountId,
      ...(given.workspaceId === undefined ? {} : { workspace_id: given.workspaceId })
    })
  })

/** A token of OpenAI for an assertion (RFC 8693; OpenAI, "Workload identity token exchange"). */
const openAiToken = (
  http: CredentialHttp,
  sources: CredentialSources,
  given: OpenAiFederation
): Effect.Effect<Token, CredentialUnavailable> =>
  exchanged(http, sources.assertion(given.assertion ?? "issuer", given.audience ?? openAiAudience), {
    host: openAiHost,
    path: "/oauth/token",
    headers: {},
    body: (assertion) => ({
      grant_type: tokenExchange,
      subject_token_type: jwtType,
      subject_token: assertion,
      identity_provider_id: given.identityProviderId,
      service_account_id: given.serviceAccountId
    })
  })

/** A token of OpenRouter for an assertion (RFC 8693; OpenRouter, "Exchange a workload identity token"). */
const openRouterToken = (
  http: CredentialHttp,
  sources: CredentialSources,
  given: OpenRouterFederation
): Effect.Effect<Token, CredentialUnavailable> =>
  exchanged(http, sources.assertion(given.assertion ?? "issuer", given.audience ?? openRouterAudience), {
    host: openRouterHost,
    path: "/api/v1/oauth/token",
    headers: {},
    isForm: true,
    body: (assertion) => ({
      grant_type: tokenExchange,
      subject_token_type: jwtType,
      subject_token: assertion,
      federation_policy_id: given.policyId
    })
  })

/** A token of a vendor that knows the gateway by its assertions. */
export const federatedToken = (
  http: CredentialHttp,
  sources: CredentialSources,
  given: AnthropicFederation | OpenAiFederation | OpenRouterFederation
): Effect.Effect<Token, CredentialUnavailable> => {
  if (given.vendor === "anthropic") return anthropicToken(http, sources, given)
  return given.vendor === "openai" ? openAiToken(http, sources, given) : openRouterToken(http, sources, given)
}
