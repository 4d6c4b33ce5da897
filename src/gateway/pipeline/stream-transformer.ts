import { Option, Predicate, Schema } from "effect"
import { MessageEvent, type MessageUsage } from "../translation/anthropic-messages/domain.ts"
import { type AnswerHead } from "../translation/anthropic-messages/answers.ts"
import { ChunksToEvents } from "../translation/anthropic-messages/chunks-to-events.ts"
import { type Dialect, type TokenUsage } from "../translation/domain.ts"
import { type DialectError, errorInEvent, readError } from "../translation/errors.ts"
import { comment, EventReader, isComment, type ServerEvent } from "../translation/event-reader.ts"
import { EventsToChunks } from "../translation/anthropic-messages/events-to-chunks.ts"
import { ChatChunk } from "../translation/openai-chat/domain.ts"
import { wordsIn } from "../translation/openai-chat/words.ts"
import { plausibleUsage } from "../translation/usage.ts"
import { laterUsage, usageOfMessage } from "../translation/anthropic-messages/usage.ts"
import { toCompletionUsage, usageOfCompletion } from "../translation/openai-chat/usage.ts"
import { NativeEvents } from "../translation/openai-responses/native-events.ts"
import { type Operation } from "../providers/provider.ts"
import { endOfResponse, StreamFacts } from "../telemetry/answer-facts.ts"
import { isJson, type Json, listIn, parsedJson } from "../../kernel/json/parsed-json.ts"
import { type ToolUseReader, usageWithTools } from "../metering/tool-uses.ts"
import { type Renaming } from "../json/kept-ids.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { RenamedStream } from "./renamed-stream.ts"

const decodeChunk = Schema.decodeUnknownOption(ChatChunk)
const decodeEvent = Schema.decodeUnknownOption(MessageEvent)
const utf8 = new TextEncoder()

const nothing = new Uint8Array()
const latin1 = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1")

/** The last event of a completion, and the beginning of one where a read of a stream ends. */
const terminator = /(?<=^|[\r\n])data: ?\[DONE\]/
const begunTerminator = /(?<=^|[\r\n])(?:da?|data?|data: ?(?:\[(?:D(?:O(?:NE?)?)?)?)?|data: ?\[DONE\][\r\n]*)$/
const terminatorBytes = "\ndata: [DONE]\r\n\r".length

const bytesIn = (texts: ReadonlyArray<string>): number => texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)

/** The maximum text that is kept for counting. */
export const maxKeptBytes = 262_144

export interface StreamOptions {
  /** Whether to keep the text for a tokenizer. */
  readonly keepsWords: boolean
  readonly operation: Operation
  /** The dialect of the incoming events. */
  readonly from: Dialect
  /** The dialect of the outgoing events. */
  readonly to: Dialect
  readonly head: AnswerHead
  readonly createdSeconds: number
  /** Reads the uses of the tools that the provider runs; undefined if the request has none. */
  readonly toolUses?: ToolUseReader | undefined
  /** Writes an error as an event, in the dialect of the caller. */
  readonly writeError: (error: DialectError) => string
  /** Whether the caller requested usage; the gateway always requests it from the provider. Only in OpenAI's dialect. */
  readonly includeUsage: boolean
  /** Puts the gateway's ids in the place of the provider's. */
  readonly rename?: Renaming | undefined
}

/**
 * Passes a stream of events to its caller and reads the usage to charge from it. In the caller's own dialect the bytes pass
 * unchanged; another dialect is translated.
 */
export class StreamTransformer {
  /** Whether the model reported its end. */
  finished = false
  /** Whether the last event has arrived; some providers leave the connection open after it. */
  done = false
  /** The bytes of the model's output so far: the basis of the charge if no token count is available. */
  textBytes = 0
  /** The output itself, if a tokenizer can count it, up to `maxKeptBytes`. */
  readonly texts: Array<string> = []
  /** The metadata of the provider's response. */
  readonly facts = new StreamFacts()
  /** The error that the provider sent after its response had begun. */
  failure: DialectError | undefined
  /** Whether the gateway detected that failure itself, so that no error event was sent yet. */
  private isUntold = false
  /** Whether the terminator of a completion is still to be sent. */
  private isHeldBack = false
  /** The last bytes, where they may be the beginning of a terminator: what comes with the rest decides whether they are sent. */
  private pending: Uint8Array = nothing
  /** The value of `textBytes` when the provider last reported its usage. */
  private countedBytes = 0
  private completionUsage: TokenUsage | undefined
  private messageUsage: MessageUsage | undefined
  private readonly options: StreamOptions
  private readonly reader = new EventReader()
  /** The translator to Anthropic's events, and that to OpenAI's chunks; undefined where the stream needs none. */
  private readonly toEvents: ChunksToEvents | undefined
  private readonly toChunks: EventsToChunks | undefined
  /** Whether to remove the provider's usage, because the caller did not request it. */
  private readonly hidesUsage: boolean
  private readonly translates: boolean
  /** The reader of a response's events; undefined for other streams. */
  private readonly events: NativeEvents | undefined
  private readonly isRenaming: boolean
  /** What passes on the bytes of events, with other ids; undefined where events are written anew. */
  private readonly renamed: RenamedStream | undefined

