import { type Json, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { chunkOf } from "../common-form/answers.ts"
import { annotationOf } from "../common-form/citations.ts"
import { type AnswerHead } from "../format.ts"
import { citationsOf, searchOf } from "./answers.ts"
import { type AnsweredBlock, type AnsweredCitation, type MessageEvent } from "./domain.ts"
import { nativeReason, toFinishReason } from "./finish.ts"
import { TurnThoughts } from "./thinking.ts"

interface Call {
  readonly index: number
  readonly input: unknown
  sent: boolean
}

/** Translates the events of a message to the chunks of a chat completion. */
export class EventsToChunks {
  private stopReason: string | undefined
  private readonly head: AnswerHead
  private id: string
  private started = false
  private ended = false
  /** Calls by the index of their block; their own indices have no gaps. */
  private readonly calls = new Map<number, Call>()
  /** The block of thoughts that is being written. */
  private thought: { type: string; thinking: string; signature: string; data: string } | undefined
  private readonly turn = new TurnThoughts()
  /** The search that the provider runs, with its input as it is streamed. */
  private search: { readonly block: AnsweredBlock; input: string } | undefined

  /** The length of the text so far, and where the block that is being written begins in it. */
  private length = 0
  private textStart = 0
  private citations: Array<AnsweredCitation> = []

  constructor(head: AnswerHead) {
    this.head = head
    this.id = head.id
  }

  push(event: MessageEvent): ReadonlyArray<Json> {
    const chunks: Array<Json> = []
    switch (event.type) {
      case "message_start":
        if (!this.started) this.id = event.message?.id ?? this.id
        this.start(chunks)
        break
      case "content_block_start":
        this.startBlock(chunks, event)
        break
      case "content_block_delta":
        this.delta(chunks, event)
        break
      case "content_block_stop":
        this.complete(chunks, this.calls.get(event.index ?? 0))
        this.endThought(chunks)
        this.endSearch(chunks)
        this.endText(chunks)
        break
      case "message_delta":
        this.stopReason = event.delta?.stop_reason ?? this.stopReason
        break
    }
    return chunks
  }

  /** Writes the finish reason. */
  end(): ReadonlyArray<Json> {
    const chunks: Array<Json> = []
    if (this.ended) return chunks
    this.ended = true
    this.start(chunks)
    for (const call of this.calls.values()) this.complete(chunks, call)
    const finish_reason = toFinishReason(this.stopReason, this.calls.size > 0)
    chunks.push(chunkOf(this.head, this.id, 0, {}, finish_reason, nativeReason(this.stopReason)))
    return chunks
  }

  private start(chunks: Array<Json>): void {
    if (this.started) return
    this.started = true
    this.say(chunks, { role: "assistant", content: "", refusal: null })
  }

  private startBlock(chunks: Array<Json>, { content_block: block, index }: MessageEvent): void {
    this.start(chunks)
    if (block?.type === "text") {
      this.textStart = this.length
      this.citations = [...(block.citations ?? [])]
      if (block.text) this.speak(chunks, block.text)
    }
    if (block?.type?.endsWith("thinking") === false) this.turn.add(block)
    if (block?.type === "thinking" && block.thinking) this.say(chunks, { reasoning_content: block.thinking })
    if (block?.type?.endsWith("thinking") === true) {
      const { data, signature, thinking, type } = block
      this.thought = { type, thinking: thinking ?? "", signature: signature ?? "", data: data ?? "" }
    }
    if (block && searchOf(block) !== undefined) this.search = { block, input: "" }
    if (block?.type !== "tool_use" || this.calls.has(index ?? 0)) return
    const call = { index: this.calls.size, input: block.input, sent: false }
    this.calls.set(index ?? 0, call)
    const named = { name: block.name ?? "", arguments: "" }
    this.say(chunks, { tool_calls: [{ index: call.index, id: block.id ?? "", type: "function", function: named }] })
  }

  private delta(chunks: Array<Json>, { delta, index }: MessageEvent): void {
    this.start(chunks)
    switch (delta?.type ?? (delta?.text === undefined ? undefined : "text_delta")) {
      case "text_delta":
        this.speak(chunks, delta?.text ?? "")
        this.turn.add({ type: "text", text: delta?.text })
        break
      case "citations_delta":
        if (delta?.citation !== undefined) this.citations.push(delta.citation)
        break
      case "thinking_delta":
        this.say(chunks, { reasoning_content: delta?.thinking ?? "" })
        if (this.thought !== undefined) this.thought.thinking += delta?.thinking ?? ""
        break
      case "signature_delta":
        if (this.thought !== undefined) this.thought.signature += delta?.signature ?? ""
        break
      case "input_json_delta": {
        const call = this.calls.get(index ?? 0)
        if (call !== undefined && delta?.partial_json) this.argue(chunks, call, delta.partial_json)
        if (this.search !== undefined) this.search.input += delta?.partial_json ?? ""
        break
      }
    }
  }

  private speak(chunks: Array<Json>, text: string): void {
    this.length += text.length
    this.say(chunks, { content: text })
  }

  private endText(chunks: Array<Json>): void {
    const citations = citationsOf(this.citations.splice(0), this.textStart, this.length)
    if (citations.length > 0) this.say(chunks, { annotations: citations.map(annotationOf) })
  }

  private endThought(chunks: Array<Json>): void {
    const signed = this.thought === undefined ? [] : this.turn.add(this.thought)
    this.thought = undefined
    if (signed.length > 0) this.say(chunks, { turn_state: signed })
  }

  private endSearch(chunks: Array<Json>): void {
    const { search } = this
    this.search = undefined
    if (search === undefined) return
    const { block, input } = search
    const found = searchOf({ ...block, input: input === "" ? block.input : parsedJson(input) })
    if (found !== undefined) this.say(chunks, { web_searches: [found] })
  }

  /** Gives a call without deltas the input from its block's start: `{}` for a tool without parameters. */
  private complete(chunks: Array<Json>, call: Call | undefined): void {
    if (call !== undefined && !call.sent) this.argue(chunks, call, JSON.stringify(call.input ?? {}))
  }

  private argue(chunks: Array<Json>, call: Call, text: string): void {
    call.sent = true
    this.say(chunks, { tool_calls: [{ index: call.index, function: { arguments: text } }] })
  }

  private say(chunks: Array<Json>, delta: Json): void {
    chunks.push(chunkOf(this.head, this.id, 0, delta))
  }
}
