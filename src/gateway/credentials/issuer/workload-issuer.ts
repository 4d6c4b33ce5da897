import { Context, DateTime, Effect, Layer, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { AttestationKeys } from "../../../audit/signing-keys/service.ts"
import { Settings } from "../../../platform/settings/settings.ts"
import { CredentialUnavailable } from "../token-source.ts"

const lifetimeSeconds = 300
/** Vendors' clocks may be a little behind. */
const earlierSeconds = 30
const purpose = "sign-assertions"

/**
 * The issuer of assertions about the gateway, by which vendors give it credentials. It is another issuer than that of
 * agents' tokens and has keys for nothing else: no token of an agent buys a provider's credential, and no endpoint here
 * takes an assertion. RS256 is the one algorithm that all vendors take (Microsoft Entra, "Important considerations and
 * restrictions for federated identity credentials").
 */
export class WorkloadIssuer extends Context.Service<WorkloadIssuer>()("app/gateway/WorkloadIssuer", {
  make: Effect.gen(function* () {
    const keys = yield* AttestationKeys
    const random = yield* SecureRandom.SecureRandom
    const { publicUrl } = (yield* Settings).api
    const issuer = `${publicUrl}/workload`

    /** An assertion that the gateway calls this provider. */
    const issue = Effect.fn("WorkloadIssuer.issue")(function* (provider: string, audience: string) {
      const { sign } = yield* Effect.mapError(
        keys.signer(purpose),
        () => new CredentialUnavailable({ detail: "The key that signs assertions cannot be opened" })
      )
      const now = Math.floor((yield* DateTime.now).epochMilliseconds / 1000)
      const assertion = yield* sign("JWT", {
        iss: issuer,
        sub: `provider:${provider}`,
        aud: audience,
        iat: now,
        nbf: now - earlierSeconds,
        exp: now + lifetimeSeconds,
        jti: yield* random.uuidV7()
      })
      return Redacted.make(assertion, { label: "workload-assertion" })
    })

    return {
      issue,
      /** Its discovery document (OpenID Connect Discovery 1.0, section 3). */
      configuration: {
        issuer,
        jwks_uri: `${issuer}/jwks.json`,
        response_types_supported: ["id_token"] as const,
        subject_types_supported: ["public"] as const,
        id_token_signing_alg_values_supported: ["RS256"] as const
      },
      /** Its public keys; the first request makes the first one, so that it is there before a vendor is to know it. */
      keys: Effect.andThen(Effect.orDie(keys.signer(purpose)), keys.publishedFor(purpose)).pipe(
        Effect.withSpan("WorkloadIssuer.keys")
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
