import { type ServerResponse } from "node:http"
import { type Answerer, json, type ReceivedRequest } from "./provider.ts"

/** The audio of a text: bytes of every value, so many for each of its characters. */
export const audioOf = (input: string, perCharacter = 300): Buffer =>
  Buffer.from(Array.from({ length: input.length * perCharacter }, (_, index) => (index * 7 + input.length) % 256))

/** What OpenAI reports for a text. */
export const spokenUsage = (input: string) => {
  const tokens = { input_tokens: Math.ceil(input.length / 4), output_tokens: 6 * Math.ceil(input.length / 4) }
  return { ...tokens, total_tokens: tokens.input_tokens + tokens.output_tokens }
}

/** Bytes in pieces of a length that is no multiple of three, so that each has padding of its own. */
const piecesOf = (audio: Buffer): ReadonlyArray<Buffer> =>
  Array.from({ length: Math.ceil(audio.length / 1000) }, (_, index) => audio.subarray(1000 * index, 1000 * (index + 1)))

const refusal = ({ input, model, stream_format: format, voice }: ReceivedRequest["body"]) => {
  if (typeof input !== "string" || input.length > 4096) return "input"
  if (voice === undefined) return "voice"
  return format === "sse" && model.startsWith("tts-1") ? "stream_format" : undefined
}

/** OpenAI's speech, as its reference describes it; `end` is what comes after the audio, in the place of its usual end. */
export const speechVendor =
  (end?: (response: ServerResponse, body: ReceivedRequest["body"]) => void): Answerer =>
  ({ body, path }, response) => {
    if (path !== "/v1/audio/speech") return json(response, 404, { error: { message: "no such path" } })
    const param = refusal(body)
    if (param !== undefined) {
      return json(response, 400, { error: { message: `Invalid ${param}`, type: "invalid_request_error", param } })
    }
    const pieces = piecesOf(audioOf(body.input))
    if (body.stream_format !== "sse") {
      response.writeHead(200, { "content-type": "audio/mpeg" })
      for (const piece of pieces) response.write(piece)
      if (end === undefined) response.end()
      else end(response, body)
      return undefined
    }
    response.writeHead(200, { "content-type": "text/event-stream" })
    for (const piece of pieces) event(response, { type: "speech.audio.delta", audio: piece.toString("base64") })
    if (end !== undefined) return end(response, body)
    event(response, { type: "speech.audio.done", usage: spokenUsage(body.input) })
    return response.end()
  }

export const event = (response: ServerResponse, value: object): void => {
  response.write(`data: ${JSON.stringify(value)}\n\n`)
}
