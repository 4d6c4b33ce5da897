import { Sse } from "effect/encoding"
import { isJson, parsedJson } from "../../kernel/json/parsed-json.ts"
import { errorAlone } from "./errors.ts"

/** A parsed Server-Sent Event. */
export interface ServerEvent {
  readonly event: string
  readonly data: string
  /** An error's text as it was received, where it was no event of the stream but JSON between two of them. */
  readonly bare?: string
}

/** The type of an event; some providers name it beside the data alone. */
export const typeOf = ({ event }: ServerEvent, value: unknown): string =>
  isJson(value) && typeof value.type === "string" ? value.type : event

/** Whether an event is the last of a completion. */
export const isTerminator = ({ data }: ServerEvent): boolean => data.trim() === "[DONE]"

/** Whether an event has one of these types, by its name or in its value. */
export const hasType = (types: ReadonlySet<string>, value: unknown, event: ServerEvent): boolean =>
  types.has(event.event) || types.has(typeOf(event, value))

/** An SSE comment, which keeps a connection alive; readers ignore it. */
export const comment = ":\n\n"

/** Whether these bytes are a single comment, as providers send while a model thinks. */
export const isComment = (bytes: Uint8Array): boolean => bytes[0] === colon
const colon = 0x3a

/** The most that JSON between events may have, in UTF-16 code units. */
const maxBareLength = 65_536
/** What lines of events begin with (`data`, `event`, `id`, `retry`, a comment), and lines of JSON do not. */
const fieldStarts = new Set(["d", "e", "i", "r", ":"])

/** JSON that begins a line between events, read in pieces up to its end. */
class BareJson {
  text = ""
  private depth = 0
  private isQuoted = false
  private isEscaped = false
  private previous = ""

  /** Where its end is in the next piece, or where it turns out to be no JSON; undefined if neither is there yet. */
  end(piece: string): number | undefined {
    const at = this.place(piece)
    this.text += piece.slice(0, at)
    return at ?? (this.text.length > maxBareLength ? piece.length : undefined)
  }

  private place(piece: string): number | undefined {
    for (let at = 0; at < piece.length; at++) {
      const character = piece[at]!
      const isLineEnd = character === "\n" || character === "\r"
      const isLineStart = this.previous === "\n" || this.previous === "\r"
      this.previous = character
      if (this.isQuoted ? isLineEnd : isLineStart && fieldStarts.has(character)) return at
      if (this.isEscaped) this.isEscaped = false
      else if (this.isQuoted && character === "\\") this.isEscaped = true
      else if (character === '"') this.isQuoted = !this.isQuoted
      else if (this.isQuoted) continue
      else if (character === "{" || character === "[") this.depth++
      else if ((character === "}" || character === "]") && --this.depth === 0) return at + 1
    }
    return undefined
  }
}

const bareLine = /[\r\n][{[]/

/**
 * Parses Server-Sent Events from byte chunks, split anywhere: within a line end or a UTF-8 character. Comments are skipped.
 * An error that was sent as JSON without `data:`, on one line or several, is an event of the type `error`.
 */
export class EventReader {
  /** Set when an event exceeds the size limit; the stream cannot be read any further. */
  failure: Sse.SseError | undefined
  private readonly decoder = new TextDecoder()
  private events: Array<ServerEvent> = []
  private bare: BareJson | undefined
  private isAtLineStart = true
  private readonly parser = Sse.makeParser((event) => {
    if (event._tag === "Event") this.events.push({ event: event.event, data: event.data })
  })

  push(bytes: Uint8Array): ReadonlyArray<ServerEvent> {
    this.read(this.decoder.decode(bytes, { stream: true }))
    return this.taken()
  }

  /** Also returns the last event of a stream that ended without the empty line after it. */
  end(): ReadonlyArray<ServerEvent> {
    this.read(`${this.decoder.decode()}\n\n`)
    if (this.bare !== undefined) this.parse(this.bare.text)
    return this.taken()
  }

  private taken(): ReadonlyArray<ServerEvent> {
    const read = this.events
    this.events = []
    return read
  }

  private read(text: string): void {
    let rest = text
    while (rest !== "") {
      if (this.bare === undefined) {
        const at = this.bareStart(rest)
        this.parse(rest.slice(0, at))
        rest = rest.slice(at)
        if (rest === "") return
        this.bare = new BareJson()
      }
      const end = this.bare.end(rest)
      if (end === undefined) return
      this.endBare(this.bare.text)
      rest = rest.slice(end)
    }
  }

  /** Where JSON begins a line; the length of the text if none does. */
  private bareStart(text: string): number {
    if (this.isAtLineStart && (text.startsWith("{") || text.startsWith("["))) return 0
    const at = text.search(bareLine)
    return at < 0 ? text.length : at + 1
  }

  private endBare(text: string): void {
    this.bare = undefined
    const error = text.length > maxBareLength ? undefined : errorAlone(parsedJson(text))
    if (error === undefined) return this.parse(text)
    // An event before it has ended, too, though no empty line came after it.
    this.parse("\n\n")
    this.events.push({ event: "error", data: JSON.stringify({ type: "error", ...error }), bare: text })
  }

  private parse(text: string): void {
    if (text === "") return
    const failure = this.parser.feed(text)
    if (failure !== undefined) this.failure = failure
    this.isAtLineStart = text.endsWith("\n") || text.endsWith("\r")
  }
}

const lineFeed = 0x0a
const carriageReturn = 0x0d

/** Finds where events end in a stream of bytes, split anywhere: after an empty line. */
export class EventEnds {
  private previous: number | undefined
  private isEmptyLine = true
  /** Whether the last end was a carriage return, whose line feed may follow. */
  private isHalf = false

  /** The place after the next end from `from` on; undefined if there is none in these bytes. */
  after(bytes: Uint8Array, from: number): number | undefined {
    for (let at = from; at < bytes.length; at++) {
      const byte = bytes[at]
      const isSecondHalf = byte === lineFeed && this.previous === carriageReturn
      const isLineEnd = byte === lineFeed || byte === carriageReturn
      const isEnd = isSecondHalf ? this.isHalf : isLineEnd && this.isEmptyLine
      this.previous = byte
      this.isEmptyLine = isLineEnd
      this.isHalf = isEnd && byte === carriageReturn
      // Both halves of a line end are sent together where they have arrived together.
      if (isEnd && !(this.isHalf && bytes[at + 1] === lineFeed)) return at + 1
    }
    return undefined
  }

  /** The place after the last end; zero if there is none in these bytes. */
  last(bytes: Uint8Array): number {
    const { length } = bytes
    if (bytes[length - 1] === lineFeed && bytes[length - 2] === lineFeed) {
      this.previous = lineFeed
      this.isEmptyLine = true
      this.isHalf = false
      return length
    }
    let end = 0
    for (let next = this.after(bytes, 0); next !== undefined; next = this.after(bytes, end)) end = next
    return end
  }
}
