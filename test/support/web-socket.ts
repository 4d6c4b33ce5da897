import { type WebSocket as ClientSocket, WebSocket } from "@effect/platform-node/NodeWS"
import { Effect } from "effect"
import { type IncomingMessage } from "node:http"

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into every member
type Frame = any

/** How a WebSocket ended. */
export interface Closed {
  readonly code: number
  readonly reason: string
}

/** A client's WebSocket, as the package `ws` opens it. */
export interface TestSocket {
  readonly socket: ClientSocket
  readonly closed: Effect.Effect<Closed>
  send(message: object | string): void
  /** The next message, parsed. */
  readonly next: Effect.Effect<Frame>
  /** Sends a message, and answers with those that come up to the last event of a response. */
  turn(message: object | string): Effect.Effect<ReadonlyArray<Frame>>
}

const lastTypes = new Set(["response.completed", "response.incomplete", "response.failed", "error"])

/** What a request for a WebSocket is answered with. */
export interface Handshake {
  readonly status: number
  readonly headers: IncomingMessage["headers"]
  readonly text: string
}

const addressOf = (url: string, path: string) => `${url.replace(/^http/, "ws")}${path}`

const readAll = async (response: IncomingMessage) => {
  const chunks: Array<Buffer> = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

/** A request for a WebSocket that is refused. */
export const refusedSocket = (
  url: string,
  headers: Readonly<Record<string, string>>,
  options: object = {},
  path = "/v1/responses"
): Effect.Effect<Handshake> =>
  Effect.callback((resume) => {
    const socket = new WebSocket(addressOf(url, path), { headers, ...options })
    socket.on("error", () => {})
    socket.on("open", () => {
      socket.terminate()
      resume(Effect.die(new Error("It was accepted")))
    })
    socket.on("unexpected-response", (_, response) => {
      void readAll(response).then((text) =>
        resume(Effect.succeed({ status: response.statusCode ?? 0, headers: response.headers, text }))
      )
    })
  })

/** Opens a WebSocket, which is cut when the scope ends. */
export const openSocket = (
  url: string,
  headers: Readonly<Record<string, string>>,
  path = "/v1/responses",
  protocols: Array<string> = []
) =>
  Effect.acquireRelease(
    Effect.callback<ClientSocket>((resume) => {
      const socket = new WebSocket(addressOf(url, path), protocols, { headers })
      socket.on("open", () => resume(Effect.succeed(socket)))
      socket.on("error", (error) => resume(Effect.die(error)))
      socket.on("unexpected-response", (_, response) => {
        void readAll(response).then((text) => resume(Effect.die(new Error(`${response.statusCode}: ${text}`))))
      })
    }),
    (socket) => Effect.sync(() => socket.terminate())
  ).pipe(Effect.map(clientOf))

const clientOf = (socket: ClientSocket): TestSocket => {
  const frames: Array<Frame> = []
  const waiting: Array<(frame: Frame) => void> = []
  socket.on("message", (data) => {
    const frame = JSON.parse(String(data))
    const take = waiting.shift()
    if (take === undefined) frames.push(frame)
    else take(frame)
  })
  const ended = new Promise<Closed>((resolve) =>
    socket.on("close", (code, reason) => resolve({ code, reason: reason.toString() }))
  )
  const next = Effect.callback<Frame>((resume) => {
    if (frames.length > 0) return resume(Effect.succeed(frames.shift()))
    waiting.push((frame) => resume(Effect.succeed(frame)))
  })
  const send = (message: object | string) => {
    socket.send(typeof message === "string" ? message : JSON.stringify(message))
  }
  return {
    socket,
    closed: Effect.promise(() => ended),
    send,
    next,
    turn: Effect.fnUntraced(function* (message) {
      send(message)
      const got: Array<Frame> = []
      do got.push(yield* next)
      while (!lastTypes.has(got.at(-1).type))
      return got
    })
  }
}
