import { Clock, Context, Effect, Layer, Option, Result, Schema, type Scope, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpServerResponse } from "effect/http"
import { type TenantId } from "../../../kernel/identifier.ts"
import { CurrentPrincipal } from "../../../kernel/principal.ts"
import { Conversations } from "../../conversations/service.ts"
import {
  type GatewayError,
  type GatewayProblem,
  invalidMember,
  invalidMembers,
  unreadableAnswer
} from "../../errors/gateway-error.ts"
import { CallPipeline } from "../../pipeline/call-pipeline.ts"
import { type Call } from "../../pipeline/call-request.ts"
import { type CallAnswer } from "../../pipeline/response-relay.ts"
import { noUsage, type TokenUsage } from "../../translation/domain.ts"
import { errorInEvent } from "../../translation/errors.ts"
import { comment, EventReader, isComment } from "../../translation/event-reader.ts"
import { ChatChunk, ChatCompletion } from "../../translation/openai-chat/domain.ts"
import { usageOfCompletion } from "../../translation/openai-chat/usage.ts"
import { type ResponseHead } from "../../translation/openai-responses/answers.ts"
import { ChunksToResponse, type ResponseEvent } from "../../translation/openai-responses/chunks-to-events.ts"
import { type ResponseItem, ResponsesRequest } from "../../translation/openai-responses/domain.ts"
import { responsesToChat } from "../../translation/openai-responses/to-chat.ts"
import { parsedJson } from "../../../kernel/parsed-json.ts"
import { faultsOf } from "../../../platform/http/validation.ts"

const decodeRequest = Schema.decodeUnknownEffect(ResponsesRequest, { errors: "all" })
const decodeCompletion = Schema.decodeUnknownOption(Schema.fromJsonString(ChatCompletion))
const decodeChunk = Schema.decodeUnknownOption(ChatChunk)

const utf8 = new TextEncoder()

/** A request as it arrived, and who is charged for it. */
export type IncomingResponse = Omit<Call, "dialect" | "operation">

/** A request whose conversation is complete. */
interface Prepared {
  readonly call: Call
  readonly head: ResponseHead
  /** The items of this turn, to be stored with the response; undefined where it is not stored. */
  readonly kept: ReadonlyArray<ResponseItem> | undefined
  readonly tenantId: TenantId
  readonly createdBy: string
}

type Failure = GatewayError<GatewayProblem>

const withoutForm = ({ background, conversation, prompt }: ResponsesRequest): Failure | undefined => {
  if (background === true) {
    return invalidMember("background", "background: The gateway answers while the caller waits; send background: false")
  }
  if ((conversation ?? null) !== null) {
    return invalidMember(
      "conversation",
      "conversation: The gateway stores no conversations by id; send previous_response_id, or all items"
    )
  }
  return (prompt ?? null) === null
    ? undefined
    : invalidMember("prompt", "prompt: The gateway has no prompt templates; send instructions and input")
}

