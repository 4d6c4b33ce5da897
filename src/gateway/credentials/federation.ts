import { Effect, Redacted } from "effect"
import { bearerTokenIn } from "./bearer-token.ts"
import { type AnthropicFederation, type OpenAiFederation } from "./domain.ts"
import { type CredentialSources } from "./sources.ts"
import { CredentialUnavailable, type Token } from "./token-source.ts"
import { type CredentialHttp, jsonOf } from "./vendor-exchange.ts"

const anthropicHost = "api.anthropic.com"
const openAiHost = "auth.openai.com"
const anthropicAudience = "https://api.anthropic.com"
const openAiAudience = "https://api.openai.com/v1"
/** What its requests need that have such a token. */
export const anthropicOauthBeta = "oauth-2025-04-20"
const anthropicExchangeBeta = "oidc-federation-2026-04-01"
/** Anthropic takes no longer one ("WIF reference"). */
const longestAssertion = 16_384

interface Exchange {
  readonly host: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  body(assertion: string): object
}

const exchanged = Effect.fnUntraced(function* (
  http: CredentialHttp,
  assertion: Effect.Effect<Redacted.Redacted, CredentialUnavailable>,
  { body, headers, host, path }: Exchange
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
      headers: { "content-type": "application/json", accept: "application/json", ...headers },
      body: JSON.stringify(body(proof))
    },
    [host]
  )
  return yield* bearerTokenIn(host, yield* jsonOf(url, answer))
})

/** A token of Anthropic for an assertion (RFC 7523; Anthropic, "Workload Identity Federation", "WIF reference"). */
export const anthropicToken = (
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
export const openAiToken = (
  http: CredentialHttp,
  sources: CredentialSources,
  given: OpenAiFederation
): Effect.Effect<Token, CredentialUnavailable> =>
  exchanged(http, sources.assertion(given.assertion ?? "issuer", given.audience ?? openAiAudience), {
    host: openAiHost,
    path: "/oauth/token",
    headers: {},
    body: (assertion) => ({
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
      subject_token: assertion,
      identity_provider_id: given.identityProviderId,
      service_account_id: given.serviceAccountId
    })
  })
