import { type Json } from "../../../kernel/json/parsed-json.ts"
import { type Citation, citationsIn } from "../common-form/citations.ts"
import { type CallFragment, type ChatChunk, thoughtOf } from "../common-form/domain.ts"
import { usageOfCompletion } from "../common-form/usage.ts"
import { noUsage, type TokenUsage } from "../domain.ts"
import { type AnswerHead } from "../format.ts"
import { ArgumentsEnd, StreamedCalls } from "../streams/streamed-calls.ts"
import { toCitation } from "./answers.ts"
import { toStopReason } from "./finish.ts"
import { toMessageUsage } from "./usage.ts"

type Event = Readonly<Record<string, unknown>> & { readonly type: string }

/** A block of the message. */
interface Block {
  readonly kind: "text" | "thinking" | "call"
  /** As it starts. */
  readonly content: Json
  /** What is still to be sent of it. */
  readonly deltas: Array<Json>
  /** Its place in the message, once it has started. */
  index: number | undefined
  isOver: boolean
}

interface Call {
  id: string
  name: string
  /** Arguments that came before the name. */
  waiting: string
  isEmpty: boolean
  readonly end: ArgumentsEnd
  block: Block | undefined
}

/**
 * Translates the chunks of a chat completion to the events of a message. Blocks are numbered without gaps, and each one
 * stops before the next one starts: what comes for a later block while a call is incomplete is held back, since OpenAI may
 * interleave parallel calls.
 */
export class ChunksToEvents {
  /** The usage that the provider reported last. */
  usage: TokenUsage | undefined
  private finishReason: string | undefined
  private readonly head: AnswerHead
  private refused = false
  private started = false
  private ended = false
  private count = 0
  /** The blocks that have not stopped, of which the first one is sent as it comes. */
  private readonly blocks: Array<Block> = []
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
    if (thought !== "") this.say("thinking", thought)
    const state = delta?.turn_state ?? ""
    const isOfThought = this.open("thinking") !== undefined
    if (isOfThought) this.sign(state)
    if (delta?.content) this.say("text", delta.content)
    if (delta?.refusal) {
      this.say("text", delta.refusal)
      this.refused = true
    }
    for (const citation of citationsIn(delta?.annotations)) this.cite(citation)
    if (!isOfThought) this.sign(state)
    for (const call of delta?.tool_calls ?? []) this.call(call)
    if (choice?.finish_reason) this.finishReason = choice.finish_reason
    this.send(events, false)
    return events
  }

  /** Stops all blocks. `usage` replaces what the provider did not report. */
  end(usage: TokenUsage = this.usage ?? noUsage): ReadonlyArray<Event> {
    const events: Array<Event> = []
    if (this.ended) return events
    this.ended = true
    this.start(events, this.head.id)
    for (const { block, isEmpty } of this.calls.values()) if (isEmpty) block?.deltas.push(inputDelta("{}"))
    this.send(events, true)
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

  /** Sends what there is of the first block, and of those after it once it is over. */
  private send(events: Array<Event>, isEnd: boolean): void {
    for (;;) {
      const [block] = this.blocks
      if (block === undefined) return
      if (block.index === undefined) {
        block.index = this.count++
        events.push({ type: "content_block_start", index: block.index, content_block: block.content })
      }
      const { index } = block
      for (const delta of block.deltas.splice(0)) events.push({ type: "content_block_delta", index, delta })
      const isFollowed = this.blocks.length > 1 && (block.isOver || block.kind !== "call")
      if (!isEnd && !isFollowed && !(block.isOver && block.kind === "thinking")) return
      events.push({ type: "content_block_stop", index })
      this.blocks.shift()
    }
  }

  /** The place of a block that begins. */
  private get nextIndex(): number {
    return this.count + this.blocks.filter(({ index }) => index === undefined).length
  }

  /** The last block, if it is of this kind and goes on. */
  private open(kind: Block["kind"]): Block | undefined {
    const last = this.blocks.at(-1)
    return last?.kind === kind && !last.isOver ? last : undefined
  }

  private begin(kind: Block["kind"], content: Json): Block {
    const block: Block = { kind, content, deltas: [], index: undefined, isOver: false }
    this.blocks.push(block)
    return block
  }

  private said(kind: "text" | "thinking"): Block {
    const empty = kind === "text" ? { type: "text", text: "" } : { type: "thinking", thinking: "", signature: "" }
    return this.open(kind) ?? this.begin(kind, empty)
  }

  private say(kind: "text" | "thinking", words: string): void {
    const delta = kind === "text" ? { type: "text_delta", text: words } : { type: "thinking_delta", thinking: words }
    this.said(kind).deltas.push(delta)
  }

  /** Adds a citation to the last text; one that has stopped takes none. */
  private cite(citation: Citation): void {
    const text = this.blocks.findLast(({ kind }) => kind === "text")
    text?.deltas.push({ type: "citations_delta", citation: toCitation(citation) })
  }

  /** Ends a thought with what the provider wants back: the one that is open, or one without a text. */
  private sign(signature: string): void {
    if (signature === "") return
    const block = this.said("thinking")
    block.deltas.push({ type: "signature_delta", signature })
    block.isOver = true
  }

  private call(delta: CallFragment): void {
    const call = this.callOf(delta)
    // Some providers repeat the name in every chunk; the first one counts.
    if (call.name === "") call.name = delta.function?.name ?? ""
    if (call.id === "") call.id = delta.id ?? ""
    call.waiting += delta.function?.arguments ?? ""
    if (call.name === "") return
    call.block ??= this.begin("call", {
      type: "tool_use",
      id: call.id === "" ? `${this.head.id}_${this.nextIndex}` : call.id,
      name: call.name,
      input: {}
    })
    if (call.waiting === "") return
    call.block.deltas.push(inputDelta(call.waiting))
    call.end.push(call.waiting)
    call.block.isOver = call.end.isComplete
    call.waiting = ""
    call.isEmpty = false
  }

  private callOf(delta: CallFragment): Call {
    const place = this.streamedCalls.placeOf(delta)
    const call = this.calls.get(place) ?? {
      id: "",
      name: "",
      waiting: "",
      isEmpty: true,
      end: new ArgumentsEnd(),
      block: undefined
    }
    this.calls.set(place, call)
    return call
  }
}

const inputDelta = (json: string): Json => ({ type: "input_json_delta", partial_json: json })
