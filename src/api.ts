import { IdentityProvidersApi } from "./people/identity-providers/api.ts"
import { RegistrationTokensApi } from "./agents/registration-tokens/api.ts"
import { RegistrationsApi } from "./agents/registrations/api.ts"
import { withRegistration } from "./agents/registrations/wire-api.ts"
import { OidcSignInApi } from "./people/oidc-sign-in/api.ts"
import { Context, flow } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import { AgentKeysApi } from "./agents/agent-keys/api.ts"
import { AgentsApi } from "./agents/agents/api.ts"
import { AgentTemplatesApi } from "./agents/agent-templates/api.ts"
import { AccountsApi } from "./people/accounts/api.ts"
import { ApiKeysApi } from "./agents/api-keys/api.ts"
import { ApplicationsApi } from "./applications/applications/api.ts"
import { AttestationApi, AttestationKeysApi } from "./audit/attestation-keys/api.ts"
import { StatementsApi } from "./audit/statements/api.ts"
import { AuditApi } from "./audit/api.ts"
import { withCompatibility } from "./gateway/wire/document-api.ts"
import { ConfigurationApi } from "./applications/configuration/files/api.ts"
import { ConfigurationTreesApi } from "./applications/configuration/trees/api.ts"
import { DashboardApi } from "./operations/dashboard/api.ts"
import { DelegationsApi } from "./agents/delegations/api.ts"
import { TranscriptsApi } from "./gateway/transcripts/api.ts"
import { HealthApi } from "./operations/health/api.ts"
import { Validation } from "./kernel/problems/validation.ts"
import { LlmAdminApi } from "./gateway/configuration/api.ts"
import { LlmApi, LlmCallsApi } from "./gateway/wire/native/api.ts"
import { SpendApi } from "./budgets/reservations/api.ts"
import { BudgetAlertsApi } from "./budgets/alerts/api.ts"
import { ApprovalsApi } from "./budgets/approvals/api.ts"
import { BudgetCapsApi } from "./budgets/caps/api.ts"
import { AllPlansApi, PlansApi } from "./budgets/plans/api.ts"
import { AnomaliesApi } from "./insights/anomalies/api.ts"
import { SecurityApi } from "./operations/security/api.ts"
import { SyntheticPrincipalsApi } from "./operations/synthetic-principals/api.ts"
import { BillingApi } from "./insights/billing/api.ts"
import { CloudEventsApi } from "./events/cloud-events/api.ts"
import { EventSubscriptionsApi } from "./events/subscriptions/api.ts"
import { IntegrationsApi } from "./events/integrations/api.ts"
import { InsightsApi } from "./insights/reports/api.ts"
import { SubscriptionsApi } from "./insights/subscriptions/api.ts"
import { UsageApi } from "./insights/usage/api.ts"
import { RolesApi } from "./applications/roles/api.ts"
import { SessionsApi } from "./trials/sessions/api.ts"
import { SignInApi } from "./people/sign-in/api.ts"
import { TenantsApi } from "./tenants/api.ts"
import { AgentTokensApi, TokenMetadataApi } from "./agents/oauth/api.ts"
import { AgentCredentialsApi } from "./agents/agent-credentials/api.ts"
import { SubjectTokensApi } from "./agents/subject-tokens/api.ts"
import { withOAuth } from "./agents/oauth/wire-api.ts"
import { TrialUsersApi } from "./trials/users/api.ts"

const strict = { errors: "all", onExcessProperty: "error" } as const

/** Everything that the service offers; the OpenAPI document is derived from it. */
export class Api extends HttpApi.make("application-manager")
  .add(
    HealthApi,
    ApplicationsApi,
    RegistrationTokensApi,
    RegistrationsApi,
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
    IdentityProvidersApi,
    AccountsApi,
    SignInApi,
    OidcSignInApi,
    LlmApi,
    LlmCallsApi,
    LlmAdminApi,
    TranscriptsApi,
    SpendApi,
    BudgetCapsApi,
    BudgetAlertsApi,
    ApprovalsApi,
    PlansApi,
    AllPlansApi,
    InsightsApi,
    UsageApi,
    SubscriptionsApi,
    BillingApi,
    AnomaliesApi,
    CloudEventsApi,
    EventSubscriptionsApi,
    IntegrationsApi,
    AuditApi,
    AttestationApi,
    AttestationKeysApi,
    StatementsApi,
    DashboardApi,
    SecurityApi,
    SyntheticPrincipalsApi
  )
  .middleware(Validation)
  .annotateMerge(
    Context.make(HttpApi.ParamsParseOptions, strict).pipe(
      Context.add(HttpApi.QueryParseOptions, strict),
      // All faults of a body are looked for once it has one.
      Context.add(HttpApi.PayloadParseOptions, { ...strict, errors: "first" }),
      // Answers are made of what was checked on its way in.
      Context.add(HttpApi.SuccessParseOptions, { disableChecks: true })
    )
  )
  .annotate(OpenApi.Transform, flow(withOAuth, withRegistration, withCompatibility))
  .annotateMerge(
    OpenApi.annotations({
      title: "Application Manager",
      description:
        "Lets people and AI agents in, and keeps them within bounds. Every error is an RFC 9457 problem; `GET /problems` lists them. On every path, a request that is no HTTP/1.1 or arrives too slowly is one of 400, 408, 417, 431 or 501."
    })
  ) {}
