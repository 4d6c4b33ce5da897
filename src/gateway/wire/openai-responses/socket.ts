import { Cause, Context, Effect, Fiber, Stream } from "effect"
import { Headers, type HttpServerRequest, type HttpServerResponse } from "effect/http"
import { type Socket } from "effect/socket"
import { CurrentPrincipal } from "../../../kernel/authority/principal.ts"
import { parsedJson } from "../../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { Settings } from "../../../platform/settings/settings.ts"
import { asksForWebSocket } from "../../../platform/web-sockets/handshake.ts"
import {
  abandon,
  bytesIn,
  headersOfConnection,
  type InnerRequests,
  makeInnerRequests
} from "../../../platform/web-sockets/inner-requests.ts"
import { closeCodes, type OpenSocket } from "../../../platform/web-sockets/open-sockets.ts"
import { GatewayAuthentication } from "../../authentication/gateway-authentication.ts"
import { GatewayError, type GatewayProblem, invalidMember } from "../../errors/gateway-error.ts"
import { EventReader, isTerminator, type ServerEvent } from "../../formats/event-reader.ts"
import { openAiErrors } from "../../formats/openai-chat/errors.ts"
import { methodNotServed, vendorRoute } from "../http/serve.ts"
import { makeSocketAcceptor, socketRefused } from "../http/web-sockets.ts"
import { CurrentSocketMessage, type SocketMessage } from "./service.ts"
import { brokenOff, eventFrame, isLast, refusedFrame, type SocketFrame } from "./socket-frames.ts"
import { LocalTurns, localTurnOf, readTurn, type SocketTurn } from "./socket-turns.ts"

const path = "/v1/responses"

/** 426 is the one status at which Codex goes on by HTTP at once. */
const asRefusal = (failure: GatewayError<GatewayProblem>): GatewayError<GatewayProblem> =>
  failure.error.status === 401 ? failure : socketRefused(failure.error.message)

const inProgress = invalidMember(
  "type",
  "type: A response is in progress on this WebSocket; wait for its last event, or open another WebSocket",
  "response_in_progress"
)

/** The betas of this transport, which mean nothing to a provider that is called by HTTP. */
const isOfSockets = (beta: string): boolean => beta.trim().startsWith("responses_websockets=")

/** The headers of each request on a socket. */
const headersOfSocket = (opening: Headers.Headers): Headers.Headers => {
  const headers = headersOfConnection(opening)
  const betas = headers["openai-beta"]?.split(",")
  if (betas?.some(isOfSockets) !== true) return headers
  const others = betas.filter((beta) => !isOfSockets(beta))
  return others.length === 0
    ? Headers.remove(headers, "openai-beta")
    : Headers.set(headers, "openai-beta", others.join())
}

const emptyBody = Buffer.from("{}")

/** A response in the making. */
interface Running {
  readonly turn: SocketTurn
  /** Whether its last event was sent, after which the client may ask for another. */
  isOver: boolean
}

/** The messages of one client, answered one after the other. */
class Session {
  private readonly inner: InnerRequests
  private readonly headers: Headers.Headers
  private readonly locals: LocalTurns
  private readonly owner: string
  private readonly socket: OpenSocket
  private running: Running | undefined
  private fiber: Fiber.Fiber<unknown, unknown> | undefined

  constructor(
    inner: InnerRequests,
    { headers, owner }: { readonly headers: Headers.Headers; readonly owner: string },
    locals: LocalTurns,
    socket: OpenSocket
  ) {
    this.inner = inner
    this.headers = headers
    this.owner = owner
    this.locals = locals
    this.socket = socket
  }

  readonly serve: Effect.Effect<void, Socket.SocketError> = Effect.suspend(() => this.socket.pull).pipe(
    Effect.flatMap((messages) => Effect.forEach(messages, (message) => this.take(message), { discard: true })),
    Effect.forever,
    Effect.ensuring(
      Effect.sync(() => {
        this.locals.drop(this.owner, this.socket)
        if (this.fiber !== undefined) abandon(this.fiber)
      })
    )
  )

  private take(message: Uint8Array | string): Effect.Effect<void> {
    if (typeof message !== "string") return this.socket.end(closeCodes.noText, "Send texts, each a JSON object.")
    if (this.running?.isOver === false) return this.refuse(inProgress)
    const turn = readTurn(message, this.locals.of(this.owner, this.socket))
    if (turn === undefined) return Effect.void
    return turn instanceof GatewayError ? this.refuse(turn) : this.begin(turn)
  }

  /** Refuses a message by a request of its own, which counts as one. */
  private refuse(fault: GatewayError<GatewayProblem>): Effect.Effect<void> {
    return Effect.suspend(() => Fiber.await(this.request(emptyBody, { fault }, undefined)))
  }

