import { Effect } from "effect"
import * as http from "node:http"
import { type AddressInfo } from "node:net"
import { eventually } from "./waiting.ts"

/** A request as a receiver of events got it. */
export interface ReceivedHook {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface WebhookReceiver {
  readonly url: string
  readonly hooks: Array<ReceivedHook>
  /** The status of the next answers; 204 by default. */
  status: number
  answerHeaders: Record<string, string>
  /** Whether requests get no answer, until they are released. */
  isSilent: boolean
  /** Answers all that wait, and what comes. */
  release(): void
  /** Waits until that many requests of a method have come. */
  until(count: number, method?: string): Effect.Effect<ReadonlyArray<ReceivedHook>>
}

/** Receives events on a free loopback port until the scope closes. */
export const startReceiver = Effect.acquireRelease(
  Effect.promise(async () => {
    const waiting: Array<http.ServerResponse> = []
    const server = http.createServer((request, response) => {
      const chunks: Array<Buffer> = []
      const { answerHeaders, status } = receiver
      request.on("data", (chunk: Buffer) => void chunks.push(chunk))
      request.on("end", () => {
        const { headers, method = "", url = "" } = request
        const body = Buffer.concat(chunks).toString("utf8")
        receiver.hooks.push({ method, path: url, headers: headers as Record<string, string>, body })
        response.writeHead(status, answerHeaders)
        if (receiver.isSilent) waiting.push(response)
        else response.end()
      })
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const receiver: WebhookReceiver = {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
      hooks: [],
      status: 204,
      answerHeaders: {},
      isSilent: false,
      release: () => {
        receiver.isSilent = false
        for (const response of waiting.splice(0)) response.end()
      },
      until: (count, method = "POST") =>
        eventually(
          Effect.sync(() => receiver.hooks.filter((hook) => hook.method === method)),
          ({ length }) => length >= count
        )
    }
    return { receiver, server }
  }),
  ({ server }) =>
    Effect.promise(() => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(resolve))
    })
).pipe(Effect.map(({ receiver }) => receiver))