  constructor(options: StreamOptions) {
    this.options = options
    this.translates = options.from !== options.to
    this.events = options.operation === "responses" ? new NativeEvents(options.rename) : undefined
    this.isRenaming = this.events !== undefined && options.rename !== undefined
    this.hidesUsage =
      !this.translates && options.from === "openai" && !options.includeUsage && this.events === undefined
    const translatesTo = this.translates ? options.to : undefined
    this.toEvents = translatesTo === "anthropic" ? new ChunksToEvents(options.head) : undefined
    this.toChunks =
      translatesTo === "openai"
        ? new EventsToChunks(options.head, options.createdSeconds, options.includeUsage)
        : undefined
    this.renamed = this.rewrites || options.rename === undefined ? undefined : new RenamedStream(options.rename)
  }

  /** Whether the usage covers all of the output: a report is premature if output follows it, or if it counts none. */
  get isCounted(): boolean {
    const { usage } = this
    return (
      usage !== undefined && this.countedBytes === this.textBytes && (usage.outputTokens > 0 || this.textBytes === 0)
    )
  }

  /** The keep-alive signal of the caller's dialect, so that no proxy or client times out. */
  private get signOfLife(): Uint8Array {
    return utf8.encode(this.options.to === "anthropic" ? written([{ type: "ping" }]) : comment)
  }

  /** Whether events are written anew, and not passed on as bytes. */
  private get rewrites(): boolean {
    return this.translates || this.hidesUsage || this.isRenaming
  }

  /** The usage that the provider reported so far. */
  get usage(): TokenUsage | undefined {
    const usage = this.messageUsage === undefined ? this.completionUsage : usageOfMessage(this.messageUsage)
    return usageWithTools(plausibleUsage(usage), this.options.toolUses)
  }

  /** A keep-alive signal of the provider is passed on to the caller. */
  push(bytes: Uint8Array): Uint8Array {
    const events = this.reader.push(bytes)
    const out = events.map((event) => this.take(event)).join("")
    if (this.reader.failure !== undefined) {
      this.isUntold ||= this.failure === undefined
      this.failure ??= { status: 502, message: "The provider sent an event without end.", code: "provider-error" }
    }
    if (!this.rewrites) return this.passedOn(this.renamed?.push(bytes) ?? bytes)
    const isSign = out === "" && (isComment(bytes) || events.some(({ event }) => event === "ping"))
    return isSign ? this.signOfLife : utf8.encode(out)
  }

  /** The rest of the stream: `usage` if the provider reported none, or the error. */
  end(usage: TokenUsage, failure: DialectError | undefined): Uint8Array {
    const left = this.renamed === undefined ? "" : utf8Text(this.passedOn(this.renamed.end()))
    const rest = this.reader
      .end()
      .map((event) => this.take(event))
      .join("")
    const isCut = this.pending.length > 0 && this.lacksEnd
    this.isHeldBack ||= isCut
    const own = this.rewrites ? rest : left + (isCut ? "" : latin1(this.pending))
    if (this.failure !== undefined && !this.translates && !this.isUntold) return utf8.encode(own)
    const broken = this.failure ?? failure ?? (this.finished ? undefined : brokenOff)
    return utf8.encode(
      broken === undefined
        ? own + this.closing(usage)
        : // Terminates the unfinished event first.
          own + (this.isUntold ? "\n\n" : "") + (this.events?.failed(broken) ?? this.options.writeError(broken))
    )
  }

  /** Whether something has to come before the terminator of a completion: an error, or the usage that was asked for. */
  private get lacksEnd(): boolean {
    const { includeUsage, operation } = this.options
    if (operation === "responses" || this.failure !== undefined) return false
    return !this.finished || (includeUsage && this.usage === undefined)
  }

  /** The bytes to send now: without the terminator of a completion that something has to come before, or its beginning. */
  private passedOn(bytes: Uint8Array): Uint8Array {
    if (this.events !== undefined || this.options.from === "anthropic") return bytes
    if (this.isHeldBack) return nothing
    const all = this.pending.length === 0 ? bytes : Buffer.concat([this.pending, bytes])
    this.pending = nothing
    if (this.done && !this.lacksEnd) return all
    this.isHeldBack = this.done
    const from = this.done ? 0 : Math.max(0, all.length - terminatorBytes)
    const found = latin1(all.subarray(from)).search(this.done ? terminator : begunTerminator)
    const end = found < 0 ? all.length : from + found
    if (!this.done) this.pending = all.subarray(end)
    return all.subarray(0, end)
  }

