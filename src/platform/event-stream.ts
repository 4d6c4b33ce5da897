import { type Effect, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import { Sse } from "effect/encoding"

const heartbeatEvery = "15 seconds"
const heartbeat = ": still here\n\n"

/** One event of a stream: its name, the text of its data, and the id that a client resumes from. */
export interface ServerSentEvent {
  readonly event: string
  readonly data: string
  readonly id?: string
}

/**
 * Answers with Server-Sent Events: a comment every 15 seconds keeps the connection, and the stream ends between two events
 * when `ended` does.
 */
export const eventStream = (events: Stream.Stream<ServerSentEvent>, ended: Effect.Effect<void>) =>
  HttpServerResponse.stream(
    events.pipe(
      Stream.map(({ data, event, id }) => Sse.encoder.write({ _tag: "Event", event, id, data })),
      Stream.merge(
        Stream.map(Stream.drop(Stream.tick(heartbeatEvery), 1), () => heartbeat),
        { haltStrategy: "left" }
      ),
      Stream.interruptWhen(ended),
      Stream.encodeText
    ),
    { contentType: "text/event-stream", headers: { "x-accel-buffering": "no" } }
  )
