import { Context, Effect, Layer } from "effect"
import { AttestationKeys } from "../../audit/signing-keys/service.ts"
import { type Capability, capabilitiesOf, resources } from "../../kernel/authority/capability.ts"
import { Settings } from "../../platform/settings/settings.ts"

const algorithms = ["ES256", "EdDSA", "Ed25519", "PS256", "RS256"]
const methods = ["private_key_jwt"]

/** The public metadata of access tokens: the keys that sign them, and the authorization server that issues them. */
export class TokenMetadata extends Context.Service<TokenMetadata>()("app/agents/TokenMetadata", {
  make: Effect.gen(function* () {
    const { publishedFor } = yield* AttestationKeys
    const { publicUrl } = (yield* Settings).api
    const authorizationServer = {
      issuer: publicUrl,
      token_endpoint: `${publicUrl}/oauth2/token`,
      introspection_endpoint: `${publicUrl}/oauth2/introspect`,
      revocation_endpoint: `${publicUrl}/oauth2/revoke`,
      jwks_uri: `${publicUrl}/.well-known/jwks.json`,
      registration_endpoint: `${publicUrl}/api/applications/register`,
      grant_types_supported: ["client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange"],
      response_types_supported: [],
      scopes_supported: resources.flatMap(capabilitiesOf),
      token_endpoint_auth_methods_supported: methods,
      token_endpoint_auth_signing_alg_values_supported: algorithms,
      introspection_endpoint_auth_methods_supported: methods,
      introspection_endpoint_auth_signing_alg_values_supported: algorithms,
      revocation_endpoint_auth_methods_supported: methods,
      revocation_endpoint_auth_signing_alg_values_supported: algorithms
    }
    const protectedResource = (path: string, name: string, scopes: ReadonlyArray<Capability>) => ({
      resource: `${publicUrl}${path}`,
      authorization_servers: [publicUrl],
      jwks_uri: authorizationServer.jwks_uri,
      scopes_supported: scopes,
      bearer_methods_supported: ["header"],
      resource_name: `Application Manager: ${name}`
    })
    return {
      keys: publishedFor("sign-tokens"),
      authorizationServer,
      openIdConfiguration: {
        ...authorizationServer,
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: []
      },
      apiResource: protectedResource("/api", "API", authorizationServer.scopes_supported),
      gatewayResource: protectedResource("/v1", "gateway", ["llm:read", "llm:complete", "llm:embed"])
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
