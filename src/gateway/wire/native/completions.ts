import { Context, Effect, Layer, Option, type Scope, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { RateLimits } from "../../../access/rate-limits.ts"
import { type PlanId } from "../../../budgets/ledger/domain.ts"
import { toGoverningCaps } from "../../../budgets/ledger/problems.ts"
import { CurrentPrincipal, type Principal } from "../../../kernel/authority/principal.ts"
import { usdText } from "../../../kernel/usd.ts"
import { CurrentRequest } from "../../../platform/http/request.ts"
import {
  type DeclaredCall,
  GatewayAuthentication,
  principalRateReached
} from "../../authentication/gateway-authentication.ts"
import { TurnStates } from "../../conversations/turn-states.ts"
import { type CallProblem, GatewayError, unreadableAnswer } from "../../errors/gateway-error.ts"
import { type ModelKind, type TokenUsage } from "../../formats/domain.ts"
import { type WireFormat } from "../../formats/format.ts"
import { openAiErrors } from "../../formats/openai-chat/errors.ts"
import { openAiChat } from "../../formats/openai-chat/format.ts"
import { openAiEmbeddings } from "../../formats/openai-embeddings/format.ts"
import { CallPipeline, type EstimatedCall } from "../../pipeline/call-pipeline.ts"
import { type Call } from "../../pipeline/call-request.ts"
import { type CallAnswer } from "../../pipeline/response-relay.ts"
import { CallSessions } from "../../routing/sessions.ts"
import { NativeEvents } from "./native-events.ts"
import {
  type EmbeddingAnswer,
  type EmbeddingRequest,
  type LlmAnswer,
  type LlmEstimate,
  type LlmRequest
} from "./request-domain.ts"
import { chatOf, embeddingsOf, saidIn, usageOf, vectorsIn } from "./translation.ts"

const utf8 = new TextEncoder()
const routes: Readonly<Partial<Record<ModelKind, string>>> = { chat: "complete", embedding: "embed" }

/** Completions and embeddings in the native format, from any provider. */
export class Completions extends Context.Service<
  Completions,
  {
    /** The complete response, a stream of it, or its maximum cost, as the request asks. */
    complete(
      request: LlmRequest
    ): Effect.Effect<
      LlmAnswer | LlmEstimate | HttpServerResponse.HttpServerResponse,
      CallProblem,
      HttpServerRequest.HttpServerRequest | Scope.Scope
    >
    embed(
      request: EmbeddingRequest
    ): Effect.Effect<EmbeddingAnswer, CallProblem, HttpServerRequest.HttpServerRequest | Scope.Scope>
  }
>()("app/gateway/Completions") {
  static readonly layer = Layer.effect(
    Completions,
    Effect.gen(function* () {
      const authentication = yield* GatewayAuthentication
      const limits = yield* RateLimits
      const pipeline = yield* CallPipeline
      const sessions = yield* CallSessions
      const states = yield* TurnStates

      const callOf = Effect.fnUntraced(function* (
        format: WireFormat,
        body: Readonly<Record<string, unknown>>,
        declared: DeclaredCall & Pick<LlmRequest, "cache" | "fallbacks" | "metadata">
      ) {
        const info = yield* CurrentRequest
        const { headers } = yield* HttpServerRequest.HttpServerRequest
        const key = headers["idempotency-key"]
        const caller = yield* authentication.attribute(declared)
        const { tenantId } = caller.subject
        const session = sessions.of(tenantId, yield* CurrentPrincipal, headers, body, format)
        if (session instanceof GatewayError) return yield* session
        const call: Call = {
          format,
          model: body.model,
          streams: body.stream === true,
          body,
          bytes: utf8.encode(JSON.stringify(body)),
          caller,
          states: states.of(tenantId),
          session,
          headers: {},
          metadata: declared.metadata,
          fallbacks: declared.fallbacks ?? [],
          cache: declared.cache,
          idempotency: key === undefined ? undefined : { route: `POST /api/llm/${routes[format.modelKind]}`, key },
          writeError: (error) => openAiErrors.event(error, info?.requestId ?? "")
        }
        return call
      })

      const complete = Effect.fn("Completions.complete")(function* (request: LlmRequest) {
        const isDryRun = request.dryRun === true
        if (isDryRun) {
          const { name } = yield* CurrentPrincipal
          yield* Effect.catch(limits.principal(name), principalRateReached)
        }
        const call = yield* callOf(openAiChat, chatOf(request), request)
        const planId = call.caller.subject.plan?.id ?? null
        if (isDryRun) return estimated(yield* CurrentPrincipal, yield* pipeline.estimate(call), planId)
        const answer = yield* pipeline.call(call)
        if (!(answer.body instanceof Uint8Array)) return streamed(answer.body, answer)
        const said = saidIn(answer.body)
        if (said === undefined) return yield* unreadableAnswer(answer.report.provider)
        const { attempts, cached, costNanoUsd, latencyMs, model, provider, reservationId, upstreamLatencyMs, usage } =
          answer.report
        return {
          ...said,
          model,
          provider,
          usage: usageOf(usage),
          costUsd: costNanoUsd,
          reservationId,
          planId,
          latencyMs,
          upstreamLatencyMs,
          attempts,
          cached
        }
      })

      const embed = Effect.fn("Completions.embed")(function* (request: EmbeddingRequest) {
        const answer = yield* pipeline.call(yield* callOf(openAiEmbeddings, embeddingsOf(request), request))
        const vectors = answer.body instanceof Uint8Array ? vectorsIn(answer.body) : Option.none()
        if (Option.isNone(vectors)) return yield* unreadableAnswer(answer.report.provider)
        const { cached, costNanoUsd, model, provider, reservationId, usage } = answer.report
        return {
          model,
          provider,
          embeddings: vectors.value,
          usage: { inputTokens: usage.inputTokens },
          costUsd: costNanoUsd,
          reservationId,
          cached
        }
      })

      // Outside of the spans, which do not record what a provider reports about a request.
      return Completions.of({
        complete: (request) => Effect.mapError(complete(request), nativeProblem),
        embed: (request) => Effect.mapError(embed(request), nativeProblem)
      })
    })
  )
}

/** An error in the native format is the problem itself. */
const nativeProblem = ({ problem }: GatewayError): CallProblem => problem

const estimated = (
  principal: Principal,
  { amountNanoUsd, caps, inputTokens, model, tokens }: EstimatedCall,
  planId: PlanId | null
): LlmEstimate => ({
  dryRun: true,
  model,
  inputTokens,
  outputTokens: tokens - inputTokens,
  totalTokens: tokens,
  costUsd: amountNanoUsd,
  planId,
  caps: toGoverningCaps(principal, caps)
})

const streamed = (body: Stream.Stream<Uint8Array>, { headers, report }: CallAnswer) => {
  const events = new NativeEvents((usage: TokenUsage) => ({
    costUsd: Number(usdText(report.costOf(usage))),
    reservationId: report.reservationId,
    model: report.model,
    provider: report.provider,
    cached: report.cached
  }))
  const { "content-type": _, ...passed } = headers
  return HttpServerResponse.stream(
    Stream.map(body, (bytes) => utf8.encode(events.push(bytes))).pipe(
      Stream.concat(Stream.suspend(() => Stream.make(utf8.encode(events.end())))),
      Stream.filter((bytes) => bytes.length > 0)
    ),
    { contentType: "text/event-stream", headers: passed }
  )
}
