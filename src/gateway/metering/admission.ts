import { Context, Effect, Layer, Option } from "effect"
import { RateLimits } from "../../access/rate-limits.ts"
import { Audit } from "../../audit/log/service.ts"
import { ReservationTooSmall, spendActions } from "../../budgets/ledger/domain.ts"
import { type BudgetSubject } from "../../budgets/ledger/protocol-domain.ts"
import { amountText } from "../../budgets/ledger/quantity-domain.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { usdOf } from "../../kernel/usd.ts"
import { type ExistingReservation } from "../authentication/gateway-authentication.ts"
import { TurnBudgetExceeded } from "../configuration/domain.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { gatewayError, type GatewayError, notRetryable } from "../errors/gateway-error.ts"
import { denied as countDenial } from "../telemetry/metrics.ts"
import { type AdmissionDenied } from "./budget-errors.ts"
import { BudgetReservations, type HeldItem } from "./budget-reservations.ts"
import { type Estimate, estimateOf, fitting, type EstimateTerms } from "./estimates.ts"
import { type CountableRequest, countingAt, ProviderCounts } from "./provider-counts.ts"
import { textsOf } from "./request-texts.ts"
import { encodingOfAll, TokenCounts } from "./token-counts.ts"
import { type UsageMeter } from "./usage-meter.ts"

/** What admission depends on besides the terms of the estimate. */
export interface AdmissionRequest {
  readonly body: Readonly<Record<string, unknown>>
  readonly metadata?: Readonly<Record<string, string>> | undefined
  readonly perTurnNanoUsd?: bigint | null | undefined
  /** The request as its target would get it, for its provider to count; undefined if it cannot be counted. */
  readonly countable?: Effect.Effect<CountableRequest, GatewayError> | undefined
  /** A reservation that was made before the call. */
  readonly reservation?: ExistingReservation | undefined
}

/** One call at one target, and the most that it may cost whatever the caps leave. */
interface Attempt {
  readonly meter: UsageMeter
  readonly subject: BudgetSubject
  readonly target: ModelTarget
  readonly request: AdmissionRequest
  readonly most: bigint | null
}

/**
 * Admits a call with the upper bound of its cost; with the cost of its counted tokens if the bound exceeds the budget; or
 * with a lower output limit that fits.
 */
export class Admission extends Context.Service<
  Admission,
  {
    /** Reserves the maximum cost of a call at a target. */
    admit(
      meter: UsageMeter,
      subject: BudgetSubject,
      target: ModelTarget,
      terms: EstimateTerms,
      request: AdmissionRequest
    ): Effect.Effect<Estimate, GatewayError>
    /**
     * Holds what the calls of a batch may cost together, of which each was estimated before; `most` is what a call of the
     * caller may cost whatever the caps leave. Where it fails, some of it may be held.
     */
    hold(items: ReadonlyArray<HeldItem>, most: bigint | null): Effect.Effect<void, GatewayError>
  }
