import { Clock, Context, Effect, Exit, FiberSet, Layer, Random, Scope, Stream } from "effect"
import { AvailableBudgets } from "../../budgets/caps/available-budget.ts"
import { ledgerLate } from "../../budgets/ledger/problems.ts"
import { type AvailableBudget, type BudgetSubject } from "../../budgets/ledger/protocol-domain.ts"
import { Overloaded } from "../../kernel/problems/problems.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { databaseDeadline, withoutDeadline } from "../../platform/http/deadline.ts"
import { CurrentRequest, type RequestInfo } from "../../platform/http/request.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type GatewayCaller } from "../authentication/gateway-authentication.ts"
import { BrokenBounds } from "../broken-bounds/service.ts"
import { type Betas, betasOf } from "../catalog/betas.ts"
import { CostUnbounded, ProviderTimeout } from "../configuration/domain.ts"
import { type GatewaySnapshot, type ModelTarget, type ServedModel } from "../configuration/gateway-snapshot.ts"
import { GatewayConfiguration } from "../configuration/service.ts"
import { RequestIds } from "../conversations/request-ids.ts"
import { attemptErrorOf } from "../errors/call-error.ts"
import { gatewayError, GatewayError, providerError, retryAfter } from "../errors/gateway-error.ts"
import { noUsage } from "../formats/domain.ts"
import { Omissions } from "../formats/omissions.ts"
import { imageTokensOf, type TokenUpperBound, writtenBytes } from "../formats/token-upper-bound.ts"
import { Admission } from "../metering/admission.ts"
import { BudgetReservations, type CapConstraints } from "../metering/budget-reservations.ts"
import { type Estimate, estimateOf, type EstimateTerms } from "../metering/estimates.ts"
import { TokenCounts } from "../metering/token-counts.ts"
import { UsageMeter } from "../metering/usage-meter.ts"
import { type ProviderAnswer, type ProviderFailure } from "../providers/provider.ts"
import { PrepaidQuotas } from "../routing/prepaid-quotas.ts"
import { type Candidate, candidatesOf, formatAt, resolveModel } from "../routing/resolve-model.ts"
import { hasWorked, isRefusal, mayFailOver, mayRepeat, pauseBefore, ProviderHealth, Router } from "../routing/router.ts"
import { fellBack } from "../routing/routing-metrics.ts"
import { CacheSavings } from "../savings/service.ts"
import { describeRequest } from "../telemetry/call-spans.ts"
import { conventionsOf } from "../telemetry/conventions.ts"
import { Transcripts } from "../transcripts/service.ts"
import { CallIdempotency, type ClaimedCall } from "./call-idempotency.ts"
import { type Call, noMembers, validateRequest } from "./call-request.ts"
import { type AnswerPull, readFinalEvents } from "./final-events.ts"
import { countableRequest, providerForm, providerRequest } from "./provider-request.ts"
import { ResponseCache } from "./response-cache.ts"
import { type CallAnswer, relayResponse } from "./response-relay.ts"

/** A call whose model is known, before anything is reserved or sent. */
interface ResolvedCall {
  readonly call: Call
  readonly gateway: GatewaySnapshot
  readonly model: ServedModel
  readonly candidates: ReadonlyArray<Candidate>
  readonly terms: Omit<EstimateTerms, "constraints">
  readonly betas: Betas
}

/** A provider's response, and the target that gave it. */
interface RoutedAnswer {
  readonly target: ModelTarget
  readonly answer: ProviderAnswer
  /** The headers that name what was not sent. */
  readonly omitted: Readonly<Record<string, string>>
}

/** The maximum usage and cost of a call, and what the applicable caps leave. */
export interface EstimatedCall extends Estimate {
  readonly model: string
  readonly caps: ReadonlyArray<AvailableBudget>
}

/** A request as it is sent with others in a batch, and what it may cost at most. */
export interface PreparedCall {
  readonly model: ServedModel
  readonly target: ModelTarget
  readonly estimate: Estimate
  readonly body: string | Uint8Array
  /** The betas that are sent, and those that are not because the cost of a call with them has no bound. */
  readonly betas: Betas
  readonly constraints: CapConstraints
}