const make = Effect.gen(function* () {
  const conversations = yield* Conversations
  const pipeline = yield* CallPipeline
  const newId = (yield* SecureRandom.SecureRandom).uuidV7()

  const itemsOf = Effect.fnUntraced(function* (tenantId: TenantId, { input, previous_response_id }: ResponsesRequest) {
    const given: ReadonlyArray<ResponseItem> =
      typeof input === "string" ? [{ type: "message", role: "user", content: input }] : (input ?? [])
    const own: Array<ResponseItem> = []
    for (const item of given) {
      own.push(item.type === "item_reference" ? yield* conversations.item(tenantId, item.id ?? "") : item)
    }
    const before =
      typeof previous_response_id === "string" ? yield* conversations.until(tenantId, previous_response_id) : []
    if (own.length + before.length === 0)
      return yield* invalidMember("input", "input: Expected text, or a list of items")
    return { own, all: [...before, ...own] }
  })

  const prepare = Effect.fnUntraced(function* (incoming: IncomingResponse): Effect.fn.Return<Prepared, Failure> {
    const request = yield* Effect.mapError(decodeRequest(incoming.body), (error) =>
      invalidMembers(faultsOf("body", error).map(({ message, path }) => ({ message, path: path.slice(1) })))
    )
    const impossible = withoutForm(request)
    if (impossible !== undefined) return yield* impossible
    const { tenantId } = incoming.caller.subject
    const { all, own } = yield* itemsOf(tenantId, request)
    const translated = responsesToChat(request, all)
    if (Result.isFailure(translated)) return yield* invalidMembers(translated.failure)
    const { body, hasMessages, tools } = translated.success
    if (!hasMessages) return yield* invalidMember("input", "input: Expected an item that the model can answer")
    const hex = (yield* newId).replaceAll("-", "")
    return {
      call: { ...incoming, dialect: "openai", operation: "chat", body, bytes: utf8.encode(JSON.stringify(body)) },
      head: {
        id: `resp_${hex}`,
        createdSeconds: 0,
        request,
        tools,
        itemId: (prefix, place) => `${prefix}_${hex}_${place}`
      },
      kept: request.store !== false && conversations.storeResponses ? own : undefined,
      tenantId,
      createdBy: (yield* CurrentPrincipal).name
    }
  })

  const keep = ({ createdBy, head, kept, tenantId }: Prepared, response: Readonly<Record<string, unknown>>) =>
    kept === undefined
      ? Effect.void
      : conversations
          .keep({ createdBy, tenantId }, head.id, head.request.previous_response_id ?? null, { input: kept, response })
          .pipe(Effect.catchCause((cause) => Effect.logError("A response could not be stored", cause)))

  const create = Effect.fn("Responses.create")(function* (
    incoming: IncomingResponse,
    requestId: string
  ): Effect.fn.Return<HttpServerResponse.HttpServerResponse, Failure, Scope.Scope> {
    const prepared = yield* prepare(incoming)
    const answer = yield* pipeline.call(prepared.call)
    const { omitted } = prepared.head.tools
    const headers = {
      ...answer.headers,
      "request-id": requestId,
      ...(omitted.length === 0 ? {} : { "x-omitted-tools": omitted.join(", ") })
    }
    const head = { ...prepared.head, createdSeconds: Math.floor((yield* Clock.currentTimeMillis) / 1000) }
    if (!(answer.body instanceof Uint8Array)) {
      return HttpServerResponse.stream(streamed({ ...prepared, head }, answer.body, keep), {
        contentType: "text/event-stream",
        headers
      })
    }
    const completion = decodeCompletion(Buffer.from(answer.body).toString("utf8"))
    if (Option.isNone(completion)) return yield* unreadableAnswer(answer.report.provider)
    const chunks = new ChunksToResponse(head)
    chunks.pushWhole(completion.value)
    const { response } = chunks.end(answer.report.usage)
    yield* keep(prepared, response)
    return HttpServerResponse.jsonUnsafe(response, { headers })
  })

  return { create }
})

/** The Responses API for models whose provider speaks chat completions or Anthropic messages. */
export class Responses extends Context.Service<Responses, Effect.Success<typeof make>>()("app/gateway/Responses") {
  static readonly layer = Layer.effect(Responses, make)
}

const written = (events: ReadonlyArray<ResponseEvent>): string =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("")

/** The events of a response; it is stored before its last event is sent. */
const streamed = (
  prepared: Prepared,
  body: Exclude<CallAnswer["body"], Uint8Array>,
  keep: (prepared: Prepared, response: Readonly<Record<string, unknown>>) => Effect.Effect<void>
): Stream.Stream<Uint8Array> => {
  const reader = new EventReader()
  const chunks = new ChunksToResponse(prepared.head)
  let usage: TokenUsage = noUsage
  let isOver = false

  const take = (data: string): Effect.Effect<string> => {
    if (isOver) return Effect.succeed("")
    if (data === "[DONE]") {
      isOver = true
      const { events, response } = chunks.end(usage)
      return Effect.as(keep(prepared, response), written(events))
    }
    const event = parsedJson(data)
    const failed = errorInEvent(event)
    if (failed !== undefined) {
      isOver = true
      return Effect.succeed(written(chunks.fail({ code: failed.code ?? "server_error", message: failed.message })))
    }
    const chunk = decodeChunk(event)
    if (Option.isNone(chunk)) return Effect.succeed("")
    if (chunk.value.usage) usage = usageOfCompletion(chunk.value.usage)
    return Effect.succeed(written(chunks.push(chunk.value)))
  }

  const push = (bytes: Uint8Array): Effect.Effect<Uint8Array> =>
    Effect.map(
      Effect.forEach(reader.push(bytes), ({ data }) => take(data)),
      (texts) => {
        const text = texts.join("")
        return utf8.encode(text === "" && isComment(bytes) ? comment : text)
      }
    )

  return Stream.mapEffect(body, push).pipe(
    Stream.takeUntil(() => isOver),
    Stream.filter((bytes) => bytes.length > 0)
  )
}
