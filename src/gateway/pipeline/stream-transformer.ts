import { isJson, parsedJson } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { sealedIn } from "../formats/common-form/turn-state.ts"
import { type TokenUsage } from "../formats/domain.ts"
import { type DialectError } from "../formats/errors.ts"
import { EventEnds, EventReader, isComment, isTerminator, type ServerEvent } from "../formats/event-reader.ts"
import {
  type AnswerHead,
  type CommonReader,
  type CommonWriter,
  type StreamProgress,
  type StreamReader,
  type WireFormat
} from "../formats/format.ts"
import { plausibleUsage } from "../formats/usage.ts"
import { type Renaming } from "../json/kept-ids.ts"
import { type ChargeTerms } from "../metering/charge-terms.ts"
import { StreamFacts } from "../telemetry/answer-facts.ts"
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
  /** The format of the incoming events. */
  readonly from: WireFormat
  /** The format of the outgoing events. */
  readonly to: WireFormat
  readonly head: AnswerHead
  /** Seals what the provider wants back with the turn. */
  readonly seal: (state: ReadonlyArray<unknown>) => string
  /** Reads what the charge depends on besides the tokens. */
  readonly chargeTerms?: ChargeTerms | undefined
  /** Writes an error as an event, in the format of the caller. */
  readonly writeError: (error: DialectError) => string
  /** Whether the caller requested usage; the gateway always requests it from the provider. */
  readonly includeUsage: boolean
  /** Puts the gateway's ids in the place of the provider's. */
  readonly rename?: Renaming | undefined
}

/** From one format to another through the common form. */
interface Translator {
  readonly reader: CommonReader
  readonly writer: CommonWriter
}

const translatorOf = ({ from, head, includeUsage, to }: StreamOptions): Translator | undefined => {
  const [read, write] = [from.translation?.streamToCommon, to.translation?.streamFromCommon]
  return from === to || read === undefined || write === undefined
    ? undefined
    : { reader: read(head), writer: write(head, includeUsage) }
}

/**
 * Passes a stream of events to its caller and reads the usage to charge from it. In the caller's own format the bytes pass
 * unchanged; another format is translated.
 */
export class StreamTransformer implements StreamProgress {
  /** Whether the last event has arrived; some providers leave the connection open after it. */
  done = false
  /** The bytes of the model's output so far: the basis of the charge if no token count is available. */
  textBytes = 0
  /** The output itself, if a tokenizer can count it, up to `maxKeptBytes`. */
  readonly texts: Array<string> = []
  /** The metadata of the provider's response. */
  readonly facts = new StreamFacts()
  /** Whether an event had anything: content in any form, a usage, or an error. */
  holdsAnything = false
  /** The error that the provider sent after its response had begun. */
  failure: DialectError | undefined
  private hasEnded = false
  /** Whether no error event was sent yet: the gateway detected the failure itself, or the provider sent no event. */
  private isUntold = false
  /** Whether the terminator is still to be sent. */
  private isHeldBack = false
  /** The bytes of an event whose end has not arrived. */
  private pending: Array<Uint8Array> = []
  private readonly ends = new EventEnds()
  private isAtLineStart = true
  /** The value of `textBytes` when the provider last reported its usage. */
  private countedBytes = 0
  private reported: TokenUsage | undefined
  private readonly options: StreamOptions
  private readonly events = new EventReader()
  private readonly reader: StreamReader
  private readonly translator: Translator | undefined
  /** What puts other ids into the events that are passed on as bytes; undefined where events are rewritten. */
  private readonly renamed: RenamedStream | undefined

  constructor(options: StreamOptions) {
    const { from, head, includeUsage, rename } = options
    this.options = options
    this.translator = translatorOf(options)
    this.reader = from.reader(this, { head, includesUsage: includeUsage, rename })
    this.renamed = this.rewrites || rename === undefined ? undefined : new RenamedStream(rename)
  }

  get hasFailed(): boolean {
    return this.failure !== undefined
  }

  /** Whether the model reported its end, of each choice that it began; the last event is an end, too. */
  get finished(): boolean {
    return (this.hasEnded && !this.reader.isOpen) || (this.done && this.failure === undefined)
  }

