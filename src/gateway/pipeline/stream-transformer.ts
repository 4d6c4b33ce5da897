import { Option, Schema } from "effect"
import { MessageEvent, type MessageUsage } from "../translation/anthropic-messages/domain.ts"
import { type AnswerHead } from "../translation/anthropic-messages/answers.ts"
import { ChunksToEvents } from "../translation/anthropic-messages/chunks-to-events.ts"
import { type Dialect, type TokenUsage } from "../translation/domain.ts"
import { type DialectError, readError } from "../translation/errors.ts"
import { comment, EventReader, isComment, type ServerEvent } from "../translation/event-reader.ts"
import { EventsToChunks } from "../translation/anthropic-messages/events-to-chunks.ts"
import { ChatChunk, textOfWords, thoughtOf } from "../translation/openai-chat/domain.ts"
import { plausibleUsage } from "../translation/usage.ts"
import { laterUsage, usageOfMessage } from "../translation/anthropic-messages/usage.ts"
import { usageOfCompletion } from "../translation/openai-chat/usage.ts"
import { StreamFacts } from "../telemetry/answer-facts.ts"
import { parsedJson } from "../../kernel/parsed-json.ts"

const decodeChunk = Schema.decodeUnknownOption(ChatChunk)
const decodeEvent = Schema.decodeUnknownOption(MessageEvent)
const utf8 = new TextEncoder()

const bytesIn = (...texts: ReadonlyArray<string | null | undefined>): number =>
  texts.reduce((sum, text) => sum + (text ? Buffer.byteLength(text) : 0), 0)

/** Nobody counts more than so much. */
export const maxKeptBytes = 262_144

export interface StreamOptions {
  /** Whether the words are to be kept for whoever counts them. */
  readonly keepsWords: boolean
  /** Whose events come in. */
  readonly from: Dialect
  /** Whose events go out. */
  readonly to: Dialect
  readonly head: AnswerHead
  readonly createdSeconds: number
  /** Writes an error as an event, in the dialect of the caller. */
  readonly writeError: (error: DialectError) => string
  /** Whether the caller asked to be told the usage; the provider is always asked. Of OpenAI's dialect alone. */
  readonly includeUsage: boolean
}

/**
 * Hands a stream of events on to its caller and reads on the side what is charged by. In the caller's own dialect the bytes
 * go through as they come; another dialect is translated.
 */
export class StreamTransformer {
  /** Whether the model said that it was done. */
  finished = false
  /** Whether the last event was there; some providers leave the connection open after it. */
  done = false
  /** The bytes of what the model said so far: what is charged where nobody says how many tokens they are. */
  textBytes = 0
  /** The words themselves, where somebody can count them; too many are counted by nobody. */
  readonly texts: Array<string> = []
  /** What the provider says of its answer. */
  readonly facts = new StreamFacts()
  /** What the provider said went wrong, once it had begun to answer. */
  failure: DialectError | undefined
  /** Whether that failure is in none of the provider's own words. */
  private isUntold = false
  /** The bytes that had been said when the provider last told its usage. */
  private countedBytes = 0
  private completionUsage: TokenUsage | undefined
  private messageUsage: MessageUsage | undefined
  private readonly options: StreamOptions
  private readonly reader = new EventReader()
  private readonly toEvents: ChunksToEvents
  private readonly toChunks: EventsToChunks
  /** Whether the provider's usage must not be seen, since the caller did not ask for it. */
  private readonly hidesUsage: boolean
  private readonly translates: boolean

  constructor(options: StreamOptions) {
    this.options = options
    this.translates = options.from !== options.to
    this.hidesUsage = !this.translates && options.from === "openai" && !options.includeUsage
    this.toEvents = new ChunksToEvents(options.head)
    this.toChunks = new EventsToChunks(options.head, options.createdSeconds, options.includeUsage)
  }

  /** Whether the usage counts all words: one that others follow, or that knows of none, was told too early. */
  get isCounted(): boolean {
    const { usage } = this
    return (
      usage !== undefined && this.countedBytes === this.textBytes && (usage.outputTokens > 0 || this.textBytes === 0)
    )
  }

  /** What a provider sends while it has nothing to say, so that nobody takes the connection for dead. */
  private get signOfLife(): Uint8Array {
    return utf8.encode(this.options.to === "anthropic" ? written([{ type: "ping" }]) : comment)
  }

  /** What the provider reported so far. */
  get usage(): TokenUsage | undefined {
    return plausibleUsage(this.messageUsage === undefined ? this.completionUsage : usageOfMessage(this.messageUsage))
  }

