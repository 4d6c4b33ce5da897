import { Clock, Context, Effect, Layer, Random, Scope, type Tracer } from "effect"
import { type AgentId } from "../../identity/agents/domain.ts"
import { GatewayContents } from "../transcripts/service.ts"
import { Attribution } from "../../budgets/attribution/service.ts"
import { type PlanId } from "../../budgets/ledger/domain.ts"
import { type AvailableBudget } from "../../budgets/ledger/protocol-domain.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { AvailableBudgets } from "../../budgets/caps/available-budget.ts"
import { CurrentRequest } from "../../platform/http/request.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { Attempts, mayFailOver, mayRepeat, pauseBefore } from "../routing/attempts.ts"
import { chatBound, embeddingBound, imageTokensOf } from "../metering/bounds.ts"
import { answerCall, type CallAnswer } from "./call-answers.ts"
import { CallMeter } from "../metering/call-meter.ts"
import { describeRequest } from "../telemetry/call-spans.ts"
import { type Prepared } from "../authentication/callers.ts"
import { GatewayConfiguration } from "../configuration/configuration.ts"
import { type Estimate, estimateOf, type Terms } from "../metering/estimates.ts"
import { type Asking, Holding } from "../metering/holding.ts"
import { Metering, type Spender } from "../metering/metering.ts"
import { modelFor } from "../routing/model-choice.ts"
import { checkIncoming, type Incoming, outgoing } from "./outgoing.ts"
import { refusalOf } from "./provider-refusals.ts"
import { type ProviderFailure } from "../providers/provider.ts"
import { type CallRefused, refused, refusedFor, retryAfter } from "../errors/refusal.ts"
import { type Repeat, type RepeatKey, Repeats } from "./repeats.ts"
import { ResponseCache } from "./response-cache.ts"
import { fellBack } from "../routing/routing-metrics.ts"
import { routeOrder } from "../routing/routing.ts"
import { type RunningGateway, type RunningModel, type RunningTarget } from "../configuration/running.ts"
import { ProviderSightings } from "../routing/sightings.ts"
import { textsOf, toolTextsOf } from "../metering/request-texts.ts"
import { TokenCounts } from "../metering/token-counts.ts"

/** A call as its caller makes it. */
export interface Call extends Incoming {
  /** Headers that a provider may see. */
  readonly headers: Readonly<Record<string, string>>
  readonly agentId?: AgentId | undefined
  readonly planId?: PlanId | undefined
  readonly taskType?: string | undefined
  /** What was reserved for it before. */
  readonly prepared?: Prepared | undefined
  /** What its caller wants to find it by. */
  readonly metadata?: Readonly<Record<string, string>> | undefined
  /** What one call of the agent may cost at most. */
  readonly perTurnNanoUsd?: bigint | null | undefined
  /** Models to be asked in turn where every target of the first one fails. */
  readonly fallbacks?: ReadonlyArray<string>
  /** Whether the response cache may answer; as the model's configuration says where the caller does not. */
  readonly cache?: boolean | undefined
  /** The key under which the call is made once, and where. */
  readonly repeatable?: RepeatKey | undefined
}

/** A target that a call may reach, and the model that it has it as: the one that was asked for, or a fallback. */
interface Way {
  readonly model: RunningModel
  readonly target: RunningTarget
}

/** What a call may use and cost at most, under which caps. */
export interface EstimatedCall extends Estimate {
  readonly model: string
  readonly caps: ReadonlyArray<AvailableBudget>
}

/** Carries calls to providers: each is let in by what it may cost, and charged for what it did cost. */
export class Calls extends Context.Service<
  Calls,
  {
    /** The scope is the request's: when it ends before the answer does, the call is given up and charged so far. */
    call(call: Call): Effect.Effect<CallAnswer, CallRefused, Scope.Scope>
    /** What a call may use and cost at most, and what the caps that govern it leave; nobody is asked. */
    estimate(call: Call): Effect.Effect<EstimatedCall, CallRefused>
  }
