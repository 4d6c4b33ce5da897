import { Layer } from "effect"
import { AccessTokens } from "./agent-credentials/access-tokens.ts"
import { AgentClients } from "./agent-credentials/clients.ts"
import { AgentCredentialsHandlers } from "./agent-credentials/handlers.ts"
import { TokenIntrospection } from "./agent-credentials/introspection.ts"
import { CredentialMint } from "./agent-credentials/mint.ts"
import { TokensRepository } from "./agent-credentials/repository.ts"
import { AgentCredentials } from "./agent-credentials/service.ts"
import { AgentKeysHandlers } from "./agent-keys/handlers.ts"
import { AgentKeys } from "./agent-keys/service.ts"
import { AgentTemplatesHandlers } from "./agent-templates/handlers.ts"
import { AgentTemplates } from "./agent-templates/service.ts"
import { AgentsHandlers } from "./agents/handlers.ts"
import { Agents } from "./agents/service.ts"
import { ApiKeysHandlers } from "./api-keys/handlers.ts"
import { ApiKeyCheckLayer } from "./api-keys/key-check.ts"
import { ApiKeys } from "./api-keys/service.ts"
import { DelegationsHandlers } from "./delegations/handlers.ts"
import { Delegations } from "./delegations/service.ts"
import { Exchanges } from "./oauth/exchange.ts"
import { AgentTokensHandlers, OAuthHandlers, TokenMetadataHandlers } from "./oauth/handlers.ts"
import { TokenMetadata } from "./oauth/metadata.ts"
import { OAuthRequestsLayer } from "./oauth/oauth-requests.ts"
import { AgentGrants } from "./oauth/service.ts"
import { WorkloadTokens } from "./oauth/workload-tokens.ts"
import { RegistrationTokensHandlers } from "./registration-tokens/handlers.ts"
import { RegistrationTokens } from "./registration-tokens/service.ts"
import { RegistrationHandlers, RegistrationsHandlers } from "./registrations/handlers.ts"
import { Registrations } from "./registrations/service.ts"
import { SubjectTokensHandlers } from "./subject-tokens/handlers.ts"
import { SubjectTokens } from "./subject-tokens/service.ts"

/** Programs with keys, and the applications that register to get one. */
const Programs = Registrations.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(ApiKeys.layer, ApiKeyCheckLayer, RegistrationTokens.layer))
)

/** Agents and their tokens; each line needs those below it. */
const AgentsAndTokens = Layer.mergeAll(
  AgentTemplates.layer,
  AgentKeys.layer,
  AgentGrants.layer,
  TokenIntrospection.layer
).pipe(
  Layer.provideMerge(
    Layer.mergeAll(
      Exchanges.layer.pipe(Layer.provide(WorkloadTokens.layer)),
      AgentCredentials.layer,
      TokenMetadata.layer
    )
  ),
  Layer.provideMerge(Layer.mergeAll(AccessTokens.layerCheck, CredentialMint.layer, AgentClients.layer)),
  Layer.provideMerge(Layer.mergeAll(AccessTokens.layer, Delegations.layer, SubjectTokens.layer)),
  Layer.provideMerge(Agents.layer)
)

export const layer = Layer.merge(Programs, AgentsAndTokens)

export const middleware = OAuthRequestsLayer

export const handlers = Layer.mergeAll(
  ApiKeysHandlers,
  RegistrationTokensHandlers,
  RegistrationsHandlers,
  AgentsHandlers,
  AgentTemplatesHandlers,
  AgentKeysHandlers,
  DelegationsHandlers,
  AgentCredentialsHandlers,
  AgentTokensHandlers,
  TokenMetadataHandlers,
  SubjectTokensHandlers,
  OAuthHandlers.pipe(Layer.provide(TokensRepository.layer)),
  RegistrationHandlers
)
