import { Clock, Context, Effect, Exit, Layer, Random, Scope } from "effect"
import { type AgentId } from "../agents/domain.ts"
import { Askers } from "../ledger/askers.ts"
import { type PlanId } from "../ledger/domain.ts"
import { type Standing } from "../ledger/request.ts"
import { Headrooms } from "../ledger/headrooms.ts"
import { CurrentRequest } from "../platform/request.ts"
import { Settings } from "../platform/settings.ts"
import { Attempts, mayFailOver, mayRepeat, pauseBefore } from "./attempts.ts"
import { chatBound, embeddingBound } from "./bounds.ts"
import { answerCall, type CallAnswer, passedBack } from "./call-answers.ts"
import { CallMeter } from "./call-meter.ts"
import { type Prepared } from "./callers.ts"
import { GatewayConfiguration } from "./configuration.ts"
import { type Estimate, estimateOf, type Terms } from "./estimates.ts"
import { type Asking, Holding } from "./holding.ts"
import { Metering, type Spender } from "./metering.ts"
import { checkIncoming, type Incoming, outgoing } from "./outgoing.ts"
import { type ProviderFailure } from "./providers/provider.ts"
import { CallRefused, refused, retryAfter } from "./refusal.ts"
import { routeOrder } from "./routing.ts"
import { type RunningGateway, type RunningModel, type RunningTarget } from "./running.ts"
import { ProviderSightings } from "./sightings.ts"
import { textsOf } from "./request-texts.ts"
import { TokenCounts } from "./token-counts.ts"

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
}

/** What a call may use and cost at most, under which caps. */
export interface EstimatedCall extends Estimate {
  readonly model: string
  readonly caps: ReadonlyArray<Standing>
}

/** How many tokens a request is, in Anthropic's words. */
export interface Counted {
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: Uint8Array
}

/** Carries calls to providers: each is let in by what it may cost, and charged for what it did cost. */
export class Calls extends Context.Service<
  Calls,
  {
    /** The scope is the request's: when it ends before the answer does, the call is given up and charged so far. */
    call(call: Call): Effect.Effect<CallAnswer, CallRefused, Scope.Scope>
    /** What a call may use and cost at most, and what the caps that govern it leave; nobody is asked. */
    estimate(call: Call): Effect.Effect<EstimatedCall, CallRefused>
    /** Asks a provider how many tokens a request is, which costs nothing. */
    countTokens(call: Call): Effect.Effect<Counted, CallRefused, Scope.Scope>
  }