  /** What a provider sends to keep its connection alive keeps the caller's alive as well. */
  push(bytes: Uint8Array): Uint8Array {
    const events = this.reader.push(bytes)
    const out = events.map((event) => this.take(event)).join("")
    if (this.reader.failure !== undefined) {
      this.isUntold ||= this.failure === undefined
      this.failure ??= { status: 502, message: "The provider sent an event without end.", code: "provider-error" }
    }
    if (!this.translates && !this.hidesUsage) return bytes
    const isSign = out === "" && (isComment(bytes) || events.some(({ event }) => event === "ping"))
    return isSign ? this.signOfLife : utf8.encode(out)
  }

  /** What is left to be sent at the end: `usage` where the provider reported none, or what went wrong. */
  end(usage: TokenUsage, failure: DialectError | undefined): Uint8Array {
    const rest = this.reader
      .end()
      .map((event) => this.take(event))
      .join("")
    const own = this.translates || this.hidesUsage ? rest : ""
    if (this.failure !== undefined && !this.translates && !this.isUntold) return utf8.encode(own)
    const broken = this.failure ?? failure ?? (this.finished ? undefined : brokenOff)
    return utf8.encode(
      broken === undefined
        ? own + this.closing(usage)
        : // The event that has no end is ended before.
          own + (this.isUntold ? "\n\n" : "") + this.options.writeError(broken)
    )
  }

  private closing(usage: TokenUsage): string {
    if (!this.translates) return ""
    return this.options.to === "anthropic"
      ? written(this.toEvents.end(usage))
      : `${chunkText(this.toChunks.end(usage))}data: [DONE]\n\n`
  }

  /** Reads an event; answers the text that it becomes, where bytes do not go through as they are. */
  private take({ data, event }: ServerEvent): string {
    if (data === "[DONE]") {
      this.done = true
      return this.hidesUsage ? dataText(data) : ""
    }
    const value = parsedJson(data)
    return this.options.from === "openai" ? this.takeChunk(value, data) : this.takeEvent(value, event)
  }

  private finish(reason: string, choice: number): void {
    this.finished = true
    this.facts.finished(choice, reason)
  }

  private say(...words: ReadonlyArray<string | null | undefined>): void {
    this.textBytes += bytesIn(...words)
    if (!this.options.keepsWords || this.textBytes > maxKeptBytes) return
    for (const word of words) if (word) this.texts.push(word)
  }

  private takeChunk(value: unknown, data: string): string {
    if (typeof value === "object" && value !== null && "error" in value && value.error) {
      this.failure = readError(502, value)
      return this.hidesUsage ? dataText(data) : ""
    }
    const decoded = decodeChunk(value)
    if (Option.isNone(decoded)) return this.hidesUsage ? dataText(data) : ""
    const chunk = decoded.value
    if (chunk.usage) this.completionUsage = usageOfCompletion(chunk.usage)
    this.facts.of(chunk)
    for (const { delta, finish_reason: reason, index } of chunk.choices ?? []) {
      if (reason) this.finish(reason, index ?? 0)
      this.say(textOfWords(delta?.content), thoughtOf(delta), delta?.refusal)
      for (const call of delta?.tool_calls ?? []) {
        this.say(call.function?.name, call.function?.arguments)
      }
    }
    if (chunk.usage) this.countedBytes = this.textBytes
    if (this.translates) return written(this.toEvents.push(chunk))
    const tellsUsageAlone = chunk.usage && (chunk.choices ?? []).length === 0
    return this.hidesUsage && !tellsUsageAlone ? dataText(data) : ""
  }

  private takeEvent(value: unknown, name: string): string {
    const decoded = decodeEvent(value)
    if (Option.isNone(decoded)) return ""
    const event = decoded.value
    if (event.type === "ping") return this.translates ? comment : ""
    if (event.type === "error" || name === "error") {
      this.failure = readError(502, value)
      return ""
    }
    const reported = event.type === "message_start" ? event.message?.usage : event.usage
    if (reported) this.messageUsage = laterUsage(this.messageUsage ?? {}, reported)
    if (event.message) this.facts.of(event.message)
    if (event.delta?.stop_reason) this.finish(event.delta.stop_reason, 0)
    if (event.type === "message_stop") this.done = true
    const { content_block: block, delta } = event
    this.say(block?.text, block?.name, delta?.text, delta?.thinking, delta?.partial_json)
    if (typeof reported?.output_tokens === "number") this.countedBytes = this.textBytes
    return this.translates ? chunkText(this.toChunks.push(event)) : ""
  }
}

const brokenOff: DialectError = {
  status: 502,
  message: "The provider broke its answer off.",
  code: "provider-unavailable"
}

/** An event's data as it is written: each of its lines is one. */
const dataText = (data: string): string => `data: ${data.includes("\n") ? data.replaceAll("\n", "\ndata: ") : data}\n\n`

const written = (events: ReadonlyArray<Readonly<Record<string, unknown>> & { readonly type: string }>): string =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("")

const chunkText = (chunks: ReadonlyArray<object>): string =>
  chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")
