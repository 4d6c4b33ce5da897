import { flow } from "effect"
import { AgentCredentialsApi } from "./agent-credentials/api.ts"
import { AgentKeysApi } from "./agent-keys/api.ts"
import { AgentTemplatesApi } from "./agent-templates/api.ts"
import { AgentsApi } from "./agents/api.ts"
import { ApiKeysApi } from "./api-keys/api.ts"
import { DelegationsApi } from "./delegations/api.ts"
import { AgentTokensApi, TokenMetadataApi } from "./oauth/api.ts"
import { withOAuth } from "./oauth/wire-api.ts"
import { RegistrationTokensApi } from "./registration-tokens/api.ts"
import { RegistrationsApi } from "./registrations/api.ts"
import { withRegistration } from "./registrations/wire-api.ts"
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

/** The paths of the RFCs, in the document beside the groups. */
export const withStandards = flow(withOAuth, withRegistration)
