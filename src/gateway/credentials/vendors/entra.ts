import { Effect, Redacted } from "effect"
import { bearerTokenIn } from "../bearer-token.ts"
import { type EntraCredential } from "../domain.ts"
import { type CredentialSources } from "../sources.ts"
import { CredentialUnavailable, type Token } from "../token-source.ts"
import { type CredentialHttp, jsonOf } from "../vendor-exchange.ts"

const host = "login.microsoftonline.com"
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
/** What an assertion is for (Microsoft, "Configure an app to trust an external identity provider"). */
export const entraAudience = "api://AzureADTokenExchange"
const metadataOrigin = "http://169.254.169.254"

const withoutDefault = (scope: string) => scope.replace(/\/\.default$/, "")

/**
 * A token of Entra ID: for an application by its secret or by an assertion (Microsoft identity platform, "OAuth 2.0 client
 * credentials flow"), or for a managed identity by what the platform serves inside a machine or an app ("How to use managed
 * identities … to acquire an access token").
 */
export const entraToken = (
  http: CredentialHttp,
  sources: CredentialSources,
  given: EntraCredential,
  usualScope: string
): Effect.Effect<Token, CredentialUnavailable> => {
  const { assertion: asked, scope = usualScope, secret } = given
  const tenant = given.tenantId ?? sources.environment("AZURE_TENANT_ID")
  const client = given.clientId ?? sources.environment("AZURE_CLIENT_ID")

  const byApplication = Effect.fnUntraced(function* (proof: Readonly<Record<string, string>>) {
    if (tenant === undefined || client === undefined) {
      return yield* new CredentialUnavailable({ detail: "`tenantId` and `clientId` are needed" })
    }
    const url = `https://${host}/${tenant}/oauth2/v2.0/token`
    const form = { grant_type: "client_credentials", client_id: client, scope, ...proof }
    const answer = yield* http.toVendor(
      {
        method: "POST",
        url,
        headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/json" },
        body: new URLSearchParams(form).toString()
      },
      [host]
    )
    return yield* bearerTokenIn(host, yield* jsonOf(url, answer))
  })

  const byAssertion = (assertion: Effect.Effect<Redacted.Redacted, CredentialUnavailable>) =>
    Effect.flatMap(assertion, (token) =>
      byApplication({ client_assertion_type: assertionType, client_assertion: Redacted.value(token) })
    )

  const byManagedIdentity = Effect.fnUntraced(function* () {
    const endpoint = sources.environment("IDENTITY_ENDPOINT")
    const header = sources.environment("IDENTITY_HEADER")
    const query = {
      resource: withoutDefault(scope),
      ...(given.clientId === undefined ? {} : { client_id: given.clientId })
    }
    const inApp = endpoint === undefined || header === undefined ? undefined : { endpoint, header }
    const { headers, origin, url } =
      inApp === undefined
        ? {
            origin: metadataOrigin,
            url: `${metadataOrigin}/metadata/identity/oauth2/token?${new URLSearchParams({ "api-version": "2018-02-01", ...query }).toString()}`,
            headers: { metadata: "true" }
          }
        : {
            origin: loopbackOrigin(inApp.endpoint),
            url: `${inApp.endpoint}?${new URLSearchParams({ "api-version": "2019-08-01", ...query }).toString()}`,
            headers: { "x-identity-header": inApp.header }
          }
    const answer = yield* http.toMetadata({ method: "GET", url, headers }, origin === undefined ? [] : [origin])
    return yield* bearerTokenIn("the managed identity", yield* jsonOf(url, answer))
  })

  if (secret !== undefined) {
    return Effect.flatMap(sources.secret(secret), (value) => byApplication({ client_secret: Redacted.value(value) }))
  }
  if (asked !== undefined) return byAssertion(sources.assertion(asked, entraAudience))
  const file = sources.environment("AZURE_FEDERATED_TOKEN_FILE")
  return file === undefined ? byManagedIdentity() : byAssertion(sources.tokenFile(file))
}

/** The origin of the endpoint that an app's platform names, which is the machine itself or its link. */
const loopbackOrigin = (endpoint: string): string | undefined => {
  const url = URL.parse(endpoint)
  return url !== null && /^(?:localhost|127(?:\.\d{1,3}){3}|169\.254(?:\.\d{1,3}){2}|\[::1\])$/.test(url.hostname)
    ? url.origin
    : undefined
}
