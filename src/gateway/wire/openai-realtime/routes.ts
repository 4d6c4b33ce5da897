import { Effect, Exit, Fiber, Layer, Scope } from "effect"
import { SecureRandom } from "effect/crypto"
import { Headers, type HttpServerRequest } from "effect/http"
import { isJson, type Json, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { type OpenedSocket } from "../../../platform/outbound/web-socket-client.ts"
import { asksForWebSocket } from "../../../platform/web-sockets/handshake.ts"
import { headersOfConnection, makeInnerRequests } from "../../../platform/web-sockets/inner-requests.ts"
import { type OpenSocket } from "../../../platform/web-sockets/open-sockets.ts"
import { GatewayAuthentication, keyInProtocols } from "../../authentication/gateway-authentication.ts"
import { type ModelTarget } from "../../configuration/gateway-snapshot.ts"
import { invalidMember, providerError } from "../../errors/gateway-error.ts"
import { openAiErrors } from "../../formats/openai-chat/errors.ts"
import { openAiRealtime } from "../../formats/openai-realtime/format.ts"
import { liveTranscriptions } from "../../formats/openai-transcriptions/live.ts"
import { CallPipeline } from "../../pipeline/call-pipeline.ts"
import { type ProviderFailure } from "../../providers/provider.ts"
import { bad, failure } from "../../providers/transport-failures.ts"
import { type Candidate } from "../../routing/resolve-model.ts"
import { makeCallReader, methodNotServed, responseOf, vendorRoute } from "../http/serve.ts"
import { makeSocketAcceptor, socketRefused } from "../http/web-sockets.ts"
import { Conversation, CurrentRealtimeRequest, path } from "./conversation.ts"
import { failureIn } from "./response-channel.ts"
import { respondsByItself, withoutResponses } from "./session-settings.ts"
import { transcriptionOf } from "./transcription-hold.ts"

/** How long a provider may take to begin a session. */
const patience = "10 seconds"

const broken = failure("broken-off", bad(502, "The provider ended the session.", "provider-unavailable"), false)
const late = failure("timeout", bad(504, "The provider did not begin a session in time.", "provider-timeout"), false)
const unfit = failure(
  "status",
  bad(502, "The provider makes responses that it was not asked for.", "unsupported-api"),
  false
)
const unserved = failure("status", bad(404, "The provider has no WebSockets.", "unsupported-api"), false)

/** A WebSocket of which the first events are read apart. */
const opening = (socket: OpenedSocket) => {
  let read: ReadonlyArray<Uint8Array | string> = []
  const next: Effect.Effect<Json, ProviderFailure> = Effect.suspend(() => {
    const [first, ...rest] = read
    if (first === undefined) {
      return Effect.flatMap(
        Effect.mapError(socket.pull, () => broken),
        (messages) => {
          read = messages
          return next
        }
      )
    }
    read = rest
    const event = parsedJson(typeof first === "string" ? first : utf8Text(first))
    return isJson(event) ? Effect.succeed(event) : next
  })
  const pull: OpenedSocket["pull"] = Effect.suspend(() => {
    const [first, ...rest] = read
    read = []
    return first === undefined ? socket.pull : Effect.succeed([first, ...rest])
  })
  const until = (type: string): Effect.Effect<Json, ProviderFailure> =>
    Effect.flatMap(next, (event) => {
      if (event.type === type) return Effect.succeed(event)
      return event.type === "error" ? Effect.fail(failureIn(event)) : until(type)
    })
  return { socket: { ...socket, pull }, until }
}

/** Opens a session in which the provider makes no response that it is not asked for. */
const sessionAt = Effect.fnUntraced(function* ({ target }: Candidate, newId: Effect.Effect<string>) {
  const { model, provider } = target
  if (provider.provider.open === undefined) return yield* unserved
  const { socket, until } = opening(yield* provider.provider.open(openAiRealtime, model))
  const created = yield* until("session.created")
  const given = isJson(created.session) ? created.session : {}
  const change = { type: "session.update", event_id: yield* newId, session: withoutResponses(given) }
  yield* Effect.mapError(socket.send(JSON.stringify(change)), () => broken)
  const { session } = yield* until("session.updated")
  if (!isJson(session) || respondsByItself(session)) return yield* unfit
  return { created, session, socket, responds: respondsByItself(given) }
})

/** The headers of each request of a session; a page has no other place for a key than the protocols of its WebSocket. */
const headersOfSession = (opening: Headers.Headers): Headers.Headers => {
  const headers = headersOfConnection(opening)
  const key = keyInProtocols(opening)
  return key === undefined ? headers : Headers.set(headers, "x-api-key", key)
}

const noModel = invalidMember("model", "model: Expected the name of a model in the query: /v1/realtime?model=…")
const noUpgrade = socketRefused("The Realtime API is a WebSocket: send Connection: Upgrade and Upgrade: websocket.")
const noCalls = invalidMember("call_id", "call_id: The gateway has no calls by WebRTC or SIP")
const capabilities = ["llm:complete"] as const

/** Ids of a session mean nothing outside of it. */
const asTheyAre = () => (id: string) => id

/** OpenAI's Realtime API on a WebSocket: each response of a session is a request of its own, but for its connection. */
export const OpenAiRealtimeLayer = Layer.unwrap(
  Effect.gen(function* () {
    const { authenticated } = yield* GatewayAuthentication
    const { accept, refusal } = yield* makeSocketAcceptor
    const innerRequests = yield* makeInnerRequests
    const pipeline = yield* CallPipeline
    const readCall = yield* makeCallReader
    const newId = Effect.map((yield* SecureRandom.SecureRandom).uuidV7(), (id) => `event_${id.replaceAll("-", "")}`)
    const scope = yield* Effect.scope

    /** The session of the first candidate that opens one, within the scope. */
    const openAny = Effect.fnUntraced(function* (candidates: ReadonlyArray<Candidate>, within: Scope.Scope) {
      let last: { readonly failure: ProviderFailure; readonly provider: string } | undefined
      for (const candidate of candidates) {
        const own = yield* Scope.fork(within)
        const opened = yield* sessionAt(candidate, newId).pipe(
          Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail(late) }),
          Scope.provide(own),
          Effect.result
        )
        if (opened._tag === "Success") return { ...opened.success, candidate }
        yield* Scope.close(own, Exit.void)
        last = { failure: opened.failure, provider: candidate.target.provider.id }
      }
      return yield* last === undefined ? noModel : providerError(last.failure, last.provider)
    })

    const open = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, requestId: string) {
      const refused = refusal(request)
      if (refused !== undefined) return yield* refused
      const asked = new URL(request.url, "http://localhost").searchParams
      if (asked.has("call_id")) return yield* noCalls
      const model = asked.get("model") ?? ""
      if (model === "") return yield* noModel
      const body = { model, session: {}, response: {} }
      const given = { body, bytes: Buffer.from(JSON.stringify(body)) }
      const call = yield* readCall(openAiRealtime, { path, streams: true, given }, request, requestId, openAiErrors)
      const candidates = yield* pipeline.candidates(call)
      const within = yield* Scope.fork(scope)
      const close = Scope.close(within, Exit.void)
      const begun = Effect.gen(function* () {
        const { candidate, created, responds, session, socket: upstream } = yield* openAny(candidates, within)
        const inner = yield* innerRequests
        const headers = headersOfSession(request.headers)
        const { id } = candidate.target.provider
        const served = (asked: string, served: string) =>
          Effect.flatMap(
            pipeline.candidates({
              ...call,
              format: liveTranscriptions,
              model: served,
              ...transcriptionOf(served, 1),
              isLeftOut: ({ provider }) => provider.id !== id
            }),
            ([first]) =>
              first === undefined ? Effect.fail(noModel) : Effect.succeed({ asked, served, model: first.target.model })
          )
        // Clients know the provider's own names.
        const transcriber = (name: string) =>
          Effect.catchIf(
            served(name, name),
            ({ problem }) => problem._tag === "ModelNotFound",
            () => served(name, `${id}/${name}`)
          )
        const own = { upstream, candidate, model, transcriber, session, responds, created, newId }
        return (socket: OpenSocket) => {
          const conversation = new Conversation(own, inner, headers, socket)
          return Effect.flatMap(Effect.forkIn(conversation.serveProvider, scope), (listening) => {
            // Closing neither ends what waits for the provider, nor what waits for a client that has left.
            const end = Effect.andThen(close, Fiber.interrupt(listening))
            // It goes on after its session, which may be ended from outside.
            return Effect.ensuring(
              conversation.serveClient,
              Effect.forkIn(Effect.ensuring(conversation.leave, end), scope)
            )
          })
        }
      })
      return yield* Effect.onError(accept(request, begun), () => close)
    })

    /** The request that a response of a session is. */
    const respond = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, requestId: string) {
      const current = yield* CurrentRealtimeRequest
      if (current === undefined) return yield* methodNotServed("POST", "GET")
      const { format, given, model, provider, streams, via } = current
      const call = yield* readCall(format, { path, streams, given }, request, requestId, openAiErrors)
      const isLeftOut = (target: ModelTarget) =>
        target.provider.id !== provider || (model !== undefined && target.model !== model)
      return responseOf(yield* pipeline.call({ ...call, via, isLeftOut, idsFor: asTheyAre }), requestId)
    })

    return Layer.mergeAll(
      vendorRoute(
        "GET",
        path,
        () => openAiErrors,
        (request, requestId) =>
          request.method === "GET" && asksForWebSocket(request)
            ? authenticated(request, { capabilities, limitedBy: "rate" }, open(request, requestId))
            : Effect.fail(noUpgrade)
      ),
      vendorRoute(
        "POST",
        path,
        () => openAiErrors,
        (request, requestId) => authenticated(request, { capabilities, limitedBy: "caps" }, respond(request, requestId))
      )
    )
  })
)
