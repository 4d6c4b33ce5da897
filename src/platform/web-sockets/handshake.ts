import { type HttpServerRequest } from "effect/http"
import { headersOf } from "../http/request.ts"

/**
 * How WebSockets are read: messages of up to 32 MiB, of which a larger one closes its socket with 1009; without compression,
 * which costs each socket buffers of its own; and where a client does not answer the end of its socket, the connection is cut
 * after 5 seconds.
 */
export const socketOptions = { maxPayload: 32 * 2 ** 20, perMessageDeflate: false, closeTimeout: 5000 }

const version = "13"

/** The headers of an answer that refuses a WebSocket (RFC 9110 §15.5.22, RFC 6455 §4.4). */
export const upgradeHeaders = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": version }

/** Whether a request asks for a WebSocket. */
export const asksForWebSocket = (request: HttpServerRequest.HttpServerRequest): boolean => {
  const { connection = "", upgrade = "" } = headersOf(request)
  return upgrade.toLowerCase() === "websocket" && /(?:^|,)\s*upgrade\s*(?:,|$)/i.test(connection)
}

const wellFormedKey = /^[+/0-9A-Za-z]{22}==$/

/**
 * What is wrong with a request for a WebSocket (RFC 6455 §4.2); undefined if nothing is. A browser lets any page open one, so
 * that the service itself has to refuse those of other origins than CORS allows.
 */
export const handshakeFault = (
  request: HttpServerRequest.HttpServerRequest,
  allowedOrigins: ReadonlyArray<string>
): string | undefined => {
  const { origin, "sec-websocket-key": key = "", "sec-websocket-version": asked } = headersOf(request)
  if (asked !== version) return `Send Sec-WebSocket-Version: ${version}.`
  if (!wellFormedKey.test(key)) return "Sec-WebSocket-Key is not the base64 of 16 bytes."
  if (origin === undefined || allowedOrigins.includes(origin)) return undefined
  return `Pages of ${origin} may not open WebSockets here (Api:Cors:AllowedOrigins).`
}