  private closing(usage: TokenUsage): string {
    if (this.toEvents !== undefined) return written(this.toEvents.end(usage))
    if (this.toChunks !== undefined) return `${chunkText(this.toChunks.end(usage))}data: [DONE]\n\n`
    if (!this.isHeldBack) return ""
    const { createdSeconds, head, operation } = this.options
    const { id, model } = head
    const object = operation === "completions" ? "text_completion" : "chat.completion.chunk"
    const last = { id: this.facts.id ?? id, object, created: createdSeconds, model, choices: [] }
    return `${chunkText([{ ...last, usage: toCompletionUsage(usage) }])}data: [DONE]\n\n`
  }

  /** Reads an event; returns the text to send, unless bytes pass unchanged. */
  private take({ data, event }: ServerEvent): string {
    if (data === "[DONE]") {
      this.done = true
      return this.hidesUsage && !this.lacksEnd ? dataText(data) : ""
    }
    const value = parsedJson(data)
    this.options.toolUses?.read(value)
    if (this.events !== undefined) return this.takeResponse(this.events, value, data, event)
    return this.options.from === "openai" ? this.takeChunk(value, data) : this.takeEvent(value, event)
  }

  private rename(data: string, value: unknown): string {
    return this.options.rename?.(data, value) ?? data
  }

  private finish(reason: string, choice: number): void {
    this.finished = true
    this.facts.finished(choice, reason)
  }

  private say(words: ReadonlyArray<string>): void {
    this.textBytes += bytesIn(words)
    if (!this.options.keepsWords || this.textBytes > maxKeptBytes) return
    for (const word of words) if (word !== "") this.texts.push(word)
  }

  /** An event of the Responses API; the last one has the usage, and none follows it. */
  private takeResponse(events: NativeEvents, value: unknown, data: string, name: string): string {
    const { failure, isLast, response, said, usage } = events.take(value)
    this.say(said)
    if (failure !== undefined) this.failure = failure
    if (response !== undefined) this.facts.of(response)
    if (isLast) {
      this.done = true
      if (response !== undefined) this.finish(String(endOfResponse(response)), 0)
      this.completionUsage = usage
      this.countedBytes = this.textBytes
    }
    if (!this.isRenaming) return ""
    return `${name === "message" ? "" : `event: ${name}\n`}${dataText(this.rename(data, value))}`
  }

  private takeChunk(value: unknown, data: string): string {
    const failure = errorInEvent(value)
    if (failure !== undefined) {
      this.failure = failure
      return this.hidesUsage ? dataText(data) : ""
    }
    const chunk = isJson(value) ? value : {}
    if (isJson(chunk.usage)) this.completionUsage = usageOfCompletion(chunk.usage)
    this.facts.of(chunk)
    const choices = listIn(chunk.choices)
    for (const choice of choices) if (isJson(choice)) this.takeChoice(choice)
    if (isJson(chunk.usage)) this.countedBytes = this.textBytes
    if (this.toEvents !== undefined) {
      const decoded = decodeChunk(value)
      return Option.isNone(decoded) ? "" : written(this.toEvents.push(decoded.value))
    }
    const tellsUsageAlone = isJson(chunk.usage) && choices.length === 0
    return this.hidesUsage && !tellsUsageAlone ? dataText(this.rename(data, value)) : ""
  }

  private takeChoice({ delta, finish_reason: reason, index, text }: Json): void {
    if (typeof text === "string") this.say([text])
    if (typeof reason === "string" && reason !== "") this.finish(reason, typeof index === "number" ? index : 0)
    this.say(wordsIn(delta))
  }

  private takeEvent(value: unknown, name: string): string {
    if (!isJson(value)) return ""
    if (value.type === "ping") return this.translates ? comment : ""
    if (value.type === "error" || name === "error") {
      this.failure = readError(502, value)
      return ""
    }
    const message = isJson(value.message) ? value.message : {}
    const reported = value.type === "message_start" ? message.usage : value.usage
    if (isJson(reported)) this.messageUsage = laterUsage(this.messageUsage ?? {}, reported)
    this.facts.of(message)
    const delta = isJson(value.delta) ? value.delta : {}
    if (typeof delta.stop_reason === "string") this.finish(delta.stop_reason, 0)
    if (value.type === "message_stop") this.done = true
    const block = isJson(value.content_block) ? value.content_block : {}
    this.say([block.text, block.name, delta.text, delta.thinking, delta.partial_json].filter(Predicate.isString))
    if (isJson(reported) && typeof reported.output_tokens === "number") this.countedBytes = this.textBytes
    if (this.toChunks === undefined) return ""
    const decoded = decodeEvent(value)
    return Option.isNone(decoded) ? "" : chunkText(this.toChunks.push(decoded.value))
  }
}

const brokenOff: DialectError = {
  status: 502,
  message: "The provider broke its answer off.",
  code: "provider-unavailable"
}

/** Serializes an event's data, one `data:` line for each of its lines. */
const dataText = (data: string): string => `data: ${data.includes("\n") ? data.replaceAll("\n", "\ndata: ") : data}\n\n`

const written = (events: ReadonlyArray<Readonly<Record<string, unknown>> & { readonly type: string }>): string =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("")

const chunkText = (chunks: ReadonlyArray<object>): string =>
  chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")
