import { imageVendor, transcriptionVendor } from "./media-vendor.ts"
import { type Answerer, json, type ReceivedRequest, sse } from "./provider.ts"
import { rerankVendor } from "./rerank-vendor.ts"
import { speechVendor } from "./speech-vendor.ts"
import { chatFault, messageFault } from "./vendor-rules.ts"

/** What the stand-ins say and use, whatever they are asked. */
export const said = "It is noon in Oslo."
/** What they think before, where they are asked to. */
export const thought = "Noon is when the sun is highest."
export const calledWith = { city: "Oslo" }
export const used = { input: 100, cached: 40, output: 20, reasoning: 5 }

/** From this output limit down their answers are cut off. */
const shortestAnswer = 3

const piecesOf = (text: string): ReadonlyArray<string> => text.split(/(?= )/)

/** The names of the tools that are called: each that is offered, once; none where results came in. */
const calledTools = ({ body }: ReceivedRequest): ReadonlyArray<string> => {
  const last = body.messages.at(-1)
  const answersTool =
    last.role === "tool" ||
    (Array.isArray(last.content) && last.content.some(({ type }: { readonly type: string }) => type === "tool_result"))
  const tools: ReadonlyArray<{ readonly name?: string; readonly function?: { readonly name: string } }> = answersTool
    ? []
    : (body.tools ?? [])
  return tools.map(({ function: tool, name }) => name ?? tool?.name ?? "")
}

const openAiUsage = {
  prompt_tokens: used.input,
  completion_tokens: used.output,
  total_tokens: used.input + used.output,
  prompt_tokens_details: { cached_tokens: used.cached },
  completion_tokens_details: { reasoning_tokens: used.reasoning }
}

const toolCall = (name: string, index: number, words: string) => ({
  id: `call_${index + 1}`,
  type: "function",
  function: { name, arguments: words }
})

const isJsonAsked = (body: ReceivedRequest["body"]): boolean =>
  body.response_format?.type === "json_schema" ||
  body.response_format?.type === "json_object" ||
  body.output_config?.format?.type === "json_schema"

const textChoices = (text: string, finish_reason: string | null) => [{ index: 0, text, logprobs: null, finish_reason }]

const textCompletion: Answerer = ({ body }, response) => {
  const head = { id: "cmpl-1", object: "text_completion", created: 1_700_000_000, model: body.model }
  if (body.stream !== true) {
    return json(
      response,
      200,
      { ...head, choices: textChoices(said, "stop"), usage: openAiUsage },
      { "x-request-id": "u" }
    )
  }
  sse(response, [
    ...piecesOf(said).map((piece) => Object.assign({ choices: textChoices(piece, null) }, head)),
    { ...head, choices: textChoices("", "stop") },
    ...(body.stream_options?.include_usage === true ? [{ ...head, choices: [], usage: openAiUsage }] : []),
    "data: [DONE]\n\n"
  ])
  response.end()
}

