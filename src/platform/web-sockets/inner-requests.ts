import { Context, Effect, Fiber, Stream } from "effect"
import {
  Headers,
  HttpEffect,
  HttpRouter,
  HttpServerError,
  HttpServerRequest,
  type HttpServerResponse
} from "effect/http"
import { ParentSpan } from "effect/Tracer"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { CurrentRequest } from "../http/request.ts"

/** A request that a message of a connection stands for; its body is JSON. */
export interface InnerRequest {
  readonly method: "POST"
  readonly path: `/${string}`
  readonly headers: Headers.Headers
  readonly body: Uint8Array
  /** What the routes are to know of the request besides. */
  readonly context?: Context.Context<never>
}

/** Takes a response, and sends it to the client of the connection. */
type Respond = (response: HttpServerResponse.HttpServerResponse) => Effect.Effect<void>

/** Serves requests on a connection; each has its own id, limits, log line and span, as one on a connection of its own. */
export interface InnerRequests {
  serve(request: InnerRequest, respond: Respond): Fiber.Fiber<unknown, unknown>
}

/** Headers of a connection rather than of a request, and those that belong to one request alone. */
const ofConnection = [
  "accept",
  "accept-encoding",
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "idempotency-key",
  "origin",
  "sec-websocket-extensions",
  "sec-websocket-key",
  "sec-websocket-protocol",
  "sec-websocket-version",
  "transfer-encoding",
  "upgrade",
  "x-request-id"
]

/** The headers that each request on a connection has, of the request that opened it. */
export const headersOfConnection = (headers: Headers.Headers): Headers.Headers =>
  Headers.removeMany(headers, ofConnection)

const ofRequest = Context.omit(
  CurrentPrincipal,
  CurrentRequest,
  HttpRouter.RouteContext,
  HttpServerRequest.HttpServerRequest,
  HttpServerRequest.ParsedSearchParams,
  ParentSpan
)

/** Serves requests by the router of the service, with all that it does for those of the listener. */
export const makeInnerRequests = Effect.gen(function* () {
  const router = yield* HttpRouter.HttpRouter
  const scope = yield* Effect.scope
  // The router is complete once the service has started.
  let app: ReturnType<typeof router.asHttpEffect> | undefined
  // All requests of the listener have the same services.
  let services: Context.Context<never> | undefined

  /** For the connection that the current request opens. */
  return Effect.contextWith((context: Context.Context<HttpServerRequest.HttpServerRequest>) => {
    const opening = Context.get(context, HttpServerRequest.HttpServerRequest)
    const { peerAddress, remoteAddress } = opening
    const base = (services ??= ofRequest(context))
    return Effect.succeed<InnerRequests>({
      serve: ({ body, context: asked = Context.empty(), headers, method, path }, respond) => {
        const source = new Request(`http://localhost${path}`, { method, body: body as Uint8Array<ArrayBuffer> })
        const own = Headers.setAll(headers, {
          "content-length": String(body.length),
          "content-type": "application/json"
        })
        const request = HttpServerRequest.fromWeb(source).modify({ headers: own, remoteAddress, peerAddress })
        app ??= router.asHttpEffect()
        const handled = HttpEffect.toHandled(app, (_, response) => Effect.interruptible(respond(response)))
        const run = Effect.runForkWith(
          Context.add(Context.merge(base, asked), HttpServerRequest.HttpServerRequest, request)
        )
        return Fiber.runIn(run(handled), scope)
      }
    })
  })
})

/** The bytes of a response, as they come. */
export const bytesIn = ({ body }: HttpServerResponse.HttpServerResponse): Stream.Stream<Uint8Array> =>
  body._tag === "Stream"
    ? Stream.orDie(body.stream)
    : body._tag === "Uint8Array"
      ? Stream.make(body.body)
      : Stream.empty

/** Ends a request whose client has left. */
export const abandon = (fiber: Fiber.Fiber<unknown, unknown>): void =>
  fiber.interruptUnsafe(undefined, HttpServerError.ClientAbort.annotation)
