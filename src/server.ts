import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { ByteSize, Duration, Effect, Layer } from "effect"
import { HttpIncomingMessage, HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "./api.ts"
import { AgentKeysHandlers } from "./agents/agent-keys/handlers.ts"
import { AgentKeys } from "./agents/agent-keys/service.ts"
import { AgentsHandlers } from "./agents/agents/handlers.ts"
import { Agents } from "./agents/agents/service.ts"
import { AgentTemplatesHandlers } from "./agents/agent-templates/handlers.ts"
import { AgentTemplates } from "./agents/agent-templates/service.ts"
import { AccountCredentials } from "./people/accounts/credentials.ts"
import { AccountsHandlers } from "./people/accounts/handlers.ts"
import { Passwords } from "./people/accounts/passwords.ts"
import { Accounts } from "./people/accounts/service.ts"
import { ApiKeyCredentialsLayer } from "./agents/api-keys/credentials.ts"
import { ApiKeysHandlers } from "./agents/api-keys/handlers.ts"
import { ApiKeys } from "./agents/api-keys/service.ts"
import { ApplicationsHandlers } from "./applications/applications/handlers.ts"
import { Applications } from "./applications/applications/service.ts"
import { AttestationHandlers, AttestationKeysHandlers } from "./audit/attestation-keys/handlers.ts"
import { AttestationKeyCreations } from "./audit/attestation-keys/creation.ts"
import { AttestationKeyRevocation } from "./audit/attestation-keys/revocation.ts"
import { AttestationKeyRotations } from "./audit/attestation-keys/rotation.ts"
import { AttestationKeys } from "./audit/signing-keys/service.ts"
import { StatementsHandlers } from "./audit/statements/handlers.ts"
import { Statements } from "./audit/statements/service.ts"
import { AuditExport } from "./audit/export/export.ts"
import { AuditFeed } from "./audit/feed/feed.ts"
import { AuditHandlers } from "./audit/handlers.ts"
import { AuditChainer } from "./audit/chain/chainer.ts"
import { AuditRetention } from "./audit/chain/retention.ts"
import { AuditVerification } from "./audit/chain/verification.ts"
import { Audit } from "./audit/log/service.ts"
import { AccessLayer } from "./access/access.ts"
import { LiveAuthorizationLayer } from "./access/live-authorization.ts"
import { Authentication } from "./access/authentication.ts"
import { AuthCacheInvalidation } from "./access/auth-cache-invalidation.ts"
import { RateLimits } from "./access/rate-limits.ts"
import { Rejections } from "./access/rejections.ts"
import { ServiceAccount } from "./access/service-account.ts"
import { ConfigurationArchives } from "./applications/configuration/trees/archives.ts"
import { ConfigurationFiles } from "./applications/configuration/files/files.ts"
import { ConfigurationHandlers } from "./applications/configuration/files/handlers.ts"
import { Configuration } from "./applications/configuration/files/service.ts"
import { ConfigurationSoftDelete } from "./applications/configuration/soft-delete/service.ts"
import { ConfigurationTreesHandlers } from "./applications/configuration/trees/handlers.ts"
import { ConfigurationTrees } from "./applications/configuration/trees/service.ts"
import { ConfigurationWatch } from "./applications/configuration/files/watch.ts"
import { DetailedHealth } from "./operations/dashboard/detailed-health.ts"
import { DashboardHandlers } from "./operations/dashboard/handlers.ts"
import { Dashboard } from "./operations/dashboard/service.ts"
import { DelegationsHandlers } from "./agents/delegations/handlers.ts"
import { Delegations } from "./agents/delegations/service.ts"
import { TranscriptsHandlers } from "./gateway/transcripts/handlers.ts"
import { Transcripts } from "./gateway/transcripts/service.ts"
import { HealthHandlers } from "./operations/health/handlers.ts"
import { HealthChecks } from "./operations/health/service.ts"
import { IdempotencyLayer } from "./platform/idempotency/service.ts"
import { LlmAdminHandlers } from "./gateway/configuration/handlers.ts"
import { LlmCallsHandlers, LlmHandlers } from "./gateway/wire/native/handlers.ts"
import { GatewayCallsLayer, GatewayCatalogueLayer } from "./gateway/layers.ts"
import { VendorRoutesLayer } from "./gateway/wire/vendor/routes.ts"
import { FlushSettlementsLayer, SweeperLayer } from "./budgets/ledger/service.ts"
import { BudgetAlertsHandlers } from "./budgets/alerts/handlers.ts"
import { ApprovalsHandlers } from "./budgets/approvals/handlers.ts"
import { BudgetCapsHandlers } from "./budgets/caps/handlers.ts"
import { SpendHandlers } from "./budgets/reservations/handlers.ts"
import { BudgetsLayer, LedgerLayer } from "./budgets/layers.ts"
import { AllPlansHandlers, PlansHandlers } from "./budgets/plans/handlers.ts"
import { Plans } from "./budgets/plans/service.ts"
import { AnomaliesHandlers } from "./insights/anomalies/handlers.ts"
import { BillingHandlers } from "./insights/billing/handlers.ts"
import { InsightsHandlers } from "./insights/reports/handlers.ts"
import { CloudEventsHandlers } from "./events/cloud-events/handlers.ts"
import { IntegrationsHandlers } from "./events/integrations/handlers.ts"
import { EventSubscriptionsHandlers } from "./events/subscriptions/handlers.ts"
import { EventsLayer } from "./events/layers.ts"
import { InsightsLayer } from "./insights/layers.ts"
import { SubscriptionsHandlers } from "./insights/subscriptions/handlers.ts"
import { SubscriptionQuotasLayer } from "./insights/subscriptions/quotas.ts"
import { UsageHandlers } from "./insights/usage/handlers.ts"
import { CapabilityUses } from "./access/capability-uses.ts"
import { SecurityHandlers } from "./operations/security/handlers.ts"
import { SyntheticPrincipalsHandlers } from "./operations/synthetic-principals/handlers.ts"
import { SyntheticPrincipals } from "./operations/synthetic-principals/service.ts"
import { Security } from "./operations/security/service.ts"
import { BackgroundJobs } from "./platform/runtime/background-jobs.ts"
import { DigestLayer, SecureRandomLayer } from "./platform/crypto/node-crypto.ts"
import { PreconditionsLayer } from "./platform/preconditions/service.ts"
import { routerConfig } from "./platform/http/allowed-methods.ts"
import { edgeLayer } from "./platform/http/edge.ts"
import { InFlight, Shutdown } from "./platform/http/in-flight.ts"
import { LeanServerLayer, makeServer } from "./platform/http/listener.ts"
import { type DatabaseConnection } from "./platform/database/connection.ts"
import { type poolLayer } from "./platform/database/database.ts"
import { Notifications } from "./platform/database/notifications.ts"
import { cors } from "./platform/http/cors.ts"
import { ServedApi, untyped } from "./platform/http/served-api.ts"
import { FrontPageLayer } from "./platform/openapi/front-page.ts"
import { ProblemPagesLayer } from "./platform/openapi/problem-pages.ts"
import { PrometheusLayer } from "./platform/observability/metrics.ts"
import { SharedRedis } from "./platform/redis/shared-redis.ts"
import { Sealing } from "./platform/crypto/sealing.ts"
import * as Logging from "./platform/observability/logging.ts"
import * as Telemetry from "./platform/observability/telemetry.ts"
import { serviceVersion } from "./platform/runtime/version.ts"
import { requireServable, Settings } from "./platform/settings/settings.ts"
import { SwaggerLayer } from "./platform/openapi/swagger.ts"
import { ValidationLayer } from "./platform/http/validation.ts"
import { RolesHandlers } from "./applications/roles/handlers.ts"
import { Roles } from "./applications/roles/service.ts"
import { TrialSessionTermination } from "./trials/sessions/termination.ts"
import { SessionsHandlers } from "./trials/sessions/handlers.ts"
import { Sessions } from "./trials/sessions/service.ts"
import { ConsoleLayer } from "./console/pages.ts"
import { ClaimLinks, InitialAdminSetup } from "./people/sign-in/initial-admin-setup.ts"
import { SessionCredentials, SessionTokensLayer } from "./people/sign-in/credentials.ts"
import { LoginThrottle } from "./people/login-throttle/service.ts"
import { AccountSessionTermination } from "./people/sign-in/termination.ts"
import { SignInHandlers } from "./people/sign-in/handlers.ts"
import { SessionIssuer } from "./people/sign-in/session-issuer.ts"
import { OwnAccount } from "./people/sign-in/own-account.ts"
import { SignIn } from "./people/sign-in/service.ts"
import { IdentityProvidersHandlers } from "./people/identity-providers/handlers.ts"
import { IdentityProviders } from "./people/identity-providers/service.ts"
import { OidcSignInHandlers } from "./people/oidc-sign-in/handlers.ts"
import { OidcSignIn } from "./people/oidc-sign-in/service.ts"
import { RegistrationTokensHandlers } from "./agents/registration-tokens/handlers.ts"
import { RegistrationTokens } from "./agents/registration-tokens/service.ts"
import { RegistrationsHandlers } from "./agents/registrations/handlers.ts"
import { Registrations } from "./agents/registrations/service.ts"
import { RegistrationWireLayer } from "./agents/registrations/wire.ts"
import { Downloads } from "./platform/http/downloads.ts"
import { OutboundHttp } from "./platform/outbound/outbound-http.ts"
import { TenantsHandlers } from "./tenants/handlers.ts"
import { Tenants } from "./tenants/service.ts"
import { AccessTokens } from "./agents/agent-credentials/access-tokens.ts"
import { AgentClients } from "./agents/agent-credentials/clients.ts"
import { AgentCredentials } from "./agents/agent-credentials/service.ts"
import { Exchanges } from "./agents/oauth/exchange.ts"
import { AgentCredentialsHandlers } from "./agents/agent-credentials/handlers.ts"
import { SubjectTokensHandlers } from "./agents/subject-tokens/handlers.ts"
import { WorkloadTokens } from "./agents/oauth/workload-tokens.ts"
import { AgentTokensHandlers, TokenMetadataHandlers } from "./agents/oauth/handlers.ts"
import { TokenIntrospection } from "./agents/agent-credentials/introspection.ts"
import { TokenMetadata } from "./agents/oauth/metadata.ts"
import { CredentialMint } from "./agents/agent-credentials/mint.ts"
import { OAuthRequestsLayer } from "./agents/oauth/oauth-requests.ts"
import { AgentGrants } from "./agents/oauth/service.ts"
import { SubjectTokens } from "./agents/subject-tokens/service.ts"
import { OAuthWireLayer } from "./agents/oauth/wire.ts"
import { TrialUsersHandlers } from "./trials/users/handlers.ts"
import { TrialUsers } from "./trials/users/service.ts"

const Handlers = Layer.mergeAll(
  HealthHandlers,
  ApplicationsHandlers,
  ConfigurationHandlers,
  ConfigurationTreesHandlers,
  TrialUsersHandlers,
  SessionsHandlers,
  RolesHandlers,
  TenantsHandlers,
  ApiKeysHandlers,
  AgentsHandlers,
  AgentTemplatesHandlers,
  AgentKeysHandlers,
  DelegationsHandlers,
  AgentCredentialsHandlers,
  AgentTokensHandlers,
  TokenMetadataHandlers,
  SubjectTokensHandlers,
  AccountsHandlers,
  SignInHandlers,
  IdentityProvidersHandlers,
  OidcSignInHandlers,
  RegistrationTokensHandlers,
  RegistrationsHandlers,
  LlmHandlers,
  LlmCallsHandlers,
  LlmAdminHandlers,
  TranscriptsHandlers,
  SpendHandlers,
  BudgetCapsHandlers,
  BudgetAlertsHandlers,
  ApprovalsHandlers,
  PlansHandlers,
  AllPlansHandlers,
  InsightsHandlers,
  UsageHandlers,
  SubscriptionsHandlers,
  BillingHandlers,
  AnomaliesHandlers,
  CloudEventsHandlers,
  EventSubscriptionsHandlers,
  IntegrationsHandlers,
  AuditHandlers,
  AttestationHandlers,
  AttestationKeysHandlers,
  StatementsHandlers,
  DashboardHandlers,
  SecurityHandlers,
  SyntheticPrincipalsHandlers
)

const Middleware = Layer.mergeAll(
  ValidationLayer,
  PreconditionsLayer,
  AccessLayer,
  IdempotencyLayer,
  FlushSettlementsLayer,
  OAuthRequestsLayer
)

// What proves the log and gives it away, beside what writes it.
const AuditProof = Layer.mergeAll(
  AuditChainer.layer,
  AuditVerification.layer,
  AuditExport.layer,
  AuditFeed.layer,
  AuditRetention.layer
)

const ConfigurationServices = Layer.mergeAll(
  Configuration.layer,
  ConfigurationFiles.layer,
  ConfigurationTrees.layer,
  ConfigurationArchives.layer
).pipe(Layer.provideMerge(ConfigurationWatch.layer))

// Each needs those below it.
const AgentServices = Layer.mergeAll(
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
  Layer.provideMerge(Layer.mergeAll(AccessTokens.layerAgentTokens, CredentialMint.layer, AgentClients.layer)),
  Layer.provideMerge(Layer.mergeAll(AccessTokens.layer, Delegations.layer, SubjectTokens.layer)),
  Layer.provideMerge(Agents.layer)
)

/** Accounts and how they come in, above the roles that they have and the interface sessions that they open. */
const SignInServices = Layer.mergeAll(
  SignIn.layer,
  OidcSignIn.layer,
  OwnAccount.layer,
  InitialAdminSetup.layer,
  ClaimLinks.layer,
  SessionTokensLayer
).pipe(
  Layer.provideMerge(Layer.mergeAll(SessionIssuer.layer, SessionCredentials.layer, LoginThrottle.layer)),
  Layer.provideMerge(Layer.mergeAll(Accounts.layer, AccountCredentials.layer, IdentityProviders.layer)),
  Layer.provideMerge(Layer.mergeAll(AccountSessionTermination.layer, Passwords.layer)),
  Layer.provideMerge(Layer.mergeAll(Sessions.layer, Roles.layer, Tenants.layer))
)

/** What may be spent, and is: above agents and tenants, whose it is. */
const LedgerServices = Layer.mergeAll(BudgetsLayer, Plans.layer, SweeperLayer).pipe(Layer.provideMerge(LedgerLayer))

/** The gateway: its calls above the ledger, which knows their prices from the gateway's catalogue. */
const GatewayServices = GatewayCallsLayer.pipe(
  Layer.provideMerge(Layer.merge(LedgerServices, Transcripts.layer)),
  Layer.provide(SubscriptionQuotasLayer),
  Layer.provideMerge(GatewayCatalogueLayer)
)

const Services = SyntheticPrincipals.layer.pipe(
  Layer.provideMerge(
    Layer.mergeAll(
      Dashboard.layer,
      DetailedHealth.layer.pipe(Layer.provideMerge(EventsLayer)),
      Registrations.layer.pipe(Layer.provideMerge(Layer.merge(ApiKeys.layer, RegistrationTokens.layer))),
      InsightsLayer,
      Security.layer
    )
  ),
  Layer.provideMerge(Layer.merge(GatewayServices, LiveAuthorizationLayer)),
  Layer.provideMerge(ConfigurationServices),
  Layer.provideMerge(Layer.merge(Authentication.layer, CapabilityUses.layer)),
  Layer.provideMerge(AgentServices),
  Layer.provideMerge(SignInServices),
  Layer.provideMerge(Layer.mergeAll(HealthChecks.layer, TrialUsers.layer, Applications.layer, ApiKeyCredentialsLayer)),
  Layer.provideMerge(
    Layer.mergeAll(TrialSessionTermination.layer, ServiceAccount.layer, ConfigurationSoftDelete.layer, AuditProof)
  ),
  Layer.provideMerge(
    Layer.mergeAll(
      AttestationKeyCreations.layer,
      AttestationKeyRotations.layer,
      AttestationKeyRevocation.layer,
      Statements.layer
    )
  ),
  Layer.provideMerge(AuthCacheInvalidation.layerKeyRevocations),
  Layer.provideMerge(AttestationKeys.layer),
  Layer.provideMerge(Rejections.layer),
  Layer.provideMerge(Layer.mergeAll(Audit.layer, AuthCacheInvalidation.layer, Sealing.layer)),
  Layer.provideMerge(Notifications.layer),
  Layer.provideMerge(RateLimits.layer),
  Layer.provideMerge(SharedRedis.layer),
  Layer.provideMerge(
    Layer.mergeAll(SecureRandomLayer, DigestLayer, BackgroundJobs.layer, Downloads.layer, OutboundHttp.layer)
  )
)

const BodyLimit = Layer.effect(
  HttpIncomingMessage.MaxBodySize,
  Effect.map(Settings, ({ api }) => ByteSize.bytes(api.maxBodyBytes))
)

const Routes = Layer.mergeAll(
  HttpApiBuilder.layer(Api),
  FrontPageLayer,
  SwaggerLayer,
  ProblemPagesLayer,
  ConsoleLayer,
  PrometheusLayer,
  OAuthWireLayer,
  RegistrationWireLayer,
  VendorRoutesLayer,
  edgeLayer
)

/** The logs, metrics and spans of the process. */
export const ObservabilityLayer = Layer.unwrap(
  Effect.map(Settings, ({ environment, logging, telemetry }) =>
    Telemetry.layer({
      endpoint: telemetry.otlp.endpoint,
      headers: telemetry.otlp.headers,
      serviceName: telemetry.serviceName,
      serviceVersion,
      environment
    }).pipe(Layer.provideMerge(Logging.layer({ level: logging.level, format: logging.format })))
  )
)

/** Binds the port. Goes below everything that a start creates or prints once, which a start that cannot be would lose. */
export const ListenerLayer = Layer.unwrap(
  Effect.map(Effect.andThen(requireServable, Settings), ({ api }) =>
    NodeHttpServer.layer(() => makeServer(api), {
      port: api.port,
      host: api.host,
      gracefulShutdownTimeout: Duration.seconds(api.shutdownSeconds)
    })
  )
)

const Served = Layer.unwrap(
  Effect.map(Settings, ({ api }) =>
    HttpRouter.serve(Routes.pipe(Layer.provide(Handlers), Layer.provide(Layer.succeed(ServedApi, untyped(Api)))), {
      disableLogger: true,
      disableListenLog: true,
      routerConfig,
      ...cors(api)
    })
  )
)

// Built last and so closed first: from then on the service says that it is not ready, and what would last for ever ends.
const Drain = Layer.effectDiscard(Effect.flatMap(Shutdown, ({ begin }) => Effect.addFinalizer(() => begin)))

type FromOutside =
  | Settings
  | DatabaseConnection
  | Layer.Success<ReturnType<typeof poolLayer>>
  | Layer.Success<typeof ListenerLayer>

/** The whole service; settings, database and listener come from outside. */
export const ServerLayer = Drain.pipe(
  Layer.provideMerge(Served),
  Layer.provideMerge(LeanServerLayer),
  Layer.provide(Middleware),
  Layer.provideMerge(Services),
  Layer.provide(Layer.merge(InFlight.layer, BodyLimit)),
  Layer.provideMerge(Shutdown.layer),
  // If a service has no layer, the compile error here says which one.
  Layer.satisfiesServicesType<FromOutside>()
)
