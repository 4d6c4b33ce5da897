import { type AnswerHead } from "../format.ts"
import { noUsage, type TokenUsage } from "../domain.ts"
import { toStopReason } from "./finish.ts"
import { type CallFragment, type ChatChunk, thoughtOf } from "../common-form/domain.ts"
import { StreamedCalls } from "../streamed-calls.ts"
import { toMessageUsage } from "./usage.ts"
import { usageOfCompletion } from "../common-form/usage.ts"

type Event = Readonly<Record<string, unknown>> & { readonly type: string }

interface Call {
  id: string
  name: string
  /** The index of its content block once the call has a name; until then its arguments are buffered. */
  block: number | undefined
  waiting: string
  sent: boolean
}

/**
 * Translates the chunks of a chat completion to the events of a message. Blocks are numbered without gaps; tool blocks stay
 * open to the end, since OpenAI may interleave parallel calls.
 */
export class ChunksToEvents {
  /** The usage that the provider reported last. */
  usage: TokenUsage | undefined
  private finishReason: string | undefined
  private readonly head: AnswerHead
  private refused = false
  private started = false
  private ended = false
  private blocks = 0
  private open: { readonly kind: "text" | "thinking"; readonly index: number } | undefined
  private readonly calls = new Map<number, Call>()
  private readonly streamedCalls = new StreamedCalls()

  constructor(head: AnswerHead) {
    this.head = head
  }

  push(chunk: ChatChunk): ReadonlyArray<Event> {
    const events: Array<Event> = []
    this.start(events, chunk.id ?? this.head.id)
    if (chunk.usage !== undefined) this.usage = usageOfCompletion(chunk.usage)
    const choice = chunk.choices?.find(({ index }) => (index ?? 0) === 0)
    const delta = choice?.delta
    const thought = thoughtOf(delta)
    if (thought !== "") this.say(events, "thinking", thought)
    const state = delta?.turn_state ?? ""
    const isOfThought = this.open?.kind === "thinking"
    if (isOfThought) this.sign(events, state)
    if (delta?.content) this.say(events, "text", delta.content)
    if (delta?.refusal) {
      this.say(events, "text", delta.refusal)
      this.refused = true
    }
    if (!isOfThought) this.sign(events, state)
    for (const call of delta?.tool_calls ?? []) this.call(events, call)
    if (choice?.finish_reason) this.finishReason = choice.finish_reason
    return events
  }

  /** Closes all open blocks. `usage` replaces what the provider did not report. */
  end(usage: TokenUsage = this.usage ?? noUsage): ReadonlyArray<Event> {
    const events: Array<Event> = []
    if (this.ended) return events
    this.ended = true
    this.start(events, this.head.id)
    this.close(events)
    for (const { block, sent } of this.calls.values()) {
      if (block === undefined) continue
      if (!sent) events.push(inputDelta(block, "{}"))
      events.push({ type: "content_block_stop", index: block })
    }
    const callsTools = [...this.calls.values()].some(({ block }) => block !== undefined)
    const stopReason = this.refused ? "refusal" : toStopReason(this.finishReason, callsTools)
    events.push({
      type: "message_delta",
      delta: { stop_reason: stopReason, stop_sequence: null },
      usage: toMessageUsage(usage)
    })
    events.push({ type: "message_stop" })
    return events
  }

  private start(events: Array<Event>, id: string): void {
    if (this.started) return
    this.started = true
    const message = { id, type: "message", role: "assistant", model: this.head.model, content: [] }
    events.push({
      type: "message_start",
      message: { ...message, stop_reason: null, stop_sequence: null, usage: toMessageUsage(noUsage) }
    })
  }

  private say(events: Array<Event>, kind: "text" | "thinking", words: string): void {
    if (this.open?.kind !== kind) this.begin(events, kind)
    const delta = kind === "text" ? { type: "text_delta", text: words } : { type: "thinking_delta", thinking: words }
    events.push({ type: "content_block_delta", index: this.open?.index, delta })
  }

  /** Ends a thought with what the provider wants back: the one that is open, or one without a text. */
  private sign(events: Array<Event>, signature: string): void {
    if (signature === "") return
    if (this.open?.kind !== "thinking") this.begin(events, "thinking")
    const delta = { type: "signature_delta", signature }
    events.push({ type: "content_block_delta", index: this.open?.index, delta })
    this.close(events)
  }

  private begin(events: Array<Event>, kind: "text" | "thinking"): void {
    this.close(events)
    this.open = { kind, index: this.blocks++ }
    const empty = kind === "text" ? { type: "text", text: "" } : { type: "thinking", thinking: "", signature: "" }
    events.push({ type: "content_block_start", index: this.open.index, content_block: empty })
  }

  private close(events: Array<Event>): void {
    if (this.open === undefined) return
    events.push({ type: "content_block_stop", index: this.open.index })
    this.open = undefined
  }

  private call(events: Array<Event>, delta: CallFragment): void {
    const call = this.callOf(delta)
    // Some providers repeat the name in every chunk; the first one counts.
    if (call.name === "") call.name = delta.function?.name ?? ""
    if (call.id === "") call.id = delta.id ?? ""
    call.waiting += delta.function?.arguments ?? ""
    if (call.name === "") return
    if (call.block === undefined) {
      this.close(events)
      call.block = this.blocks++
      const id = call.id === "" ? `${this.head.id}_${call.block}` : call.id
      const content = { type: "tool_use", id, name: call.name, input: {} }
      events.push({ type: "content_block_start", index: call.block, content_block: content })
    }
    if (call.waiting === "") return
    events.push(inputDelta(call.block, call.waiting))
    call.waiting = ""
    call.sent = true
  }

  private callOf(delta: CallFragment): Call {
    const place = this.streamedCalls.placeOf(delta)
    const call = this.calls.get(place) ?? { id: "", name: "", block: undefined, waiting: "", sent: false }
    this.calls.set(place, call)
    return call
  }
}

const inputDelta = (index: number, json: string): Event => ({
  type: "content_block_delta",
  index,
  delta: { type: "input_json_delta", partial_json: json }
})
