import { Context, Effect, Layer } from "effect"
import { AttestationKeys } from "../../audit/signing-keys/service.ts"
import { capabilitiesOf, resources } from "../../kernel/authority/capability.ts"
import { Settings } from "../../platform/settings/settings.ts"

const algorithms = ["ES256", "EdDSA", "Ed25519", "PS256", "RS256"]
const methods = ["private_key_jwt"]

/** The public metadata of access tokens: the keys that sign them, and the authorization server that issues them. */
export class TokenMetadata extends Context.Service<TokenMetadata>()("app/identity/TokenMetadata", {
  make: Effect.gen(function* () {
    const { publishedFor } = yield* AttestationKeys
    const { publicUrl } = (yield* Settings).api
    return {
      keys: publishedFor("sign-tokens"),
      authorizationServer: {
        issuer: publicUrl,
        token_endpoint: `${publicUrl}/oauth2/token`,
        introspection_endpoint: `${publicUrl}/oauth2/introspect`,
        revocation_endpoint: `${publicUrl}/oauth2/revoke`,
        jwks_uri: `${publicUrl}/.well-known/jwks.json`,
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
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