/** Processes a call from its request to its response. */
export class CallPipeline extends Context.Service<
  CallPipeline,
  {
    /** The scope is the request's: if it closes before the response ends, the call is cancelled and charged up to then. */
    call(call: Call): Effect.Effect<CallAnswer, GatewayError, Scope.Scope>
    /** The maximum cost of a call, and what the applicable caps leave; no provider is called. */
    estimate(call: Call): Effect.Effect<EstimatedCall, GatewayError>
    /** Where a call may go, in the order in which it would be tried; fails where it would be refused whatever the caps leave. */
    candidates(call: Call): Effect.Effect<ReadonlyArray<Candidate>, GatewayError>
    /** The request of a batch for the candidate that is chosen, served at a tier of its own; nothing is reserved or sent. */
    prepare(
      call: Call,
      tier: string,
      choose: (candidates: ReadonlyArray<Candidate>) => Candidate | GatewayError
    ): Effect.Effect<PreparedCall, GatewayError>
  }
>()("app/gateway/CallPipeline") {
  static readonly layer = Layer.effect(
    CallPipeline,
    Effect.gen(function* () {
      const admission = yield* Admission
      const bounds = yield* BrokenBounds
      const budgets = yield* AvailableBudgets
      const cache = yield* ResponseCache
      const savings = yield* CacheSavings
      const clock = yield* Clock.Clock
      const configuration = yield* GatewayConfiguration
      const fork = yield* FiberSet.makeRuntime<never>()
      const counts = yield* TokenCounts
      const health = yield* ProviderHealth
      const idempotency = yield* CallIdempotency
      const ids = yield* RequestIds
      const random = yield* Random.Random
      const reservations = yield* BudgetReservations
      const router = yield* Router
      const transcripts = yield* Transcripts
      const settings = yield* Settings
      const conventions = conventionsOf(settings.telemetry.semconvStabilityOptIn)
      const { defaultMaxOutputTokens: defaultOutputTokens, defaultMaxToolUses: defaultToolUses } = settings.llm.gateway
      const inTime = yield* databaseDeadline(ledgerLate)
      const quotaOf = yield* PrepaidQuotas
      const routingFacts = {
        latency: health.latency,
        random: () => random.nextDoubleUnsafe()
      }

      /** Step 1: the model, its candidates in their order, and the upper bound of the tokens. */
      const resolve = (call: Call): ResolvedCall | GatewayError => {
        const { fallbacks = [], format } = call
        const invalid = validateRequest(call)
        if (invalid !== undefined) return invalid
        const gateway = configuration.snapshot()
        const models: Array<ServedModel> = []
        for (const name of [call.model, ...fallbacks]) {
          const found = resolveModel(gateway, name, format)
          if (found instanceof GatewayError) return found
          models.push(found)
        }
        const model = models[0]!
        const facts = {
          ...routingFacts,
          orderOf: call.session?.orderOf,
          quota: ({ provider }: ModelTarget) => quotaOf(call.caller.subject.tenantId, provider.id)
        }
        const candidates = candidatesOf(gateway, models, format, facts, call)
        const targets = candidates.map(({ target }) => target)
        // A fallback may have a longer context than the model.
        const contexts = models.flatMap(({ contextTokens: length }) => (length === null ? [] : [length]))
        const betas = betasOf(call.headers, gateway.betaOf)
        const contextTokens = contexts.length < models.length ? null : Math.max(...contexts, betas.contextTokens ?? 0)
        const bound = boundOf(call, model.maxOutputTokens, contextTokens, targets)
        return {
          call,
          gateway,
          model,
          candidates,
          betas,
          terms: {
            model,
            targets,
            bound,
            contextTokens,
            defaultOutputTokens: format.usualOutputTokens ?? defaultOutputTokens,
            defaultToolUses,
            hasOutput: format.hasOutput,
            timeoutSeconds: gateway.routing.timeoutSeconds
          }
        }
      }

      /** Step 2: a meter, which settles the call when the request ends, however it ends. */
      const meterOf = ({ call, gateway, model, terms }: ResolvedCall, traceId: string | undefined): UsageMeter => {
        const { body, caller, format, metadata } = call
        const { tenantId } = caller.subject
        const { catalogueVersion } = gateway
        const { bound } = terms
        const metered = {
          format,
          asked: call.model,
          streams: call.streams,
          body,
          tenantId,
          model,
          catalogueVersion,
          ratesOf: gateway.ratesOf,
          bound,
          timeoutSeconds: terms.timeoutSeconds,
          metadata,
          traceId,
          conventions
        }
        return new UsageMeter(metered, clock, counts)
      }

      /**
       * Which kinds of caps apply at a candidate; the agent's budget per turn and a reservation limit the call like caps.
       */
      const constraintsOf = (subject: BudgetSubject, { perTurnNanoUsd, reservation }: GatewayCaller) =>
        perTurnNanoUsd === null && reservation === undefined
          ? inTime(reservations.constraintsOf(subject))
          : Effect.succeed({ byMoney: true, byHard: true, byHardMoney: true })

      /** Steps 3 and 4: admits the call at one candidate after the other, and sends it, until one answers. */
      const route = Effect.fnUntraced(function* (
        resolved: ResolvedCall,
        meter: UsageMeter,
        claimed: ClaimedCall,
        info: RequestInfo | undefined
      ): Effect.fn.Return<RoutedAnswer, GatewayError, Scope.Scope> {
        const { betas, call, candidates, gateway, terms } = resolved
        const { routing } = gateway
        const deadline = meter.startedAt + routing.timeoutSeconds * 1000
        const { caller } = call
        let { reservation } = caller
        /** What a turn's budget, or an earlier reservation, leaves for the next attempt. */
        let perTurnNanoUsd = leastOf(caller.perTurnNanoUsd, reservation?.amountNanoUsd ?? null)
        let isAdmitted = false
        const charge = (costNanoUsd: bigint) => {
          isAdmitted = false
          if (perTurnNanoUsd !== null) perTurnNanoUsd -= costNanoUsd
        }
        let last: { readonly failure: ProviderFailure; readonly provider: string } | undefined
        let estimate: Estimate | undefined
        let before: Candidate | undefined
        let omitted: RoutedAnswer["omitted"] = {}
        let refused: GatewayError | undefined
        for (const candidate of candidates) {
          const { target } = candidate
          const subject = subjectAt(caller.subject, candidate)
          const constraints = yield* constraintsOf(subject, caller)
          if (constraints.byHard && bounds.isOver(target, call.format.operation)) {
            refused ??= boundBroken(target)
            continue
          }
          if (before !== undefined) fellBack(before.target.provider.id, target.provider.id)
          // Other caps may apply to another provider, or to another model; an earlier reservation moves there.
          if (before !== undefined && (!meter.isReservedFor(target) || before.model !== candidate.model)) {
            isAdmitted = false
            if (meter.earlier === undefined) meter.release()
          }
          before = candidate
          for (let tries = 1; ; tries++) {
            // A reservation that is still held was made with this estimate, and a larger one would not fit it.
            if (estimate === undefined || !isAdmitted) {
              const here = { ...terms, model: candidate.model, constraints }
              const countable = countableRequest({ ...call, headers: betas.bounded }, target)
              const request = { body: call.body, metadata: call.metadata, perTurnNanoUsd, reservation, countable }
              const admitted = inTime(admission.admit(meter, subject, target, here, request))
              // Where nothing is left for another attempt, the caller gets the failure of the last one.
              estimate = yield* last === undefined ? admitted : Effect.mapError(admitted, orFailure(last))
              reservation = undefined
              isAdmitted = true
              if (call.idempotency !== undefined) yield* claimed.reserved(meter.reservationId)
            }
            const omissions = new Omissions(call.format.translation?.ownNames)
            const written = yield* Effect.result(providerRequest(call, target, estimate, omissions))
            // Another target may have an API that the request can be translated to.
            if (written._tag === "Failure") {
              refused ??= written.failure
              break
            }
            const omits = betas.unbounded.length > 0 && (yield* constraintsOf(subject, caller)).byHard
            const sent = omits ? { ...call, headers: betas.bounded } : call
            omitted = { ...omissions.headers(), ...(omits ? omission("x-omitted-betas", betas.unbounded) : {}) }
            if (info !== undefined) info.isCounted = true
            const made = yield* attempt(sent, target, written.success, meter, routing, deadline)
            if (made._tag === "Success") return { target, answer: made.success, omitted }
            const { failure } = made
            last = { failure, provider: target.provider.id }
            const used = failure.usage ?? (meter.isTimed && hasWorked(failure) ? noUsage : undefined)
            if (used !== undefined) {
              const { status } = failure.error
              const method = failure.usage === undefined ? "unanswered" : "provider_usage"
              charge(yield* inTime(meter.settleAttempt(used, method, status)))
              // Where nothing could be kept of it, another attempt would need a new reservation.
              if (caller.reservation !== undefined && meter.earlier === undefined) perTurnNanoUsd = 0n
            } else if (failure.sent) charge(meter.chargeFullReservation(failure.error.status))
            // No cap limits how often a request is sent that its provider refuses.
            if (info !== undefined) info.isCounted = !isRefusal(failure)
            const now = clock.currentTimeMillisUnsafe()
            if (now >= deadline || !mayFailOver(failure)) {
              meter.release()
              yield* logFailure(target, failure)
              return yield* now >= deadline ? outOfTime : providerError(failure, target.provider.id, omitted)
            }
            const pause =
              mayRepeat(failure) && tries <= routing.retries
                ? pauseBefore(tries, failure, random.nextDoubleUnsafe())
                : undefined
            if (pause === undefined) {
              yield* logFailure(target, failure)
              break
            }
            yield* withoutDeadline(Effect.sleep(pause))
          }
        }
        meter.release()
        if (last === undefined) return yield* refused ?? noTarget(resolved)
        return yield* providerError(last.failure, last.provider, omitted)
      })

      /** Where a call fails at no cost, its caller has an earlier reservation back with the answer, to call again with it. */
      const returning = <A, R>({ caller }: Call, meter: UsageMeter, made: Effect.Effect<A, GatewayError, R>) =>
        caller.reservation === undefined
          ? made
          : Effect.tapError(made, () =>
              Effect.andThen(meter.abandon, Effect.ignore(inTime(reservations.returned(caller.subject.tenantId))))
            )

      /** One request to one target, which the meter records. */
      const attempt = (
        call: Call,
        target: ModelTarget,
        body: string | Uint8Array,
        meter: UsageMeter,
        routing: GatewaySnapshot["routing"],
        deadline: number
      ) => {
        const startedAt = clock.currentTimeMillisUnsafe()
        meter.beginAttempt(target)
        const attempted = (status: number) => ({
          provider: target.provider.id,
          model: target.model,
          status,
          durationMs: clock.currentTimeMillisUnsafe() - startedAt
        })
        return router
          .send(
            target,
            {
              format: formatAt(call.format, target),
              model: target.model,
              streams: call.streams,
              body,
              form: providerForm(call, target),
              headers: call.headers,
              deadline,
              via: call.via
            },
            routing,
            {
              sent: (span) => {
                meter.sent()
                describeRequest(conventions, span, call.format.dialect, call.body)
              },
              answered: (span, { status }) => meter.answered(attempted(status), span),
              failed: (failure) =>
                meter.attemptFailed({ ...attempted(failure.error.status), error: attemptErrorOf(failure) })
            }
          )
          .pipe(Effect.result)
      }

      const estimate = Effect.fn("CallPipeline.estimate")(function* (call: Call) {
        const resolved = resolve(call)
        if (resolved instanceof GatewayError) return yield* resolved
        const { candidates, model, terms } = resolved
        const [first] = candidates
        if (first === undefined) return yield* noTarget(resolved)
        // Other caps may apply to a fallback, or to another provider.
        const caps = new Map<string, AvailableBudget>()
        for (const candidate of candidates) {
          for (const available of yield* budgets.of(subjectAt(call.caller.subject, candidate))) {
            caps.set(`${available.cap.id} ${available.counterKey}`, available)
          }
        }
        const { caller } = call
        const constraints = yield* constraintsOf(subjectAt(caller.subject, first), caller)
        const isOver = ({ target }: Candidate) => bounds.isOver(target, call.format.operation)
        if (constraints.byHard && candidates.every(isOver)) return yield* boundBroken(first.target)
        const bound = yield* estimateOf({ ...terms, constraints })
        return { ...bound, model: model.id, caps: [...caps.values()] }
      }, inTime)

      const candidates = Effect.fnUntraced(function* (call: Call) {
        const resolved = resolve(call)
        if (resolved instanceof GatewayError) return yield* resolved
        const [first] = resolved.candidates
        if (first === undefined) return yield* noTarget(resolved)
        const constraints = yield* constraintsOf(subjectAt(call.caller.subject, first), call.caller)
        yield* estimateOf({ ...resolved.terms, constraints })
        return resolved.candidates
      }, inTime)

      const prepare = Effect.fnUntraced(function* (
        given: Call,
        tier: string,
        choose: (candidates: ReadonlyArray<Candidate>) => Candidate | GatewayError
      ) {
        const call = yield* ids.opened(given, given.format.idScope(noMembers))
        const resolved = resolve(call)
        if (resolved instanceof GatewayError) return yield* resolved
        const { betas, candidates, terms } = resolved
        const chosen = choose(candidates)
        if (chosen instanceof GatewayError) return yield* chosen
        const { model, target } = chosen
        const constraints = yield* constraintsOf(subjectAt(call.caller.subject, chosen), call.caller)
        if (constraints.byHard && bounds.isOver(target, call.format.operation)) return yield* boundBroken(target)
        // How long each request of a batch takes is known to its provider alone.
        if (target.rates?.gpuHour !== undefined) return yield* timeless(target)
        const estimate = yield* estimateOf({ ...terms, model, targets: [target], constraints, tier })
        const body = yield* providerRequest(call, target, estimate)
        return { model, target, estimate, body, betas, constraints }
      })

      const answer = Effect.fnUntraced(function* (call: Call, claimed: ClaimedCall, info: RequestInfo | undefined) {
        const resolved = resolve(call)
        if (resolved instanceof GatewayError) return yield* resolved
        const { tenantId } = call.caller.subject
        const slot = cache.slot(call, resolved.model, tenantId, resolved.gateway)
        const cached = slot === undefined ? undefined : yield* slot.find
        if (cached !== undefined) {
          const { provider, savedNanoUsd } = cached.report
          const { dimensions, ...subject } = call.caller.subject
          const served = { ...subject, dimensions: { ...dimensions, model: resolved.model.id, provider } }
          if (savedNanoUsd !== undefined && savedNanoUsd > 0n) yield* savings.record(served, savedNanoUsd)
          return yield* Effect.as(claimed.release, cached)
        }
        const meter = meterOf(resolved, info?.traceId)
        const exchange = Scope.makeUnsafe()
        let rest: AnswerPull | undefined
        // Effect.addFinalizer would merge two contexts for each call.
        yield* Scope.addFinalizer(
          yield* Scope.Scope,
          Effect.suspend(() => leave(meter, exchange, rest))
        )
        const routed = yield* returning(call, meter, Scope.provide(route(resolved, meter, claimed, info), exchange))
        const { reservationId = "" } = meter
        // Step 5: translated, metered, and settled at its end.
        const answered = yield* returning(call, meter, relayResponse(call, routed.target, routed.answer, meter))
        const relayed = { ...answered, headers: { ...answered.headers, ...routed.omitted } }
        const { bytes: request, format } = call
        const { answersBytes, dialect, operation } = format
        const spoken = { dialect, operation, request, reservationId, tenantId }
        // Audio is no text that could be read again.
        if (transcripts.isRecording && answersBytes === true) yield* transcripts.record(spoken, noBytes)
        const recorded =
          transcripts.isRecording && answersBytes !== true
            ? { ...relayed, body: yield* transcripts.record(spoken, relayed.body) }
            : relayed
        const kept = slot === undefined ? recorded : yield* slot.keep(recorded, meter)
        if (kept.body instanceof Uint8Array) return kept
        rest = yield* Scope.provide(Stream.toPull(kept.body), exchange)
        const over = Effect.sync(() => (rest = undefined))
        return { ...kept, body: Stream.onEnd(Stream.fromPull(Effect.succeed(rest)), over) }
      })

      /**
       * Ends a call with its request. If the caller left when the model had reported its end, the final events are read
       * in the background, since they contain the usage; otherwise the provider's work is cancelled.
       */
      const leave = (
        meter: UsageMeter,
        exchange: Scope.Closeable,
        rest: AnswerPull | undefined
      ): Effect.Effect<void> => {
        const close = Scope.close(exchange, Exit.void).pipe(
          Effect.andThen(meter.abandon),
          Effect.andThen(meter.logNotices)
        )
        if (rest === undefined || !meter.isFinished) return close
        return Effect.sync(() => void fork(Effect.ensuring(readFinalEvents(rest), close)))
      }

      return CallPipeline.of({
        call: withSpan("CallPipeline.call", (call: Call) =>
          Effect.withFiber((fiber) => {
            const info = Context.get(fiber.context, CurrentRequest)
            return Effect.flatMapEager(ids.opened(call, call.format.idScope(noMembers)), (opened) =>
              idempotency.once(opened, (claimed) => answer(opened, claimed, info))
            )
          })
        ),
        candidates,
        estimate,
        prepare
      })
    })
  )
}

