import { Sse } from "effect/encoding"

/** A Server-Sent Event as it was read. */
export interface ServerEvent {
  readonly event: string
  readonly data: string
}

/** A comment, which keeps a connection alive and is read over by every reader. */
export const comment = ":\n\n"

/** Whether bytes that came by themselves are a comment, as providers send one while a model thinks. */
export const isComment = (bytes: Uint8Array): boolean => bytes[0] === colon
const colon = 0x3a

/**
 * Reads Server-Sent Events from bytes as they come, wherever they are cut: within a line end, or a character of UTF-8.
 * Comments are read over.
 */
export class EventReader {
  /** Set when an event grew beyond what is kept; the stream is useless from then on. */
  failure: Sse.SseError | undefined
  private readonly decoder = new TextDecoder()
  private events: Array<ServerEvent> = []
  private readonly parser = Sse.makeParser((event) => {
    if (event._tag === "Event") this.events.push({ event: event.event, data: event.data })
  })

  push(bytes: Uint8Array): ReadonlyArray<ServerEvent> {
    return this.feed(this.decoder.decode(bytes, { stream: true }))
  }

  /** Also gives the last event of a stream that ended without the empty line after it. */
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
