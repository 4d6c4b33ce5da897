import { Sse } from "effect/encoding"
import { isJson } from "../../kernel/json/parsed-json.ts"

/** A parsed Server-Sent Event. */
export interface ServerEvent {
  readonly event: string
  readonly data: string
}

/** The type of an event; some providers name it beside the data alone. */
export const typeOf = ({ event }: ServerEvent, value: unknown): string =>
  isJson(value) && typeof value.type === "string" ? value.type : event

/** Whether an event is the last of a completion. */
export const isTerminator = ({ data }: ServerEvent): boolean => data.trim() === "[DONE]"

const lastTypes = new Set(["message_stop", "response.completed", "response.incomplete", "response.failed"])

/** Whether an event with this value is the last of its stream, in any dialect, by its name or its type. */
export const isLastEvent = (event: ServerEvent, value: unknown): boolean =>
  isTerminator(event) || lastTypes.has(event.event) || lastTypes.has(typeOf(event, value))

/** An SSE comment, which keeps a connection alive; readers ignore it. */
export const comment = ":\n\n"

/** Whether these bytes are a single comment, as providers send while a model thinks. */
export const isComment = (bytes: Uint8Array): boolean => bytes[0] === colon
const colon = 0x3a

/**
 * Parses Server-Sent Events from byte chunks, split anywhere: within a line end or a UTF-8 character. Comments are skipped.
 */
export class EventReader {
  /** Set when an event exceeds the size limit; the stream cannot be read any further. */
  failure: Sse.SseError | undefined
  private readonly decoder = new TextDecoder()
  private events: Array<ServerEvent> = []
  private readonly parser = Sse.makeParser((event) => {
    if (event._tag === "Event") this.events.push({ event: event.event, data: event.data })
  })

  push(bytes: Uint8Array): ReadonlyArray<ServerEvent> {
    return this.feed(this.decoder.decode(bytes, { stream: true }))
  }

  /** Also returns the last event of a stream that ended without the empty line after it. */
  end(): ReadonlyArray<ServerEvent> {
    return this.feed(`${this.decoder.decode()}\n\n`)
  }

  private feed(text: string): ReadonlyArray<ServerEvent> {
    const failure = this.parser.feed(text)
    if (failure !== undefined) this.failure = failure
    const read = this.events
    this.events = []
    return read
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
