import { type Json } from "../../../kernel/json/parsed-json.ts"
import { type Citation, citationsIn } from "../common-form/citations.ts"
import { type CallFragment, type ChatChunk, type ChatCompletion, thoughtOf } from "../common-form/domain.ts"
import { type TokenUsage } from "../domain.ts"
import { StreamedCalls } from "../streams/streamed-calls.ts"
import {
  callItem,
  customText,
  isIncomplete,
  messageItem,
  reasoningItem,
  refusalPart,
  type ResponseHead,
  responseOf,
  searchItem,
  textPart
} from "./answers.ts"

/** An event of a response's stream; `sequence_number` is added as it is written. */
export type ResponseEvent = Json & { readonly type: string }

interface Call {
  /** Its place in the output, once it has a name; until then its arguments are buffered. */
  place: number | undefined
  id: string
  name: string
  arguments: string
}

const maxCharacters = 16_777_216

/** The item that is being written: the model's thoughts, its words, or its refusal. */
interface Open {
  readonly kind: "reasoning" | "text" | "refusal"
  readonly place: number
  readonly id: string
  /** Where it begins in the whole text. */
  readonly start: number
  readonly annotations: Array<Json>
  text: string
  /** What the provider wants back, sealed. */
  state: string
}

/**
 * Translates the chunks of a chat completion to the events of a response, in the order of the standard: an item is added,
 * its parts are written, and it is done before the next one begins. Calls, whose fragments may alternate, are done last.
 */
export class ChunksToResponse {
  private readonly head: ResponseHead
  private readonly output: Array<Json> = []
  private readonly calls = new Map<number, Call>()
  private readonly streamedCalls = new StreamedCalls()
  private sequence = 0
  private open: Open | undefined
  private isStarted = false
  private places = 0
  private finishReason: string | undefined
  private characters = 0
  /** The length of the text so far, and the item that has the last of it. */
  private textLength = 0
  private lastText: Open | undefined

  constructor(head: ResponseHead) {
    this.head = head
  }

  /** Whether the model reported its end. */
  get finished(): boolean {
    return this.finishReason !== undefined
  }

  /** Whether there is more of the response than any model writes; all of it is in the last event. */
  get isTooLong(): boolean {
    return this.characters > maxCharacters
  }

  push(chunk: ChatChunk): ReadonlyArray<ResponseEvent> {
    const events: Array<ResponseEvent> = []
    this.start(events)
    for (const { delta, finish_reason: reason, index } of chunk.choices ?? []) {
      if ((index ?? 0) > 0) continue
      const thought = thoughtOf(delta)
      if (thought) this.say(events, "reasoning", thought)
      const isOfThought = this.open?.kind === "reasoning"
      if (isOfThought) this.sign(events, delta?.turn_state)
      for (const { query } of delta?.web_searches ?? []) this.search(events, query ?? "")
      if (delta?.content) this.say(events, "text", delta.content)
      if (delta?.refusal) this.say(events, "refusal", delta.refusal)
      for (const citation of citationsIn(delta?.annotations)) this.cite(events, citation)
      if (!isOfThought) this.sign(events, delta?.turn_state)
      for (const call of delta?.tool_calls ?? []) this.call(events, call)
      if (reason) this.finishReason = reason
    }
    return events
  }

  /** A complete answer, as if it had been streamed. */
  pushWhole({ choices: [choice] = [] }: ChatCompletion): ReadonlyArray<ResponseEvent> {
    const { tool_calls: calls = [], ...rest } = choice?.message ?? {}
    const delta = { ...rest, tool_calls: calls.map((call, index) => Object.assign({}, call, { index })) }
    return this.push({ choices: [{ delta, finish_reason: choice?.finish_reason ?? "stop" }] })
  }

  /** Ends the stream; the response is what is stored, and what a call that is not streamed answers with. */
  end(usage: TokenUsage): { readonly events: ReadonlyArray<ResponseEvent>; readonly response: Json } {
    const events: Array<ResponseEvent> = []
    this.start(events)
    this.close(events)
    for (const call of this.calls.values()) this.endCall(events, call)
    this.output.sort((one, other) => this.order(one) - this.order(other))
    const response = responseOf(this.head, this.output, { status: "completed", finishReason: this.finishReason, usage })
    events.push(this.event({ type: `response.${String(response.status)}`, response }))
    return { events, response }
  }