/** OpenAI's service, as its reference describes it, with `reasoning_content` as those who speak its dialect tell thoughts. */
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
  if (path.endsWith("/moderations")) {
    const result = { flagged: false, categories: {}, category_scores: {}, category_applied_input_types: {} }
    return json(response, 200, { id: "modr-1", model: body.model, results: [body.input].flat().map(() => result) })
  }
  if (path.endsWith("/rerank")) return rerankVendor("jina")(request, response)
  if (path.endsWith("/audio/speech")) return speechVendor()(request, response)
  if (path.includes("/images/")) return imageVendor(request, response)
  if (path.includes("/audio/")) return transcriptionVendor(request, response)
  if (path.endsWith("/v1/completions")) return textCompletion(request, response)
  const fault = chatFault(request)
  if (fault !== undefined) {
    const error = { message: fault, type: "invalid_request_error", param: null, code: null }
    return json(response, 400, { error })
  }
  const head = { id: "chatcmpl-1", created: 1_700_000_000, model: body.model }
  const tools = calledTools(request)
  const words = isJsonAsked(body) ? JSON.stringify(calledWith) : said
  const isCut = (body.max_completion_tokens ?? body.max_tokens ?? Infinity) <= shortestAnswer
  const reason = tools.length > 0 ? "tool_calls" : isCut ? "length" : "stop"
  const thinks = body.reasoning_effort !== undefined
  const calls = tools.map((name, index) => toolCall(name, index, JSON.stringify(calledWith)))
  if (body.stream !== true) {
    const message = {
      role: "assistant",
      content: tools.length > 0 ? null : words,
      refusal: null,
      ...(thinks ? { reasoning_content: thought } : {}),
      ...(tools.length > 0 ? { tool_calls: calls } : {})
    }
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
  const started = tools.map((name, index) => chunk({ tool_calls: [{ index, ...toolCall(name, index, "") }] }))
  const spelled = ['{"city":', '"Oslo"}'].flatMap((part) =>
    tools.map((_, index) => chunk({ tool_calls: [{ index, function: { arguments: part } }] }))
  )
  sse(response, [
    chunk({ role: "assistant", content: "" }),
    ...(thinks ? piecesOf(thought).map((reasoning_content) => chunk({ reasoning_content })) : []),
    ...(tools.length > 0 ? [...started, ...spelled] : piecesOf(words).map((content) => chunk({ content }))),
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

const event = (data: { readonly type: string; readonly [member: string]: unknown }) =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`

/** A block of a message, and the deltas that it is streamed in. */
interface Block {
  readonly whole: object
  readonly empty: object
  readonly deltas: ReadonlyArray<object>
}

const thinkingBlock: Block = {
  whole: { type: "thinking", thinking: thought, signature: "sig" },
  empty: { type: "thinking", thinking: "", signature: "" },
  deltas: [
    ...piecesOf(thought).map((thinking) => ({ type: "thinking_delta", thinking })),
    { type: "signature_delta", signature: "sig" }
  ]
}

const textBlock = (text: string): Block => ({
  whole: { type: "text", text, citations: null },
  empty: { type: "text", text: "", citations: null },
  deltas: piecesOf(text).map((piece) => ({ type: "text_delta", text: piece }))
})

const toolBlock = (name: string, index: number): Block => {
  const use = { type: "tool_use", id: `toolu_${index + 1}`, name }
  return {
    whole: { ...use, input: calledWith },
    empty: { ...use, input: {} },
    deltas: ['{"city":', '"Oslo"}'].map((partial_json) => ({ type: "input_json_delta", partial_json }))
  }
}

const blockEvents = ({ deltas, empty }: Block, index: number): string => {
  const told = deltas.map((delta) => event({ type: "content_block_delta", index, delta }))
  const start = event({ type: "content_block_start", index, content_block: empty })
  return `${start}${event({ type: "ping" })}${told.join("")}${event({ type: "content_block_stop", index })}`
}

/** Anthropic's service, as its reference describes it. */
export const anthropicVendor: Answerer = (request, response) => {
  const { body, path } = request
  if (path.startsWith("/v1/models")) return json(response, 200, { data: [], has_more: false })
  const fault = messageFault(request)
  if (fault !== undefined) {
    return json(response, 400, { type: "error", error: { type: "invalid_request_error", message: fault } })
  }
  if (path === "/v1/messages/count_tokens") return json(response, 200, { input_tokens: 42 })
  const tools = calledTools(request)
  const words = isJsonAsked(body) ? JSON.stringify(calledWith) : said
  const isCut = body.max_tokens <= shortestAnswer
  const stopReason = tools.length > 0 ? "tool_use" : isCut ? "max_tokens" : "end_turn"
  const message = { id: "msg_1", type: "message", role: "assistant", model: body.model, stop_sequence: null }
  const blocks = [
    ...(body.thinking?.type === "enabled" || body.thinking?.display === "summarized" ? [thinkingBlock] : []),
    ...(tools.length > 0 ? tools.map(toolBlock) : [textBlock(words)])
  ]
  if (body.stream !== true) {
    const content = blocks.map(({ whole }) => whole)
    return json(response, 200, { ...message, content, stop_reason: stopReason, usage: anthropicUsage })
  }
  sse(response, [
    event({
      type: "message_start",
      message: { ...message, content: [], stop_reason: null, usage: { ...anthropicUsage, output_tokens: 1 } }
    }),
    ...blocks.map(blockEvents),
    event({
      type: "message_delta",
      delta: { stop_reason: stopReason, stop_sequence: null },
      usage: { output_tokens: used.output }
    }),
    event({ type: "message_stop" })
  ])
  response.end()
}
