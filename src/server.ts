import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { ByteSize, Duration, Effect, Layer, Option, Redacted } from "effect"
import { HttpIncomingMessage, HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { RateLimiter } from "effect/persistence"
import { Api } from "./api.ts"
import { AgentKeysHandlers } from "./agent-keys/handlers.ts"
import { AgentKeys } from "./agent-keys/service.ts"
import { AgentsHandlers } from "./agents/handlers.ts"
import { Agents } from "./agents/service.ts"
import { AgentTemplatesHandlers } from "./agents/template-handlers.ts"
import { AgentTemplates } from "./agents/templates.ts"
import { AccountCredentials } from "./accounts/credentials.ts"
import { AccountsHandlers } from "./accounts/handlers.ts"
import { Passwords } from "./accounts/passwords.ts"
import { Accounts } from "./accounts/service.ts"
import { ApiKeyCredentials } from "./api-keys/credentials.ts"
import { ApiKeysHandlers } from "./api-keys/handlers.ts"
import { ApiKeys } from "./api-keys/service.ts"
import { ApplicationsHandlers } from "./applications/handlers.ts"
import { Applications } from "./applications/service.ts"
import { AttestationHandlers, AttestationKeysHandlers } from "./attestation/handlers.ts"
import { AttestationKeyEndings } from "./attestation/endings.ts"
import { AttestationKeyRotations } from "./attestation/rotation.ts"
import { AttestationKeys } from "./attestation/service.ts"
import { AuditExport } from "./audit/export.ts"
import { AuditFeed } from "./audit/feed.ts"
import { AuditHandlers } from "./audit/handlers.ts"
import { AuditChainer } from "./audit/chainer.ts"
import { AuditRetention } from "./audit/retention.ts"
import { AuditVerification } from "./audit/verification.ts"
import { Audit } from "./audit/service.ts"
import { AccessLayer } from "./auth/access.ts"
import { Admissions } from "./auth/admissions.ts"
import { Authentication } from "./auth/authentication.ts"
import { AuthorityChanges } from "./auth/authority-changes.ts"
import { RateLimits } from "./auth/rate-limits.ts"
import { ServiceAccount } from "./auth/service-account.ts"
import { ConfigurationArchives } from "./configuration/archives.ts"
import { ConfigurationFiles } from "./configuration/files.ts"
import { ConfigurationHandlers } from "./configuration/handlers.ts"
import { Configuration } from "./configuration/service.ts"
import { ConfigurationTrash } from "./configuration/trash.ts"
import { ConfigurationTreesHandlers } from "./configuration/tree-handlers.ts"
import { ConfigurationTrees } from "./configuration/trees.ts"
import { ConfigurationWatch } from "./configuration/watch.ts"
import { DetailedHealth } from "./dashboard/detailed-health.ts"
import { DashboardHandlers } from "./dashboard/handlers.ts"
import { Dashboard } from "./dashboard/service.ts"
import { DelegationsHandlers } from "./delegations/handlers.ts"
import { Delegations } from "./delegations/service.ts"
import { GatewayContentsHandlers } from "./gateway-contents/handlers.ts"
import { GatewayContents } from "./gateway-contents/service.ts"
import { HealthHandlers } from "./health/handlers.ts"
import { HealthChecks } from "./health/service.ts"
import { IdempotencyLayer } from "./idempotency/service.ts"
import { LlmAdminHandlers, LlmCallsHandlers, LlmHandlers } from "./llm/handlers.ts"
import { GatewayCallsLayer, GatewayCatalogueLayer } from "./llm/layers.ts"
import { ModelsWireLayer } from "./llm/models-wire.ts"
import { GatewayWireLayer } from "./llm/wire.ts"
import { AfterChargesLayer } from "./ledger/after-charges.ts"
import { BudgetAlertsHandlers } from "./ledger/alert-handlers.ts"
import { ApprovalsHandlers } from "./ledger/approval-handlers.ts"
import { BudgetCapsHandlers } from "./ledger/cap-handlers.ts"
import { SpendHandlers } from "./ledger/handlers.ts"
import { BudgetsLayer, LedgerLayer } from "./ledger/layers.ts"
import { SweeperLayer } from "./ledger/sweeper.ts"
import { PlansHandlers } from "./plans/handlers.ts"
import { Plans } from "./plans/service.ts"
import { AllowedMethodsLayer } from "./platform/allowed-methods.ts"
import { BackgroundJobs } from "./platform/background-jobs.ts"
import { DigestLayer } from "./platform/digest.ts"
import { edgeLayer } from "./platform/edge.ts"
import { InFlight } from "./platform/in-flight.ts"
import { makeServer } from "./platform/listener.ts"
import { LeanServerLayer } from "./platform/lean-context.ts"
import { Notifications } from "./platform/notifications.ts"
import { perimeter } from "./platform/perimeter.ts"
import { ProblemPagesLayer } from "./platform/problem-pages.ts"
import { PrometheusLayer } from "./platform/prometheus.ts"
import { Sealing } from "./platform/sealing.ts"
import { SecureRandomLayer } from "./platform/secure-random.ts"
import { Settings } from "./platform/settings.ts"
import { Shutdown } from "./platform/shutdown.ts"
import { SwaggerLayer } from "./platform/swagger.ts"
import { ValidationLayer } from "./platform/validation.ts"
import { RolesHandlers } from "./roles/handlers.ts"
import { Roles } from "./roles/service.ts"
import { SessionEndings } from "./sessions/endings.ts"
import { SessionsHandlers } from "./sessions/handlers.ts"
import { Sessions } from "./sessions/service.ts"
import { ClaimPageLayer } from "./sign-in/claim-page.ts"
import { Claims } from "./sign-in/claims.ts"
import { SessionCredentials, SessionTokensLayer } from "./sign-in/credentials.ts"
import { SignInDelays } from "./sign-in/delays.ts"
import { AccountSessionEndings } from "./sign-in/endings.ts"
import { SignInHandlers } from "./sign-in/handlers.ts"
import { Issuing } from "./sign-in/issuing.ts"
import { OwnAccount } from "./sign-in/own-account.ts"
import { SignIn } from "./sign-in/service.ts"
import { TenantsHandlers } from "./tenants/handlers.ts"
import { Tenants } from "./tenants/service.ts"
import { AccessTokens } from "./tokens/access-tokens.ts"
import { AgentClients } from "./tokens/clients.ts"
import { AgentCredentials } from "./tokens/credentials.ts"
import { Exchanges } from "./tokens/exchange.ts"
import {
  AgentCredentialsHandlers,
  AgentTokensHandlers,
  SubjectTokensHandlers,
  TokenMetadataHandlers
} from "./tokens/handlers.ts"
import { TokenIntrospection } from "./tokens/introspection.ts"
import { TokenMetadata } from "./tokens/metadata.ts"
import { CredentialMint } from "./tokens/mint.ts"
import { OAuthRequestsLayer } from "./tokens/oauth-requests.ts"
import { AgentGrants } from "./tokens/service.ts"
import { SubjectTokens } from "./tokens/subject-tokens.ts"
import { OAuthWireLayer } from "./tokens/wire.ts"
import { TrialUsersHandlers } from "./trial-users/handlers.ts"
import { TrialUsers } from "./trial-users/service.ts"

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
  LlmHandlers,
  LlmCallsHandlers,
  LlmAdminHandlers,
  GatewayContentsHandlers,
  SpendHandlers,
  BudgetCapsHandlers,
  BudgetAlertsHandlers,
  ApprovalsHandlers,
  PlansHandlers,
  AuditHandlers,
  AttestationHandlers,
  AttestationKeysHandlers,
  DashboardHandlers
)

