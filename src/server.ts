import { NodeHttpServer, NodeRedis } from "@effect/platform-node"
import { Duration, Effect, Layer, Option } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { RateLimiter } from "effect/persistence"
import { createServer } from "node:http"
import { Api } from "./api.ts"
import { ApiKeyCredentials } from "./api-keys/credentials.ts"
import { ApiKeysHandlers } from "./api-keys/handlers.ts"
import { ApiKeys } from "./api-keys/service.ts"
import { AuditHandlers } from "./audit/handlers.ts"
import { Audit } from "./audit/service.ts"
import { AccessLayer } from "./auth/access.ts"
import { AuthorityChanges } from "./auth/authority-changes.ts"
import { RateLimits } from "./auth/rate-limits.ts"
import { ServiceAccount } from "./auth/service-account.ts"
import { HealthHandlers } from "./health/handlers.ts"
import { HealthChecks } from "./health/service.ts"
import { IdempotencyLayer } from "./idempotency/service.ts"
import { AllowedMethodsLayer } from "./platform/allowed-methods.ts"
import { edgeLayer } from "./platform/edge.ts"
import { InFlight } from "./platform/in-flight.ts"
import * as Metrics from "./platform/metrics.ts"
import { ProblemPagesLayer } from "./platform/problem-pages.ts"
import { PrometheusLayer } from "./platform/prometheus.ts"
import { Settings } from "./platform/settings.ts"
import { Shutdown } from "./platform/shutdown.ts"
import { SwaggerLayer } from "./platform/swagger.ts"
import { ValidationLayer } from "./platform/validation.ts"
import { SessionEndings } from "./sessions/endings.ts"
import { SessionsHandlers } from "./sessions/handlers.ts"
import { Sessions } from "./sessions/service.ts"
import { TrialUsersHandlers } from "./trial-users/handlers.ts"
import { TrialUsers } from "./trial-users/service.ts"

const Handlers = Layer.mergeAll(HealthHandlers, TrialUsersHandlers, SessionsHandlers, ApiKeysHandlers, AuditHandlers)

const Middleware = Layer.mergeAll(ValidationLayer, AccessLayer, IdempotencyLayer)

const RateLimitStore = Layer.unwrap(
  Effect.map(Settings, ({ redis }) =>
    Option.match(redis.url, {
      onNone: () => RateLimiter.layerStoreMemory,
      onSome: (url) => RateLimiter.layerStoreRedis().pipe(Layer.provide(NodeRedis.layer({ url: String(url) })))
    })
  )
)

const Services = Layer.mergeAll(HealthChecks.layer, Sessions.layer, ApiKeys.layer).pipe(
  Layer.provideMerge(Layer.mergeAll(TrialUsers.layer, ApiKeyCredentials.layer)),
  Layer.provideMerge(Layer.mergeAll(SessionEndings.layer, ServiceAccount.layer)),
  Layer.provideMerge(Layer.mergeAll(Audit.layer, AuthorityChanges.layer)),
  Layer.provideMerge(RateLimits.layer.pipe(Layer.provide(RateLimiter.layer), Layer.provide(RateLimitStore))),
  Layer.provideMerge(Layer.mergeAll(SecureRandom.layerWebCrypto, Digest.layerWebCrypto))
)

const Edge = Layer.unwrap(
  Effect.map(Settings, ({ api }) => edgeLayer({ maxBodyBytes: api.maxBodyBytes, onResponse: Metrics.recordRequest }))
)

const Routes = Layer.mergeAll(
  HttpApiBuilder.layer(Api),
  SwaggerLayer,
  ProblemPagesLayer,
  PrometheusLayer,
  AllowedMethodsLayer,
  Edge
)

const Listener = Layer.unwrap(
  Effect.map(Settings, ({ api }) =>
    NodeHttpServer.layer(() => createServer({ requestTimeout: api.requestTimeoutSeconds * 1000 }), {
      port: api.port,
      host: api.host,
      gracefulShutdownTimeout: Duration.seconds(api.shutdownSeconds)
    })
  )
)

const Requests = Layer.unwrap(
  Effect.map(Settings, ({ api }) => InFlight.layer({ timeout: Duration.seconds(api.requestTimeoutSeconds) }))
)

/** The whole service on its database and its listener; `Settings` and `Database` come from outside. */
export const ServerLayer = HttpRouter.serve(Routes.pipe(Layer.provide(Handlers)), {
  disableLogger: true,
  disableListenLog: true,
  routerConfig: { maxParamLength: 1024 }
}).pipe(
  Layer.provide(Middleware),
  Layer.provideMerge(Services),
  Layer.provide(Requests),
  Layer.provideMerge(Shutdown.layer),
  Layer.provideMerge(Listener)
)
