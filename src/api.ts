import { Context, flow } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import { AgentKeysApi } from "./agent-keys/api.ts"
import { AgentsApi } from "./agents/api.ts"
import { AgentTemplatesApi } from "./agents/template-api.ts"
import { AccountsApi } from "./accounts/api.ts"
import { ApiKeysApi } from "./api-keys/api.ts"
import { ApplicationsApi } from "./applications/api.ts"
import { AttestationApi, AttestationKeysApi } from "./attestation/api.ts"
import { AuditApi } from "./audit/api.ts"
import { withCompatibility } from "./compat/api.ts"
import { ConfigurationApi } from "./configuration/api.ts"
import { ConfigurationTreesApi } from "./configuration/tree-api.ts"
import { DashboardApi } from "./dashboard/api.ts"
import { DelegationsApi } from "./delegations/api.ts"
import { GatewayContentsApi } from "./gateway-contents/api.ts"
import { HealthApi } from "./health/api.ts"
import { Validation } from "./kernel/validation.ts"
import { LlmAdminApi, LlmApi, LlmCallsApi } from "./llm/api.ts"
import { SpendApi } from "./ledger/api.ts"
import { BudgetAlertsApi } from "./ledger/alert-api.ts"
import { ApprovalsApi } from "./ledger/approval-api.ts"
import { BudgetCapsApi } from "./ledger/cap-api.ts"
import { PlansApi } from "./plans/api.ts"
import { RolesApi } from "./roles/api.ts"
import { SessionsApi } from "./sessions/api.ts"
import { SignInApi } from "./sign-in/api.ts"
import { TenantsApi } from "./tenants/api.ts"
import { AgentTokensApi, TokenMetadataApi } from "./tokens/api.ts"
import { AgentCredentialsApi } from "./tokens/credential-api.ts"
import { SubjectTokensApi } from "./tokens/subject-api.ts"
import { withOAuth } from "./tokens/wire-api.ts"
import { TrialUsersApi } from "./trial-users/api.ts"

const strict = { errors: "all", onExcessProperty: "error" } as const

/** Everything that the service offers; the OpenAPI document is derived from it. */
export class Api extends HttpApi.make("application-manager")
  .add(
    HealthApi,
    ApplicationsApi,
    ConfigurationApi,
    ConfigurationTreesApi,
    TrialUsersApi,
    SessionsApi,
    RolesApi,
    TenantsApi,
    ApiKeysApi,
    AgentsApi,
    AgentTemplatesApi,
    AgentKeysApi,
    DelegationsApi,
    AgentCredentialsApi,
    AgentTokensApi,
    TokenMetadataApi,
    SubjectTokensApi,
    AccountsApi,
    SignInApi,
    LlmApi,
    LlmCallsApi,
    LlmAdminApi,
    GatewayContentsApi,
    SpendApi,
    BudgetCapsApi,
    BudgetAlertsApi,
    ApprovalsApi,
    PlansApi,
    AuditApi,
    AttestationApi,
    AttestationKeysApi,
    DashboardApi
  )
  .middleware(Validation)
  .annotateMerge(
    Context.make(HttpApi.ParamsParseOptions, strict).pipe(
      Context.add(HttpApi.QueryParseOptions, strict),
      Context.add(HttpApi.PayloadParseOptions, strict),
      // Answers are made of what was checked on its way in.
      Context.add(HttpApi.SuccessParseOptions, { disableChecks: true })
    )
  )
  .annotate(OpenApi.Transform, flow(withOAuth, withCompatibility))
  .annotateMerge(
    OpenApi.annotations({
      title: "Application Manager",
      description:
        "Lets people and AI agents in, and keeps them within bounds. Every error is an RFC 9457 problem; `GET /problems` lists them."
    })
  ) {}