>()("app/llm/Calls") {
  static readonly layer = Layer.effect(
    Calls,
    Effect.gen(function* () {
      const attribution = yield* Attribution
      const clock = yield* Clock.Clock
      const attempts = yield* Attempts
      const counts = yield* TokenCounts
      const configuration = yield* GatewayConfiguration
      const contents = yield* GatewayContents
      const cache = yield* ResponseCache
      const holding = yield* Holding
      const metering = yield* Metering
      const repeats = yield* Repeats
      const sightings = yield* ProviderSightings
      const availableBudgets = yield* AvailableBudgets
      const { defaultMaxOutputTokens: defaultOutputTokens } = (yield* Settings).llm.gateway

      const targetsOf = (
        { operation }: Call,
        model: RunningModel,
        gateway: RunningGateway
      ): Effect.Effect<ReadonlyArray<RunningTarget>> => {
        const able = model.targets.filter(({ provider }) => operation !== "embed" || provider.dialect === "openai")
        if (able.length < 2) return Effect.succeed(able)
        return Effect.map(Random.Random, (random) =>
          routeOrder(able, gateway.routing.strategy, {
            latency: ({ model: name, provider }) => sightings.latency(provider.id, name),
            random: () => random.nextDoubleUnsafe()
          })
        )
      }

      const spenderOf = ({ agentId, planId, taskType }: Call, model: RunningModel) =>
        Effect.mapError(
          attribution.resolve({
            model: model.id,
            planId,
            ...(agentId === undefined ? {} : { agentId }),
            ...(taskType === undefined ? {} : { taskType })
          }),
          (problem) =>
            problem._tag === "AgentNotActive"
              ? refusedFor(problem)
              : refused(problem.status, problem._tag === "Forbidden" ? "forbidden" : "agent_not_found", problem.detail)
        )

      /** One try at a target, which is told of in the end whatever comes of it. */
      const attempt = (
        call: Call,
        target: RunningTarget,
        body: string | Uint8Array,
        meter: CallMeter,
        routing: RunningGateway["routing"],
        deadline: number
      ) => {
        const startedAt = clock.currentTimeMillisUnsafe()
        meter.at(target)
        const watch = {
          sent: (span: Tracer.Span) => {
            meter.progress = () => ({ usage: undefined, textBytes: 0, texts: [] })
            describeRequest(span, call.dialect, call.body)
          },
          answered: (span: Tracer.Span) => meter.traceBy(span)
        }
        const request = { operation: call.operation, body, headers: call.headers, deadline }
        return Effect.map(Effect.result(attempts.make(target, request, routing, watch)), (made) => {
          const durationMs = clock.currentTimeMillisUnsafe() - startedAt
          const status = made._tag === "Success" ? made.success.status : made.failure.error.status
          meter.attempts.push({ provider: target.provider.id, model: target.model, status, durationMs })
          if (made._tag === "Failure") meter.progress = undefined
          return made
        })
      }

      /** What is known of a call before anybody is asked. */
      const considered = Effect.fnUntraced(function* (incoming: Call) {
        yield* checkIncoming(incoming)
        const gateway = configuration.running()
        const model = yield* modelFor(gateway, incoming.body.model, incoming.operation)
        const fallbacks: Array<RunningModel> = []
        for (const name of incoming.fallbacks ?? []) fallbacks.push(yield* modelFor(gateway, name, incoming.operation))
        const ways: Array<Way> = []
        for (const one of [model, ...fallbacks]) {
          for (const target of yield* targetsOf(incoming, one, gateway)) ways.push({ model: one, target })
        }
        const targets = ways.map(({ target }) => target)
        const spender = yield* spenderOf(incoming, model)
        const { body, bytes, operation } = incoming
        const hasOutput = operation === "chat"
        const imageTokens = imageTokensOf(targets.map(({ model: name }) => name))
        const bound = hasOutput
          ? chatBound(incoming.dialect, body, bytes.length, imageTokens)
          : embeddingBound(body, bytes.length)
        // Another model may read more than this one.
        const contextTokens = fallbacks.length === 0 ? model.contextTokens : null
        return {
          gateway,
          spender,
          ways,
          terms: { model, targets, bound, contextTokens, defaultOutputTokens, hasOutput }
        }
      })

      /** The caps that bind a call at a target; an agent's budget for one turn and a reservation bind as caps do. */
      const governed = ({ perTurnNanoUsd = null, prepared }: Asking, spender: Spender) =>
        perTurnNanoUsd === null && prepared === undefined
          ? metering.governed(spender)
          : Effect.succeed({ byMoney: true, byHard: true })

      const estimate = Effect.fn("Calls.estimate")(function* (incoming: Call) {
        const { spender, terms, ways } = yield* considered(incoming)
        const [way] = ways
        if (way === undefined) return yield* noTarget
        // A fallback, or another provider, may be governed by others.
        const caps = new Map<string, AvailableBudget>()
        for (const one of ways) {
          for (const budget of yield* availableBudgets.of(at(spender, one))) {
            caps.set(`${budget.cap.id} ${budget.counterKey}`, budget)
          }
        }
        const bound = yield* estimateOf({ ...terms, governed: yield* governed(incoming, at(spender, way)) })
        return { ...bound, model: terms.model.id, caps: [...caps.values()] }
      })

      const answer = Effect.fnUntraced(function* (incoming: Call, repeat: Repeat) {
        const { gateway, spender, terms, ways } = yield* considered(incoming)
        const { bound, model } = terms
        const slot = cache.slot(incoming, model, spender.tenantId, gateway)
        const kept = slot === undefined ? undefined : yield* slot.find
        if (kept !== undefined) return yield* Effect.as(repeat.free, kept)
        const { body, bytes, operation } = incoming
        const { routing } = gateway
        const request = yield* CurrentRequest
        const scope = yield* Effect.scope
        const deadline = clock.currentTimeMillisUnsafe() + routing.timeoutSeconds * 1000
        const meter = new CallMeter(
          {
            operation,
            dialect: incoming.dialect,
            modelAsked: String(body.model),
            model,
            catalogueVersion: gateway.catalogueVersion,
            bound,
            metadata: incoming.metadata,
            count: (target, texts) => counts.countFor(spender.tenantId, target, texts),
            texts: () => [...textsOf(body).texts, ...toolTextsOf(body)],
            traceId: request?.traceId
          },
          clock
        )
        // Effect.addFinalizer would merge two contexts for each call.
        yield* Scope.addFinalizer(scope, meter.abandon)
        let { prepared } = incoming
        let last: ProviderFailure | undefined
        let estimate: Estimate | undefined
        for (const [place, way] of ways.entries()) {
          const { target } = way
          const before = ways[place - 1]
          if (before !== undefined) fellBack(before.target.provider.id, target.provider.id)
          const asked = at(spender, way)
          const bounds = yield* governed({ ...incoming, prepared }, asked)
          const here: Terms = { ...terms, model: way.model, governed: bounds }
          // Other caps may govern another provider, or another model.
          if (!meter.holdsFor(target) || (before !== undefined && before.model !== way.model)) meter.release()
          for (let tries = 1; ; tries++) {
            // A hold that is still there was made with this estimate, and lets no larger one through.
            if (estimate === undefined || !meter.holdsFor(target)) {
              estimate = yield* holding.hold(meter, asked, target, here, { ...incoming, prepared })
              prepared = undefined
              yield* repeat.holds(meter.reservationId)
            }
            const sent = yield* outgoing(incoming, target, estimate.limit, estimate.outputTokens)
            const made = yield* attempt(incoming, target, sent, meter, routing, deadline)
            if (made._tag === "Success") {
              const { reservationId = "" } = meter
              const answer = yield* answerCall(incoming, target, made.success, meter, request?.requestId ?? "")
              const spoken = { ...incoming, request: bytes, reservationId, tenantId: spender.tenantId }
              const recorded = { ...answer, body: yield* contents.record(spoken, answer.body) }
              return slot === undefined ? recorded : yield* slot.keep(recorded, meter)
            }
            const { failure } = made
            last = failure
            if (failure.sent) meter.forfeit(failure.error.status)
            if (clock.currentTimeMillisUnsafe() >= deadline) {
              meter.release()
              return yield* outOfTime
            }
            if (!mayFailOver(failure)) {
              meter.release()
              return yield* refusalOf(failure)
            }
            const pause =
              mayRepeat(failure) && tries <= routing.retries
                ? pauseBefore(tries, failure, yield* Random.next)
                : undefined
            if (pause === undefined) break
            yield* Effect.sleep(pause)
          }
        }
        meter.release()
        return yield* last === undefined ? noTarget : refusalOf(last)
      })

      const call = withSpan("Calls.call", (incoming: Call) =>
        repeats.once(incoming, (repeat) => answer(incoming, repeat))
      )

      return Calls.of({ call, estimate })
    })
  )
}

const at = (spender: Spender, { model, target }: Way): Spender => ({
  ...spender,
  dimensions: { ...spender.dimensions, model: model.id, provider: target.provider.id }
})

const noTarget = refused(503, "provider-unavailable", "No provider of this model can do this.", retryAfter(30))

const outOfTime = refused(504, "provider-timeout", "The call took longer than the gateway waits.")
