import { type AnsweredBlock, type MessageEvent } from "./domain.ts"
import { type AnswerHead, searchOf } from "./answers.ts"
import { isJson, type Json, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { thinkingBlockOf } from "./thinking.ts"
import { noUsage, type TokenUsage } from "../domain.ts"
import { toFinishReason } from "./finish.ts"
import { laterUsage } from "../usage.ts"
import { usageOfMessage } from "./usage.ts"
import { toCompletionUsage } from "../openai-chat/usage.ts"

type Chunk = Readonly<Record<string, unknown>>

interface Call {
  readonly index: number
  readonly input: unknown
  sent: boolean
}

/** Translates the events of a message to the chunks of a chat completion. */
export class EventsToChunks {
  /** The usage reported so far, in the provider's format. */
  private reported: Json | undefined
  private stopReason: string | undefined
  private readonly head: AnswerHead
  private readonly createdSeconds: number
  private readonly includeUsage: boolean
  private id: string
  private started = false
  private ended = false
  /** Calls by the index of their block; their own indices have no gaps. */
  private readonly calls = new Map<number, Call>()
  /** The block of thoughts that is being written, if thoughts are kept. */
  private thought: { type: string; thinking: string; signature: string; data: string } | undefined

  /** The search that the provider runs, with its input as it is streamed, if searches are kept. */
  private search: { readonly block: AnsweredBlock; input: string } | undefined

  constructor(head: AnswerHead, createdSeconds: number, includeUsage: boolean) {
    this.head = head
    this.id = head.id
    this.createdSeconds = createdSeconds
    this.includeUsage = includeUsage
  }

  /** Whether the model reported its end: a stream that breaks off earlier is an error. */
  get finished(): boolean {
    return this.stopReason !== undefined
  }

  /** The usage that the provider reported so far. */
  get usage(): TokenUsage | undefined {
    return this.reported === undefined ? undefined : usageOfMessage(this.reported)
  }

  push(event: MessageEvent): ReadonlyArray<Chunk> {
    const chunks: Array<Chunk> = []
    switch (event.type) {
      case "message_start":
        this.report(event.message?.usage)
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
        break
      case "message_delta":
        this.report(event.usage)
        this.stopReason = event.delta?.stop_reason ?? this.stopReason
        break
    }
    return chunks
  }

  /**
   * Writes the finish reason and, if the client requested it, the usage. `usage` replaces what the provider did not report.
   */
  end(usage: TokenUsage = this.usage ?? noUsage): ReadonlyArray<Chunk> {
    const chunks: Array<Chunk> = []
    if (this.ended) return chunks
    this.ended = true
    this.start(chunks)
    for (const call of this.calls.values()) this.complete(chunks, call)
    const finish_reason = toFinishReason(this.stopReason, this.calls.size > 0)
    chunks.push(this.chunk([{ index: 0, delta: {}, logprobs: null, finish_reason }]))
    if (this.includeUsage) chunks.push({ ...this.chunk([]), usage: toCompletionUsage(usage) })
    return chunks
  }

  private report(usage: unknown): void {
    if (isJson(usage)) this.reported = laterUsage(this.reported ?? {}, usage)
  }

  private start(chunks: Array<Chunk>): void {
    if (this.started) return
    this.started = true
    this.say(chunks, { role: "assistant", content: "", refusal: null })
  }

  private startBlock(chunks: Array<Chunk>, { content_block: block, index }: MessageEvent): void {
    this.start(chunks)
    if (block?.type === "text" && block.text) this.say(chunks, { content: block.text })
    if (block?.type === "thinking" && block.thinking) this.say(chunks, { reasoning_content: block.thinking })
    if (this.head.keepsThoughts === true && block?.type?.endsWith("thinking") === true) {
      const { data, signature, thinking, type } = block
      this.thought = { type, thinking: thinking ?? "", signature: signature ?? "", data: data ?? "" }
    }
    if (this.head.keepsThoughts === true && block && searchOf(block) !== undefined) this.search = { block, input: "" }
    if (block?.type !== "tool_use" || this.calls.has(index ?? 0)) return
    const call = { index: this.calls.size, input: block.input, sent: false }
    this.calls.set(index ?? 0, call)
    const named = { name: block.name ?? "", arguments: "" }
    this.say(chunks, { tool_calls: [{ index: call.index, id: block.id ?? "", type: "function", function: named }] })
  }

  private delta(chunks: Array<Chunk>, { delta, index }: MessageEvent): void {
    this.start(chunks)
    switch (delta?.type ?? (delta?.text === undefined ? undefined : "text_delta")) {
      case "text_delta":
        this.say(chunks, { content: delta?.text ?? "" })
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

  private endThought(chunks: Array<Chunk>): void {
    const block = this.thought === undefined ? undefined : thinkingBlockOf(this.thought)
    this.thought = undefined
    if (block !== undefined) this.say(chunks, { thinking_blocks: [block] })
  }

  private endSearch(chunks: Array<Chunk>): void {
    const { search } = this
    this.search = undefined
    if (search === undefined) return
    const { block, input } = search
    const found = searchOf({ ...block, input: input === "" ? block.input : parsedJson(input) })
    if (found !== undefined) this.say(chunks, { web_searches: [found] })
  }

  /** Gives a call without deltas the input from its block's start: `{}` for a tool without parameters. */
  private complete(chunks: Array<Chunk>, call: Call | undefined): void {
    if (call !== undefined && !call.sent) this.argue(chunks, call, JSON.stringify(call.input ?? {}))
  }

  private argue(chunks: Array<Chunk>, call: Call, text: string): void {
    call.sent = true
    this.say(chunks, { tool_calls: [{ index: call.index, function: { arguments: text } }] })
  }

  private say(chunks: Array<Chunk>, delta: Chunk): void {
    chunks.push(this.chunk([{ index: 0, delta, logprobs: null, finish_reason: null }]))
  }

  private chunk(choices: ReadonlyArray<Chunk>): Chunk {
    return {
      id: this.id,
      object: "chat.completion.chunk",
      created: this.createdSeconds,
      model: this.head.model,
      choices,
      ...(this.includeUsage ? { usage: null } : {})
    }
  }
}
