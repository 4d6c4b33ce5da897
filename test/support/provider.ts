import { Effect } from "effect"
import * as http from "node:http"
import { type AddressInfo } from "node:net"

/** A request as the stand-in received it. */
export interface ReceivedRequest {
  readonly method: string
  readonly path: string
  readonly headers: http.IncomingHttpHeaders
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into requests of every shape
  readonly body: any
  /** The body as it arrived. */
  readonly bytes: Buffer
}

/** Answers a request; what it does with the response is all that a provider may do. */
export type Answerer = (request: ReceivedRequest, response: http.ServerResponse) => void

/** A stand-in for a vendor's service on a free loopback port. */
export interface ProviderStandIn {
  readonly url: string
  readonly requests: Array<ReceivedRequest>
  /** How many of its requests were given up by the client before their answer was complete. */
  aborted: number
  answer: Answerer
}

const readBytes = async (request: http.IncomingMessage) => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

/** A body as JSON, as a form, or as text where it is neither. */
const bodyIn = async (bytes: Buffer, type = "") => {
  if (type.startsWith("multipart/")) return formOf(type, bytes)
  const text = bytes.toString("utf8")
  if (text === "") return undefined
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** A file of a form, as a stand-in received it. */
export interface ReceivedFile {
  readonly filename: string
  readonly type: string
  readonly bytes: Buffer
}

/** The fields of a form, and its files, as the platform's own parser reads them; those of a list are in one. */
const formOf = async (type: string, bytes: Buffer) => {
  const form = await new Response(new Uint8Array(bytes), { headers: { "content-type": type } }).formData()
  const parts = await Promise.all(
    Array.from(form, async ([name, value]) => {
      if (typeof value === "string") return { name, value }
      return { name, value: { filename: value.name, type: value.type, bytes: Buffer.from(await value.arrayBuffer()) } }
    })
  )
  const body: Record<string, unknown> = {}
  for (const { name, value } of parts) {
    body[name] = name.endsWith("[]") ? [body[name] ?? [], value].flat() : value
  }
  return body
}

export const json = (response: http.ServerResponse, status: number, body: unknown, headers = {}) => {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body))
}

/** Server-Sent Events as vendors write them; `event` is the name, where there is one. */
export const sse = (response: http.ServerResponse, events: ReadonlyArray<unknown>) => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  for (const event of events) response.write(typeof event === "string" ? event : `data: ${JSON.stringify(event)}\n\n`)
}

/** A response whose text is kept. */
export const keptResponse = () => {
  const made = { status: 0, headers: {}, text: "" }
  const response = {
    writeHead: (status: number, headers: object) => {
      made.status = status
      made.headers = headers
      return response
    },
    write: (text: string) => (made.text += text),
    end: (text = "") => (made.text += text)
  }
  return { made, response: response as unknown as http.ServerResponse }
}

/** Has a stand-in hold its answers in events half-way, once it has accepted their requests, until they are released. */
export const holdStreams = (standIn: ProviderStandIn) => {
  const { promise: began, resolve: begin } = Promise.withResolvers<void>()
  const { promise: isOver, resolve: release } = Promise.withResolvers<void>()
  const { answer } = standIn
  standIn.answer = (request, response) => {
    if (request.body?.stream !== true) return answer(request, response)
    const { made, response: keeping } = keptResponse()
    answer(request, keeping)
    const half = made.text.indexOf("\n\n", made.text.length / 2) + 2
    response.writeHead(made.status, made.headers).write(made.text.slice(0, half))
    begin()
    void isOver.then(() => response.end(made.text.slice(half)))
  }
  return { began, release }
}

export const startProvider = (answer: Answerer) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const standIn: ProviderStandIn = { url: "", requests: [], aborted: 0, answer }
      const server = http.createServer((incoming, response) => {
        response.on("close", () => {
          if (!response.writableFinished) standIn.aborted++
        })
        void readBytes(incoming).then(
          async (bytes) => {
            const { headers, method = "", url: path = "" } = incoming
            const body = await bodyIn(bytes, headers["content-type"])
            const request = { method, path, headers, body, bytes }
            standIn.requests.push(request)
            standIn.answer(request, response)
          },
          () => {}
        )
      })
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      const { port } = server.address() as AddressInfo
      return { standIn: Object.assign(standIn, { url: `http://127.0.0.1:${port}` }), server }
    }),
    ({ server }) =>
      Effect.promise(() => {
        server.closeAllConnections()
        return new Promise((resolve) => server.close(resolve))
      })
  ).pipe(Effect.map(({ standIn }) => standIn))
