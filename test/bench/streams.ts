import * as http from "node:http"
import { median } from "./rates.ts"

/** Where streams come from, and as whom they are asked for. */
export interface Source {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Whether they are asked for by the Responses API. */
  readonly isResponses?: boolean
}

export interface Streams {
  readonly atOnce: number
  /** How many streams each of them asks for, one after another. */
  readonly rounds: number
  readonly tokens: number
  readonly everyMillis: number
}

interface Streamed {
  readonly firstMillis: number
  /** The longest silence between two chunks. */
  readonly silenceMillis: number
}

const streamOf = ({ headers, isResponses, url }: Source, agent: http.Agent, body: string): Promise<Streamed> =>
  new Promise((resolve, reject) => {
    const begun = performance.now()
    const request = http.request(
      `${url}${isResponses === true ? "/v1/responses" : "/v1/chat/completions"}`,
      { method: "POST", agent, headers: { "content-type": "application/json", ...headers } },
      (response) => {
        let firstMillis = 0
        let last = 0
        let silenceMillis = 0
        let end = ""
        response.on("data", (chunk: Buffer) => {
          const now = performance.now()
          if (last === 0) firstMillis = now - begun
          else silenceMillis = Math.max(silenceMillis, now - last)
          last = now
          end = chunk.toString()
        })
        response.on("end", () => {
          if (response.statusCode === 200 && (end.includes("[DONE]") || end.includes("response.completed")))
            resolve({ firstMillis, silenceMillis })
          else reject(new Error(`${url}: a stream ended with ${response.statusCode} ${end}`))
        })
        response.on("error", reject)
      }
    )
    request.on("error", reject)
    request.end(body)
  })

/** Reads streams at once from one source; their starts are spread over the time that one takes. */
export const readStreams = async (source: Source, { atOnce, everyMillis, rounds, tokens }: Streams) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: atOnce })
  const question = "What time is it in Oslo?"
  const body = JSON.stringify({
    model: "bench",
    ...(source.isResponses === true
      ? { input: question, store: false }
      : { messages: [{ role: "user", content: question }] }),
    stream: true,
    user: `${tokens} ${everyMillis}`
  })
  const read: Array<Streamed> = []
  const reader = async (place: number) => {
    await new Promise((resolve) => setTimeout(resolve, (place / atOnce) * tokens * everyMillis))
    for (let round = 0; round < rounds; round++) {
      const streamed = await streamOf(source, agent, body)
      // The first of each opens its connection, which is none of the gateway's time.
      if (round > 0) read.push(streamed)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, (_, place) => reader(place)))
  agent.destroy()
  const silences = read.map(({ silenceMillis }) => silenceMillis)
  return {
    firstMillis: median(read.map(({ firstMillis }) => firstMillis)),
    silenceMillis: median(silences),
    longestSilenceMillis: Math.max(...silences)
  }
}
