import { Cause, Clock, Context, Effect, Exit, Layer, Option, References, Scope, type Tracer } from "effect"
import { type CallError } from "../../budgets/ledger/protocol-domain.ts"
import { withoutDeadline } from "../../platform/http/deadline.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type ConnectedProvider, type GatewaySnapshot, type ModelTarget } from "../configuration/gateway-snapshot.ts"
import {
  type ProviderAnswer,
  providerCredentials,
  type ProviderFailure,
  type ProviderRequest
} from "../providers/provider.ts"
import { attemptSpan } from "../telemetry/call-spans.ts"
import { conventionsOf } from "../telemetry/conventions.ts"
import { attemptMeasured } from "../telemetry/metrics.ts"
import { boundedName, rememberAnswered } from "../telemetry/model-names.ts"
import { Breakers } from "./breakers.ts"
import { Bulkheads } from "./bulkheads.ts"
import { attemptFailed } from "./routing-metrics.ts"

/** An attempt, as responses and usage rows list it. */
export interface Attempt {
  readonly provider: string
  readonly model: string
  readonly status: number
  readonly durationMs: number
  /** Why it failed; in usage rows alone. */
  readonly error?: CallError
}

/** Observes the steps of an attempt. */
export interface AttemptObserver {
  /** The request is being sent: from here on it may cost something. */
  sent(span: Tracer.Span): void
  /** The provider responded; the observer ends the span when the cost is known. */
  answered(span: Tracer.Span, answer: ProviderAnswer): void
  failed(failure: ProviderFailure): void
}

/** What this replica last observed of a provider. */
export interface ProviderStatus {
  readonly reachable: boolean
  readonly latencyMs: number
  readonly error: string | null
  /** Milliseconds since 1970. */
  readonly at: number
}

/** A provider at its address: at another one it is not what was observed. */
type Place = Pick<ConnectedProvider, "id" | "server">
const placeOf = ({ id, server }: Place): string =>
  server === undefined ? id : `${id} ${server.address}:${server.port}`

/** The weight of a new latency in the moving average. */
const newest = 0.2

const latencyKey = (target: ModelTarget): string => `${target.provider.id}/${boundedName(target)}`

/** What this replica observes of the providers; it outlives every configuration. */
export class ProviderHealth extends Context.Service<
  ProviderHealth,
  {
    record(provider: Place, status: Omit<ProviderStatus, "at">): void
    last(provider: Place): ProviderStatus | undefined
    /** The recent latency of a target in milliseconds, as a moving average; undefined before its first response. */
    latency(target: ModelTarget): number | undefined
    answered(target: ModelTarget, latencyMs: number): void
  }
>()("app/gateway/ProviderSightings") {
  static readonly layer = Layer.effect(
    ProviderHealth,
    Effect.map(Clock.Clock, (clock) => {
      const health = new Map<string, ProviderStatus>()
      const latencies = new Map<string, number>()
      const record = (provider: Place, { error, latencyMs, reachable }: Omit<ProviderStatus, "at">) => {
        health.set(placeOf(provider), { reachable, latencyMs, error, at: clock.currentTimeMillisUnsafe() })
      }
      return ProviderHealth.of({
        record,
        last: (provider) => health.get(placeOf(provider)),
        latency: (target) => latencies.get(latencyKey(target)),
        answered: (target, latencyMs) => {
          rememberAnswered(target)
          const { provider } = target
          const key = latencyKey(target)
          const before = latencies.get(key)
          latencies.set(key, before === undefined ? latencyMs : before + newest * (latencyMs - before))
          record(provider, { reachable: true, latencyMs: Math.round(latencyMs), error: null })
        }
      })
    })
  )
}

/** Sends a request to a target through its provider's bulkhead and its breaker, in a span of its own. */
export class Router extends Context.Service<
  Router,
  {
    send(
      target: ModelTarget,
      request: ProviderRequest,
      routing: GatewaySnapshot["routing"],
      observer?: AttemptObserver
    ): Effect.Effect<ProviderAnswer, ProviderFailure, Scope.Scope>
  }