>()("app/gateway/Admission") {
  static readonly layer = Layer.effect(
    Admission,
    Effect.gen(function* () {
      const audit = yield* Audit
      const counts = yield* TokenCounts
      const limits = yield* RateLimits
      const providerCounts = yield* ProviderCounts
      const reservations = yield* BudgetReservations

      /** The same terms, with the request counted by its provider. */
      const countedByProvider = Effect.fnUntraced(function* (
        terms: EstimateTerms,
        target: ModelTarget,
        { countable }: AdmissionRequest
      ) {
        const { bound, targets } = terms
        // What is fetched when the call runs, or returned by a tool, may be another thing than is counted.
        if (countable === undefined || bound.elsewhere === "fetched" || bound.elsewhere === "image") return undefined
        const request = yield* Effect.option(countable)
        if (Option.isNone(request)) return undefined
        const { format, onlyProvider } = request.value
        const isCountOf = (one: ModelTarget) =>
          one.model === target.model &&
          (onlyProvider === undefined || one.provider.id === onlyProvider) &&
          countingAt(one, format) !== undefined
        if (!targets.every(isCountOf)) return undefined
        const tokens = yield* providerCounts.count(target, request.value)
        const most = bound.elsewhere === undefined ? bound.inputTokens : (terms.contextTokens ?? Infinity)
        return Option.isNone(tokens) || tokens.value >= most
          ? undefined
          : { ...terms, bound: { ...bound, inputTokens: tokens.value, elsewhere: undefined } }
      })

      /**
       * The same terms, with the request's texts counted by the model's own tokenizer, if it is public, or else the whole
       * request by its provider.
       */
      const counted = Effect.fnUntraced(function* (
        terms: EstimateTerms,
        target: ModelTarget,
        request: AdmissionRequest,
        { tenantId }: BudgetSubject
      ) {
        const { body } = request
        // What is counted may still be denied, and then nothing else limits how often.
        if (!(yield* limits.hasLeft((yield* CurrentPrincipal).name))) return undefined
        const encoding = encodingOfAll(terms.targets)
        const { elsewhere } = terms.bound
        // An image is never counted, so that its bound holds.
        if (encoding === undefined || (elsewhere !== undefined && elsewhere !== "image")) {
          return yield* countedByProvider(terms, target, request)
        }
        const { bytes, texts, tokens: ids } = textsOf(body)
        const tokens = yield* counts.count(tenantId, { encoding, texts })
        if (Option.isNone(tokens)) return undefined
        const inputTokens = terms.bound.inputTokens - bytes + ids + tokens.value
        return { ...terms, bound: { ...terms.bound, inputTokens } }
      })

      /**
       * Undefined when the estimate is reserved; the denial where a smaller one may fit. Only what is counted as well as can
       * be may wait for an approval.
       */
      const reserve = (
        { meter, most, request, subject, target }: Attempt,
        estimate: Estimate,
        mayWait: boolean
      ): Effect.Effect<AdmissionDenied | undefined, GatewayError> => {
        const { amountNanoUsd, tokens } = estimate
        const { metadata, reservation } = request
        if (most !== null && amountNanoUsd > most) {
          const remaining = { nanoUsd: most, tokens: null }
          return Effect.succeed({ error: tooLarge(estimate, most, reservation, subject), remaining, couldWait: false })
        }
        const { earlier } = meter
        const made =
          earlier !== undefined
            ? earlier.moveTo(subject, amountNanoUsd, tokens)
            : reservation === undefined
              ? reservations.reserve(subject, amountNanoUsd, tokens, mayWait, metadata)
              : reservations.transfer(subject, reservation, amountNanoUsd, tokens)
        // Nothing may come between what was reserved and the meter, which releases it when the caller has left.
        return Effect.uninterruptibleMask((restore) =>
          Effect.matchEffect(restore(made), {
            onSuccess: (reserved) => {
              if (earlier === undefined) meter.reserved(reserved, target, estimate)
              else meter.moved(reserved, target, estimate)
              return Effect.succeed(undefined)
            },
            onFailure: (denied) =>
              denied.remaining === undefined && !denied.couldWait ? Effect.fail(denied.error) : Effect.succeed(denied)
          })
        )
      }

      const reserveLess = Effect.fnUntraced(function* (
        attempt: Attempt,
        terms: EstimateTerms,
        wanted: Estimate,
        first: AdmissionDenied
      ) {
        const { most, request, subject } = attempt
        let denied: AdmissionDenied | undefined = first
        // A cap in requests leaves no more room for a smaller one.
        const exact =
          first.remaining === undefined ? undefined : yield* counted(terms, attempt.target, request, subject)
        const again = exact === undefined ? wanted : yield* estimateOf(exact)
        if (exact !== undefined || first.couldWait) {
          denied = yield* reserve(attempt, again, true)
          if (denied === undefined) return again
        }
        const { nanoUsd = null, tokens = null } = denied.remaining ?? {}
        const smaller = fitting(exact ?? terms, again, { nanoUsd: least(most, nanoUsd), tokens })
        if (smaller === undefined) return yield* denied.error
        denied = yield* reserve(attempt, smaller, true)
        return denied === undefined ? smaller : yield* denied.error
      })

      const admitBy = (attempt: Attempt, terms: EstimateTerms): Effect.Effect<Estimate, GatewayError> =>
        Effect.flatMapEager(estimateOf(terms), (wanted) =>
          Effect.flatMap(reserve(attempt, wanted, false), (denied) =>
            denied === undefined ? Effect.succeed(wanted) : reserveLess(attempt, terms, wanted, denied)
          )
        )

      const deny = (denied: GatewayError) =>
        countDenial(denied.error.code ?? "unknown").pipe(
          Effect.andThen(denied.refusal === undefined ? Effect.void : audit.refused(denied.refusal)),
          Effect.andThen(Effect.fail(denied))
        )

      return Admission.of({
        hold: (items, most) => {
          const amountNanoUsd = items.reduce((sum, item) => sum + item.amountNanoUsd, 0n)
          const [first] = items
          return first !== undefined && most !== null && amountNanoUsd > most
            ? deny(tooLarge({ amountNanoUsd }, most, undefined, first.subject))
            : Effect.forEach(items, (item) => Effect.catch(reservations.hold(item), ({ error }) => deny(error)), {
                discard: true
              })
        },
        admit: (meter, subject, target, terms, request) => {
          const most = least(request.perTurnNanoUsd ?? null, request.reservation?.amountNanoUsd ?? null)
          const attempt: Attempt = { meter, most, request, subject, target }
          /** Tries again if the caps have changed since the terms were computed. */
          const unlessChanged = (outcome: Effect.Effect<Estimate, GatewayError>) =>
            Effect.flatMapEager(reservations.areCurrent(subject, terms.constraints), (areCurrent) => {
              if (areCurrent) return outcome
              meter.withdraw()
              return Effect.flatMapEager(reservations.constraintsOf(subject), (constraints) =>
                Effect.catch(admitBy(attempt, { ...terms, constraints }), deny)
              )
            })
          return Effect.matchEffect(admitBy(attempt, terms), {
            onSuccess: (estimate) => unlessChanged(Effect.succeed(estimate)),
            onFailure: (denied) => unlessChanged(deny(denied))
          })
        }
      })
    })
  )
}

