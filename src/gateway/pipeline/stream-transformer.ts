import { Predicate } from "effect"
import { readEvent } from "../translation/anthropic-messages/domain.ts"
import { type AnswerHead } from "../translation/anthropic-messages/answers.ts"
import { ChunksToEvents } from "../translation/anthropic-messages/chunks-to-events.ts"
import { type Dialect, type TokenUsage } from "../translation/domain.ts"
import { type DialectError, errorInEvent, readError } from "../translation/errors.ts"
import {
  comment,
  EventEnds,
  EventReader,
  isComment,
  isLastEvent,
  isTerminator,
  type ServerEvent,
  typeOf
} from "../translation/event-reader.ts"
import { EventsToChunks } from "../translation/anthropic-messages/events-to-chunks.ts"
import { readChunk } from "../translation/openai-chat/domain.ts"
import { wordsIn } from "../translation/openai-chat/words.ts"
import { isCount, laterUsage, plausibleUsage } from "../translation/usage.ts"
import { usageOfMessage } from "../translation/anthropic-messages/usage.ts"
import { toCompletionUsage, usageOfCompletion } from "../translation/openai-chat/usage.ts"
import { NativeEvents } from "../translation/openai-responses/native-events.ts"
import { tells } from "../providers/answer-content.ts"
import { type Operation } from "../providers/provider.ts"
import { endOfResponse, StreamFacts } from "../telemetry/answer-facts.ts"
import { isJson, type Json, listIn, parsedJson } from "../../kernel/json/parsed-json.ts"
import { type ToolUseReader, usageWithTools } from "../metering/tool-uses.ts"
import { type Renaming } from "../json/kept-ids.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { RenamedStream } from "./renamed-stream.ts"

const utf8 = new TextEncoder()

