import { Context, Effect, Layer, Option, type Scope, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { CurrentPrincipal, type Principal } from "../../../kernel/principal.ts"
import { type TokenUsage } from "../../translation/domain.ts"
import { usdText } from "../../../kernel/usd.ts"
import { type PlanId } from "../../../budgets/ledger/domain.ts"
import { toGoverningCaps } from "../../../budgets/ledger/problems.ts"
import { CurrentRequest } from "../../../platform/http/request.ts"
import { Callers, type DeclaredCall } from "../../authentication/callers.ts"
import { type CallAnswer } from "../../pipeline/call-answers.ts"
import { Calls, type EstimatedCall } from "../../pipeline/calls.ts"
import { type CallProblem, problemOf } from "../../errors/call-problems.ts"
import { chatOf, embeddingsOf, saidIn, usageOf, vectorsIn } from "./native.ts"
import { NativeEvents } from "./native-events.ts"
import { refused } from "../../errors/refusal.ts"
import {
  type EmbeddingAnswer,
  type EmbeddingRequest,
  type LlmAnswer,
  type LlmEstimate,
  type LlmRequest
} from "./request-domain.ts"

const utf8 = new TextEncoder()
const routes = { chat: "complete", embed: "embed" }
const unreadable = refused(502, "provider-error", "The provider's answer cannot be read.")

/** Completions and embeddings in the gateway's own words, whichever provider gives them. */
export class Completions extends Context.Service<
  Completions,
  {
    /** The whole answer, a stream of it, or what it may cost: as the request asks. */
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
>()("app/llm/Completions") {
  static readonly layer = Layer.effect(
    Completions,
    Effect.gen(function* () {
      const callers = yield* Callers
      const calls = yield* Calls

      const callOf = Effect.fnUntraced(function* (
        operation: "chat" | "embed",
        body: Readonly<Record<string, unknown>>,
        declared: DeclaredCall & Pick<LlmRequest, "cache" | "fallbacks" | "metadata">
      ) {
        // Providers take their time, and have one of their own.
        const info = yield* CurrentRequest
        info?.untimed()
        const { headers } = yield* HttpServerRequest.HttpServerRequest
        const key = headers["idempotency-key"]
        const caller = yield* callers.agentOf(yield* CurrentPrincipal, declared)
        return {
          dialect: "openai" as const,
          operation,
          body,
          bytes: utf8.encode(JSON.stringify(body)),
          headers: {},
          agentId: caller.agentId,
          planId: caller.planId,
          taskType: caller.taskType,
          prepared: caller.prepared,
          perTurnNanoUsd: caller.perTurnNanoUsd,
          metadata: declared.metadata,
          fallbacks: declared.fallbacks ?? [],
          cache: declared.cache,
          repeatable: key === undefined ? undefined : { route: `POST /api/llm/${routes[operation]}`, key }
        }
      })

      const complete = Effect.fn("Completions.complete")(function* (request: LlmRequest) {
        const call = yield* callOf("chat", chatOf(request), request)
        const planId = call.planId ?? null
        if (request.dryRun === true) return estimated(yield* CurrentPrincipal, yield* calls.estimate(call), planId)
        const answer = yield* calls.call(call)
        if (!(answer.body instanceof Uint8Array)) return streamed(answer.body, answer)
        const said = saidIn(answer.body)
        if (Option.isNone(said)) return yield* unreadable
        const { attempts, cached, costNanoUsd, latencyMs, model, provider, reservationId, upstreamLatencyMs, usage } =
          answer.report
        return {
          ...said.value,
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
        const answer = yield* calls.call(yield* callOf("embed", embeddingsOf(request), request))
        const vectors = answer.body instanceof Uint8Array ? vectorsIn(answer.body) : Option.none()
        if (Option.isNone(vectors)) return yield* unreadable
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

      // Outside of the spans, which tell nothing of what a provider says of a request.
      return Completions.of({
        complete: (request) => Effect.mapError(complete(request), problemOf),
        embed: (request) => Effect.mapError(embed(request), problemOf)
      })
    })
  )
}

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
