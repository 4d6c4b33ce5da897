import { SecureRandom } from "effect/crypto"
import { createServer, type Server, ServerResponse } from "node:http"
import { Socket } from "node:net"
import type { Duplex } from "node:stream"
import {
  BadRequest,
  ExpectationFailed,
  HeadersTooLarge,
  MethodNotImplemented,
  PayloadTooLarge,
  RequestTimeout
} from "../../kernel/problems.ts"

type Problem =
  | BadRequest
  | ExpectationFailed
  | HeadersTooLarge
  | MethodNotImplemented
  | PayloadTooLarge
  | RequestTimeout

const mostInOneWrite = 16_384

/** Node writes a text with its header as one string, unless it has to count the body against content-length. */
class Answer extends ServerResponse {
  override end(...given: [chunk?: unknown, ...rest: Array<unknown>]): this {
    const [body] = given
    // NodeHttpServer takes the length of a body from the body itself.
    if (typeof body === "string") this.strictContentLength = false
    if (given.length === 1 && body instanceof Uint8Array && body.length <= mostInOneWrite) {
      this.strictContentLength = false
      // Bytes are the characters of Latin-1, so that they go the same way.
      return super.end(Buffer.from(body.buffer, body.byteOffset, body.length).toString("latin1"), "latin1")
    }
    return super.end(...(given as [string]))
  }
}

/**
 * Node's HTTP server, with problems for what Node answers before a request reaches the service: what is no HTTP, comes too
 * slowly or has too many headers. `requestTimeoutSeconds` bounds the arrival of a whole request.
 */
export const makeServer = (options: { readonly requestTimeoutSeconds: number }): Server => {
  // The edge refuses a request without Host, in its own words.
  const server = createServer({
    requestTimeout: options.requestTimeoutSeconds * 1000,
    requireHostHeader: false,
    ServerResponse: Answer
  })
  server.on("checkExpectation", (_, response) => {
    const { body, headers, problem } = answerOf(new ExpectationFailed({}))
    response.writeHead(problem.status, headers).end(body)
  })
  server.on("connect", (_, socket) => refuse(socket, new MethodNotImplemented({})))
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // An answer under way would be torn, and one that nobody reads needs no words.
    if (error.code === "ECONNRESET" || hasBegunAnswer(socket)) socket.destroy(error)
    else refuse(socket, problemOf(error.code))
  })
  return server
}

const problemOf = (code: string | undefined): Problem => {
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

const answerOf = (problem: Problem) => {
  const { detail, status, title, type } = problem
  const body = JSON.stringify({ type, title, status, detail, traceId: randomHex(16) })
  const headers = {
    "content-type": "application/problem+json",
    "content-length": String(Buffer.byteLength(body)),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-request-id": randomHex(12),
    connection: "close"
  }
  return { body, headers, problem }
}

const refuse = (socket: Duplex, problem: Problem): void => {
  if (!socket.writable || !(socket instanceof Socket)) return void socket.destroy()
  const { body, headers } = answerOf(problem)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  socket.write(`HTTP/1.1 ${problem.status} ${problem.title}\r\n${lines.join("\r\n")}\r\n\r\n${body}`)
  socket.destroySoon()
}

const hasBegunAnswer = (socket: Duplex): boolean =>
  // Node keeps the answer under way there, and its own handler of this event asks the same.
  "_httpMessage" in socket && socket._httpMessage instanceof ServerResponse && socket._httpMessage.headersSent
