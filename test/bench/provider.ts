import * as http from "node:http"
import { type AddressInfo } from "node:net"

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

/** A provider that does nothing but answer. */
const server = http.createServer((request, response) => {
  request.resume()
  request.on("end", () => {
    response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(answer) })
    response.end(answer)
  })
})
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}\n`)
})
process.once("SIGTERM", () => process.exit(0))