const nothing = new Uint8Array()
const carriageReturn = 0x0d
const lineFeed = 0x0a

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
  /** Whether the last event has arrived; some providers leave the connection open after it. */
  done = false
  /** The bytes of the model's output so far: the basis of the charge if no token count is available. */
  textBytes = 0
  /** The output itself, if a tokenizer can count it, up to `maxKeptBytes`. */
  readonly texts: Array<string> = []
  /** The metadata of the provider's response. */
  readonly facts = new StreamFacts()
  /** Whether an event has told anything: content in any form, a usage, or an error. */
  told = false
  /** The error that the provider sent after its response had begun. */
  failure: DialectError | undefined
  /** The choices that have ended, and those that have begun and not ended, with whether they call tools. */
  private readonly endedChoices = new Set<number>()
  private readonly openChoices = new Map<number, boolean>()
  /** Whether the gateway detected that failure itself, so that no error event was sent yet. */
  private isUntold = false
  /** Whether the terminator of a completion is still to be sent. */
  private isHeldBack = false
  /** The bytes of an event whose end has not arrived. */
  private pending: Array<Uint8Array> = []
  private readonly ends = new EventEnds()
  private isAtLineStart = true
  /** The value of `textBytes` when the provider last reported its usage. */
  private countedBytes = 0
  private completionUsage: TokenUsage | undefined
  private messageUsage: Json | undefined
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
  /** What puts other ids into the events that are passed on as bytes; undefined where events are written anew. */
  private readonly renamed: RenamedStream | undefined

  constructor(options: StreamOptions) {
    this.options = options
    this.translates = options.from !== options.to
    this.events = options.operation === "responses" ? new NativeEvents(options.rename) : undefined
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

  /** Whether the model reported its end, of each choice that it began; the last event is an end, too. */
  get finished(): boolean {
    return (this.endedChoices.size > 0 && this.openChoices.size === 0) || (this.done && this.failure === undefined)
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
    return this.translates || this.hidesUsage || this.events !== undefined
  }

  /** Whether an event is so long that no later one can be read. */
  get isUnreadable(): boolean {
    return this.reader.failure !== undefined
  }

  /** The usage that the provider reported so far. */
  get usage(): TokenUsage | undefined {
    const usage = this.messageUsage === undefined ? this.completionUsage : usageOfMessage(this.messageUsage)
    return usageWithTools(plausibleUsage(usage), this.options.toolUses)
  }

  /** The bytes to send on: complete events up to the last one, and keep-alive signals of the provider. */
  push(bytes: Uint8Array): Uint8Array {
    const out = this.rewrites ? this.rewritten(bytes) : this.passedOn(bytes)
    if (this.reader.failure !== undefined) {
      this.fail({ status: 502, message: "The provider sent an event without end.", code: "provider-error" })
    }
    return out
  }

  /** Ends the stream with an error that the gateway detected itself. */
  fail(error: DialectError): void {
    this.isUntold ||= this.failure === undefined
    this.failure ??= error
  }

  private rewritten(bytes: Uint8Array): Uint8Array {
    const events = this.reader.push(bytes)
    const out = events.map((event) => this.take(event)).join("")
    const isAtLineStart = this.isAtLineStart
    const lastByte = bytes.at(-1) ?? 0
    this.isAtLineStart = lastByte === lineFeed || lastByte === carriageReturn
    const isSign = out === "" && ((isAtLineStart && isComment(bytes)) || events.some(({ event }) => event === "ping"))
    return isSign ? this.signOfLife : utf8.encode(out)
  }

  /** The bytes themselves, but for the ids of what the provider keeps. */
  private passedOn(bytes: Uint8Array): Uint8Array {
    const events = this.wholeEvents(bytes)
    return this.renamed === undefined || events.length === 0 ? events : this.renamed.push(events)
  }

  /** All events that have ended; a terminator that something has to come before is sent at the end. */
  private wholeEvents(bytes: Uint8Array): Uint8Array {
    if (this.done) return nothing
    for (const event of this.reader.push(bytes)) this.take(event)
    const sent = this.done ? this.endOfLast(bytes) : this.ends.last(bytes)
    const out = sent === 0 ? [] : [...this.pending, bytes.subarray(0, sent)]
    // Its line feed may come with the next bytes, of which none are sent.
    if (this.done && !this.isHeldBack && bytes[sent - 1] === carriageReturn) out.push(Uint8Array.of(lineFeed))
    if (this.done) this.pending = []
    else if (sent === 0) this.pending.push(bytes)
    else this.pending = sent === bytes.length ? [] : [bytes.subarray(sent)]
    return out.length === 1 ? out[0]! : Buffer.concat(out)
  }

  /** The end of the last event in bytes that have it, or its beginning if it is held back. */
  private endOfLast(bytes: Uint8Array): number {
    const reader = new EventReader()
    for (const part of this.pending) reader.push(part)
    for (let from = 0; ;) {
      const end = this.ends.after(bytes, from) ?? bytes.length
      const events = reader.push(bytes.subarray(from, end))
      if (end === bytes.length || events.some((event) => isLastEvent(event, parsedJson(event.data)))) {
        return this.isHeldBack ? from : end
      }
      from = end
    }
  }

  /** The rest of the stream: `usage` if the provider reported none, or the error. */
  end(usage: TokenUsage, failure: DialectError | undefined): Uint8Array {
    const own = this.renamedLast(this.last())
    // Nothing follows the last event.
    if (this.done && !this.isHeldBack && !this.translates) return utf8.encode(own)
    if (this.failure !== undefined && !this.translates && !this.isUntold) return utf8.encode(own)
    const broken = this.failure ?? (this.finished ? undefined : (failure ?? brokenOff))
    return utf8.encode(
      own +
        (broken === undefined ? this.closing(usage) : (this.events?.failed(broken) ?? this.options.writeError(broken)))
    )
  }

  private renamedLast(event: string): string {
    return this.renamed === undefined
      ? event
      : utf8Text(Buffer.concat([this.renamed.push(utf8.encode(event)), this.renamed.end()]))
  }

  /** The last event, where no empty line came after it; one that is cut is left out. */
  private last(): string {
    if (this.done) return ""
    const event = this.reader.end().find((one) => isTerminator(one) || parsedJson(one.data) !== undefined)
    if (event === undefined) return ""
    const out = this.take(event)
    if (this.rewrites) return out
    return this.isHeldBack ? "" : `${Buffer.concat(this.pending).toString("utf8").trimEnd()}\n\n`
  }

  /** Whether something has to come before the terminator of a completion: an error, a finish reason, or a usage. */
  private get lacksEnd(): boolean {
    const { from, includeUsage } = this.options
    if (this.events !== undefined || from === "anthropic" || this.failure !== undefined) return false
    return !this.told || this.openChoices.size > 0 || (includeUsage && this.usage === undefined)
  }

  private closing(usage: TokenUsage): string {
    if (this.toEvents !== undefined) return written(this.toEvents.end(usage))
    if (this.toChunks !== undefined) return `${chunkText(this.toChunks.end(usage))}data: [DONE]\n\n`
    if (this.options.from === "anthropic")
      return this.done && !this.isHeldBack ? "" : written([{ type: "message_stop" }])
    if (!this.isHeldBack && !this.lacksEnd) return ""
    const { createdSeconds, head, includeUsage, operation } = this.options
    const isText = operation === "completions"
    const chunk = (members: Json) => ({
      id: this.facts.id ?? head.id,
      object: isText ? "text_completion" : "chat.completion.chunk",
      created: createdSeconds,
      model: head.model,
      ...members
    })
    const said = isText ? { text: "" } : { delta: {} }
    const choices = Array.from(this.openChoices, ([index, callsTools]) =>
      Object.assign({ index }, said, { finish_reason: callsTools ? "tool_calls" : "stop" })
    )
    return `${chunkText([
      ...(choices.length > 0 ? [chunk({ choices })] : []),
      ...(includeUsage && this.usage === undefined ? [chunk({ choices: [], usage: toCompletionUsage(usage) })] : [])
    ])}data: [DONE]\n\n`
  }

  /** Reads an event; returns the text to send, unless bytes pass unchanged. Nothing after the last event is read. */
  private take(event: ServerEvent): string {
    if (this.done) return ""
    const { data } = event
    if (isTerminator(event)) {
      // The Responses API has an event of its own for that.
      if (this.events !== undefined) return ""
      this.isHeldBack = this.options.from === "anthropic" || this.lacksEnd
      this.done = true
      return this.hidesUsage && !this.isHeldBack ? dataText(data) : ""
    }
    const value = parsedJson(data)
    this.options.toolUses?.read(value)
    this.told ||= tells(value, this.options.from, this.options.operation)
    if (this.events !== undefined) return this.takeResponse(this.events, value, event)
    return this.options.from === "openai" ? this.takeChunk(value, data) : this.takeEvent(value, event)
  }

  private rename(data: string, value: unknown): string {
    return this.options.rename?.(data, value) ?? data
  }

  private finish(reason: string, choice: number): void {
    this.endedChoices.add(choice)
    this.openChoices.delete(choice)
    this.facts.finished(choice, reason)
  }

  private say(words: ReadonlyArray<string>): void {
    this.textBytes += bytesIn(words)
    if (!this.options.keepsWords || this.textBytes > maxKeptBytes) return
    for (const word of words) if (word !== "") this.texts.push(word)
  }

  /** An event of the Responses API; the last one has the usage, and none follows it. */
  private takeResponse(events: NativeEvents, value: unknown, event: ServerEvent): string {
    const { failure, response, said, usage } = events.take(value)
    this.say(said)
    if (failure !== undefined) this.failure = failure
    if (response !== undefined) this.facts.of(response)
    if (usage !== undefined) {
      this.completionUsage = usage
      this.countedBytes = this.textBytes
    }
    if (isLastEvent(event, value)) {
      this.done = true
      if (response !== undefined) this.finish(String(endOfResponse(response)), 0)
    }
    return `${event.event === "message" ? "" : `event: ${event.event}\n`}${dataText(this.rename(event.data, value))}`
  }

  private takeChunk(value: unknown, data: string): string {
    const chunk = isJson(value) ? value : {}
    if (isJson(chunk.usage)) this.completionUsage = usageOfCompletion(chunk.usage)
    const failure = errorInEvent(value)
    if (failure !== undefined) {
      this.failure = failure
      return this.hidesUsage ? dataText(data) : ""
    }
    this.facts.of(chunk)
    const choices = listIn(chunk.choices)
    for (const choice of choices) if (isJson(choice)) this.takeChoice(choice)
    if (isJson(chunk.usage)) this.countedBytes = this.textBytes
    if (this.toEvents !== undefined) {
      const read = readChunk(value)
      return read === undefined ? "" : written(this.toEvents.push(read))
    }
    const tellsUsageAlone = isJson(chunk.usage) && choices.length === 0
    return this.hidesUsage && !tellsUsageAlone ? dataText(this.rename(data, value)) : ""
  }

  private takeChoice({ delta, finish_reason: reason, index, text }: Json): void {
    // Some providers write a text beside the delta that has it.
    this.say(isJson(delta) ? wordsIn(delta) : [text, delta].filter(Predicate.isString))
    const place = typeof index === "number" ? index : 0
    if (typeof reason === "string" && reason !== "") this.finish(reason, place)
    else if (!this.endedChoices.has(place)) {
      const callsTools = isJson(delta) && listIn(delta.tool_calls).length > 0
      this.openChoices.set(place, callsTools || this.openChoices.get(place) === true)
    }
  }

  private takeEvent(value: unknown, event: ServerEvent): string {
    if (!isJson(value)) return ""
    const type = typeOf(event, value)
    if (type === "ping") return this.translates ? comment : ""
    if (type === "error" || event.event === "error") {
      this.failure = readError(502, value)
      return ""
    }
    const message = isJson(value.message) ? value.message : {}
    const reported = isJson(message.usage) ? message.usage : value.usage
    if (isJson(reported)) this.messageUsage = laterUsage(this.messageUsage ?? {}, reported)
    this.facts.of(message)
    const delta = isJson(value.delta) ? value.delta : {}
    if (typeof delta.stop_reason === "string") this.finish(delta.stop_reason, 0)
    if (isLastEvent(event, value)) this.done = true
    const block = isJson(value.content_block) ? value.content_block : {}
    this.say([block.text, block.name, delta.text, delta.thinking, delta.partial_json].filter(Predicate.isString))
    if (isJson(reported) && isCount(reported.output_tokens)) this.countedBytes = this.textBytes
    if (this.toChunks === undefined) return ""
    const read = readEvent(typeof value.type === "string" ? value : { ...value, type })
    return read === undefined ? "" : chunkText(this.toChunks.push(read))
  }
}

export const brokenOff: DialectError = {
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
