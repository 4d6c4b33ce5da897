import { Context, Effect, Fiber, Stream } from "effect"
import { type Headers, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { type Socket } from "effect/socket"
import { isJson, type Json, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { Overloaded } from "../../../kernel/problems/problems.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { Shutdown } from "../../../platform/http/in-flight.ts"
import { Settings } from "../../../platform/settings/settings.ts"
import { asksForWebSocket, handshakeFault, upgradeHeaders } from "../../../platform/web-sockets/handshake.ts"
import {
  abandon,
  headersOfConnection,
  type InnerRequests,
  makeInnerRequests
} from "../../../platform/web-sockets/inner-requests.ts"
import { closeCodes, type OpenSocket, OpenSockets } from "../../../platform/web-sockets/open-sockets.ts"
import { GatewayAuthentication } from "../../authentication/gateway-authentication.ts"
import { GatewayError, gatewayError, type GatewayProblem, invalidMember } from "../../errors/gateway-error.ts"
import { EventReader, isTerminator, type ServerEvent } from "../../formats/event-reader.ts"
import { openAiErrors } from "../../formats/openai-chat/errors.ts"
import { methodNotServed, vendorRoute } from "../http/serve.ts"
import { WarmsUp } from "./service.ts"
import { LocalTurns, localTurnOf, readTurn, type SocketTurn } from "./socket-turns.ts"

const path = "/v1/responses"

/** 426 is the one status at which Codex goes on by HTTP at once. */
const refusal = (detail: string): GatewayError<Overloaded> =>
  gatewayError(new Overloaded({ detail }), { status: 426, code: "websocket_refused", headers: upgradeHeaders })

const asRefusal = (failure: GatewayError<GatewayProblem>): GatewayError<GatewayProblem> =>
  failure.error.status === 401 ? failure : refusal(failure.error.message)

/** The events after which a response has no other. */
const lastEvents: ReadonlySet<string> = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
  "error"
])

/** Headers of an answer that clients read in an error. */
const shownHeaders = /^(?:request-id|retry-after|x-ratelimit-.*|x-should-retry)$/

const errorFrame = (status: number, error: unknown, headers: Readonly<Record<string, string>> = {}): string => {
  const shown = Object.fromEntries(Object.entries(headers).filter(([name]) => shownHeaders.test(name)))
  return JSON.stringify({
    type: "error",
    status,
    error,
    ...(Object.keys(shown).length === 0 ? {} : { headers: shown })
  })
}

const refusedFrame = ({ error, headers, quota }: GatewayError<GatewayProblem>, now: number): string => {
  const written = openAiErrors.answer(error, quota, "", now)
  return errorFrame(written.status, "error" in written.body ? written.body.error : undefined, headers)
}

const inProgress = invalidMember(
  "type",
  "A response is in progress on this WebSocket: wait for its last event, or open another one.",
  "response_in_progress"
)

const failedFrame = (message: string): string =>
  errorFrame(502, { message, type: "server_error", param: null, code: "server_error" })

/** Codes of errors in a stream, by which their status is known, which was sent before them. */
const statusOf = ({ code, type }: Json): number =>
  code === "rate_limit_exceeded" || type === "rate_limit_error" ? 429 : type === "invalid_request_error" ? 400 : 502

/** An event as a text of its own; errors of streams have many shapes, and one on a socket. */
const frameOf = ({ data, event }: ServerEvent): { readonly type: string; readonly text: string } => {
  if (event !== "" && event !== "message" && event !== "error") return { type: event, text: data }
  const value = parsedJson(data)
  if (!isJson(value)) return { type: event, text: data }
  const type = typeof value.type === "string" ? value.type : ""
  if (type !== "error" && !(type === "" && isJson(value.error))) return { type, text: data }
  const { sequence_number: _, type: __, ...own } = value
  const error = isJson(value.error) ? value.error : own
  return { type: "error", text: errorFrame(statusOf(error), error) }
}

/** A response in the making on a socket. */
interface Running {
  readonly fiber: Fiber.Fiber<unknown, unknown>
  /** Whether its last event was sent. */
  isOver: boolean
}