>()("app/llm/Calls") {
  static readonly layer = Layer.effect(
    Calls,
    Effect.gen(function* () {
      const askers = yield* Askers
      const attempts = yield* Attempts
      const counts = yield* TokenCounts
      const configuration = yield* GatewayConfiguration
      const holding = yield* Holding
      const metering = yield* Metering
      const sightings = yield* ProviderSightings
      const headrooms = yield* Headrooms
      const { defaultMaxOutputTokens: defaultOutputTokens } = (yield* Settings).llm.gateway

      const modelOf = Effect.fnUntraced(function* (name: unknown, operation: Call["operation"]) {
        if (typeof name !== "string" || name === "") {
          return yield* refused(400, "invalid_request", "model: Expected the name of a model", {}, "model")
        }
        const model = configuration.running().modelNamed(name)
        if (model === undefined) {
          return yield* refused(404, "model_not_found", `The model \`${name}\` does not exist.`, {}, "model")
        }
        const embeds = model.kind === "embedding" || model.capabilities.includes("embeddings")
        if (operation === "embed" ? !embeds : model.kind !== "chat") {
          const message = `The model \`${name}\` does not do this.`
          return yield* refused(400, "model_not_supported", message, {}, "model")
        }
        return model
      })

      const targetsOf = Effect.fnUntraced(function* (
        { operation }: Call,
        model: RunningModel,
        gateway: RunningGateway
      ) {
        const random = yield* Random.Random
        const able = model.targets.filter(({ provider }) => operation !== "embed" || provider.dialect === "openai")
        return routeOrder(able, gateway.routing.strategy, {
          latency: ({ model: name, provider }) => sightings.latency(provider.id, name),
          random: () => random.nextDoubleUnsafe()
        })
      })

      const spenderOf = ({ agentId, planId, taskType }: Call, model: RunningModel) =>
        Effect.mapError(
          askers.spender({
            model: model.id,
            planId,
            ...(agentId === undefined ? {} : { agentId }),
            ...(taskType === undefined ? {} : { taskType })
          }),
          (problem) =>
            refused(problem.status, problem._tag === "Forbidden" ? "forbidden" : "agent_not_found", problem.detail)
        )

      /** One try at a target, which is told of in the end whatever comes of it. */
      const attempt = Effect.fnUntraced(function* (
        call: Call,
        target: RunningTarget,
        body: string | Uint8Array,
        meter: CallMeter,
        routing: RunningGateway["routing"]
      ) {
        const scope = yield* Scope.fork(yield* Effect.scope)
        const startedAt = yield* Clock.currentTimeMillis
        meter.at(target)
        const onSent = () => {
          meter.progress = () => ({ usage: undefined, textBytes: 0, texts: [] })
        }
        const made = yield* attempts
          .make(target, { operation: call.operation, body, headers: call.headers }, routing, onSent)
          .pipe(Scope.provide(scope), Effect.result)
        const durationMs = (yield* Clock.currentTimeMillis) - startedAt
        const status = made._tag === "Success" ? made.success.status : made.failure.error.status
        meter.attempts.push({ provider: target.provider.id, model: target.model, status, durationMs })
        if (made._tag === "Success") return made.success
        meter.progress = undefined
        yield* Scope.close(scope, Exit.void)
        return yield* made.failure
      })

      /** What is known of a call before anybody is asked. */
      const considered = Effect.fnUntraced(function* (incoming: Call) {
        yield* checkIncoming(incoming)
        const gateway = configuration.running()
        const model = yield* modelOf(incoming.body.model, incoming.operation)
        const fallbacks = yield* Effect.forEach(incoming.fallbacks ?? [], (name) => modelOf(name, incoming.operation))
        const orders = yield* Effect.forEach([model, ...fallbacks], (one) => targetsOf(incoming, one, gateway))
        const spender = yield* spenderOf(incoming, model)
        const { body, bytes, operation } = incoming
        const hasOutput = operation === "chat"
        const bound = hasOutput ? chatBound(incoming.dialect, body, bytes.length) : embeddingBound(body, bytes.length)
        const targets = orders.flat()
        // Another model may read more than this one.
        const contextTokens = fallbacks.length === 0 ? model.contextTokens : null
        return { gateway, spender, terms: { model, targets, bound, contextTokens, defaultOutputTokens, hasOutput } }
      })

      /** The caps that bind a call at a target; an agent's budget for one turn and a reservation bind as caps do. */
      const governed = ({ perTurnNanoUsd = null, prepared }: Asking, spender: Spender) =>
        perTurnNanoUsd === null && prepared === undefined
          ? metering.governed(spender)
          : Effect.succeed({ byMoney: true, byHard: true })

      const estimate = Effect.fn("Calls.estimate")(function* (incoming: Call) {
        const { spender, terms } = yield* considered(incoming)
        const [target] = terms.targets
        if (target === undefined) return yield* noTarget
        const asked = at(spender, target)
        const bound = yield* estimateOf({ ...terms, governed: yield* governed(incoming, asked) })
        return { ...bound, model: terms.model.id, caps: yield* headrooms.of(asked) }
      })

      const call = Effect.fn("Calls.call")(function* (incoming: Call) {
        const { gateway, spender, terms } = yield* considered(incoming)
        const { bound, model, targets } = terms
        const { body, operation } = incoming
        const { routing } = gateway
        const request = yield* CurrentRequest
        const startedAt = yield* Clock.currentTimeMillis
        const deadline = startedAt + routing.timeoutSeconds * 1000
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
            texts: () => textsOf(body),
            traceId: request?.traceId
          },
          startedAt
        )
        yield* Effect.addFinalizer(() => meter.abandon)
        let { prepared } = incoming
        let last: ProviderFailure | undefined
        let estimate: Estimate | undefined
        for (const target of targets) {
          const asked = at(spender, target)
          const here: Terms = { ...terms, governed: yield* governed({ ...incoming, prepared }, asked) }
          if (!meter.holdsFor(target)) yield* meter.release
          for (let tries = 1; ; tries++) {
            // A hold that is still there was made with this estimate, and lets no larger one through.
            if (estimate === undefined || !meter.holdsFor(target)) {
              estimate = yield* holding.hold(meter, asked, target, here, { ...incoming, prepared })
              prepared = undefined
            }
            const sent = yield* outgoing(incoming, target, estimate.limit, estimate.outputTokens)
            const made = yield* Effect.result(
              Effect.timeoutOrElse(attempt(incoming, target, sent, meter, routing), {
                duration: Math.max(1, deadline - (yield* Clock.currentTimeMillis)),
                orElse: () => Effect.fail(outOfTime)
              })
            )
            if (made._tag === "Success") return yield* answerCall(incoming, target, made.success, meter, deadline)
            if (made.failure === outOfTime) {
              yield* meter.forfeit(504)
              return yield* outOfTime
            }
            const failure = made.failure as ProviderFailure
            last = failure
            if (failure.sent) yield* meter.forfeit(failure.error.status)
            if (!mayFailOver(failure)) return yield* refusalOf(failure)
            const pause =
              mayRepeat(failure) && tries <= routing.retries
                ? pauseBefore(tries, failure, yield* Random.next)
                : undefined
            if (pause === undefined) break
            yield* Effect.sleep(pause)
          }
        }
        yield* meter.release
        return yield* last === undefined ? noTarget : refusalOf(last)
      })

      const countTokens = Effect.fn("Calls.countTokens")(function* (incoming: Call) {
        yield* checkIncoming(incoming)
        const model = yield* modelOf(incoming.body.model, incoming.operation)
        const { routing } = configuration.running()
        const counting = model.targets.find(({ provider }) => provider.dialect === "anthropic")
        if (counting === undefined) {
          // Nobody else counts; the bound that calls are let in by is never too small.
          const { inputTokens } = chatBound("anthropic", incoming.body, incoming.bytes.length)
          return { headers: {}, bytes: counted(Math.ceil(inputTokens / 3)) }
        }
        const body = yield* outgoing(incoming, counting, undefined, 1)
        const answer = yield* Effect.mapError(
          attempts.make(counting, { operation: "count-tokens", body, headers: incoming.headers }, routing),
          refusalOf
        )
        return {
          headers: passedBack(answer.headers),
          bytes: answer.body instanceof Uint8Array ? answer.body : new Uint8Array()
        }
      })

      return Calls.of({ call, countTokens, estimate })
    })
  )
}

const at = (spender: Spender, { provider }: RunningTarget): Spender => ({
  ...spender,
  dimensions: { ...spender.dimensions, provider: provider.id }
})

const noTarget = refused(503, "provider-unavailable", "No provider of this model can do this.", retryAfter(30))

const outOfTime = refused(504, "provider-timeout", "The call took longer than the gateway waits.")

const counted = (inputTokens: number) => new TextEncoder().encode(JSON.stringify({ input_tokens: inputTokens }))

const refusalOf = ({ error, retryAfterSeconds }: ProviderFailure): CallRefused =>
  new CallRefused({ error, headers: retryAfterSeconds === undefined ? {} : retryAfter(retryAfterSeconds) })
