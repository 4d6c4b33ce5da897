import { type Answerer, json, type ReceivedRequest, sse } from "./provider.ts"

/** What the stand-ins say and use, whatever they are asked. */
export const said = "It is noon in Oslo."
export const calledWith = { city: "Oslo" }
export const used = { input: 100, cached: 40, output: 20, reasoning: 5 }

const pieces = said.split(/(?= )/)
const callsTool = ({ body }: ReceivedRequest): boolean => {
  const last = body.messages.at(-1)
  const answersTool =
    last.role === "tool" ||
    (Array.isArray(last.content) && last.content.some(({ type }: { readonly type: string }) => type === "tool_result"))
  return (body.tools?.length ?? 0) > 0 && !answersTool
}

const openAiUsage = {
  prompt_tokens: used.input,
  completion_tokens: used.output,
  total_tokens: used.input + used.output,
  prompt_tokens_details: { cached_tokens: used.cached },
  completion_tokens_details: { reasoning_tokens: used.reasoning }
}

const toolCall = (index?: number) => ({
  ...(index === undefined ? {} : { index }),
  id: "call_1",
  type: "function",
  function: { name: "weather", arguments: JSON.stringify(calledWith) }
})

/** OpenAI's service, as its reference describes it. */
export const openAiVendor: Answerer = (request, response) => {
  const { body, path } = request
  if (path.endsWith("/models")) return json(response, 200, { object: "list", data: [] })
  if (path.endsWith("/embeddings")) {
    const inputs: ReadonlyArray<string> = [body.input].flat()
    const vector = Float32Array.of(0.5, -0.25, 1)
    const embedding =
      body.encoding_format === "base64" ? Buffer.from(vector.buffer).toString("base64") : Array.from(vector)
    return json(response, 200, {
      object: "list",
      model: body.model,
      data: inputs.map((_, index) => ({ object: "embedding", index, embedding })),
      usage: { prompt_tokens: 7, total_tokens: 7 }
    })
  }
  const head = { id: "chatcmpl-1", created: 1_700_000_000, model: body.model }
  const tool = callsTool(request)
  const reason = tool ? "tool_calls" : "stop"
  if (body.stream !== true) {
    const message = tool
      ? { role: "assistant", content: null, refusal: null, tool_calls: [toolCall()] }
      : { role: "assistant", content: said, refusal: null }
    const choices = [{ index: 0, message, logprobs: null, finish_reason: reason }]
    return json(
      response,
      200,
      { ...head, object: "chat.completion", choices, usage: openAiUsage },
      { "x-request-id": "u" }
    )
  }
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, logprobs: null, finish_reason }]
  })
  sse(response, [
    chunk({ role: "assistant", content: "" }),
    ...(tool ? [chunk({ tool_calls: [toolCall(0)] })] : pieces.map((content) => chunk({ content }))),
    chunk({}, reason),
    ...(body.stream_options?.include_usage === true
      ? [{ ...head, object: "chat.completion.chunk", choices: [], usage: openAiUsage }]
      : []),
    "data: [DONE]\n\n"
  ])
  response.end()
}

const anthropicUsage = {
  input_tokens: used.input - used.cached,
  cache_read_input_tokens: used.cached,
  cache_creation_input_tokens: 0,
  output_tokens: used.output,
  output_tokens_details: { thinking_tokens: used.reasoning }
}

const event = (data: { readonly type: string }) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`

/** Anthropic's service, as its reference describes it. */
export const anthropicVendor: Answerer = (request, response) => {
  const { body, path } = request
  if (path.startsWith("/v1/models")) return json(response, 200, { data: [], has_more: false })
  if (path === "/v1/messages/count_tokens") return json(response, 200, { input_tokens: 42 })
  const tool = callsTool(request)
  const use = { type: "tool_use", id: "toolu_1", name: "weather", input: tool ? calledWith : {} }
  const stopReason = tool ? "tool_use" : "end_turn"
  const message = { id: "msg_1", type: "message", role: "assistant", model: body.model, stop_sequence: null }
  if (body.stream !== true) {
    const content = tool ? [use] : [{ type: "text", text: said }]
    return json(response, 200, { ...message, content, stop_reason: stopReason, usage: anthropicUsage })
  }
  const delta = (value: object) => event({ type: "content_block_delta", index: 0, delta: value } as never)
  sse(response, [
    event({
      type: "message_start",
      message: { ...message, content: [], stop_reason: null, usage: { ...anthropicUsage, output_tokens: 1 } }
    } as never),
    event({
      type: "content_block_start",
      index: 0,
      content_block: tool ? { ...use, input: {} } : { type: "text", text: "" }
    } as never),
    event({ type: "ping" }),
    ...(tool
      ? [
          delta({ type: "input_json_delta", partial_json: '{"city":' }),
          delta({ type: "input_json_delta", partial_json: '"Oslo"}' })
        ]
      : pieces.map((text) => delta({ type: "text_delta", text }))),
    event({ type: "content_block_stop", index: 0 } as never),
    event({
      type: "message_delta",
      delta: { stop_reason: stopReason, stop_sequence: null },
      usage: { output_tokens: used.output }
    } as never),
    event({ type: "message_stop" })
  ])
  response.end()
}