  /** Whether the usage covers all of the output: a report is premature if output follows it, or if it counts none. */
  get isCounted(): boolean {
    const { usage } = this
    return (
      usage !== undefined && this.countedBytes === this.textBytes && (usage.outputTokens > 0 || this.textBytes === 0)
    )
  }

  /** Whether events are rewritten, and not passed on as bytes. */
  private get rewrites(): boolean {
    return this.translator !== undefined || this.reader.rewrites
  }

  /** Whether an event is so long that no later one can be read. */
  get isUnreadable(): boolean {
    return this.events.failure !== undefined
  }

  /** The usage that the provider reported so far. */
  get usage(): TokenUsage | undefined {
    const usage = plausibleUsage(this.reported)
    const { chargeTerms } = this.options
    return usage === undefined || chargeTerms === undefined ? usage : chargeTerms.complete(usage)
  }

  say(words: ReadonlyArray<string>): void {
    this.textBytes += bytesIn(words)
    if (!this.options.keepsWords || this.textBytes > maxKeptBytes) return
    for (const word of words) if (word !== "") this.texts.push(word)
  }

  hear(bytes: number): void {
    this.textBytes += bytes
  }

  finish(reason: string, choice: number): void {
    this.hasEnded = true
    this.facts.finished(choice, reason)
  }

  describe(of: { readonly id?: unknown; readonly model?: unknown }): void {
    this.facts.of(of)
  }

  report(usage: TokenUsage | undefined, isUpToDate: boolean): void {
    this.reported = usage
    if (isUpToDate) this.countedBytes = this.textBytes
  }

  failed(error: DialectError): void {
    this.failure = error
  }