const noBytes = new Uint8Array()

/** The header that names what a request went without. */
const omission = (header: string, names: ReadonlyArray<string>): Readonly<Record<string, string>> =>
  names.length === 0 ? {} : { [header]: names.join(", ") }

const leastOf = (one: bigint | null, other: bigint | null): bigint | null =>
  one === null ? other : other === null || one < other ? one : other

/** The upper bound of a call's tokens at any of its targets. */
const boundOf = (
  { body, bytes, format }: Call,
  maxOutputTokens: number | null,
  contextTokens: number | null,
  targets: ReadonlyArray<ModelTarget>
): TokenUpperBound =>
  format.bound(body, {
    models: targets,
    mcpServers: [...new Set(targets.map(({ provider }) => provider.mcpServers))],
    bodyBytes: writtenBytes(bytes),
    imageTokens: imageTokensOf(targets),
    contextTokens,
    maxOutputTokens
  })

/** The subject of a call at a candidate: caps may name the model, or its provider. */
export const subjectAt = (
  subject: BudgetSubject,
  {
    model,
    target
  }: { readonly model: Pick<ServedModel, "id">; readonly target: { readonly provider: { readonly id: string } } }
): BudgetSubject => ({
  ...subject,
  dimensions: { ...subject.dimensions, model: model.id, provider: target.provider.id }
})

