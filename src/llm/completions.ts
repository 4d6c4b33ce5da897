import { Context, Effect, Layer, Option, type Scope, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { CurrentPrincipal } from "../auth/domain.ts"
import { type TokenUsage } from "../compat/domain.ts"
import { usdText } from "../kernel/usd.ts"
import { CurrentRequest } from "../platform/request.ts"
import { Callers, type DeclaredCall } from "./callers.ts"
import { type CallAnswer } from "./call-answers.ts"
import { Calls } from "./calls.ts"
import { type CallProblem, problemOf } from "./call-problems.ts"
import { chatOf, embeddingsOf, saidIn, usageOf, vectorsIn } from "./native.ts"
import { NativeEvents } from "./native-events.ts"
import { refused } from "./refusal.ts"
import { type EmbeddingAnswer, type EmbeddingRequest, type LlmAnswer, type LlmRequest } from "./request-domain.ts"

const utf8 = new TextEncoder()
const routes = { chat: "complete", embed: "embed" }
const unreadable = refused(502, "provider-error", "The provider's answer cannot be read.")

/** Completions and embeddings in the gateway's own words, whichever provider gives them. */
export class Completions extends Context.Service<
  Completions,
  {
    /** The whole answer, or a stream of it where the request asks for that. */
    complete(
      request: LlmRequest
    ): Effect.Effect<
      LlmAnswer | HttpServerResponse.HttpServerResponse,
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

      const send = Effect.fnUntraced(function* (
        operation: "chat" | "embed",
        body: Readonly<Record<string, unknown>>,
        declared: DeclaredCall & Pick<LlmRequest, "metadata" | "cache">,
        fallbacks: ReadonlyArray<string>
      ) {
        // Providers take their time, and have one of their own.
        const info = yield* CurrentRequest
        info?.untimed()
        const { headers } = yield* HttpServerRequest.HttpServerRequest
        const key = headers["idempotency-key"]
        const caller = yield* callers.agentOf(yield* CurrentPrincipal, declared)
        const made = yield* calls.call({
          dialect: "openai",
          operation,
          body,
          bytes: utf8.encode(JSON.stringify(body)),
          headers: {},
          agentId: caller.agentId,
          planId: caller.planId,
          taskType: caller.taskType,
          prepared: caller.prepared,
          metadata: declared.metadata,
          perTurnNanoUsd: caller.perTurnNanoUsd,
          fallbacks,
          cache: declared.cache,
          repeatable: key === undefined ? undefined : { route: `POST /api/llm/${routes[operation]}`, key }
        })
        return { ...made, planId: caller.planId ?? null }
      })

      const complete = Effect.fn("Completions.complete")(function* (request: LlmRequest) {
        const answer = yield* send("chat", chatOf(request), request, request.fallbacks ?? [])
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
          planId: answer.planId,
          latencyMs,
          upstreamLatencyMs,
          attempts,
          cached
        }
      }, Effect.mapError(problemOf))

      const embed = Effect.fn("Completions.embed")(function* (request: EmbeddingRequest) {
        const answer = yield* send("embed", embeddingsOf(request), request, [])
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
      }, Effect.mapError(problemOf))

      return Completions.of({ complete, embed })
    })
  )
}

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
