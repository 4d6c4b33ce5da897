import { Cause, Context, Deferred, Effect, Fiber, Stream } from "effect"
import { type Headers, type HttpServerResponse } from "effect/http"
import { type Socket } from "effect/socket"
import { isJson, type Json, listIn, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { type OpenedSocket } from "../../../platform/outbound/web-socket-client.ts"
import { abandon, bytesIn, type InnerRequests } from "../../../platform/web-sockets/inner-requests.ts"
import { closeCodes, type OpenSocket } from "../../../platform/web-sockets/open-sockets.ts"
import { GatewayError, type GatewayProblem, invalidMember } from "../../errors/gateway-error.ts"
import { EventReader } from "../../formats/event-reader.ts"
import { type GivenBody, type WireFormat } from "../../formats/format.ts"
import { openAiRealtime } from "../../formats/openai-realtime/format.ts"
import { liveTranscriptions } from "../../formats/openai-transcriptions/live.ts"
import { type Sender } from "../../providers/provider.ts"
import { type Candidate } from "../../routing/resolve-model.ts"
import { type ClientEvent, readClientEvent } from "./client-events.ts"
import { failureIn, ResponseChannel } from "./response-channel.ts"
import {
  changeOf,
  madeWith,
  type SessionChange,
  shownSession,
  spokenBytes,
  withTranscriber
} from "./session-settings.ts"
import { TranscriptionHold } from "./transcription-hold.ts"

/** A request that a session makes: for a response, or for transcriptions. */
export interface RealtimeRequest {
  readonly format: WireFormat
  readonly given: GivenBody
  readonly streams: boolean
  /** The connection that it goes out on. */
  readonly via: Sender
  /** The provider of the session, and its model where no other one goes on with it. */
  readonly provider: string
  readonly model: string | undefined
}

/** What the current request is of a session; undefined for one by HTTP. */
export const CurrentRealtimeRequest = Context.Reference<RealtimeRequest | undefined>(
  "app/gateway/CurrentRealtimeRequest",
  { defaultValue: () => undefined }
)

export const path = "/v1/realtime"

/** A session that a provider has opened, and that makes no response by itself. */
export interface ProviderSession {
  readonly upstream: OpenedSocket
  readonly candidate: Candidate
  /** The name that the client has for the model. */
  readonly model: string
  /** The model that is to transcribe what is said, by a name that a client has for it. */
  readonly transcriber: (name: string) => Effect.Effect<Transcriber, GatewayError>
  /** The session as its provider described it last. */
  readonly session: Json
  /** Whether responses are to be made where the provider finds that a turn has ended. */
  readonly responds: boolean
  /** The event with which the provider began. */
  readonly created: Json
  readonly newId: Effect.Effect<string>
}

/** A model that transcribes what is said: as the client, this service and the provider call it. */
export interface Transcriber {
  readonly asked: string
  readonly served: string
  readonly model: string
}

/** A change that the provider has not confirmed yet. */
interface Changing {
  /** Null where nothing is to be transcribed any more; undefined where that stays as it is. */
  readonly transcriber: Transcriber | null | undefined
  readonly change: SessionChange
  readonly clientId: string | undefined
  readonly eventId: string
  readonly over: Deferred.Deferred<void>
}

/** A response in the making. */
interface Running {
  readonly channel: ResponseChannel
  readonly fiber: Fiber.Fiber<unknown, unknown>
}

/** The request for a response, and the id that its client gave it; undefined where the provider found the end of a turn. */
interface Asked {
  readonly response: Json
  readonly clientId?: string | undefined
}

const isActive = invalidMember(
  "type",
  "type: A response is in progress; wait for response.done, or cancel it",
  "conversation_already_has_active_response"
)

/** How long a response is waited for that its client left: its last event has the usage. */
const lastEventsPatience = "5 seconds"

/** How long a provider may take to change a session. */
const confirmationPatience = "10 seconds"

/** The code of RFC 6455 §7.4.1 for what went wrong here, or behind this. */
const goneWrong = 1011

/** A client of the Realtime API, and its provider: events pass, and each response is a request of its own. */
export class Conversation {
  private session: Json
  private responds: boolean
  private changing: Changing | undefined
  private running: Running | undefined
  /** Whether a turn has ended of which a response is still to be made. */
  private hasTurn = false
  private hasLeft = false
  /** About how many tokens of the conversation a response reads, for one of which no usage is reported. */
  private tokens = 0
  private transcriber: Transcriber | undefined
  private readonly transcriptions: TranscriptionHold
  /** The items of turns whose end the provider has found. */
  private readonly turns = new Set<unknown>()
  private readonly given: ProviderSession
  private readonly inner: InnerRequests
  private readonly headers: Headers.Headers
  private readonly socket: OpenSocket

  constructor(given: ProviderSession, inner: InnerRequests, headers: Headers.Headers, socket: OpenSocket) {
    this.given = given
    this.session = given.session
    this.responds = given.responds
    this.inner = inner
    this.headers = headers
    this.socket = socket
    this.transcriptions = new TranscriptionHold((body, via, held) =>
      this.request(
        {
          format: liveTranscriptions,
          given: body,
          streams: false,
          via,
          provider: given.candidate.target.provider.id,
          model: undefined
        },
        (answer) => this.notTranscribed(answer, held)
      )
    )
  }

  private request(
    request: RealtimeRequest,
    respond: (answer: HttpServerResponse.HttpServerResponse) => Effect.Effect<void>
  ): Fiber.Fiber<unknown, unknown> {
    const context = Context.make(CurrentRealtimeRequest, request)
    return this.inner.serve({ method: "POST", path, headers: this.headers, body: emptyBody, context }, respond)
  }

  /** Reads what the client sends, until it leaves. */
  readonly serveClient: Effect.Effect<void, Socket.SocketError> = Effect.suspend(() =>
    this.socket.send(JSON.stringify(this.shown(this.given.created)))
  ).pipe(
    Effect.andThen(
      Effect.suspend(() => this.socket.pull).pipe(
        Effect.flatMap((messages) => Effect.forEach(messages, (message) => this.take(message), { discard: true })),
        Effect.forever
      )
    ),
    // What is sent to a client that has left would wait.
    Effect.ensuring(Effect.sync(() => (this.hasLeft = true)))
  )

  /** Reads what the provider sends, until it ends the session. */
  readonly serveProvider: Effect.Effect<void> = Effect.suspend(() => this.given.upstream.pull).pipe(
    Effect.flatMap((messages) => Effect.forEach(messages, (message) => this.hear(message), { discard: true })),
    Effect.forever,
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause) ? Effect.failCause(cause as Cause.Cause<never>) : this.providerLeft(cause)
    )
  )

  /** Ends what a client left: its provider gives a response up, and says what it and the transcriptions have used. */
  readonly leave: Effect.Effect<void> = Effect.suspend(() => {
    this.hasTurn = false
    const { running, transcriptions } = this
    const work = running === undefined ? transcriptions.fibers : [running.fiber, ...transcriptions.fibers]
    return this.cancel(running?.channel.responseId).pipe(
      Effect.andThen(transcriptions.leave),
      Effect.andThen(Effect.timeoutOption(Effect.forEach(work, Fiber.await), lastEventsPatience)),
      Effect.andThen(transcriptions.end),
      Effect.andThen(Effect.sync(() => (running === undefined ? undefined : abandon(running.fiber))))
    )
  })

  private take(message: Uint8Array | string): Effect.Effect<void, Socket.SocketError> {
    if (typeof message !== "string") return this.socket.end(closeCodes.noText, "Send texts, each a JSON object.")
    const event = readClientEvent(message)
    switch (event.kind) {
      case "fault":
        return this.tell(event.fault, event.eventId)
      case "passed":
        return Effect.ignore(this.given.upstream.send(event.text))
      case "commit":
        return this.commit(event)
      case "audio":
        return this.say(event)
      case "session":
        return this.change(event)
      case "response":
        return this.running === undefined && !this.hasTurn
          ? this.begin({ response: event.response, clientId: event.eventId })
          : this.tell(isActive, event.eventId)
    }
  }

  /** Sends on what is said, once the cost of its transcription is held. */
  private say({ bytes, text }: Extract<ClientEvent, { readonly kind: "audio" }>): Effect.Effect<void> {
    return Effect.flatMap(
      this.transcriptions.reserve(this.transcriber?.served, bytes, spokenBytes(this.session)),
      (isHeld) => (isHeld ? Effect.ignore(this.given.upstream.send(text)) : this.endUnheld)
    )
  }

  private get endUnheld(): Effect.Effect<void> {
    return this.socket.end(closeCodes.refused, "The transcription has no budget.")
  }

  /** Has what was said become an item, once the cost of its transcription is held: that may have been long ago. */
  private commit({ text }: Extract<ClientEvent, { readonly kind: "commit" }>): Effect.Effect<void> {
    return Effect.flatMap(this.transcriptions.renew(this.transcriber?.served, spokenBytes(this.session)), (isHeld) =>
      isHeld ? Effect.ignore(this.given.upstream.send(text)) : this.endUnheld
    )
  }

  /** Why what is said may not be transcribed, where it is not held. */
  private notTranscribed(
    answer: HttpServerResponse.HttpServerResponse,
    held: Deferred.Deferred<boolean>
  ): Effect.Effect<void> {
    if (answer.status < 400) return Stream.runDrain(bytesIn(answer))
    if (Deferred.isDoneUnsafe(held)) return Effect.void
    return errorOf(answer).pipe(
      Effect.flatMap((error) => Effect.ignore(this.sendError(error, undefined))),
      Effect.andThen(Deferred.succeed(held, false)),
      Effect.asVoid
    )
  }

  /** Changes the session; nothing else is asked of the provider until it has confirmed that. */
  private change(event: Extract<ClientEvent, { readonly kind: "session" }>): Effect.Effect<void, Socket.SocketError> {
    const change = changeOf(event.session, this.given.model)
    if (change instanceof GatewayError) return this.tell(change, event.eventId)
    const { transcriber: name } = change
    const named = typeof name === "string" ? this.given.transcriber(name) : Effect.succeed(name)
    return Effect.matchEffect(Effect.zip(named, this.given.newId), {
      onFailure: (unknown) => this.tell(unknown, event.eventId),
      onSuccess: ([transcriber, eventId]) => {
        const over = Deferred.makeUnsafe<void>()
        this.changing = { change, transcriber, clientId: event.eventId, eventId, over }
        const session = withTranscriber(change.session, transcriber?.model)
        const sent = this.given.upstream.send(JSON.stringify({ type: "session.update", event_id: eventId, session }))
        const confirmed = Effect.timeoutOrElse(Deferred.await(over), {
          duration: confirmationPatience,
          orElse: () => this.socket.end(goneWrong, "The provider does not confirm a change of the session.")
        })
        // What was said before may be transcribed by this model.
        return Effect.flatMap(this.transcriptions.renew(transcriber?.served, spokenBytes(this.session)), (isHeld) =>
          isHeld ? this.asked.pipe(Effect.andThen(Effect.ignore(sent)), Effect.andThen(confirmed)) : this.endUnheld
        )
      }
    })
  }

  /** Waits until a response that is held for was asked for: the session is still what its cost was bounded by. */
  private get asked(): Effect.Effect<unknown> {
    const { running } = this
    return running === undefined ? Effect.void : Effect.raceFirst(running.channel.answered, Fiber.await(running.fiber))
  }

  private changed(changing: Changing): Effect.Effect<unknown> {
    this.changing = undefined
    return Effect.andThen(Deferred.succeed(changing.over, undefined), this.next)
  }

  /** Makes the response to a turn, unless another one is in progress, or a change that its cost depends on. */
  private get next(): Effect.Effect<void> {
    if (!this.hasTurn || this.hasLeft || this.running !== undefined || this.changing !== undefined) return Effect.void
    this.hasTurn = false
    return this.begin({ response: {} })
  }

  /** Has the provider give a response up, if it makes one. */
  private cancel(responseId: string | undefined): Effect.Effect<void> {
    return responseId === undefined
      ? Effect.void
      : Effect.ignore(this.given.upstream.send(JSON.stringify({ type: "response.cancel", response_id: responseId })))
  }

  /** Makes a response by a request of its own, which may be refused. */
  private begin({ clientId, response }: Asked, madeAlready?: string): Effect.Effect<void> {
    const { given } = this
    return Effect.map(given.newId, (eventId) => {
      const channel = new ResponseChannel(given.upstream, eventId, madeAlready)
      const body = { model: given.model, session: madeWith(this.session), response, reads: this.tokens }
      const { model, provider } = given.candidate.target
      const bytes = Buffer.from(JSON.stringify(body))
      const fiber = this.request(
        { format: openAiRealtime, given: { body, bytes }, streams: true, via: channel, provider: provider.id, model },
        (answer) => this.answer(answer, channel, clientId)
      )
      this.running = { channel, fiber }
      this.socket.keepFor(fiber)
      fiber.addObserver(() => {
        this.running = undefined
        channel.close()
      })
    })
  }

  private answer(
    answer: HttpServerResponse.HttpServerResponse,
    channel: ResponseChannel,
    clientId: string | undefined
  ): Effect.Effect<void> {
    const sent = answer.status >= 400 ? this.refused(answer, channel, clientId) : this.sendEvents(answer)
    return Effect.catchCause(sent, (cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.failCause(cause as Cause.Cause<never>)
        : Effect.logDebug("A response could not be sent on its WebSocket", cause)
    )
  }

  private refused(
    answer: HttpServerResponse.HttpServerResponse,
    { responseId }: ResponseChannel,
    clientId: string | undefined
  ): Effect.Effect<void, Socket.SocketError> {
    const isMadeAlready = responseId !== undefined
    // It would be refused as well.
    this.hasTurn = false
    return errorOf(answer).pipe(
      Effect.flatMap((error) => this.sendError(error, clientId)),
      Effect.andThen(this.cancel(responseId)),
      Effect.andThen(
        answer.status === 401 || isMadeAlready
          ? this.socket.end(
              closeCodes.refused,
              isMadeAlready ? "A response has no budget." : "The credential is no longer accepted."
            )
          : Effect.void
      )
    )
  }

  private sendEvents(answer: HttpServerResponse.HttpServerResponse): Effect.Effect<void, Socket.SocketError> {
    const reader = new EventReader()
    return bytesIn(answer).pipe(
      Stream.runForEach((bytes) =>
        Effect.forEach(
          reader.push(bytes),
          ({ data }) => {
            const value = parsedJson(data)
            // An error that the gateway writes into a stream has no type.
            return isJson(value) && value.type === undefined && isJson(value.error)
              ? this.sendError(value.error, undefined)
              : this.send(data)
          },
          { discard: true }
        )
      )
    )
  }

  /** A message of the provider; the next one is read when this one is on its way. */
  private hear(message: Uint8Array | string): Effect.Effect<void> {
    const event = parsedJson(typeof message === "string" ? message : utf8Text(message))
    return isJson(event) ? Effect.ignore(this.heard(event)) : Effect.void
  }

  private heard(event: Json): Effect.Effect<unknown, Socket.SocketError> {
    const { running } = this
    switch (event.type) {
      // What the gateway's account has left is none of a tenant's.
      case "rate_limits.updated":
        return Effect.void
      case "session.updated":
        return this.updated(event)
      case "error":
        return this.failed(event)
      case "response.created": {
        const { id } = isJson(event.response) ? event.response : {}
        if (typeof id !== "string") return this.pass(event)
        if (running !== undefined) {
          const { channel } = running
          const begun = channel.responseId === undefined ? channel.begin(id) : Effect.void
          // Its client has left since it was asked for.
          const given = this.hasLeft ? this.cancel(id) : Effect.void
          return begun.pipe(Effect.andThen(given), Effect.andThen(this.pass(event)))
        }
        // Its provider makes a response that it was not asked for: it is charged all the same.
        return Effect.andThen(
          this.begin({ response: {} }, id),
          Effect.suspend(() => this.pass(event))
        )
      }
      case "conversation.item.added":
        this.tokens += Math.ceil(textBytesIn(event.item) / bytesPerToken)
        return this.pass(event)
      case "response.done":
        return this.done(event)
      case "input_audio_buffer.speech_stopped":
      case "input_audio_buffer.timeout_triggered":
        this.turns.add(event.item_id)
        return this.pass(event)
      case "input_audio_buffer.committed": {
        const isTurn = this.turns.delete(event.item_id) && this.responds
        this.transcriptions.committed(event.item_id, this.transcriber?.served)
        return Effect.andThen(this.pass(event), isTurn ? this.turnEnded : Effect.void)
      }
      case "input_audio_buffer.cleared":
        this.transcriptions.cleared()
        return this.pass(event)
      case "conversation.item.input_audio_transcription.completed":
      case "conversation.item.input_audio_transcription.failed": {
        const used = event.type.endsWith(".failed") ? undefined : isJson(event.usage) ? event.usage : null
        return Effect.andThen(
          this.pass(event),
          this.transcriptions.reported(event.item_id, used, spokenBytes(this.session))
        )
      }
      default:
        return this.pass(event)
    }
  }

  /** A turn of the user has ended, of which a response is to be made after what is in progress. */
  private get turnEnded(): Effect.Effect<void> {
    this.hasTurn = true
    return this.next
  }

  private updated(event: Json): Effect.Effect<unknown, Socket.SocketError> {
    const { changing } = this
    if (isJson(event.session)) this.session = event.session
    if (changing === undefined) return this.pass(this.shown(event))
    this.responds = changing.change.responds ?? this.responds
    if (changing.transcriber !== undefined) this.transcriber = changing.transcriber ?? undefined
    return Effect.andThen(this.pass(this.shown(event)), this.changed(changing))
  }

  private failed(event: Json): Effect.Effect<unknown, Socket.SocketError> {
    const { changing, running } = this
    const error = isJson(event.error) ? event.error : {}
    const { event_id: of } = error
    if (of !== undefined && of === changing?.eventId) {
      return Effect.andThen(
        this.pass({ ...event, error: { ...error, event_id: changing.clientId ?? null } }),
        this.changed(changing)
      )
    }
    const isOfResponse = of !== undefined && of === running?.channel.eventId
    if (isOfResponse && running.channel.responseId === undefined) return running.channel.refuse(event)
    // What the provider says of the gateway's account would have the client look for a cap of its own.
    const refused = failureIn(event)
    const { code, message } = refused.error
    const shown = { type: "server_error", code, message, param: null, event_id: of ?? null }
    return this.pass(refused.isOwn ? { ...event, error: shown } : event)
  }

  private done(event: Json): Effect.Effect<unknown, Socket.SocketError> {
    const { running } = this
    const { id, usage } = isJson(event.response) ? event.response : {}
    // That of another response would end the one in progress, with a usage that is not its own.
    if (running === undefined || running.channel.responseId !== id) return this.send(JSON.stringify(event))
    const used = openAiRealtime.usageIn({ usage })
    if (used !== undefined) this.tokens = used.inputTokens + used.outputTokens
    // What follows is sent after the response, which is charged first.
    return running.channel
      .push(event)
      .pipe(
        Effect.andThen(running.channel.end),
        Effect.andThen(Fiber.await(running.fiber)),
        Effect.andThen(Effect.suspend(() => this.next))
      )
  }

  private providerLeft(cause: Cause.Cause<Socket.SocketError>): Effect.Effect<void> {
    const { changing, running } = this
    const log = Cause.hasDies(cause) ? Effect.logError : Effect.logDebug
    return log("A provider has ended a realtime session", cause).pipe(
      Effect.andThen(changing === undefined ? Effect.void : this.changed(changing)),
      Effect.andThen(this.transcriptions.end),
      Effect.andThen(running === undefined ? Effect.void : running.channel.breakOff),
      Effect.andThen(running === undefined ? Effect.void : Fiber.await(running.fiber)),
      Effect.andThen(this.socket.end(goneWrong, "The provider has ended the session."))
    )
  }

  /** An event of the provider: in the stream of the response in progress, so that the order stays what it was. */
  private pass(event: Json): Effect.Effect<unknown, Socket.SocketError> {
    const { running } = this
    // Of a response whose client has left, its end alone is read.
    if (this.hasLeft) return Effect.void
    return running?.channel.isOpen === true ? running.channel.push(event) : this.send(JSON.stringify(event))
  }

  private shown(event: Json): Json {
    const { given, responds } = this
    return isJson(event.session)
      ? {
          ...event,
          session: withTranscriber(shownSession(event.session, given.model, responds), this.transcriber?.asked)
        }
      : event
  }

  private tell(
    { error }: GatewayError<GatewayProblem>,
    clientId: string | undefined
  ): Effect.Effect<void, Socket.SocketError> {
    const { code, message, param = null } = error
    return this.sendError({ type: "invalid_request_error", code, message, param }, clientId)
  }

  /** An error as clients of the Realtime API read it, with the event of the client that it is about. */
  private sendError(error: Json, clientId: string | undefined): Effect.Effect<void, Socket.SocketError> {
    return Effect.flatMap(this.given.newId, (id) =>
      this.send(JSON.stringify({ type: "error", event_id: id, error: { ...error, event_id: clientId ?? null } }))
    )
  }

  private send(text: string): Effect.Effect<void, Socket.SocketError> {
    return this.hasLeft ? Effect.void : this.socket.send(text)
  }
}

const bytesPerToken = 4

/** The bytes of the texts of an item. */
const textBytesIn = (item: unknown): number =>
  listIn(isJson(item) ? item.content : undefined).reduce(
    (sum: number, part) => sum + (isJson(part) && typeof part.text === "string" ? Buffer.byteLength(part.text) : 0),
    0
  )

const emptyBody = Buffer.from("{}")

/** The error of an answer that is one. */
const errorOf = (answer: HttpServerResponse.HttpServerResponse): Effect.Effect<Json> =>
  Effect.map(Stream.runCollect(bytesIn(answer)), (pieces) => {
    const body = parsedJson(utf8Text(Buffer.concat(pieces)))
    return isJson(body) && isJson(body.error) ? body.error : { message: "The request failed.", code: null }
  })
