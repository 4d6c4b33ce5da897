import { Context, Data, DateTime, Effect, Layer, Option, Schema } from "effect"
import { type TenantId } from "../../kernel/identifier.ts"
import { text } from "../../kernel/text.ts"
import { ProviderMetadata } from "../../people/identity-providers/metadata.ts"
import { IdentityProviders } from "../../people/identity-providers/service.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { claimsIn } from "../agent-credentials/assertion.ts"
import { type ExchangeSubject } from "../agent-credentials/repository.ts"

const decodeNamed = Schema.decodeUnknownOption(Schema.Struct({ iss: text(1, 512), sub: text(1, 255) }))

/** A token that no provider of the tenant vouches for. */
class WorkloadTokenRefused extends Data.TaggedError("WorkloadTokenRefused") {}

/** Tokens of workloads as subjects of an exchange: of a registered issuer, for this service, of a subject that is listed. */
export class WorkloadTokens extends Context.Service<WorkloadTokens>()("app/agents/WorkloadTokens", {
  make: Effect.gen(function* () {
    const metadata = yield* ProviderMetadata
    const providers = yield* IdentityProviders
    const { publicUrl } = (yield* Settings).api

    const subjectOf = Effect.fn("WorkloadTokens.subjectOf")(function* (token: string, tenantId: TenantId) {
      const named = Option.getOrUndefined(decodeNamed(claimsIn(token)))
      if (named === undefined) return yield* new WorkloadTokenRefused()
      const trusted = (yield* providers.workload(named.iss)).filter(
        (provider) =>
          (provider.tenantId === null || provider.tenantId === tenantId) && provider.subjects.includes(named.sub)
      )
      const attempts = trusted.map(
        Effect.fnUntraced(function* (provider) {
          const configuration = yield* metadata.configuration(provider)
          const audience = provider.clientId === null ? [publicUrl] : [publicUrl, provider.clientId]
          const { exp = 0, sub } = yield* metadata.verify(provider, configuration, token, audience)
          const subject: ExchangeSubject = {
            name: `idp:${provider.id}:${sub}`,
            tenantId: null,
            credentialId: null,
            agentId: null,
            actors: [],
            ancestorIds: [],
            maxDepth: 32,
            // The grant alone says what the agent may do for it.
            scopes: ["*:*"],
            ceilings: [],
            expiresAt: DateTime.makeUnsafe(exp * 1000),
            isLive: true
          }
          return subject
        })
      )
      return yield* attempts.length === 0
        ? new WorkloadTokenRefused()
        : Effect.mapError(Effect.firstSuccessOf(attempts), () => new WorkloadTokenRefused())
    })

    return {
      /** Whom a token names, if a provider that is there for the tenant signed it and lists the subject. */
      subjectOf
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
