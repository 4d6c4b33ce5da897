import { type Answerer, json, sse } from "../../../support/provider.ts"
import { type ProviderName } from "./subject.ts"

const event = (data: { readonly type: string; readonly [member: string]: unknown }) =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`

const chatStart = [
  { id: "c", choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }] },
  { id: "c", choices: [{ index: 0, delta: { content: "It is" }, finish_reason: null }] }
]

const messageStart = [
  event({
    type: "message_start",
    message: {
      id: "m",
      type: "message",
      role: "assistant",
      model: "m",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 30, output_tokens: 1 }
    }
  }),
  event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
  event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "It is" } })
]

const responseStart = [
  event({ type: "response.created", response: { id: "r", object: "response", status: "in_progress", output: [] } }),
  event({ type: "response.output_text.delta", output_index: 0, content_index: 0, delta: "It is", logprobs: [] })
]

const failure = { type: "error", error: { type: "api_error", message: "No luck.", code: "no_luck" } }

/** Begins to stream, and says no more; or tells of an error. */
export const startedStream =
  (provider: ProviderName, then?: "error"): Answerer =>
  (_, response) => {
    const isChat = provider === "OpenAI"
    const start = { OpenAI: chatStart, Anthropic: messageStart, "Responses API": responseStart, loopback: [] }[provider]
    sse(response, [...start, ...(then === undefined ? [] : [isChat ? { error: failure.error } : event(failure)])])
    if (then !== undefined) response.end()
  }

/** Begins to stream, and breaks the connection off. */
export const brokenStream =
  (provider: ProviderName): Answerer =>
  (request, response) => {
    startedStream(provider)(request, response)
    setImmediate(() => response.destroy())
  }

export const failureOf =
  (status: number): Answerer =>
  (_, response) =>
    json(response, status, failure)

/** Never answers. */
export const silence: Answerer = () => {}
