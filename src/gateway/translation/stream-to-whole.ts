import { type Dialect } from "./domain.ts"
import { EventReader } from "./event-reader.ts"
import { StreamedCalls } from "./streamed-calls.ts"
import { isJson, parsedJson, textIn, type Json } from "../../kernel/json/parsed-json.ts"

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

/** The last event of the Responses API. */
const endsResponse = /^response\.(?:completed|incomplete|failed)$/

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
  private failed = false
  /** Of the Responses API, whose last event has all of it. */
  private response: Json | undefined
  private readonly head: Members = {}
  private readonly choices = new Map<number, Choice>()
  private readonly reasons = new Map<number, unknown>()
  private readonly blocks = new Map<number, { readonly block: Members; json: string }>()
  private readonly dialect: Dialect
  private readonly reader = new EventReader()

  constructor(dialect: Dialect) {
    this.dialect = dialect
  }

  push(bytes: Uint8Array): void {
    for (const { data } of this.reader.push(bytes)) this.take(data)
  }

  /** The response in its provider's dialect; undefined if the stream broke off. */
  end(): Json | undefined {
    for (const { data } of this.reader.end()) this.take(data)
    if (this.failed || this.reader.failure !== undefined) return undefined
    if (this.response !== undefined) return this.response
    return this.dialect === "openai" ? this.completion() : this.message()
  }

  private take(data: string): void {
    if (data === "[DONE]") this.done = true
    const event = parsedJson(data)
    if (!isJson(event)) return
    if (event.error) this.failed = true
    if (isJson(event.response) && endsResponse.test(textIn(event.type))) {
      this.done = true
      this.response = event.response
    }
    if (this.dialect === "openai") this.takeChunk(event)
    else this.takeEvent(event)
  }

  private takeChunk({ choices, ...head }: Json): void {
    add(this.head, head)
    for (const choice of list(choices)) {
      const place = placeOf(choice)
      const known: Choice = this.choices.get(place) ?? {
        message: { role: "assistant", content: null },
        calls: new Map(),
        streamedCalls: new StreamedCalls()
      }
      this.choices.set(place, known)
      if (choice.finish_reason) this.reasons.set(place, choice.finish_reason)
      if (typeof choice.text === "string") known.text = (known.text ?? "") + choice.text
      const { tool_calls: calls, ...delta } = isJson(choice.delta) ? choice.delta : {}
      add(known.message, delta)
      for (const call of list(calls)) takeCall(known, call)
    }
  }

  private completion(): Json | undefined {
    if (this.choices.size === 0 || this.reasons.size < this.choices.size) return undefined
    const choices = [...this.choices].map(([index, { calls, message, text }]) => {
      const finish_reason = this.reasons.get(index)
      if (text !== undefined) return { index, text, finish_reason }
      const whole = calls.size === 0 ? message : { ...message, tool_calls: [...calls.values()] }
      return { index, message: whole, finish_reason }
    })
    const isText = this.head.object === "text_completion"
    return { ...this.head, object: isText ? "text_completion" : "chat.completion", choices }
  }

  private takeEvent(event: Json): void {
    const { content_block: block, delta, message, type, usage } = event
    if (type === "message_stop") this.done = true
    if (type === "message_start" && isJson(message)) Object.assign(this.head, message)
    if (type === "message_delta" && isJson(delta)) add(this.head, delta)
    if (type === "message_delta" && isJson(usage)) {
      const counted = isJson(this.head.usage) ? { ...this.head.usage } : {}
      add(counted, usage)
      this.head.usage = counted
    }
    if (type === "content_block_start" && isJson(block))
      this.blocks.set(placeOf(event), { block: { ...block }, json: "" })
    const open = this.blocks.get(placeOf(event))
    if (type !== "content_block_delta" || open === undefined || !isJson(delta)) return
    const { partial_json: json, type: _, ...pieces } = delta
    if (typeof json === "string") open.json += json
    else add(open.block, pieces)
  }

  private message(): Json | undefined {
    if (!this.done) return undefined
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