const Middleware = Layer.mergeAll(ValidationLayer, AccessLayer, IdempotencyLayer, AfterChargesLayer, OAuthRequestsLayer)

// Redis' client is loaded by those who use it only.
const RateLimitStore = Layer.unwrap(
  Effect.gen(function* () {
    const { redis } = yield* Settings
    if (Option.isNone(redis.url)) return RateLimiter.layerStoreMemory
    const NodeRedis = yield* Effect.promise(() => import("@effect/platform-node/NodeRedis"))
    return RateLimiter.layerStoreRedis().pipe(Layer.provide(NodeRedis.layer({ url: Redacted.value(redis.url.value) })))
  })
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
  Layer.provideMerge(Layer.mergeAll(Exchanges.layer, AgentCredentials.layer, TokenMetadata.layer)),
  Layer.provideMerge(Layer.mergeAll(AccessTokens.layerAgentTokens, CredentialMint.layer, AgentClients.layer)),
  Layer.provideMerge(Layer.mergeAll(AccessTokens.layer, Delegations.layer, SubjectTokens.layer)),
  Layer.provideMerge(Agents.layer)
)

/** Accounts and how they come in, above the roles that they have and the interface sessions that they open. */
const SignInServices = Layer.mergeAll(SignIn.layer, OwnAccount.layer, Claims.layer, SessionTokensLayer).pipe(
  Layer.provideMerge(Layer.mergeAll(Issuing.layer, SessionCredentials.layer, SignInDelays.layer)),
  Layer.provideMerge(Layer.mergeAll(Accounts.layer, AccountCredentials.layer)),
  Layer.provideMerge(Layer.mergeAll(AccountSessionEndings.layer, Passwords.layer)),
  Layer.provideMerge(Layer.mergeAll(Sessions.layer, Roles.layer, Tenants.layer))
)

