import * as http from "node:http"
import { type AddressInfo } from "node:net"
import { setInterval } from "node:timers"

const answer = JSON.stringify({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1_700_000_000,
  model: "bench",
  choices: [
    { index: 0, message: { role: "assistant", content: "It is noon in Oslo." }, logprobs: null, finish_reason: "stop" }
  ],
  usage: { prompt_tokens: 20, completion_tokens: 8, total_tokens: 28 }
})

const event = (members: object) =>
  `data: ${JSON.stringify({ id: "chatcmpl-1", object: "chat.completion.chunk", created: 1_700_000_000, model: "bench", ...members })}\n\n`
const delta = (content: object, finishReason: string | null = null) =>
  event({ choices: [{ index: 0, delta: content, finish_reason: finishReason }] })
const first = delta({ role: "assistant", content: "noon" })
const token = delta({ content: " noon" })
const usage = { prompt_tokens: 20, completion_tokens: 8, total_tokens: 28 }
const last = `${delta({}, "stop")}${event({ choices: [], usage })}data: [DONE]\n\n`

/** Streams tokens, the first at once, and one each `everyMillis`. */
const stream = (response: http.ServerResponse, tokens: number, everyMillis: number): void => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  response.write(first)
  let left = tokens
  const timer = setInterval(() => {
    left -= 1
    if (left > 0) return void response.write(token)
    clearInterval(timer)
    response.end(last)
  }, everyMillis)
  response.once("close", () => clearInterval(timer))
}

/** A provider that does nothing but answer; a stream's `user` says how much and how fast. */
const server = http.createServer((request, response) => {
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const body = Buffer.concat(chunks)
    if (body.includes('"stream":true')) {
      const { user } = JSON.parse(body.toString()) as { readonly user: string }
      const [tokens = 0, everyMillis = 0] = user.split(" ").map(Number)
      return stream(response, tokens, everyMillis)
    }
    response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(answer) })
    response.end(answer)
  })
})
// Longer than any pause of a benchmark: a connection that closes while a request is on its way is an error to its client.
server.keepAliveTimeout = 600_000
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}\n`)
})
process.once("SIGTERM", () => process.exit(0))
