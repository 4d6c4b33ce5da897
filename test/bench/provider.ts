import * as net from "node:net"
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

const wholeOf = (text: string) =>
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
const whole = wholeOf(answer)

/** The same answer of the Responses API. */
const response = wholeOf(
  JSON.stringify({
    id: "resp_0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978",
    object: "response",
    created_at: 1_700_000_000,
    status: "completed",
    background: false,
    error: null,
    incomplete_details: null,
    instructions: null,
    max_output_tokens: null,
    model: "bench",
    output: [
      {
        id: "msg_0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978",
        type: "message",
        status: "completed",
        role: "assistant",
        content: [{ type: "output_text", text: "It is noon in Oslo.", annotations: [], logprobs: [] }]
      }
    ],
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    store: false,
    temperature: 1,
    text: { format: { type: "text" } },
    tool_choice: "auto",
    tools: [],
    top_p: 1,
    truncation: "disabled",
    usage: {
      input_tokens: 20,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 8,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 28
    },
    user: null,
    metadata: {}
  })
)

const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
const streamHead = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
const [firstChunk, tokenChunk, lastChunks] = [chunk(first), chunk(token), `${chunk(last)}${chunk("")}`]

/** Streams tokens, the first at once, and one each `everyMillis`. */
const stream = (socket: net.Socket, tokens: number, everyMillis: number): void => {
  socket.write(streamHead + firstChunk, "latin1")
  let left = tokens
  const timer = setInterval(() => {
    left -= 1
    if (left > 0) return void socket.write(tokenChunk, "latin1")
    clearInterval(timer)
    socket.write(lastChunks, "latin1")
  }, everyMillis)
  socket.once("close", () => clearInterval(timer))
}

const bodyOf = (received: string, headEnd: number): string | undefined => {
  const head = received.slice(0, headEnd).toLowerCase()
  const start = headEnd + 4
  if (head.includes("\r\ntransfer-encoding: chunked")) {
    return received.endsWith("\r\n0\r\n\r\n") ? received.slice(start) : undefined
  }
  const length = Number(/\r\ncontent-length: (\d+)/.exec(head)?.[1] ?? "0")
  return received.length < start + length ? undefined : received.slice(start)
}

/**
 * A provider that does nothing but answer; a stream's `user` says how much and how fast. It shares two processors with what
 * is measured, so it does no more than it must: requests come one after another on a connection, in ASCII.
 */
const server = net.createServer({ noDelay: true }, (socket) => {
  let received = ""
  socket.setEncoding("latin1")
  socket.on("data", (data: string) => {
    received += data
    const headEnd = received.indexOf("\r\n\r\n")
    if (headEnd < 0) return
    const body = bodyOf(received, headEnd)
    if (body === undefined) return
    const isResponse = received.startsWith("POST /v1/responses ")
    received = ""
    if (isResponse) return void socket.write(response, "latin1")
    if (!body.includes('"stream":true')) return void socket.write(whole, "latin1")
    const [tokens = 0, everyMillis = 0] = (/"user":"(\d+) (\d+)"/.exec(body) ?? []).slice(1).map(Number)
    stream(socket, tokens, everyMillis)
  })
  socket.on("error", () => socket.destroy())
})
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${(server.address() as net.AddressInfo).port}\n`)
})
process.once("SIGTERM", () => process.exit(0))
