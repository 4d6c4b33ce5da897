import { Effect } from "effect"
import * as net from "node:net"
import { Readable } from "node:stream"
import { type Answer } from "./service.ts"

/** What came back over one connection. */
export interface Exchange {
  readonly answers: ReadonlyArray<Answer>
  /** The 1xx answers before the final ones. */
  readonly interim: ReadonlyArray<number>
  /** Whether the service has closed the connection by the time the last awaited answer was there. */
  readonly closed: boolean
  /** How many bytes of the request left this side. */
  readonly bytesSent: number
}

export interface ExchangeOptions {
  /** How many final answers to wait for; one when absent. The end of the connection ends the wait too. */
  readonly answers?: number
  /** Waits for the end of the connection, whatever came before. */
  readonly untilClosed?: boolean
  /** Whether the answers have no body, as to HEAD. */
  readonly bodiless?: boolean
}

/** A request as text: `lines` are the headers after Host, `body` gets a Content-Length. */
export const requestText = (
  method: string,
  target: string,
  lines: ReadonlyArray<string> = [],
  body?: string
): string => {
  const length = body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]
  return `${[`${method} ${target} HTTP/1.1`, "Host: localhost", ...lines, ...length].join("\r\n")}\r\n\r\n${body ?? ""}`
}

/** Sends bytes as they are over a connection of their own, for what `fetch` would not let through. */
export const exchange = (
  url: string,
  chunks: string | Uint8Array | Iterable<string | Uint8Array>,
  options: ExchangeOptions = {}
): Effect.Effect<Exchange> =>
  Effect.callback<Exchange>((resume) => {
    const { hostname, port } = new URL(url)
    const socket = net.connect(Number(port), hostname)
    const pieces: Iterable<unknown> = typeof chunks === "string" || chunks instanceof Uint8Array ? [chunks] : chunks
    let received: Buffer = Buffer.alloc(0)
    const finish = (closed: boolean) => {
      const { answers, interim } = parseAnswers(received, closed, options.bodiless ?? false)
      if (!closed && (options.untilClosed === true || answers.length < (options.answers ?? 1))) return
      resume(Effect.succeed({ answers, interim, closed, bytesSent: socket.bytesWritten }))
    }
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      finish(false)
    })
    // A refused body ends in a reset on this side; what was answered before it counts.
    socket.on("error", () => {})
    socket.on("close", () => finish(true))
    Readable.from(pieces, { objectMode: true })
      .on("error", () => {})
      .pipe(socket, { end: false })
    return Effect.sync(() => socket.destroy())
  })

const parseAnswers = (bytes: Buffer, closed: boolean, bodiless: boolean) => {
  const answers: Array<Answer> = []
  const interim: Array<number> = []
  let rest = bytes
  for (;;) {
    const headEnd = rest.indexOf("\r\n\r\n")
    if (headEnd < 0) return { answers, interim }
    const [statusLine = "", ...lines] = rest.toString("latin1", 0, headEnd).split("\r\n")
    const status = Number(statusLine.split(" ")[1])
    const headers = new Headers()
    for (const line of lines) {
      const colon = line.indexOf(":")
      headers.append(line.slice(0, colon), line.slice(colon + 1).trim())
    }
    const content = rest.subarray(headEnd + 4)
    if (status < 200) {
      interim.push(status)
      rest = content
      continue
    }
    const body = bodiless || status === 204 || status === 304 ? Buffer.alloc(0) : bodyOf(headers, content, closed)
    if (body === undefined) return { answers, interim }
    const text = body.toString("utf8")
    const json = headers.get("content-type")?.includes("json") === true && text !== ""
    answers.push({ status, headers, text, body: json ? JSON.parse(text) : text })
    const length = bodiless ? 0 : headers.get("content-length")
    rest = length === null ? Buffer.alloc(0) : content.subarray(Number(length))
  }
}

/** The body when all of it is there; one without a length ends with its connection or its last chunk. */
const bodyOf = (headers: Headers, content: Buffer, closed: boolean): Buffer | undefined => {
  const length = headers.get("content-length")
  if (length !== null) return content.length < Number(length) ? undefined : content.subarray(0, Number(length))
  if (headers.get("transfer-encoding") !== "chunked") return closed ? content : undefined
  const chunks: Array<Buffer> = []
  for (let at = 0; ;) {
    const lineEnd = content.indexOf("\r\n", at)
    if (lineEnd < 0) return undefined
    const size = Number.parseInt(content.toString("latin1", at, lineEnd), 16)
    if (size === 0) return Buffer.concat(chunks)
    at = lineEnd + 2 + size + 2
    if (content.length < at) return undefined
    chunks.push(content.subarray(lineEnd + 2, at - 2))
  }
}
