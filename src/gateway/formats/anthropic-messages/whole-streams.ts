import { isJson, type Json, listIn, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { type DialectError, readError } from "../errors.ts"
import { type ServerEvent, typeOf } from "../event-reader.ts"
import { type Gathering } from "../format.ts"
import { addPieces, type Members } from "../streams/gathered-members.ts"
import { namedEvents } from "../streams/written-events.ts"
import { laterUsage } from "../usage.ts"
import { endsMessage } from "./stream.ts"

/** Assembles the events of a message. */
export class MessageGathering implements Gathering {
  readonly endsByTerminator = true
  done = false
  failure: DialectError | undefined
  private readonly head: Members = {}
  private readonly blocks = new Map<number, { readonly block: Members; json: string }>()
  /** The place of the block that was written last. */
  private place = -1

  get isFinished(): boolean {
    return typeof this.head.stop_reason === "string"
  }

  take(value: Json, event: ServerEvent): void {
    const type = typeOf(event, value)
    if (type === "error") this.failure = readError(502, value)
    this.done = endsMessage(value, event)
    const { delta, message, usage } = value
    if (type === "message_start" && isJson(message)) Object.assign(this.head, message)
    if (type === "message_delta" && isJson(delta)) addPieces(this.head, delta)
    const reported = [usage, isJson(message) && type !== "message_start" ? message.usage : undefined].find(isJson)
    const before = isJson(this.head.usage) ? this.head.usage : {}
    if (reported !== undefined) this.head.usage = laterUsage(before, reported)
    if (type === "content_block_start" || type === "content_block_delta") this.takeBlock(value, type)
  }

  whole(): Json {
    const content = [...this.blocks.values()].map(({ block, json }) =>
      json === "" ? block : Object.assign(block, { input: parsedJson(json) ?? {} })
    )
    return { ...this.head, content }
  }

  private takeBlock({ content_block: block, delta, index }: Json, type: string): void {
    const isNew = type === "content_block_start" && isJson(block)
    this.place = typeof index === "number" ? index : isNew ? this.place + 1 : this.place
    if (isNew) this.blocks.set(this.place, { block: { ...block }, json: "" })
    if (type !== "content_block_delta" || !isJson(delta)) return
    const { citation, partial_json: json, type: _, ...others } = delta
    const pieces = isJson(citation) ? { ...others, citations: [citation] } : others
    const open = this.blocks.get(this.place)
    if (open === undefined) {
      // A text whose beginning is missing is a text.
      if (typeof delta.text === "string") this.blocks.set(this.place, { block: { type: "text", ...pieces }, json: "" })
    } else if (typeof json === "string") open.json += json
    else addPieces(open.block, pieces)
  }
}

/** The stream of a message that its provider sent as a whole; undefined if it cannot be read. */
export const streamedMessage = (text: string): string | undefined => {
  const message = parsedJson(text)
  if (!isJson(message)) return undefined
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
  return namedEvents([
    { type: "message_start", message: started },
    ...blocks.flatMap(blockEvents),
    {
      type: "message_delta",
      delta: { stop_reason: stop_reason ?? "end_turn", stop_sequence: stop_sequence ?? null },
      usage: counted
    },
    { type: "message_stop" }
  ])
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