  /** The bytes to send on: complete events up to the last one, and keep-alive signals of the provider. */
  push(bytes: Uint8Array): Uint8Array {
    const out = this.rewrites ? this.rewritten(bytes) : this.passedOn(bytes)
    if (this.isUnreadable) {
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
    const events = this.events.push(bytes)
    const out = events.map((event) => this.take(event)).join("")
    const isAtLineStart = this.isAtLineStart
    const lastByte = bytes.at(-1) ?? 0
    this.isAtLineStart = lastByte === lineFeed || lastByte === carriageReturn
    const isSign = out === "" && isAtLineStart && isComment(bytes)
    return utf8.encode(isSign ? this.options.to.keepAlive : out)
  }

  /** The bytes themselves, but for the ids of what the provider keeps. */
  private passedOn(bytes: Uint8Array): Uint8Array {
    const events = this.wholeEvents(bytes)
    return this.renamed === undefined || events.length === 0 ? events : this.renamed.push(events)
  }

  /** All events that have ended; a terminator that something has to come before is sent at the end. */
  private wholeEvents(bytes: Uint8Array): Uint8Array {
    if (this.done) return nothing
    const events = this.events.push(bytes)
    const isOver = this.isUntold
    for (const event of events) this.take(event)
    // What follows an error of the provider outside of its events is read for the usage alone.
    if (isOver) return nothing
    if (this.isUntold) return this.beforeBare(bytes, events)
    const sent = this.done ? this.endOfLast(bytes) : this.ends.last(bytes)
    const out = sent === 0 ? [] : [...this.pending, bytes.subarray(0, sent)]
    // Its line feed may come with the next bytes, of which none are sent.
    if (this.done && !this.isHeldBack && bytes[sent - 1] === carriageReturn) out.push(Uint8Array.of(lineFeed))
    if (this.done) this.pending = []
    else if (sent === 0) this.pending.push(bytes)
    else this.pending = sent === bytes.length ? [] : [bytes.subarray(sent)]
    return out.length === 1 ? out[0]! : Buffer.concat(out)
  }

  /** The events before an error that was sent as JSON between them, which is written as the caller's format has it. */
  private beforeBare(bytes: Uint8Array, events: ReadonlyArray<ServerEvent>): Uint8Array {
    const all = Buffer.concat([...this.pending, bytes])
    const bare = events.find((event) => event.bare !== undefined)?.bare ?? ""
    const before = all.subarray(0, Math.max(0, all.indexOf(bare)))
    this.pending = []
    return new EventEnds().last(before) === before.length ? before : Buffer.concat([before, utf8.encode("\n\n")])
  }

  /** The end of the last event in bytes that have it, or its beginning if it is held back. */
  private endOfLast(bytes: Uint8Array): number {
    const reader = new EventReader()
    for (const part of this.pending) reader.push(part)
    for (let from = 0; ;) {
      const end = this.ends.after(bytes, from) ?? bytes.length
      const events = reader.push(bytes.subarray(from, end))
      if (
        end === bytes.length ||
        events.some((event) => isTerminator(event) || this.endsBy(parsedJson(event.data), event))
      ) {
        return this.isHeldBack ? from : end
      }
      from = end
    }
  }

  /** The rest of the stream: `usage` if the provider reported none, or the error. */
  end(usage: TokenUsage, failure: DialectError | undefined): Uint8Array {
    const own = this.renamedLast(this.last())
    const isTranslated = this.translator !== undefined
    // Nothing follows the last event.
    if (this.done && !this.isHeldBack && !isTranslated) return utf8.encode(own)
    if (this.failure !== undefined && !isTranslated && !this.isUntold) return utf8.encode(own)
    const broken = this.failure ?? (this.finished ? undefined : (failure ?? brokenOff))
    return utf8.encode(own + (broken === undefined ? this.closing(usage) : this.broken(broken)))
  }

  private broken(error: DialectError): string {
    const own = this.translator === undefined ? this.reader.failure?.(error) : undefined
    return own ?? this.options.writeError(error)
  }

  private closing(usage: TokenUsage): string {
    if (this.translator === undefined) return this.reader.closing(usage, this.done, this.isHeldBack)
    const { reader, writer } = this.translator
    const rest = reader.end().map((chunk) => writer.push(sealedIn(chunk, this.options.seal)))
    return rest.join("") + writer.end(usage)
  }

  private renamedLast(event: string): string {
    return this.renamed === undefined
      ? event
      : utf8Text(Buffer.concat([this.renamed.push(utf8.encode(event)), this.renamed.end()]))
  }

  /** The last event, where no empty line came after it; one that is cut is left out. */
  private last(): string {
    if (this.done) return ""
    const event = this.events.end().find((one) => isTerminator(one) || parsedJson(one.data) !== undefined)
    if (event === undefined) return ""
    const out = this.take(event)
    if (this.rewrites) return out
    return this.isHeldBack ? "" : `${Buffer.concat(this.pending).toString("utf8").trimEnd()}\n\n`
  }

  private endsBy(value: unknown, event: ServerEvent): boolean {
    return this.options.from.isLast?.(value, event) === true
  }

  /** Reads an event; returns the text to send, unless bytes pass unchanged. Nothing after the last event is read. */
  private take(event: ServerEvent): string {
    if (this.done) return ""
    const { reader, translator } = this
    if (isTerminator(event)) {
      if (!reader.endsByTerminator) return ""
      this.isHeldBack = reader.holdsTerminator
      this.done = true
      return this.isHeldBack || translator !== undefined ? "" : reader.terminator(event)
    }
    const value = parsedJson(event.data)
    this.options.chargeTerms?.read(value)
    this.holdsAnything ||= this.options.from.tells(value)
    const passed = reader.take(value, event)
    this.isUntold ||= event.bare !== undefined && !this.rewrites && this.hasFailed
    if (this.endsBy(value, event)) this.done = true
    if (translator === undefined) return passed
    if (reader.isKeepAlive?.(value, event) === true) return this.options.to.keepAlive
    if (this.failure !== undefined || !isJson(value)) return ""
    return translator.reader
      .push(value, event)
      .map((chunk) => translator.writer.push(sealedIn(chunk, this.options.seal)))
      .join("")
  }
}

export const brokenOff: DialectError = {
  status: 502,
  message: "The provider broke its answer off.",
  code: "provider-unavailable"
}