  /** Ends the stream with an error. */
  fail(error: { readonly code: string; readonly message: string }): ReadonlyArray<ResponseEvent> {
    const events: Array<ResponseEvent> = []
    this.start(events)
    events.push(
      this.event({ type: "response.failed", response: responseOf(this.head, this.output, { status: "failed", error }) })
    )
    return events
  }

  private readonly orders = new Map<Json, number>()
  private order(item: Json): number {
    return this.orders.get(item) ?? 0
  }

  private done(item: Json, place: number): void {
    this.output.push(item)
    this.orders.set(item, place)
  }

  private event(members: ResponseEvent): ResponseEvent {
    return { ...members, sequence_number: this.sequence++ }
  }

  private start(events: Array<ResponseEvent>): void {
    if (this.isStarted) return
    this.isStarted = true
    const response = responseOf(this.head, [], { status: "in_progress" })
    events.push(this.event({ type: "response.created", response }))
    events.push(this.event({ type: "response.in_progress", response }))
  }

  private say(events: Array<ResponseEvent>, kind: Open["kind"], text: string): void {
    if (this.open?.kind !== kind) {
      this.close(events)
      this.begin(events, kind)
    }
    const open = this.open!
    open.text += text
    this.characters += text.length
    if (kind === "text") this.textLength += text.length
    const at = { item_id: open.id, output_index: open.place }
    const event =
      kind === "reasoning"
        ? { type: "response.reasoning_summary_text.delta", ...at, summary_index: 0, delta: text }
        : kind === "text"
          ? { type: "response.output_text.delta", ...at, content_index: 0, delta: text, logprobs: [] }
          : { type: "response.refusal.delta", ...at, content_index: 0, delta: text }
    events.push(this.event(event))
  }

  /** A search that the provider ran, which is over when it is known. */
  private search(events: Array<ResponseEvent>, query: string): void {
    this.close(events)
    const place = this.places++
    const item = searchItem(this.head.itemId("ws", place), query)
    const at = { item_id: item.id, output_index: place }
    events.push(
      this.event({
        type: "response.output_item.added",
        output_index: place,
        item: { ...item, status: "in_progress" }
      })
    )
    for (const stage of ["in_progress", "searching", "completed"]) {
      events.push(this.event({ type: `response.web_search_call.${stage}`, ...at }))
    }
    this.done(item, place)
    events.push(this.event({ type: "response.output_item.done", output_index: place, item }))
  }

  /** Adds a citation to the last text, which may be done. */
  private cite(events: Array<ResponseEvent>, { end, start, title, url }: Citation): void {
    const text = this.lastText
    if (text === undefined) return
    const within = (index: number) => Math.min(text.text.length, Math.max(0, index - text.start))
    const annotation = { type: "url_citation", url, title, start_index: within(start), end_index: within(end) }
    const annotation_index = text.annotations.push(annotation) - 1
    const at = { item_id: text.id, output_index: text.place, content_index: 0 }
    events.push(this.event({ type: "response.output_text.annotation.added", ...at, annotation_index, annotation }))
  }

  /** What the provider wants back ends the item of the thoughts. */
  private sign(events: Array<ResponseEvent>, state = ""): void {
    if (state === "") return
    if (this.open?.kind !== "reasoning") {
      this.close(events)
      this.begin(events, "reasoning")
    }
    this.open!.state = state
    this.close(events)
  }

  private begin(events: Array<ResponseEvent>, kind: Open["kind"]): void {
    const place = this.places++
    const id = this.head.itemId(kind === "reasoning" ? "rs" : "msg", place)
    this.open = { kind, place, id, start: this.textLength, annotations: [], text: "", state: "" }
    if (kind === "text") this.lastText = this.open
    const item = kind === "reasoning" ? reasoningItem(id, "") : messageItem(id, [], "in_progress")
    events.push(this.event({ type: "response.output_item.added", output_index: place, item }))
    const at = { item_id: id, output_index: place }
    events.push(
      this.event(
        kind === "reasoning"
          ? { type: "response.reasoning_summary_part.added", ...at, summary_index: 0, part: summaryPart("") }
          : {
              type: "response.content_part.added",
              ...at,
              content_index: 0,
              part: kind === "text" ? textPart("") : refusalPart("")
            }
      )
    )
  }

