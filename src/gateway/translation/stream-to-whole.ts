import { type Dialect } from "./domain.ts"
import { type DialectError, readError } from "./errors.ts"
import { EventReader, isLastEvent, isTerminator, type ServerEvent, typeOf } from "./event-reader.ts"
import { StreamedCalls } from "./streamed-calls.ts"
import { laterUsage } from "./usage.ts"
import { isJson, parsedJson, type Json } from "../../kernel/json/parsed-json.ts"

type Members = Record<string, unknown>

const list = (value: unknown): ReadonlyArray<Json> => (Array.isArray(value) ? value.filter(isJson) : [])
const placeOf = ({ index }: Json): number => (typeof index === "number" ? index : 0)

/** Members that arrive in fragments. */
const pieces = new Set(["content", "refusal", "reasoning", "reasoning_content", "text", "thinking", "signature"])

const add = (whole: Members, members: Json): void => {
  for (const [name, value] of Object.entries(members)) {
    const before = whole[name]
    if (pieces.has(name) && typeof before === "string" && typeof value === "string") whole[name] = before + value
    else if (value !== null) whole[name] = value
  }
}

interface Choice {
  readonly message: Members
  readonly calls: Map<number, Members>
  readonly streamedCalls: StreamedCalls
  /** Of a text completion. */
  text?: string
}

/** Assembles a streamed response into the complete one that the caller requested: some providers always stream. */
export class StreamToWhole {
  /** Whether the last event has arrived. */
  done = false
  /** The error that the provider sent in its stream. */
  failure: DialectError | undefined
  /** Of the Responses API: the response as it was reported last, and what was written of it. */
  private response: Json | undefined
  private written = ""
  private readonly head: Members = {}
  private readonly choices = new Map<number, Choice>()
  private readonly reasons = new Map<number, unknown>()
  private readonly blocks = new Map<number, { readonly block: Members; json: string }>()
  /** The place of the block that was written last. */
  private place = -1
  private readonly dialect: Dialect
  private readonly reader = new EventReader()

  constructor(dialect: Dialect) {
    this.dialect = dialect
  }

  push(bytes: Uint8Array): void {
    for (const event of this.reader.push(bytes)) this.take(event)
  }

  /** What there is of the response, in its provider's dialect. */
  end(): Json {
    for (const event of this.reader.end()) this.take(event)
    if (this.response === undefined) return this.dialect === "openai" ? this.completion() : this.message()
    const content = [{ type: "output_text", text: this.written }]
    return this.done ? this.response : { ...this.response, output: [{ type: "message", content }] }
  }

  /** Whether the model reported its end, so that the response is complete. */
  get isComplete(): boolean {
    if (this.reader.failure !== undefined) return false
    if (this.response !== undefined) return this.done
    const isFinished =
      this.dialect === "openai"
        ? this.choices.size > 0 && this.reasons.size >= this.choices.size
        : typeof this.head.stop_reason === "string"
    return this.failure === undefined && (this.done || isFinished)
  }

  private take(event: ServerEvent): void {
    if (isTerminator(event)) this.done ||= this.response === undefined
    const value = parsedJson(event.data)
    if (!isJson(value) || this.done) return
    const type = typeOf(event, value)
    if (type === "error") this.failure = readError(502, value)
    if (isJson(value.response)) {
      this.response = value.response
      this.done = isLastEvent(event, value)
    } else if (this.response !== undefined) this.written += typeof value.delta === "string" ? value.delta : ""
    else if (this.dialect === "openai") this.takeChunk(value)
    else {
      this.done = isLastEvent(event, value)
      this.takeEvent(value, type)
    }
  }

  private takeChunk({ choices, error, usage, ...head }: Json): void {
    if (error) this.failure = readError(502, { error })
    add(this.head, head)
    if (isJson(usage)) this.head.usage = usage
    for (const choice of list(choices)) {
      const place = placeOf(choice)
      const known: Choice = this.choices.get(place) ?? {
        message: { role: "assistant", content: null },
        calls: new Map(),
        streamedCalls: new StreamedCalls()
      }
      this.choices.set(place, known)
      if (choice.finish_reason) this.reasons.set(place, choice.finish_reason)
      const { delta: said } = choice
      if (typeof choice.text === "string" && !isJson(said)) known.text = (known.text ?? "") + choice.text
      const { tool_calls: calls, ...delta } = isJson(said) ? said : { content: typeof said === "string" ? said : null }
      add(known.message, delta)
      for (const call of list(calls)) takeCall(known, call)
    }
  }

  private completion(): Json {
    const choices = [...this.choices].map(([index, { calls, message, text }]) => {
      const finish_reason = this.reasons.get(index) ?? (calls.size > 0 ? "tool_calls" : "stop")
      if (text !== undefined) return { index, text, finish_reason }
      const whole = calls.size === 0 ? message : { ...message, tool_calls: [...calls.values()] }
      return { index, message: whole, finish_reason }
    })
    const isText = this.head.object === "text_completion"
    return { ...this.head, object: isText ? "text_completion" : "chat.completion", choices }
  }

  private takeEvent({ content_block: block, delta, index, message, usage }: Json, type: string): void {
    if (type === "message_start" && isJson(message)) Object.assign(this.head, message)
    if (type === "message_delta" && isJson(delta)) add(this.head, delta)
    const reported = [usage, isJson(message) && type !== "message_start" ? message.usage : undefined].find(isJson)
    const before = isJson(this.head.usage) ? this.head.usage : {}
    if (reported !== undefined) this.head.usage = laterUsage(before, reported)
    if (type !== "content_block_start" && type !== "content_block_delta") return
    const isNew = type === "content_block_start" && isJson(block)
    this.place = typeof index === "number" ? index : isNew ? this.place + 1 : this.place
    if (isNew) this.blocks.set(this.place, { block: { ...block }, json: "" })
    if (type !== "content_block_delta" || !isJson(delta)) return
    const { partial_json: json, type: _, ...pieces } = delta
    const open = this.blocks.get(this.place)
    if (open === undefined) {
      // A text whose beginning is missing is a text.
      if (typeof delta.text === "string") this.blocks.set(this.place, { block: { type: "text", ...pieces }, json: "" })
    } else if (typeof json === "string") open.json += json
    else add(open.block, pieces)
  }

  private message(): Json {
    const content = [...this.blocks.values()].map(({ block, json }) =>
      json === "" ? block : Object.assign(block, { input: parsedJson(json) ?? {} })
    )
    return { ...this.head, content }
  }
}

const takeCall = ({ calls, streamedCalls }: Choice, call: Json): void => {
  const { function: called, index: _, ...rest } = call
  const said = isJson(called) ? called : {}
  const place = streamedCalls.placeOf(call)
  const known = calls.get(place) ?? { type: "function", function: { name: "", arguments: "" } }
  calls.set(place, known)
  add(known, rest)
  const before = isJson(known.function) ? known.function : {}
  known.function = {
    name: before.name || said.name || "",
    arguments: `${String(before.arguments)}${typeof said.arguments === "string" ? said.arguments : ""}`
  }
}
