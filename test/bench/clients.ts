import * as net from "node:net"

/** What clients saw: answers a second, and how long they waited, in milliseconds. */
export interface Measured {
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
}

export interface Load {
  readonly url: string
  readonly headers: Record<string, string>
  readonly method?: "GET" | "POST"
  readonly path: string
  readonly clients: number
  readonly seconds: number
  /** The body of the next request. */
  readonly body?: () => string
  /** Headers of the next request alone. */
  readonly ownHeaders?: () => string
}

const percentile = (sorted: Float64Array, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN

const lengthOf = /\r\ncontent-length: (\d+)/i

/**
 * Clients that each send the next request when the last is answered, on a connection of their own. They share two processors
 * with what they measure, so they do no more than they must: no HTTP library, one write and one read for each request.
 * Any answer that is not 2xx ends the measurement.
 */
export const load = async (given: Load): Promise<Measured> => {
  const { hostname, port } = new URL(given.url)
  const { method = "POST" } = given
  const fixed = Object.entries({ host: `${hostname}:${port}`, ...given.headers })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")
  const head = `${method} ${given.path} HTTP/1.1\r\n${fixed}`
  const next = () => {
    const body = given.body?.() ?? ""
    const length = given.body === undefined ? "" : `content-length: ${Buffer.byteLength(body)}\r\n`
    return `${head}${given.ownHeaders?.() ?? ""}${length}\r\n${body}`
  }

  const waits: Array<number> = []
  const begun = performance.now()
  const end = begun + given.seconds * 1000
  const client = () =>
    new Promise<void>((resolve, reject) => {
      const socket = net.connect({ host: hostname, port: Number(port), noDelay: true })
      let sentAt = 0
      let received = ""
      const send = () => {
        received = ""
        sentAt = performance.now()
        socket.write(next(), "latin1")
      }
      socket.setEncoding("latin1")
      socket.once("connect", send)
      socket.once("error", reject)
      socket.on("data", (chunk: string) => {
        received = received === "" ? chunk : received + chunk
        const headEnd = received.indexOf("\r\n\r\n")
        if (headEnd < 0) return
        const length = Number(lengthOf.exec(received)?.[1])
        const isWhole = Number.isNaN(length)
          ? received.endsWith("\r\n0\r\n\r\n")
          : received.length >= headEnd + 4 + length
        if (!isWhole) return
        if (received[9] !== "2") {
          socket.destroy()
          reject(new Error(`${given.path}: ${received}`))
          return
        }
        const now = performance.now()
        waits.push(now - sentAt)
        if (now < end) send()
        else socket.end(resolve)
      })
    })
  await Promise.all(Array.from({ length: given.clients }, client))
  const elapsedSeconds = (performance.now() - begun) / 1000
  const sorted = Float64Array.from(waits).toSorted()
  return { perSecond: sorted.length / elapsedSeconds, p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) }
}