const least = (one: bigint | null, other: bigint | null): bigint | null =>
  one === null ? other : other === null || one < other ? one : other

const tooLarge = (
  { amountNanoUsd }: Pick<Estimate, "amountNanoUsd">,
  most: bigint,
  reservation: ExistingReservation | undefined,
  { dimensions, tenantId }: BudgetSubject
): GatewayError => {
  if (reservation !== undefined && amountNanoUsd > reservation.amountNanoUsd) {
    return gatewayError(new ReservationTooSmall({ estimateUsd: amountNanoUsd }), { headers: notRetryable })
  }
  const alike =
    dimensions.agentId === undefined
      ? "Another attempt may cost more than the reservation has left."
      : "The call may cost more than the agent's budget for one turn."
  const reason = `${alike} Asked for: ${amountText("usd", amountNanoUsd)}; limit: ${amountText("usd", most)}.`
  const figures = { reason: "turn-budget", unit: "usd", requested: usdOf(amountNanoUsd), limit: usdOf(most) }
  return gatewayError(new TurnBudgetExceeded({ detail: reason }), {
    details: figures,
    headers: notRetryable,
    refusal: {
      action: spendActions.SpendRefused,
      target: dimensions.agentId ?? null,
      tenantId,
      reason,
      alike,
      after: { ...figures, ...dimensions }
    }
  })
}
