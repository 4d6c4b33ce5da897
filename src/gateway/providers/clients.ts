import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { type Dispatcher } from "@effect/platform-node/Undici"
import { Context, Effect, Layer, Predicate, Scope } from "effect"
import { type Socket } from "effect/socket"
import { makeGuardedDispatcher } from "../../platform/outbound/guarded-dispatcher.ts"
import { type OpenedSocket, openWebSocket } from "../../platform/outbound/web-socket-client.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { exchange, type ExchangeRequest, headersOf, makeDeadlines } from "./exchange.ts"
import { type ProviderAnswer, type ProviderFailure } from "./provider.ts"
import { fromTransport } from "./transport-failures.ts"

const maxConnectionsPerOrigin = 512
const connectTimeoutMillis = 10_000

/** The answer to a request for a WebSocket, which is there if the answer accepts it. */
export interface SocketAnswer extends ProviderAnswer {
  readonly socket?: OpenedSocket
}

/** Where requests to providers go out. */
export interface ProviderClient {
  send(request: ExchangeRequest): Effect.Effect<ProviderAnswer, ProviderFailure, Scope.Scope>
  /** Opens a WebSocket; undefined where addresses are not those of the configuration. */
  readonly open?: (
    request: Pick<ExchangeRequest, "headers" | "origin" | "path">
  ) => Effect.Effect<SocketAnswer, ProviderFailure, Scope.Scope>
}

/** The answer of a server that switches to a WebSocket (RFC 6455 §4.2.2). */
const switched = { status: 101, headers: {}, body: new Uint8Array() }

/** Why a WebSocket did not open; the package `ws` tells it in an event. */
const causeIn = (reason: Socket.SocketErrorReason): unknown => {
  const cause = "cause" in reason ? reason.cause : reason
  return Predicate.hasProperty(cause, "error") ? cause.error : cause
}

/** The connection pools for providers; they outlive every configuration. */
export class ProviderClients extends Context.Service<
  ProviderClients,
  {
    /** For addresses from the configuration; with a custom certificate authority if one is configured. */
    configured(tlsCa: string | undefined): Effect.Effect<ProviderClient>
    /** For addresses from a caller: private networks are unreachable, whatever a name resolves to. */
    readonly guarded: ProviderClient
  }
>()("app/gateway/ProviderClients") {
  static readonly layer = Layer.effect(
    ProviderClients,
    Effect.gen(function* () {
      const { llm } = yield* Settings
      const scope = yield* Effect.scope
      const deadlines = yield* makeDeadlines
      const known = new Map<string, ProviderClient>()

      const clientOf = (dispatcher: Dispatcher): ProviderClient => ({
        send: (request) => exchange(dispatcher, deadlines, request)
      })

      const configured = Effect.fnUntraced(function* (tlsCa: string | undefined) {
        const found = known.get(tlsCa ?? "")
        if (found !== undefined) return found
        const dispatcher = yield* NodeHttpClient.makeDispatcherOptions({
          connections: maxConnectionsPerOrigin,
          connect: { timeout: connectTimeoutMillis, ...(tlsCa === undefined ? {} : { ca: tlsCa }) }
        }).pipe(Scope.provide(scope))
        const client: ProviderClient = {
          ...clientOf(dispatcher),
          open: ({ headers, origin, path }) =>
            openWebSocket({
              url: origin.replace(/^http/, "ws") + path,
              headers,
              tlsCa,
              handshakeTimeoutMillis: connectTimeoutMillis
            }).pipe(
              Effect.map((socket): SocketAnswer => ({ ...switched, socket })),
              Effect.catchTags({
                HandshakeRefused: ({ body, headers: given, status }) =>
                  Effect.succeed({ status, headers: headersOf(given), body }),
                SocketError: ({ reason }) => Effect.fail(fromTransport(causeIn(reason)))
              })
            )
        }
        known.set(tlsCa ?? "", client)
        return client
      })

      return ProviderClients.of({
        configured,
        guarded: llm.gateway.allowPrivateAddresses
          ? yield* configured(undefined)
          : clientOf(yield* makeGuardedDispatcher({ connections: maxConnectionsPerOrigin, connectTimeoutMillis }))
      })
    })
  )
}
