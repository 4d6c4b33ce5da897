import { requestText } from "./raw-http.ts"
import { serviceKey } from "./service.ts"

export const json = [`X-Api-Key: ${serviceKey}`, "Content-Type: application/json"]
export const mebibyte = 1024 * 1024

export const chunked = function* (mebibytes: number) {
  const piece = Buffer.alloc(64 * 1024, "a")
  for (let sent = 0; sent < mebibytes * mebibyte; sent += piece.length) {
    yield `${piece.length.toString(16)}\r\n`
    yield piece
    yield "\r\n"
  }
  yield "0\r\n\r\n"
}
export const plain = function* (mebibytes: number) {
  const piece = Buffer.alloc(64 * 1024, "a")
  for (let sent = 0; sent < mebibytes * mebibyte; sent += piece.length) yield piece
}
export const withHead = function* (head: string, pieces: Iterable<string | Uint8Array>) {
  yield head
  yield* pieces
}

export const declared = requestText("POST", "/api/trial-users", [...json, `Content-Length: ${40 * mebibyte}`])
export const inChunks = requestText("POST", "/api/trial-users", [...json, "Transfer-Encoding: chunked"])
