import { type Dialect } from "./domain.ts"
import { isJson, listIn, parsedJson, type Json } from "../../kernel/json/parsed-json.ts"

/**
 * Converts a complete response to the stream that the caller requested: some providers never stream. `usage` is told where
 * the caller asked for it and the provider reported none. Undefined if the response cannot be parsed.
 */
export const wholeToStream = (text: string, dialect: Dialect, usage: object | undefined): string | undefined => {
  const answer = parsedJson(text)
  if (!isJson(answer)) return undefined
  return dialect === "openai" ? chunksOf(answer, usage) : eventsOf(answer)
}

const chunksOf = ({ choices, usage, ...head }: Json, asked: object | undefined): string => {
  const isText = head.object === "text_completion"
  const chunk = (members: Json) => ({
    ...head,
    object: isText ? "text_completion" : "chat.completion.chunk",
    ...members
  })
  const given = listIn(choices).filter(isJson)
  const said = given.map(({ index = 0, message, text }) =>
    isText ? { index, text, finish_reason: null } : { index, delta: deltaOf(message), finish_reason: null }
  )
  const ended = given.map(({ finish_reason, index = 0, message }) => {
    const reason = finish_reason ?? (isJson(message) && listIn(message.tool_calls).length > 0 ? "tool_calls" : "stop")
    return isText ? { index, text: "", finish_reason: reason } : { index, delta: {}, finish_reason: reason }
  })
  return [
    chunk({ choices: said }),
    chunk({ choices: ended }),
    ...(asked === undefined ? [] : [chunk({ choices: [], usage: isJson(usage) ? usage : asked })])
  ]
    .map((data) => `data: ${JSON.stringify(data)}\n\n`)
    .concat("data: [DONE]\n\n")
    .join("")
}

const deltaOf = (message: unknown): Json => {
  if (!isJson(message)) return typeof message === "string" ? { content: message } : {}
  const { tool_calls: calls, ...rest } = message
  if (!Array.isArray(calls)) return rest
  return { ...rest, tool_calls: calls.filter(isJson).map((call, index) => Object.assign({ index }, call)) }
}

const eventsOf = (message: Json): string => {
  const { content, stop_reason, stop_sequence, usage } = message
  const counted = isJson(usage) ? usage : { input_tokens: 0, output_tokens: 0 }
  const started = {
    ...message,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { ...counted, output_tokens: 0 }
  }
  const blocks = (typeof content === "string" ? [content] : listIn(content))
    .map((block) => (typeof block === "string" ? { type: "text", text: block } : block))
    .filter(isJson)
  return [
    { type: "message_start", message: started },
    ...blocks.flatMap(blockEvents),
    {
      type: "message_delta",
      delta: { stop_reason: stop_reason ?? "end_turn", stop_sequence: stop_sequence ?? null },
      usage: counted
    },
    { type: "message_stop" }
  ]
    .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    .join("")
}

const blockEvents = (block: Json, index: number) => {
  const deltas = deltasOf(block).map((delta) => ({ type: "content_block_delta", index, delta }))
  const start = { type: "content_block_start", index, content_block: emptied(block) }
  return [start, ...deltas, { type: "content_block_stop", index }]
}

const emptied = (block: Json): Json => {
  switch (block.type) {
    case "text":
      return { ...block, text: "" }
    case "thinking":
      return { ...block, thinking: "", signature: "" }
    case "tool_use":
      return { ...block, input: {} }
    default:
      return block
  }
}

const deltasOf = (block: Json): ReadonlyArray<Json> => {
  switch (block.type) {
    case "text":
      return [{ type: "text_delta", text: block.text }]
    case "thinking":
      return [
        { type: "thinking_delta", thinking: block.thinking },
        { type: "signature_delta", signature: block.signature ?? "" }
      ]
    case "tool_use":
      return [{ type: "input_json_delta", partial_json: JSON.stringify(block.input ?? {}) }]
    default:
      return []
  }
}