/** What may be spent, and is: above agents and tenants, whose it is. */
const LedgerServices = Layer.mergeAll(BudgetsLayer, Plans.layer, SweeperLayer).pipe(Layer.provideMerge(LedgerLayer))

/** The gateway: its calls above the ledger, which knows their prices from the gateway's catalogue. */
const GatewayServices = GatewayCallsLayer.pipe(
  Layer.provideMerge(Layer.merge(LedgerServices, GatewayContents.layer)),
  Layer.provideMerge(GatewayCatalogueLayer)
)

const Services = Layer.mergeAll(
  Admissions.layer,
  Dashboard.layer,
  DetailedHealth.layer,
  ApiKeys.layer,
  GatewayServices
).pipe(
  Layer.provideMerge(ConfigurationServices),
  Layer.provideMerge(Authentication.layer),
  Layer.provideMerge(AgentServices),
  Layer.provideMerge(SignInServices),
  Layer.provideMerge(Layer.mergeAll(HealthChecks.layer, TrialUsers.layer, Applications.layer, ApiKeyCredentials.layer)),
  Layer.provideMerge(Layer.mergeAll(SessionEndings.layer, ServiceAccount.layer, ConfigurationTrash.layer, AuditProof)),
  Layer.provideMerge(Layer.merge(AttestationKeyRotations.layer, AttestationKeyEndings.layer)),
  Layer.provideMerge(AttestationKeys.layer),
  Layer.provideMerge(Layer.mergeAll(Audit.layer, AuthorityChanges.layer, Sealing.layer)),
  Layer.provideMerge(Notifications.layer),
  Layer.provideMerge(RateLimits.layer.pipe(Layer.provide(RateLimiter.layer), Layer.provide(RateLimitStore))),
  Layer.provideMerge(Layer.mergeAll(SecureRandomLayer, DigestLayer, BackgroundJobs.layer))
)

const BodyLimit = Layer.effect(
  HttpIncomingMessage.MaxBodySize,
  Effect.map(Settings, ({ api }) => ByteSize.bytes(api.maxBodyBytes))
)

const Routes = Layer.mergeAll(
  HttpApiBuilder.layer(Api),
  SwaggerLayer,
  ProblemPagesLayer,
  ClaimPageLayer,
  PrometheusLayer,
  OAuthWireLayer,
  GatewayWireLayer,
  ModelsWireLayer,
  AllowedMethodsLayer,
  edgeLayer
)

const Listener = Layer.unwrap(
  Effect.map(Settings, ({ api }) =>
    NodeHttpServer.layer(() => makeServer(api), {
      port: api.port,
      host: api.host,
      gracefulShutdownTimeout: Duration.seconds(api.shutdownSeconds)
    })
  )
)

const Requests = Layer.unwrap(
  Effect.map(Settings, ({ api }) => InFlight.layer({ timeout: Duration.seconds(api.requestTimeoutSeconds) }))
)

const Served = Layer.unwrap(
  Effect.map(Settings, ({ api }) =>
    HttpRouter.serve(Routes.pipe(Layer.provide(Handlers)), {
      disableLogger: true,
      disableListenLog: true,
      // No longer than the longest head that Node reads, so that every id reaches its check.
      routerConfig: { caseSensitive: true, maxParamLength: 16_384 },
      ...perimeter(api)
    })
  )
)

// Built last and so closed first: from then on the service says that it is not ready, and what would last for ever ends.
const Drain = Layer.effectDiscard(Effect.flatMap(Shutdown, ({ begin }) => Effect.addFinalizer(() => begin)))

/** The whole service on its database and its listener; `Settings` and `Database` come from outside. */
export const ServerLayer = Drain.pipe(
  Layer.provideMerge(Served),
  // Listens last, when everything that answers is there, and stops first.
  Layer.provideMerge(LeanServerLayer),
  Layer.provideMerge(Listener),
  Layer.provide(Middleware),
  Layer.provideMerge(Services),
  Layer.provide(Layer.merge(Requests, BodyLimit)),
  Layer.provideMerge(Shutdown.layer)
)