>()("app/gateway/Router") {
  static readonly layer = Layer.effect(
    Router,
    Effect.gen(function* () {
      const breakers = yield* Breakers
      const bulkheads = yield* Bulkheads
      const clock = yield* Clock.Clock
      const health = yield* ProviderHealth
      const conventions = conventionsOf((yield* Settings).telemetry.semconvStabilityOptIn)
      // When tracing is off, all attempts share one span that is never exported.
      const untraced = yield* Effect.provideService(Effect.makeSpan("attempt"), References.TracerEnabled, false)

      const ask = (target: ModelTarget, request: ProviderRequest) => {
        const { provider } = target
        const startedAt = clock.currentTimeMillisUnsafe()
        return Effect.matchEffect((request.via ?? provider.provider).send(request), {
          onSuccess: (answer) => {
            health.answered(target, clock.currentTimeMillisUnsafe() - startedAt)
            return Effect.succeed(answer)
          },
          onFailure: (failure) => {
            const { error, isOwn, received } = failure
            const latencyMs = clock.currentTimeMillisUnsafe() - startedAt
            // Every tenant sees this message, and a provider's own text may repeat another tenant's prompt.
            const message = isOwn ? error.message : `It answered with status ${received ?? error.status}.`
            health.record(provider, { reachable: received !== undefined, latencyMs, error: message })
            return Effect.fail(failure)
          }
        })
      }

      /** An attempt in a span, which ends with it, or with the settlement of its answer. */
      const attempt = (
        span: Tracer.Span,
        target: ModelTarget,
        request: ProviderRequest,
        routing: GatewaySnapshot["routing"],
        observer: AttemptObserver | undefined
      ): Effect.Effect<ProviderAnswer, ProviderFailure, Scope.Scope> => {
        const { provider } = target
        let sentAt: number | undefined
        const asked = Effect.suspend(() => {
          sentAt = clock.currentTimeMillisUnsafe()
          observer?.sent(span)
          return ask(target, request)
        })
        const guarded = breakers.guard(provider.id, boundedName(target), routing, asked)
        const traced = span === untraced ? guarded : Effect.withParentSpan(guarded, span, { captureStackTrace: false })
        const end = (exit: Exit.Exit<unknown, unknown>) => span.end(clock.currentTimeNanosUnsafe(), exit)

        const failed = (cause: Cause.Cause<ProviderFailure>) => {
          const failure = Option.getOrUndefined(Cause.findErrorOption(cause))
          if (failure !== undefined) {
            observer?.failed(failure)
            const errorType = String(failure.received ?? failure.reason)
            attemptFailed(provider.id, errorType)
            if (sentAt !== undefined) {
              const { operation } = request.format
              attemptMeasured({ conventions, operation, target }, errorType, clock.currentTimeMillisUnsafe() - sentAt)
            }
            span.attribute("error.type", errorType)
          }
          const exit = Exit.failCause(cause)
          end(exit)
          return exit
        }

        return Effect.uninterruptibleMask((restore) =>
          Effect.matchCauseEffect(restore(bulkheads.enter(provider, request.deadline)), {
            onFailure: failed,
            onSuccess: (place) =>
              Effect.matchCauseEffect(restore(traced), {
                onFailure: (cause) => {
                  place.leave()
                  return failed(cause)
                },
                onSuccess: (answer): Effect.Effect<ProviderAnswer, never, Scope.Scope> => {
                  if (observer === undefined) end(Exit.void)
                  else observer.answered(span, answer)
                  // A call leaves its provider's bulkhead with the complete response, or with a stream when its scope ends.
                  if (!(answer.body instanceof Uint8Array)) {
                    const leaving = Effect.sync(() => place.leave())
                    return Effect.as(
                      Effect.flatMap(Effect.scope, (scope) => Scope.addFinalizer(scope, leaving)),
                      answer
                    )
                  }
                  place.leave()
                  return Effect.succeed(answer)
                }
              })
          })
        )
      }

      return Router.of({
        // Providers have a deadline of their own.
        send: (target, request, routing, observer) =>
          withoutDeadline(
            Effect.withFiber((fiber) => {
              if (!Context.get(fiber.context, References.TracerEnabled)) {
                return attempt(untraced, target, request, routing, observer)
              }
              const { name, options } = attemptSpan(conventions, target, request.format.operation)
              return Effect.flatMap(Effect.makeSpan(name, options), (span) =>
                attempt(span, target, request, routing, observer)
              )
            })
          )
      })
    })
  )
}

/** Whether a later attempt may succeed. */
const isTransient = ({ error, reason, received }: ProviderFailure): boolean =>
  reason !== "status" || [408, 409, 429].includes(error.status) || (received ?? error.status) >= 500

/** Statuses of a server that is too busy, or not ready, to begin. */
const notBegun = new Set<number | undefined>([501, 503, 529])

/**
 * Whether a provider may have worked on a request that failed: it was sent and got no answer, an answer that holds nothing, or
 * an error of the server itself. What is refused is refused at once.
 */
export const hasWorked = ({ reason, received, sent }: ProviderFailure): boolean =>
  sent || reason === "broken-off" || (reason === "status" && (received ?? 0) >= 500 && !notBegun.has(received))

/** Statuses that concern only this target: its provider does not have the model, or no longer. */
const ofTarget = new Set<number | undefined>([404, 410])

/** Whether a provider refused the request itself, which costs nothing. */
export const isRefusal = (failure: ProviderFailure): boolean =>
  !isTransient(failure) && failure.error.code !== providerCredentials

/** Whether another target may answer. */
export const mayFailOver = (failure: ProviderFailure): boolean => !isRefusal(failure) || ofTarget.has(failure.received)

/** Whether another attempt at the same target may succeed. */
export const mayRepeat = (failure: ProviderFailure): boolean =>
  isTransient(failure) && failure.reason !== "breaker-open" && failure.reason !== "busy"

const firstPauseMs = 200
const longestPauseMs = 5_000
const longestRetryAfterSeconds = 10

/** How long to wait before the next attempt at the same target; undefined if that would be too long. */
export const pauseBefore = (
  tries: number,
  { retryAfterSeconds }: ProviderFailure,
  random: number
): number | undefined => {
  if (retryAfterSeconds !== undefined) {
    return retryAfterSeconds > longestRetryAfterSeconds ? undefined : retryAfterSeconds * 1000
  }
  return Math.min(longestPauseMs, firstPauseMs * 2 ** (tries - 1)) * (0.5 + random / 2)
}
