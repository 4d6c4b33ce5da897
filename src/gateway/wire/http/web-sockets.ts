import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { Overloaded } from "../../../kernel/problems/problems.ts"
import { Shutdown } from "../../../platform/http/in-flight.ts"
import { Settings } from "../../../platform/settings/settings.ts"
import { handshakeFault, upgradeHeaders } from "../../../platform/web-sockets/handshake.ts"
import { OpenSockets, type SocketSession } from "../../../platform/web-sockets/open-sockets.ts"
import { gatewayError, type GatewayError, type GatewayProblem } from "../../errors/gateway-error.ts"

type Refusal = GatewayError<GatewayProblem>

/** A request for a WebSocket that is none of RFC 6455, or comes from a page that may not open one. */
export const socketRefused = (detail: string): GatewayError<Overloaded> =>
  gatewayError(new Overloaded({ detail }), { status: 426, code: "websocket_refused", headers: upgradeHeaders })

const off = socketRefused("WebSockets are off here (Api:WebSockets:Enabled).")
const draining = gatewayError(new Overloaded({ detail: "The service shuts down." }))
const malformed = socketRefused("The handshake is not one of RFC 6455.")

/** Accepts the WebSockets of a vendor's path, for the principal of the current request. */
export const makeSocketAcceptor = Effect.gen(function* () {
  const shutdown = yield* Shutdown
  const sockets = yield* OpenSockets
  const { cors, webSockets } = (yield* Settings).api

  /** Why no WebSocket is opened for any caller. */
  const refusal = (request: HttpServerRequest.HttpServerRequest): Refusal | undefined => {
    if (!webSockets.enabled) return off
    if (shutdown.isDrainingUnsafe()) return draining
    const fault = handshakeFault(request, cors.allowedOrigins)
    return fault === undefined ? undefined : socketRefused(fault)
  }

  const accept = <R>(
    request: HttpServerRequest.HttpServerRequest,
    begun: Effect.Effect<SocketSession, Refusal, R>
  ): Effect.Effect<HttpServerResponse.HttpServerResponse, Refusal, R> =>
    sockets.accept(request, begun).pipe(
      Effect.as(HttpServerResponse.empty({ status: 101 })),
      Effect.catchTags({
        RateLimited: (limited) => Effect.fail<Refusal>(gatewayError(limited)),
        SocketError: () => Effect.fail<Refusal>(malformed),
        HttpServerError: () => Effect.fail<Refusal>(malformed)
      })
    )

  return { accept, refusal }
})