/** Serves the messages of one client, one response at a time. */
const session =
  (inner: InnerRequests, headers: Headers.Headers, locals: LocalTurns) =>
  (socket: OpenSocket): Effect.Effect<void, Socket.SocketError> => {
    let running: Running | undefined

    const sendEvents = (turn: SocketTurn, reader: EventReader, events: ReadonlyArray<ServerEvent>) =>
      Effect.forEach(
        events.filter((event) => !isTerminator(event)),
        (event) => {
          if (running?.isOver === true) return Effect.void
          const { text, type } = frameOf(event)
          if (lastEvents.has(type) && running !== undefined) {
            running.isOver = true
            const local = localTurnOf(turn, text)
            if (local !== undefined) locals.keep(socket, local)
          }
          return socket.send(text)
        },
        { discard: true }
      )

    const respond = (turn: SocketTurn) =>
      Effect.fnUntraced(function* (response: HttpServerResponse.HttpServerResponse) {
        const { body, headers: shown, status } = response
        const bytes =
          body._tag === "Stream"
            ? Stream.orDie(body.stream)
            : body._tag === "Uint8Array"
              ? Stream.make(body.body)
              : Stream.empty
        if (status >= 400) {
          const text = utf8Text(Buffer.concat(yield* Stream.runCollect(bytes)))
          const value = parsedJson(text)
          const error = isJson(value) && isJson(value.error) ? value.error : value
          if (running !== undefined) running.isOver = true
          yield* socket.send(errorFrame(status, error, shown))
          if (status === 401) yield* socket.end(closeCodes.refused, "The credential is no longer accepted.")
          return
        }
        const reader = new EventReader()
        yield* bytes.pipe(
          Stream.takeUntilEffect((read) =>
            Effect.as(sendEvents(turn, reader, reader.push(read)), running?.isOver === true)
          ),
          Stream.runDrain
        )
        yield* sendEvents(turn, reader, reader.end())
        if (running?.isOver === false) yield* socket.send(failedFrame("The response ended before its last event."))
      })

    const take = Effect.fnUntraced(function* (message: Uint8Array | string) {
      if (typeof message !== "string") {
        return yield* socket.end(closeCodes.noText, "Send texts, each a JSON object.")
      }
      const turn = readTurn(message, locals.of(socket))
      if (turn === undefined) return
      if (turn instanceof GatewayError) return yield* socket.send(refusedFrame(turn, 0))
      if (running !== undefined) {
        if (!running.isOver) return yield* socket.send(refusedFrame(inProgress, 0))
        yield* Fiber.await(running.fiber)
      }
      const request = {
        method: "POST",
        path,
        headers,
        body: turn.body,
        context: Context.make(WarmsUp, turn.warmsUp)
      } as const
      const own: { isOver: boolean; fiber: Fiber.Fiber<unknown, unknown> } = { isOver: false } as never
      running = own
      own.fiber = inner.serve(request, (response) => Effect.ignore(respond(turn)(response)))
      socket.keepFor(own.fiber)
    })

    return socket.pull.pipe(
      Effect.flatMap((messages) => Effect.forEach(messages, take, { discard: true })),
      Effect.forever,
      Effect.ensuring(
        Effect.sync(() => {
          locals.drop(socket)
          if (running !== undefined) abandon(running.fiber)
        })
      )
    )
  }

/** The Responses API on a WebSocket: each message of a client is a request of its own by HTTP, but for its connection. */
export const makeSocketRoute = Effect.gen(function* () {
  const { authenticated } = yield* GatewayAuthentication
  const shutdown = yield* Shutdown
  const sockets = yield* OpenSockets
  const innerRequests = yield* makeInnerRequests
  const { api, llm } = yield* Settings
  const locals = new LocalTurns(llm.gateway.maxSocketStateBytes)

  const accept = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
    if (!api.webSockets.enabled) return yield* refusal("WebSockets are off here (Api:WebSockets:Enabled).")
    if (shutdown.isDrainingUnsafe()) return yield* refusal("The service shuts down.")
    const fault = handshakeFault(request, api.cors.allowedOrigins)
    if (fault !== undefined) return yield* refusal(fault)
    const inner = yield* innerRequests
    const headers = headersOfConnection(request.headers)
    yield* sockets.accept(request, session(inner, headers, locals)).pipe(
      Effect.catchTags({
        RateLimited: ({ detail }) => Effect.fail(refusal(detail)),
        SocketError: Effect.die,
        HttpServerError: Effect.die
      })
    )
    return HttpServerResponse.empty({ status: 101 })
  })

  return vendorRoute(
    "GET",
    path,
    () => openAiErrors,
    (request) =>
      asksForWebSocket(request)
        ? Effect.mapError(
            authenticated(request, { capabilities: ["llm:complete"], limitedBy: "rate" }, accept(request)),
            asRefusal
          )
        : Effect.fail(methodNotServed(request.method, "POST, OPTIONS"))
  )
})
