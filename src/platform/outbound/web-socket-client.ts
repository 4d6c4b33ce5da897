import { type WebSocket } from "@effect/platform-node/NodeWS"
import { Data, Effect, type Scope } from "effect"
import { Socket } from "effect/socket"
import { type IncomingHttpHeaders } from "node:http"
import { socketOptions } from "../web-sockets/handshake.ts"

/** A WebSocket that was opened to a server; it is closed with its scope. */
export interface OpenedSocket {
  /** The next messages of the server; fails once the socket has ended. */
  readonly pull: Socket.Reader["pull"]
  /** Sends a text, and waits until it has left. */
  send(text: string): Effect.Effect<void, Socket.SocketError>
}

/** A server's answer by HTTP that accepts no WebSocket. */
export class HandshakeRefused extends Data.TaggedError("HandshakeRefused")<{
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Uint8Array
}> {}

/** A request for a WebSocket. */
export interface SocketRequest {
  /** `ws:` or `wss:`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** The certificate authority of the server, in PEM, where it is none of the usual ones. */
  readonly tlsCa?: string | undefined
  readonly handshakeTimeoutMillis: number
}

/** The most that is read of an answer that refuses a WebSocket. */
const maxRefusalBytes = 65_536

const loadWebSockets = Effect.promise(() => import("@effect/platform-node/NodeWS"))

/** Tells of an answer that is no WebSocket, once it has ended or is long enough. */
const onRefusal = (socket: WebSocket, tell: (refused: HandshakeRefused) => void): void => {
  socket.on("unexpected-response", (_, response) => {
    const chunks: Array<Uint8Array> = []
    let length = 0
    const end = () => {
      tell(
        new HandshakeRefused({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).subarray(0, maxRefusalBytes)
        })
      )
      socket.terminate()
    }
    response.on("data", (chunk: Uint8Array) => {
      chunks.push(chunk)
      length += chunk.length
      if (length >= maxRefusalBytes) end()
    })
    response.on("end", end).on("error", end)
  })
}

/** Opens a WebSocket (RFC 6455) within the current scope. Redirects are not followed. */
export const openWebSocket = Effect.fnUntraced(function* ({
  handshakeTimeoutMillis,
  headers,
  tlsCa,
  url
}: SocketRequest): Effect.fn.Return<OpenedSocket, HandshakeRefused | Socket.SocketError, Scope.Scope> {
  const NodeWS = yield* loadWebSockets
  let refused: HandshakeRefused | undefined
  const socket = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const opening = new NodeWS.WebSocket(url, {
        ...socketOptions,
        headers,
        handshakeTimeout: handshakeTimeoutMillis,
        ...(tlsCa === undefined ? {} : { ca: tlsCa })
      })
      onRefusal(opening, (refusal) => (refused = refusal))
      return opening
    }),
    (opened) => Effect.sync(() => opened.close(1000))
  )
  const { reader } = yield* Socket.fromWebSocket(Effect.succeed(socket), { openTimeout: handshakeTimeoutMillis })
  const { pull } = yield* Effect.mapError(reader, (error) => refused ?? error)
  const send = (text: string) =>
    Effect.callback<void, Socket.SocketError>((resume) => {
      socket.send(text, (error) =>
        resume(
          error == null
            ? Effect.void
            : Effect.fail(new Socket.SocketError({ reason: new Socket.SocketWriteError({ cause: error }) }))
        )
      )
    })
  return { pull, send }
})
