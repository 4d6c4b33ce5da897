import { Cause, Clock, Deferred, Effect, Queue } from "effect"
import { type Json } from "../../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { type OpenedSocket } from "../../../platform/outbound/web-socket-client.ts"
import { readErrorIn } from "../../formats/errors.ts"
import { refusalOfAccount, statusOf } from "../../providers/http-provider.ts"
import { type Bytes, type ProviderAnswer, type ProviderFailure, type Sender } from "../../providers/provider.ts"
import { bad, failure } from "../../providers/transport-failures.ts"

/** Events that wait for a slow client, before the provider waits too. */
const maxWaitingEvents = 64

const utf8 = new TextEncoder()
const eventStream = { "content-type": "text/event-stream" }

const ended = failure("broken-off", bad(502, "The provider ended the session.", "provider-unavailable"), true)
const late = failure("timeout", bad(504, "The provider did not answer in time.", "provider-timeout"), true)

/** The error that an event of a provider is. */
export const failureIn = (event: Json): ProviderFailure => {
  const received = statusOf(event.error)
  const error = readErrorIn("openai", received, event)
  return failure("status", refusalOfAccount(error, received) ?? error, false, { received })
}

/** The events of a provider's WebSocket while one response is made on it, as a stream that answers the request for it. */
export class ResponseChannel implements Sender {
  /** The id of the event that asks for the response. */
  readonly eventId: string
  /** Whether the request has left, so that events belong to its answer. */
  isOpen: boolean
  /** The response, once it is known. */
  responseId: string | undefined
  private readonly upstream: OpenedSocket
  private hasEnded = false
  /** When the response must have ended, in milliseconds since 1970. */
  private deadline = Infinity
  private readonly events: Queue.Queue<Uint8Array, ProviderFailure | Cause.Done>
  /** Whether the provider makes the response that it was asked for last. */
  private begun: Deferred.Deferred<void, ProviderFailure>
  private readonly made = Deferred.makeUnsafe<void>()

  /** `responseId`: of a response that its provider made without being asked. */
  constructor(upstream: OpenedSocket, eventId: string, responseId?: string) {
    this.upstream = upstream
    this.eventId = eventId
    this.responseId = responseId
    this.isOpen = responseId !== undefined
    this.events = Effect.runSync(Queue.bounded(maxWaitingEvents))
    this.begun = Deferred.makeUnsafe()
  }

  /** Asks for the response; answers once the provider makes it. */
  readonly send: Sender["send"] = ({ body, deadline = Infinity }) => {
    this.deadline = deadline
    const asked = Effect.suspend(() => {
      if (this.responseId !== undefined) return Effect.void
      this.isOpen = true
      const text = typeof body === "string" ? body : utf8Text(body)
      const event = `{"event_id":${JSON.stringify(this.eventId)},${text.slice(1)}`
      return Effect.andThen(
        Effect.mapError(this.upstream.send(event), () => ended),
        this.inTime(Deferred.await(this.begun))
      )
    })
    return asked.pipe(
      Effect.andThen(this.next),
      Effect.catchIf(Cause.isDone, () => Effect.fail(ended)),
      Effect.map((first): ProviderAnswer => ({
        status: 200,
        headers: eventStream,
        body: { first, rest: this.next }
      })),
      Effect.tap(() => Effect.addFinalizer(() => this.giveUp))
    )
  }

  /** An event of the provider, in the order in which they come; waits while the client is slow. */
  push(event: Json): Effect.Effect<unknown> {
    return Queue.offer(this.events, utf8.encode(`data: ${JSON.stringify(event)}\n\n`))
  }

  /** The provider makes the response, whether it was asked or not. */
  begin(responseId: string): Effect.Effect<unknown> {
    this.responseId = responseId
    this.isOpen = true
    return Effect.andThen(Deferred.succeed(this.begun, undefined), Deferred.succeed(this.made, undefined))
  }

  /** The provider refuses to make the response, with an event of its own. */
  refuse(event: Json): Effect.Effect<unknown> {
    this.isOpen = false
    const { begun } = this
    // It may be asked again.
    this.begun = Deferred.makeUnsafe()
    return Deferred.fail(begun, failureIn(event))
  }

  /** Nothing more comes of the response. */
  get end(): Effect.Effect<unknown> {
    this.hasEnded = true
    return Queue.end(this.events)
  }

  /** Has the provider end a response that is read no longer, as where it takes longer than a call may. */
  private get giveUp(): Effect.Effect<void> {
    this.close()
    if (this.hasEnded || this.responseId === undefined) return Effect.void
    const cancel = { type: "response.cancel", response_id: this.responseId }
    return Effect.ignore(this.upstream.send(JSON.stringify(cancel)))
  }

  /** The provider has ended the session. */
  get breakOff(): Effect.Effect<unknown> {
    return Effect.andThen(Queue.fail(this.events, ended), Deferred.fail(this.begun, ended))
  }

  /** Events are taken no longer. */
  close(): void {
    this.isOpen = false
    Queue.shutdownUnsafe(this.events)
  }

  /** Done once the provider makes the response. */
  get answered(): Effect.Effect<void> {
    return Deferred.await(this.made)
  }

  private get next(): Bytes {
    return this.inTime(Queue.takeAll(this.events))
  }

  private inTime<A, E>(waiting: Effect.Effect<A, E>): Effect.Effect<A, E | ProviderFailure> {
    return Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.timeoutOrElse(waiting, { duration: Math.max(0, this.deadline - now), orElse: () => Effect.fail(late) })
    )
  }
}
