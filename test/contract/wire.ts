import { Effect } from "effect"
import * as http from "node:http"

/** A request as it goes over the wire: nothing is normalized, escaped or completed. */
export interface WireRequest {
  readonly method: string
  /** The request target, percent-encoded by whoever made it. */
  readonly target: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer | undefined
}

export interface WireAnswer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly text: string
}

export interface SendError {
  readonly message: string
  /** Whether the connection may have served another request before. */
  readonly stale: boolean
}

/** Sends requests to a service over connections that are kept open; close the agent when done. */
export const sender = (url: string, agent: http.Agent) => {
  const { hostname, port } = new URL(url)
  const send = ({ body, headers, method, target }: WireRequest, agent: http.Agent | false) =>
    Effect.callback<WireAnswer, SendError>((resume) => {
      const length = body === undefined ? {} : { "content-length": String(body.length) }
      const options = { agent, headers: { ...headers, ...length }, host: hostname, method, path: target, port }
      const request = http.request(options, (response) => {
        const chunks: Array<Buffer> = []
        const answer = () =>
          Effect.succeed({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: Buffer.concat(chunks).toString("utf8")
          })
        response.on("data", (chunk: Buffer) => {
          chunks.push(chunk)
          // A stream of events has no end, so its first ones stand for it.
          if (response.headers["content-type"]?.startsWith("text/event-stream") !== true) return
          resume(answer())
          request.destroy()
        })
        response.on("error", ({ message }) => resume(Effect.fail({ message, stale: false })))
        response.on("end", () => resume(answer()))
      })
      // A socket that goes straight from one request to the next does not count as reused.
      request.on("error", ({ message }) => resume(Effect.fail({ message, stale: agent !== false })))
      request.end(body)
      return Effect.sync(() => void request.destroy())
    })
  // A kept connection may be closed by the service in the moment in which it is used again.
  return (request: WireRequest): Effect.Effect<WireAnswer, SendError> =>
    Effect.catchIf(
      send(request, agent),
      ({ stale }) => stale,
      () => send(request, false)
    )
}

/** The request in curl's words, for whoever reads a failure. */
export const shownRequest = ({ body, headers, method, target }: WireRequest): string => {
  const shownHeaders = Object.entries(headers).map(([name, value]) => ` -H '${name}: ${value}'`)
  const text = body === undefined ? "" : ` -d '${shortened(body.toString("utf8"))}'`
  return `${method} ${shortened(target)}${shownHeaders.join("")}${text}`
}

export const shortened = (text: string): string => {
  const printable = JSON.stringify(text).slice(1, -1)
  return printable.length <= 400 ? printable : `${printable.slice(0, 400)}… (${printable.length} characters)`
}
