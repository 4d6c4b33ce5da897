import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { ByteSize, Duration, Effect, Layer } from "effect"
import { HttpIncomingMessage } from "effect/http"
import { DigestLayer, SecureRandomLayer } from "./crypto/node-crypto.ts"
import { Sealing } from "./crypto/sealing.ts"
import { Notifications } from "./database/notifications.ts"
import { Downloads } from "./http/downloads.ts"
import { edgeLayer } from "./http/edge.ts"
import { InFlight, Shutdown } from "./http/in-flight.ts"
import { makeServer } from "./http/listener.ts"
import { ValidationLayer } from "./http/validation.ts"
import { IdempotencyLayer } from "./idempotency/service.ts"
import * as Logging from "./observability/logging.ts"
import { PrometheusLayer } from "./observability/metrics.ts"
import * as Telemetry from "./observability/telemetry.ts"
import { FrontPageLayer } from "./openapi/front-page.ts"
import { ProblemPagesLayer } from "./openapi/problem-pages.ts"
import { SwaggerLayer } from "./openapi/swagger.ts"
import { OutboundHttp } from "./outbound/outbound-http.ts"
import { PreconditionsLayer } from "./preconditions/service.ts"
import { SharedRedis } from "./redis/shared-redis.ts"
import { BackgroundJobs } from "./runtime/background-jobs.ts"
import { serviceVersion } from "./runtime/version.ts"
import { requireServable, Settings } from "./settings/settings.ts"
import { socketOptions } from "./web-sockets/handshake.ts"
import { OpenSockets } from "./web-sockets/open-sockets.ts"

/** What every area may use. */
export const layer = Layer.mergeAll(Notifications.layer, SharedRedis.layer, Sealing.layer).pipe(
  Layer.provideMerge(
    Layer.mergeAll(SecureRandomLayer, DigestLayer, BackgroundJobs.layer, Downloads.layer, OutboundHttp.layer)
  )
)

export const middleware = Layer.mergeAll(ValidationLayer, PreconditionsLayer, IdempotencyLayer)

export const routes = Layer.mergeAll(FrontPageLayer, SwaggerLayer, ProblemPagesLayer, PrometheusLayer, edgeLayer)

const BodyLimit = Layer.effect(
  HttpIncomingMessage.MaxBodySize,
  Effect.map(Settings, ({ api }) => ByteSize.bytes(api.maxBodyBytes))
)

/** The requests under way: how large they may be, and that they end before the service does. */
export const layerRequests = Layer.mergeAll(InFlight.layer, BodyLimit, OpenSockets.layer).pipe(
  Layer.provideMerge(Shutdown.layer)
)

/** The logs, metrics and spans of the process. */
export const layerObservability = Layer.unwrap(
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
export const layerListener = Layer.unwrap(
  Effect.map(Effect.andThen(requireServable, Settings), ({ api }) => {
    const server = makeServer(api)
    // Closed before the server, which would wait for clients that read nothing for longer than the shutdown may take.
    const EndConnections = Layer.effectDiscard(
      Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    )
    return EndConnections.pipe(
      Layer.provideMerge(
        NodeHttpServer.layer(() => server, {
          port: api.port,
          host: api.host,
          gracefulShutdownTimeout: Duration.seconds(api.shutdownSeconds),
          websocket: socketOptions
        })
      )
    )
  })
)