  /** Begins a response. What the request before it does after its last event takes no longer than this may wait. */
  private begin(turn: SocketTurn): Effect.Effect<void> {
    const before = this.fiber === undefined ? Effect.void : Fiber.await(this.fiber)
    return Effect.map(before, () => {
      const running = (this.running = { turn, isOver: false })
      const fiber = (this.fiber = this.request(turn.body, { warmsUp: turn.warmsUp }, running))
      this.socket.keepFor(fiber)
      // An idle socket does not keep what it was last asked.
      fiber.addObserver(() => {
        this.running = undefined
        this.fiber = undefined
      })
    })
  }

  private request(body: Uint8Array, message: SocketMessage, running: Running | undefined) {
    const context = Context.make(CurrentSocketMessage, message)
    return this.inner.serve({ method: "POST", path, headers: this.headers, body, context }, (response) =>
      Effect.catchCause(
        response.status >= 400 || running === undefined
          ? this.sendRefusal(response, running)
          : this.sendEvents(response, running),
        (cause) => this.breakOff(cause, running)
      )
    )
  }

  /** Ends a response that the service could not go on with. */
  private breakOff(cause: Cause.Cause<Socket.SocketError>, running: Running | undefined): Effect.Effect<void> {
    if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause as Cause.Cause<never>)
    return Effect.logError("A response could not be sent on its WebSocket", cause).pipe(
      Effect.andThen(
        Effect.suspend(() => (running?.isOver === false ? Effect.ignore(this.send(brokenOff, running)) : Effect.void))
      )
    )
  }

  private send(frame: SocketFrame, running: Running | undefined): Effect.Effect<void, Socket.SocketError> {
    // The client may answer a last event before this goes on.
    if (running !== undefined && isLast(frame)) running.isOver = true
    return this.socket.send(frame.text)
  }

  private sendRefusal(response: HttpServerResponse.HttpServerResponse, running: Running | undefined) {
    const { headers, status } = response
    return Stream.runCollect(bytesIn(response)).pipe(
      Effect.flatMap((pieces) => {
        const body = parsedJson(utf8Text(Buffer.concat(pieces)))
        return this.send(refusedFrame(status, body, headers), running)
      }),
      Effect.andThen(
        status === 401 ? this.socket.end(closeCodes.refused, "The credential is no longer accepted.") : Effect.void
      )
    )
  }

  private sendEvents(response: HttpServerResponse.HttpServerResponse, running: Running) {
    const reader = new EventReader()
    const sendAll = (events: ReadonlyArray<ServerEvent>) =>
      Effect.forEach(events, (event) => this.sendEvent(event, running), { discard: true })
    return bytesIn(response).pipe(
      Stream.takeUntilEffect((bytes) => Effect.map(sendAll(reader.push(bytes)), () => running.isOver)),
      Stream.runDrain,
      Effect.andThen(Effect.suspend(() => sendAll(reader.end()))),
      Effect.andThen(Effect.suspend(() => (running.isOver ? Effect.void : this.send(brokenOff, running))))
    )
  }

  private sendEvent(event: ServerEvent, running: Running): Effect.Effect<void, Socket.SocketError> {
    if (running.isOver || isTerminator(event)) return Effect.void
    const frame = eventFrame(event)
    if (isLast(frame)) {
      const local = localTurnOf(running.turn, frame.text)
      if (local !== undefined) this.locals.keep(this.owner, this.socket, local)
    }
    return this.send(frame, running)
  }
}

/** The Responses API on a WebSocket: each message of a client is a request of its own by HTTP, but for its connection. */
export const makeSocketRoute = Effect.gen(function* () {
  const { authenticated } = yield* GatewayAuthentication
  const { accept, refusal } = yield* makeSocketAcceptor
  const innerRequests = yield* makeInnerRequests
  const { maxBodyBytes, maxSocketStateBytes } = (yield* Settings).llm.gateway
  // A longer turn could not be sent.
  const locals = new LocalTurns({ maxBytes: maxSocketStateBytes, maxTurnBytes: maxBodyBytes })

  const open = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
    const refused = refusal(request)
    if (refused !== undefined) return yield* refused
    const inner = yield* innerRequests
    const client = { headers: headersOfSocket(request.headers), owner: (yield* CurrentPrincipal).name }
    const begun = Effect.succeed((socket: OpenSocket) => new Session(inner, client, locals, socket).serve)
    return yield* accept(request, begun)
  })

  return vendorRoute(
    "GET",
    path,
    () => openAiErrors,
    (request) =>
      request.method === "GET" && asksForWebSocket(request)
        ? Effect.mapError(
            authenticated(request, { capabilities: ["llm:complete"], limitedBy: "rate" }, open(request)),
            asRefusal
          )
        : Effect.fail(methodNotServed(request.method, "POST, OPTIONS"))
  )
})
