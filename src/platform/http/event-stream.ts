import { type Array as Arr, Context, Effect, Layer, Stream } from "effect"
import { Sse } from "effect/encoding"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { type RateLimited } from "../../kernel/authority/principal.ts"
import { makePlaces } from "./places.ts"

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
      Stream.mapArray(joined),
      // A client that is slow holds one piece, not all of them.
      Stream.rechunk(1),
      Stream.merge(
        Stream.map(Stream.tick(heartbeatEvery), () => heartbeat),
        { haltStrategy: "left" }
      ),
      Stream.interruptWhen(ended),
      Stream.encodeText
    ),
    { contentType: "text/event-stream", headers: { "x-accel-buffering": "no" } }
  )

const texts = new WeakMap<ServerSentEvent, string>()

/** The text of an event, which is the same for all clients that it is sent to. */
const textOf = (one: ServerSentEvent): string => {
  let text = texts.get(one)
  if (text === undefined) {
    const { data, event, id } = one
    texts.set(one, (text = Sse.encoder.write({ _tag: "Event", event, id, data })))
  }
  return text
}

const pieceLength = 16_384

/** Events that are available together are sent together, in pieces of about this length. */
const joined = (events: Arr.NonEmptyReadonlyArray<ServerSentEvent>): Arr.NonEmptyReadonlyArray<string> => {
  const pieces: Arr.NonEmptyArray<string> = [""]
  for (const event of events) {
    const text = textOf(event)
    const last = pieces.at(-1) ?? ""
    if (last === "" || last.length + text.length <= pieceLength) pieces[pieces.length - 1] = last + text
    else pieces.push(text)
  }
  return pieces
}

/** The continued authorization of streaming answers. */
export class LiveAuthorization extends Context.Service<
  LiveAuthorization,
  {
    /**
     * Answers an effect that completes when the current stream must end: its credential no longer has the same
     * rights (revoked, expired, its scopes changed, its tenant suspended), or the process shuts down.
     */
    revoked(request: HttpServerRequest.HttpServerRequest): Effect.Effect<Effect.Effect<void>>
  }
>()("app/platform/LiveAuthorization") {}

/** How many event streams may be open on a replica. */
export const maxStreams = { principal: 100, tenant: 500, replica: 2000 } as const

/** The open event streams of this replica, of every kind. */
export class OpenStreams extends Context.Service<
  OpenStreams,
  {
    /** Takes a place for a stream of the current principal, until the stream ends; 429 names the limit that is reached. */
    readonly claim: Effect.Effect<<A, E, R>(stream: Stream.Stream<A, E, R>) => Stream.Stream<A, E, R>, RateLimited>
  }
>()("app/platform/OpenStreams") {
  static readonly layer = Layer.effect(
    OpenStreams,
    Effect.map(makePlaces("streams", maxStreams), (claim) =>
      OpenStreams.of({ claim: Effect.map(claim, ({ hold }) => hold) })
    )
  )
}