/** Not what the provider said: that may repeat the prompt. */
const logFailure = ({ model, provider }: ModelTarget, { error, reason, received }: ProviderFailure) =>
  error.status < 500
    ? Effect.void
    : Effect.flatMap(CurrentRequest, (request) =>
        Effect.logWarning(`The provider ${provider.id} failed`).pipe(
          Effect.annotateLogs({
            provider: provider.id,
            model,
            reason,
            code: error.code ?? undefined,
            status: received,
            traceId: request?.traceId
          })
        )
      )

/** The last failure, where the budget of the call has nothing left for another attempt. */
const orFailure =
  ({ failure, provider }: { readonly failure: ProviderFailure; readonly provider: string }) =>
  (denied: GatewayError): GatewayError =>
    denied.problem._tag === "TurnBudgetExceeded" ? providerError(failure, provider) : denied

/** Why a call has no candidate: no provider does this, or the routing has left out all that do. */
const noTarget = ({ gateway, model }: ResolvedCall): GatewayError => {
  const providers = model.targets.map(({ provider }) => provider.id)
  const detail =
    gateway.routing.strategy === "subscription-first" && providers.length > 0
      ? `The quotas of the subscriptions at ${providers.join(", ")} are used up, and their overage is denied.`
      : "No provider of this model can do this."
  return gatewayError(new Overloaded({ detail }), { code: "provider-unavailable", headers: retryAfter(30) })
}

/** Why a target takes no call under a hard cap: what was held for one was not enough. */
const boundBroken = ({ model, provider }: ModelTarget): GatewayError => {
  const detail = `${provider.id} charged a call of ${model} more than was held for it, and a hard cap applies. An operator has to acknowledge it.`
  return gatewayError(new CostUnbounded({ detail }))
}

/** Why a target takes no batches: their requests have no time of their own. */
const timeless = ({ model, provider }: ModelTarget): GatewayError => {
  const detail = `${model} of ${provider.id} is charged by the time of a GPU, and a batch does not say how long its requests take.`
  return gatewayError(new CostUnbounded({ detail }))
}

const outOfTime = gatewayError(new ProviderTimeout({ detail: "The call took longer than the gateway waits." }))
