import { Sse } from "effect/encoding"

/** A parsed Server-Sent Event. */
export interface ServerEvent {
  readonly event: string
  readonly data: string
}

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