  private close(events: Array<ResponseEvent>): void {
    const { open } = this
    this.open = undefined
    if (open === undefined) return
    const { annotations, id, kind, place, state, text } = open
    const at = { item_id: id, output_index: place }
    if (kind === "reasoning") {
      events.push(this.event({ type: "response.reasoning_summary_text.done", ...at, summary_index: 0, text }))
      events.push(
        this.event({ type: "response.reasoning_summary_part.done", ...at, summary_index: 0, part: summaryPart(text) })
      )
    } else {
      const part = kind === "text" ? textPart(text, annotations) : refusalPart(text)
      const done =
        kind === "text"
          ? { type: "response.output_text.done", ...at, content_index: 0, text, logprobs: [] }
          : { type: "response.refusal.done", ...at, content_index: 0, refusal: text }
      events.push(this.event(done))
      events.push(this.event({ type: "response.content_part.done", ...at, content_index: 0, part }))
    }
    const item =
      kind === "reasoning"
        ? reasoningItem(id, text, state)
        : messageItem(id, [kind === "text" ? textPart(text, annotations) : refusalPart(text)], this.statusOfItems)
    this.done(item, place)
    events.push(this.event({ type: "response.output_item.done", output_index: place, item }))
  }

  private get statusOfItems(): string {
    return isIncomplete(this.finishReason) ? "incomplete" : "completed"
  }

  private call(events: Array<ResponseEvent>, delta: CallFragment): void {
    const key = this.streamedCalls.placeOf(delta)
    const call = this.calls.get(key) ?? { place: undefined, id: "", name: "", arguments: "" }
    this.calls.set(key, call)
    const fragment = delta.function?.arguments ?? ""
    call.id ||= delta.id ?? ""
    call.name ||= delta.function?.name ?? ""
    call.arguments += fragment
    this.characters += fragment.length
    if (call.name === "") return
    if (call.place !== undefined) {
      this.argue(events, call, call.place, fragment)
      return
    }
    this.close(events)
    const place = this.places++
    call.place = place
    call.id ||= `call_${this.head.itemId("", place).replace(/^_/, "")}`
    const item = callItem(this.head, place, { ...call, arguments: "" }, "in_progress")
    events.push(this.event({ type: "response.output_item.added", output_index: place, item }))
    this.argue(events, call, place, call.arguments)
  }

  private argue(events: Array<ResponseEvent>, call: Call, output_index: number, delta: string): void {
    if (delta === "" || this.isCustom(call)) return
    const item_id = this.head.itemId("fc", output_index)
    events.push(this.event({ type: "response.function_call_arguments.delta", item_id, output_index, delta }))
  }

  private isCustom({ name }: Call): boolean {
    return this.head.tools.custom.has(name)
  }

  private endCall(events: Array<ResponseEvent>, call: Call): void {
    const { place } = call
    // A call without a name was never announced.
    if (place === undefined) return
    if (call.arguments === "" && !this.isCustom(call)) {
      call.arguments = "{}"
      this.argue(events, call, place, call.arguments)
    }
    const item = callItem(this.head, place, call, this.statusOfItems)
    const at = { item_id: item.id, output_index: place }
    if (this.isCustom(call)) {
      // The text is inside of a JSON string, so that it is known when the call is complete.
      const input = customText(call.arguments)
      events.push(this.event({ type: "response.custom_tool_call_input.delta", ...at, delta: input }))
      events.push(this.event({ type: "response.custom_tool_call_input.done", ...at, input }))
    } else {
      events.push(
        this.event({
          type: "response.function_call_arguments.done",
          ...at,
          name: item.name,
          arguments: call.arguments
        })
      )
    }
    this.done(item, place)
    events.push(this.event({ type: "response.output_item.done", output_index: place, item }))
  }
}

const summaryPart = (text: string): Json => ({ type: "summary_text", text })
