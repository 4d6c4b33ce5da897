import { Clock, Context, Effect, Layer, Option, Result, Schema, type Scope, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpServerResponse } from "effect/http"
import { CurrentPrincipal } from "../../../kernel/authority/principal.ts"
import { type TenantId } from "../../../kernel/identifier.ts"
import { type Json, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { usdText } from "../../../kernel/usd.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { faultOptions, faultsOf } from "../../../platform/http/validation.ts"
import { Settings } from "../../../platform/settings/settings.ts"
import { withBetas } from "../../catalog/betas.ts"
import { type ServedModel } from "../../configuration/gateway-snapshot.ts"
import { GatewayConfiguration } from "../../configuration/service.ts"
import { Conversations } from "../../conversations/service.ts"
import {
  GatewayError,
  type GatewayProblem,
  invalidMember,
  invalidMembers,
  unreadableAnswer
} from "../../errors/gateway-error.ts"
import { readChunk, readCompletion } from "../../formats/common-form/domain.ts"
import { usageOfCompletion } from "../../formats/common-form/usage.ts"
import { type BilledTool, billedTools, noUsage, type TokenUsage } from "../../formats/domain.ts"
import { errorInEvent } from "../../formats/errors.ts"
import { comment, EventReader, isComment, isTerminator, type ServerEvent } from "../../formats/event-reader.ts"
import { Omissions } from "../../formats/omissions.ts"
import { type ResponseHead, responseOf as responseAt } from "../../formats/openai-responses/answers.ts"
import { ChunksToResponse, type ResponseEvent } from "../../formats/openai-responses/chunks-to-events.ts"
import { commonFormat } from "../../formats/openai-responses/common-format.ts"
import { type ResponseItem, ResponsesRequest } from "../../formats/openai-responses/domain.ts"
import { openAiResponses, responsesCompaction, responsesCount } from "../../formats/openai-responses/format.ts"
import { responsesToChat } from "../../formats/openai-responses/to-chat.ts"
import { LatestItems } from "../../formats/openai-responses/truncation.ts"
import { bytesPerToken } from "../../metering/usage-meter.ts"
import { CallPipeline } from "../../pipeline/call-pipeline.ts"
import { type Call } from "../../pipeline/call-request.ts"
import { MessageCounts } from "../../pipeline/message-counts.ts"
import { type CallAnswer } from "../../pipeline/response-relay.ts"
import { resolveModel, speaks } from "../../routing/resolve-model.ts"
import { responseOf } from "../http/serve.ts"
import { NativeResponses, unsupported } from "./native.ts"

const decodeRequest = Schema.decodeUnknownEffect(ResponsesRequest)
const decodeOption = Schema.decodeUnknownOption(ResponsesRequest)

const utf8 = new TextEncoder()

/** A request as it arrived, and who is charged for it. */
export type IncomingResponse = Omit<Call, "format">

/** What a message on a WebSocket asks for that a request by HTTP cannot. */
export interface SocketMessage {
  /** Why it cannot be answered, which is found before its request is read. */
  readonly fault?: GatewayError<GatewayProblem> | undefined
  /** Whether the model is to say nothing, because the client prepares for its next message. */
  readonly warmsUp?: boolean
}

/** The message that the current request stands for; empty for one by HTTP. */
export const CurrentSocketMessage = Context.Reference<SocketMessage>("app/gateway/CurrentSocketMessage", {
  defaultValue: () => ({})
})

/** A request whose conversation is complete. */
interface Prepared {
  readonly call: Call
  readonly head: ResponseHead
  readonly omittedItems: ReadonlyArray<string>
  readonly omittedMembers: ReadonlyArray<string>
  /** What the model was given of this turn, and the response before it, to be stored; undefined where it is not. */
  readonly kept: { readonly input: ReadonlyArray<ResponseItem>; readonly previous: string | null } | undefined
  readonly tenantId: TenantId
  readonly createdBy: string
}

type Failure = GatewayError<GatewayProblem>

const withoutForm = (request: ResponsesRequest): Failure | undefined =>
  unsupported(request) ??
  ((request.prompt ?? null) === null
    ? undefined
    : invalidMember("prompt", "prompt: The gateway has no prompt templates; send instructions and input"))

/** What the gateway itself includes in each response. */
const alwaysIncluded = "reasoning.encrypted_content"

/** The members of a request that no model reads which lacks the Responses API. */
const unreadMembers = (body: Json, { include }: ResponsesRequest): ReadonlyArray<string> => {
  const omissions = new Omissions()
  omissions.unread(body, ResponsesRequest)
  if (include?.some((one) => one !== alwaysIncluded) === true) omissions.member("include")
  return omissions.leftOut
}

/** Why another provider may answer: this one failed before its first byte. */
const isProviders = ({ error, problem }: Failure): boolean =>
  problem._tag === "ProviderUnavailable" ||
  problem._tag === "ProviderTimeout" ||
  (error.original !== undefined && (problem._tag === "Overloaded" || problem._tag === "RateLimited"))

/** The tools that every target of a model runs and a translation can ask for, for a known fee. */
const ownToolsOf = ({ targets }: ServedModel): ReadonlySet<BilledTool> =>
  new Set(
    billedTools.filter((tool) =>
      targets.every(({ provider, rates }) => provider.speaks.translatesTools && rates?.toolFees[tool] !== undefined)
    )
  )

/** Anthropic's API takes MCP servers with this header. */
const withMcp = (headers: Call["headers"]): Call["headers"] =>
  withBetas(headers, "anthropic-beta", ["mcp-client-2025-11-20"])

const make = Effect.gen(function* () {
  const conversations = yield* Conversations
  const pipeline = yield* CallPipeline
  const configuration = yield* GatewayConfiguration
  const counts = yield* MessageCounts
  const natives = yield* NativeResponses
  const { defaultMaxOutputTokens, storedResponses } = (yield* Settings).llm.gateway
  const newId = (yield* SecureRandom.SecureRandom).uuidV7()

  /** The latest items of a conversation that a model can read, where the caller has older ones left out; else all. */
  const latestOf = (
    { instructions, max_output_tokens: asked, tools, truncation }: ResponsesRequest,
    { contextTokens, maxOutputTokens }: ServedModel
  ): LatestItems => {
    if (truncation !== "auto") return new LatestItems(Infinity)
    if (contextTokens === null) return new LatestItems(storedResponses.maxBytes)
    const output = asked ?? Math.min(defaultMaxOutputTokens, maxOutputTokens ?? Infinity)
    const others = Buffer.byteLength(JSON.stringify([instructions, tools]))
    return new LatestItems((contextTokens - output) * bytesPerToken - others)
  }

  const prepare = Effect.fnUntraced(function* (
    incoming: IncomingResponse,
    isStored: boolean
  ): Effect.fn.Return<Prepared, Failure> {
    const request = yield* Effect.mapError(decodeRequest(incoming.body, faultOptions(incoming.body)), (error) =>
      invalidMembers(faultsOf("body", error).map(({ message, path }) => ({ message, path: path.slice(1) })))
    )
    const impossible = withoutForm(request)
    if (impossible !== undefined) return yield* impossible
    const { tenantId } = incoming.caller.subject
    const model = resolveModel(configuration.snapshot(), request.model, commonFormat)
    if (model instanceof GatewayError) return yield* model
    const given: ReadonlyArray<ResponseItem> =
      typeof request.input === "string"
        ? [{ type: "message", role: "user", content: request.input }]
        : (request.input ?? [])
    const previous = request.previous_response_id ?? undefined
    const latest = latestOf(request, model)
    const own = yield* conversations.load(tenantId, given, previous, latest)
    const { items } = latest
    if (items.length === 0) return yield* invalidMember("input", "input: Expected text, or a list of items")
    const translated = responsesToChat(request, items, ownToolsOf(model))
    if (Result.isFailure(translated)) return yield* invalidMembers(translated.failure)
    const { body, hasMessages, omittedItems, tools } = translated.success
    if (!hasMessages) return yield* invalidMember("input", "input: Expected an item that the model can answer")
    const hex = (yield* newId).replaceAll("-", "")
    const sent = new Set(items)
    const head: ResponseHead = {
      id: `resp_${hex}`,
      createdSeconds: 0,
      request,
      tools,
      itemId: (prefix, place) => `${prefix}_${hex}_${place}`
    }
    const input = given.filter((_, place) => sent.has(own[place]!))
    // A later turn goes on from what the model was given.
    const turn = { input, previous: latest.isFull && items.length === input.length ? null : (previous ?? null) }
    const refersToStored = previous !== undefined || own !== given
    const mayStore =
      isStored &&
      request.store !== false &&
      (yield* conversations.admits(tenantId, {
        bytes: bytesOf(input, head),
        isNeeded: request.store === true || refersToStored
      }))
    return {
      call: {
        ...incoming,
        format: commonFormat,
        model: body.model,
        streams: body.stream === true,
        body,
        bytes: utf8.encode(JSON.stringify(body)),
        headers: body.mcp_servers === undefined ? incoming.headers : withMcp(incoming.headers)
      },
      head: { ...head, request: { ...request, store: mayStore } },
      omittedItems,
      omittedMembers: unreadMembers(incoming.body, request),
      kept: mayStore ? turn : undefined,
      tenantId,
      createdBy: (yield* CurrentPrincipal).name
    }
  })

  /** Stores a response; answers with it, which says whether it is stored. */
  const keep = <A extends Readonly<Record<string, unknown>>>(
    { createdBy, head, kept, tenantId }: Prepared,
    response: A
  ): Effect.Effect<A> => {
    if (kept === undefined) return Effect.succeed(response)
    const { input, previous } = kept
    return conversations.keep({ createdBy, tenantId }, head.id, previous, { input, response }).pipe(
      Effect.catchCause((cause) => Effect.as(Effect.logError("A response could not be stored", cause), false)),
      Effect.map((isKept) => (isKept ? response : { ...response, store: false }))
    )
  }

  /** A response in which no model says anything, and that costs nothing. */
  const warmUp = Effect.fnUntraced(function* (
    { body }: IncomingResponse,
    requestId: string
  ): Effect.fn.Return<HttpServerResponse.HttpServerResponse, Failure> {
    const impossible = unsupported(body)
    if (impossible !== undefined) return yield* impossible
    if (configuration.snapshot().modelNamed(String(body.model)) === undefined) {
      const unknown = resolveModel(configuration.snapshot(), body.model, commonFormat)
      if (unknown instanceof GatewayError) return yield* unknown
    }
    const request = Option.getOrElse(decodeOption(body), () => ResponsesRequest.make({ model: String(body.model) }))
    const head = {
      id: `resp_${(yield* newId).replaceAll("-", "")}`,
      createdSeconds: Math.floor((yield* Clock.currentTimeMillis) / 1000),
      request: { ...request, store: false }
    }
    const begun = responseAt(head, [], { status: "in_progress" })
    const response = responseAt(head, [], { status: "completed", usage: noUsage })
    const events = [
      { type: "response.created", sequence_number: 0, response: begun },
      { type: "response.in_progress", sequence_number: 1, response: begun },
      { type: "response.completed", sequence_number: 2, response }
    ]
    return HttpServerResponse.text(written(events), {
      contentType: "text/event-stream",
      headers: { "request-id": requestId, "x-cost-usd": usdText(0n) }
    })
  })

  /** Passes a request to a provider that speaks the Responses API, or translates it for one that does not. */
  const create = Effect.fnUntraced(function* (
    incoming: IncomingResponse,
    requestId: string
  ): Effect.fn.Return<HttpServerResponse.HttpServerResponse, Failure, Scope.Scope> {
    const { fault, warmsUp } = yield* CurrentSocketMessage
    if (fault !== undefined) return yield* fault
    if (warmsUp === true) return yield* warmUp(incoming, requestId)
    const call = yield* natives.prepare(incoming, openAiResponses)
    if (call === undefined) return yield* bridged(incoming, requestId)
    const passed = Effect.map(pipeline.call(call), (answer) => responseOf(answer, requestId))
    const model = configuration.snapshot().modelNamed(String(call.body.model))
    const hasOthers = model?.targets.some((target) => !speaks(openAiResponses)(target)) === true
    return yield* hasOthers && call.onlyProvider === undefined
      ? Effect.catchIf(passed, isProviders, () =>
          bridged({ ...incoming, isLeftOut: speaks(openAiResponses) }, requestId)
        )
      : passed
  })

  const bridged = Effect.fnUntraced(function* (
    incoming: IncomingResponse,
    requestId: string
  ): Effect.fn.Return<HttpServerResponse.HttpServerResponse, Failure, Scope.Scope> {
    const prepared = yield* prepare(incoming, true)
    const answer = yield* pipeline.call(prepared.call)
    const { "x-omitted-members": leftOut } = answer.headers
    const omissions = {
      tools: prepared.head.tools.omitted,
      items: prepared.omittedItems,
      members: [...prepared.omittedMembers, ...(leftOut === undefined ? [] : [leftOut])]
    }
    for (const [kind, types] of Object.entries(omissions)) {
      if (types.length > 0) yield* Effect.annotateCurrentSpan(`app.${kind}.omitted`, types.join(", "))
    }
    const headers = {
      ...answer.headers,
      "request-id": requestId,
      ...Object.fromEntries(
        Object.entries(omissions).flatMap(([kind, types]) =>
          types.length === 0 ? [] : [[`x-omitted-${kind}`, types.join(", ")]]
        )
      )
    }
    const head = { ...prepared.head, createdSeconds: Math.floor((yield* Clock.currentTimeMillis) / 1000) }
    if (!(answer.body instanceof Uint8Array)) {
      return HttpServerResponse.stream(streamed({ ...prepared, head }, answer.body, keep), {
        contentType: "text/event-stream",
        headers
      })
    }
    const completion = readCompletion(parsedJson(utf8Text(answer.body)))
    if (completion === undefined) return yield* unreadableAnswer(answer.report.provider)
    const chunks = new ChunksToResponse(head)
    chunks.pushWhole(completion)
    const { response } = chunks.end(answer.report.usage)
    return HttpServerResponse.jsonUnsafe(yield* keep(prepared, response), { headers })
  })

  /** The tokens of a request: counted by its provider, or by the model's tokenizer, or else estimated from its bytes. */
  const count = Effect.fn("Responses.count")(function* (
    incoming: IncomingResponse,
    requestId: string
  ): Effect.fn.Return<HttpServerResponse.HttpServerResponse, Failure, Scope.Scope> {
    const call = yield* natives.prepare(incoming, responsesCount)
    if (call !== undefined) {
      const { bytes, headers } = yield* counts.count(call)
      return responseOf({ status: 200, headers, body: bytes }, requestId)
    }
    const { call: chat } = yield* prepare(incoming, false)
    const input_tokens = yield* counts.countOwn(chat)
    return HttpServerResponse.jsonUnsafe(
      { object: "response.input_tokens", input_tokens },
      { headers: { "request-id": requestId } }
    )
  })

  /** Shortens a conversation, which only a provider that speaks the Responses API can do. */
  const compact = Effect.fn("Responses.compact")(function* (
    incoming: IncomingResponse,
    requestId: string
  ): Effect.fn.Return<HttpServerResponse.HttpServerResponse, Failure, Scope.Scope> {
    const call = yield* natives.prepare(incoming, responsesCompaction)
    if (call === undefined) {
      // An unknown model gets the pipeline's error.
      const model = resolveModel(configuration.snapshot(), incoming.body.model, commonFormat)
      return yield* model instanceof GatewayError ? model : notCompacted(String(incoming.body.model))
    }
    return responseOf(yield* pipeline.call(call), requestId)
  })

  return { create, count, compact }
})

/** The bytes of a turn whose answer is still to come. */
const bytesOf = (input: ReadonlyArray<ResponseItem>, head: ResponseHead): number =>
  Buffer.byteLength(JSON.stringify({ input, response: responseAt(head, [], { status: "in_progress" }) }))

const notCompacted = (model: string): Failure =>
  invalidMember(
    "model",
    `model: No provider of ${model} compacts conversations; summarize the conversation with a request of its own, and send the summary`,
    "model_not_supported"
  )

/** The Responses API for every model, whatever its provider speaks. */
export class Responses extends Context.Service<Responses, Effect.Success<typeof make>>()("app/gateway/Responses") {
  static readonly layer = Layer.effect(Responses, make)
}

const written = (events: ReadonlyArray<ResponseEvent>): string =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("")

/** The events of a response; it is stored before its last event is sent. */
const streamed = (
  prepared: Prepared,
  body: Exclude<CallAnswer["body"], Uint8Array>,
  keep: (prepared: Prepared, response: Json) => Effect.Effect<Json>
): Stream.Stream<Uint8Array> => {
  const reader = new EventReader()
  const chunks = new ChunksToResponse(prepared.head)
  let usage: TokenUsage = noUsage
  let isOver = false

  /** Ends the response: at its terminator, or where a provider that sends none closes the stream. */
  const complete = Effect.suspend(() => {
    if (isOver) return Effect.succeed("")
    isOver = true
    const { events, response } = chunks.end(usage)
    return Effect.map(keep(prepared, response), (kept) =>
      written(kept === response ? events : [...events.slice(0, -1), { ...events.at(-1)!, response: kept }])
    )
  })

  const take = (event: ServerEvent): Effect.Effect<string> => {
    if (isOver) return Effect.succeed("")
    if (isTerminator(event)) return complete
    const value = parsedJson(event.data)
    const failed = errorInEvent(value)
    if (failed !== undefined) {
      isOver = true
      return Effect.succeed(written(chunks.fail({ code: failed.code ?? "server_error", message: failed.message })))
    }
    const chunk = readChunk(value)
    if (chunk === undefined) return Effect.succeed("")
    if (chunk.usage !== undefined) usage = usageOfCompletion(chunk.usage)
    const text = written(chunks.push(chunk))
    if (!chunks.isTooLong) return Effect.succeed(text)
    isOver = true
    return Effect.succeed(text + written(chunks.fail({ code: "server_error", message: "The answer has no end." })))
  }

  const takeAll = (events: ReadonlyArray<ServerEvent>): Effect.Effect<string> =>
    Effect.map(Effect.forEach(events, take), (texts) => texts.join(""))

  const push = (bytes: Uint8Array): Effect.Effect<Uint8Array> =>
    Effect.map(takeAll(reader.push(bytes)), (text) => utf8.encode(text === "" && isComment(bytes) ? comment : text))

  const last = Effect.suspend(() =>
    Effect.map(
      Effect.zipWith(takeAll(reader.end()), complete, (rest, ending) => rest + ending),
      (text) => utf8.encode(text)
    )
  )

  return Stream.mapEffect(body, push).pipe(
    Stream.takeUntil(() => isOver),
    Stream.concat(Stream.fromEffect(last)),
    Stream.filter((bytes) => bytes.length > 0)
  )
}
