import { AgentCredentialsApi } from "./agent-credentials/api.ts"
import { AgentKeysApi } from "./agent-keys/api.ts"
import { AgentTemplatesApi } from "./agent-templates/api.ts"
import { AgentsApi } from "./agents/api.ts"
import { ApiKeysApi } from "./api-keys/api.ts"
import { DelegationsApi } from "./delegations/api.ts"
import { AgentTokensApi, TokenMetadataApi } from "./oauth/api.ts"
import { OAuthApi } from "./oauth/wire-api.ts"
import { RegistrationTokensApi } from "./registration-tokens/api.ts"
import { RegistrationsApi } from "./registrations/api.ts"
import { RegistrationApi } from "./registrations/wire-api.ts"
import { SubjectTokensApi } from "./subject-tokens/api.ts"

export const groups = [
  RegistrationTokensApi,
  RegistrationsApi,
  ApiKeysApi,
  AgentsApi,
  AgentTemplatesApi,
  AgentKeysApi,
  DelegationsApi,
  AgentCredentialsApi,
  AgentTokensApi,
  TokenMetadataApi,
  SubjectTokensApi
] as const

/** The endpoints of RFCs, whose errors are not those of the API. */
export const standards = [OAuthApi, RegistrationApi] as const
