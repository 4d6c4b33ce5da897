import { Context, Effect, Layer, type Scope } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpServer } from "effect/http"
import { type IncomingMessage, Server, ServerResponse } from "node:http"
import { Socket } from "node:net"
import type { Duplex } from "node:stream"
import {
  BadRequest,
  ExpectationFailed,
  HeadersTooLarge,
  MethodNotImplemented,
  Overloaded,
  PayloadTooLarge,
  RequestTimeout
} from "../../kernel/problems/problems.ts"
import { securityHeaders } from "./negotiation.ts"

type Problem =
  | BadRequest
  | ExpectationFailed
  | HeadersTooLarge
  | MethodNotImplemented
  | Overloaded
  | PayloadTooLarge
  | RequestTimeout

const maxInOneWrite = 16_384

/** Node writes a text body and its headers in one write, unless it has to check the body against content-length. */
class SingleWriteResponse extends ServerResponse {
  override end(...given: [chunk?: unknown, ...rest: Array<unknown>]): this {
    const [body] = given
    // NodeHttpServer derives content-length from the body.
    if (typeof body === "string") this.strictContentLength = false
    if (given.length === 1 && body instanceof Uint8Array && body.length <= maxInOneWrite) {
      this.strictContentLength = false
      // Latin-1 maps each byte to one character, so bytes are written the same way.
      return super.end(Buffer.from(body.buffer, body.byteOffset, body.length).toString("latin1"), "latin1")
    }
    return super.end(...(given as [string]))
  }
}

/** A client that pipelines at all has a few. */
const maxPipelined = 32

/** Stops Node's parser, which would go on to parse every request that arrived in the same read, thousands of them. */
const stopReading = ({ parser }: Socket & { readonly parser?: { onIncoming: unknown } }): void => {
  // To the parser, two says that what follows is no HTTP.
  if (parser) parser.onIncoming = () => 2
}

/**
 * Begins a request when the answer to the one before it on its connection is complete. Node begins all that have arrived,
 * thousands in one read, though only safe ones may run beside each other (RFC 9112 §9.3.2).
 */
class SerialServer extends Server<typeof IncomingMessage, typeof SingleWriteResponse> {
  readonly open = new Set<Socket>()
  private readonly waiting = new WeakMap<Socket, number>()

  /** Refuses new connections; those that are open end with the answer that they are for, or at once where there is none. */
  override close(done?: (error?: Error) => void): this {
    for (const socket of this.open) {
      const response = activeResponse(socket)
      // Its headers may have promised to keep the connection open, which would delay the end of the server.
      response?.once("finish", () => {
        if (isIdle(socket)) socket.destroySoon()
      })
    }
    return super.close(done)
  }

  /** Node takes a connection for idle as soon as its answer is complete here, and would cut off what the client has not read yet. */
  override closeIdleConnections(): void {
    const unread = [...this.open].flatMap((socket) => activeResponse(socket) ?? []).filter(({ finished }) => finished)
    for (const response of unread) response.finished = false
    super.closeIdleConnections()
    for (const response of unread) response.finished = true
  }

  override emit(event: string | symbol, ...given: Array<unknown>): boolean {
    if (event === "upgrade" && given[1] instanceof Socket) {
      // Node begins it beside the answer before it, with which it would share the connection.
      if (activeResponse(given[1]) !== undefined) return given[1].destroy().destroyed
      // What is no HTTP any more has limits of its own.
      this.open.delete(given[1])
    }
    if (event !== "request") return super.emit(event, ...given)
    const [request, response] = given as [IncomingMessage, ServerResponse]
    const { socket } = request
    // Node assigns a response its connection when its turn comes.
    if (response.socket !== null) return super.emit(event, request, response)
    // What else came in the same read as the one too many.
    if (socket.destroyed) return true
    const count = (this.waiting.get(socket) ?? 0) + 1
    this.waiting.set(socket, count)
    if (count > maxPipelined) {
      socket.destroy()
      stopReading(socket)
    }
    response.once("socket", () => {
      this.waiting.set(socket, (this.waiting.get(socket) ?? 1) - 1)
      super.emit(event, request, response)
    })
    return true
  }
}

/**
 * Node's HTTP server, with problems for requests that Node rejects itself: malformed, too slow or with too many headers.
 * `requestTimeoutSeconds` limits the arrival of a whole request, and for how long a client may take nothing of an answer.
 */
