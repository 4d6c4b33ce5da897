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
 * Responds with Server-Sent Events: a comment at the start confirms that the stream is open, one every 15 seconds keeps
 * the connection, and the stream ends between two events when `ended` completes.
 */
export const eventStream = (events: Stream.Stream<ServerSentEvent>, ended: Effect.Effect<void>) =>
  HttpServerResponse.stream(
    events.pipe(
      // Events that are available together are sent together.
      Stream.mapArray((together) => [together.map(textOf).join("")]),
      Stream.merge(
        Stream.map(Stream.tick(heartbeatEvery), () => heartbeat),
        { haltStrategy: "left" }
      ),
      Stream.interruptWhen(ended),
      Stream.encodeText
    ),
    { contentType: "text/event-stream", headers: { "x-accel-buffering": "no" } }
  )

const textOf = ({ data, event, id }: ServerSentEvent): string => Sse.encoder.write({ _tag: "Event", event, id, data })