export const makeServer = (options: { readonly requestTimeoutSeconds: number; readonly publicUrl: string }): Server => {
  const always = securityHeaders(options.publicUrl)
  // Longer than the edge waits, which looks once a second: what it stops gets its answer first.
  const requestTimeout = (options.requestTimeoutSeconds + 2) * 1000
  // By default Node looks for late requests every 30 seconds, so a shorter limit would not hold.
  const connectionsCheckingInterval = Math.min(requestTimeout, 30_000)
  const answer = (response: ServerResponse, problem: Problem): void => {
    const { body, headers } = responseOf(problem, always)
    response.writeHead(problem.status, headers).end(body)
  }
  const reject = (socket: Duplex, problem: Problem): void => {
    if (!socket.writable || !(socket instanceof Socket)) return void socket.destroy()
    const { body, headers } = responseOf(problem, always)
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
    socket.write(`HTTP/1.1 ${problem.status} ${problem.title}\r\n${lines.join("\r\n")}\r\n\r\n${body}`)
    socket.destroySoon()
  }
  const whileStarting = (_: unknown, response: ServerResponse) =>
    answer(response, new Overloaded({ detail: "The service is starting." }))
  // The edge rejects a request without Host, with a problem.
  const server = new SerialServer({
    requestTimeout,
    connectionsCheckingInterval,
    requireHostHeader: false,
    ServerResponse: SingleWriteResponse
  })
  server.on("connection", (socket: Socket) => {
    server.open.add(socket)
    socket.once("close", () => server.open.delete(socket))
  })
  server.on("checkExpectation", (_, response) => answer(response, new ExpectationFailed({})))
  // The port is bound before the service is built, and until then no request waits.
  server.on("request", whileStarting)
  server.on("newListener", (event) => {
    if (event === "request") server.off("request", whileStarting)
  })
  limitUnread(server, requestTimeout, connectionsCheckingInterval)
  server.on("connect", (_, socket) => reject(socket, new MethodNotImplemented({})))
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // A response that has begun would be corrupted, and a closed connection gets none.
    if (error.code === "ECONNRESET" || hasBegunResponse(socket)) socket.destroy(error)
    else reject(socket, problemOfCode(error.code))
  })
  return server
}

const problemOfCode = (code: string | undefined): Problem => {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new HeadersTooLarge({})
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return new PayloadTooLarge({})
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new RequestTimeout({})
    default:
      return new BadRequest({})
  }
}

const randomHex = (bytes: number): string => Buffer.from(SecureRandom.randomBytesUnsafe(bytes)).toString("hex")

const responseOf = (problem: Problem, always: Readonly<Record<string, string>>) => {
  const { detail, status, title, type } = problem
  const body = JSON.stringify({ type, title, status, detail, traceId: randomHex(16) })
  const headers = {
    ...always,
    "content-type": "application/problem+json",
    "content-length": String(Buffer.byteLength(body)),
    "x-request-id": randomHex(12),
    ...(status === 503 ? { "retry-after": "1" } : {}),
    connection: "close"
  }
  return { body, headers }
}

/** The response that a connection is for at present. */
const activeResponse = (socket: Duplex): ServerResponse | undefined =>
  // Node stores it there, and its own handlers of these events look for it in the same way.
  "_httpMessage" in socket && socket._httpMessage instanceof ServerResponse ? socket._httpMessage : undefined

const hasBegunResponse = (socket: Duplex): boolean => activeResponse(socket)?.headersSent === true

/**
 * Ends connections whose clients take nothing of what was written for so long. `server.timeout` would have a timer for every
 * connection, which each read and write moves: that took a tenth of the time of a call.
 */
const limitUnread = (server: SerialServer, timeoutMillis: number, intervalMillis: number): void => {
  const sweep = setInterval(() => {
    for (const socket of server.open) if (isUnread(socket) && !socket.timeout) socket.setTimeout(timeoutMillis)
  }, intervalMillis)
  sweep.unref()
  server.once("close", () => clearInterval(sweep))
  server.on("timeout", (socket: Socket) => {
    if (isUnread(socket) || isIdle(socket)) socket.destroy()
    else socket.setTimeout(0)
  })
}

/** Whether a client keeps what was written to it waiting. */
const isUnread = (socket: Socket): boolean => socket.writableLength > 0

/** Whether a connection waits for its next request, not for the service. */
const isIdle = (socket: Socket): boolean => activeResponse(socket) === undefined

// Services that handlers get while they are built, and that no request looks up.
const isNotForRequests =
  /^app\/|\/sql|^effect\/(?:FileSystem|Layer|Path|Terminal|crypto|process|http\/(?:Etag|HttpPlatform|HttpServer)\/?)\b|Stdio$/

/** Serves requests with the services that they need: HttpApi copies the context for each request, in proportion to its size. */
export const LeanServerLayer = Layer.effect(
  HttpServer.HttpServer,
  Effect.map(HttpServer.HttpServer, (server) =>
    HttpServer.make({
      address: server.address,
      serve: (app, middleware) =>
        Effect.updateContext(
          (middleware === undefined ? server.serve(app) : server.serve(app, middleware)) as Effect.Effect<
            void,
            never,
            Scope.Scope
          >,
          (context: Context.Context<Scope.Scope>) =>
            Context.makeUnsafe<Scope.Scope>(
              new Map([...context.mapUnsafe].filter(([key]) => !isNotForRequests.test(key)))
            )
        )
    })
  )
)
