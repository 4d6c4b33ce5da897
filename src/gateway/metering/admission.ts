import { Context, Effect, Layer, Option } from "effect"
import { ReservationTooSmall } from "../../budgets/ledger/domain.ts"
import { type BudgetSubject } from "../../budgets/ledger/protocol-domain.ts"
import { type ExistingReservation } from "../authentication/gateway-authentication.ts"
import { type UsageMeter } from "./usage-meter.ts"
import { type Estimate, estimateOf, fitting, type EstimateTerms } from "./estimates.ts"
import { type AdmissionDenied, type RemainingBudget } from "./budget-errors.ts"
import { type BudgetReservation, BudgetReservations } from "./budget-reservations.ts"
import { denied as countDenial } from "../telemetry/metrics.ts"
import { TurnBudgetExceeded } from "../configuration/domain.ts"
import { gatewayError, type GatewayError, notRetryable } from "../errors/gateway-error.ts"
import { textsOf } from "./request-texts.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { type CountableRequest, ProviderCounts } from "./provider-counts.ts"
import { encodingOfAll, TokenCounts } from "./token-counts.ts"

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
  }
>()("app/gateway/Admission") {
  static readonly layer = Layer.effect(
    Admission,
    Effect.gen(function* () {
      const counts = yield* TokenCounts
      const providerCounts = yield* ProviderCounts
      const reservations = yield* BudgetReservations

      /** The same terms, with the request counted by its provider. */
      const countedByProvider = Effect.fnUntraced(function* (
        terms: EstimateTerms,
        target: ModelTarget,
        { countable }: AdmissionRequest
      ) {
        const { bound, targets } = terms
        const areAlike = targets.every(
          ({ model, provider }) => model === target.model && provider.dialect === "anthropic"
        )
        // Compactions read the input again.
        if (countable === undefined || !areAlike || bound.choices > 1) return undefined
        const request = yield* Effect.option(countable)
        if (Option.isNone(request)) return undefined
        const tokens = yield* providerCounts.count(target, request.value)
        return Option.isNone(tokens) || tokens.value >= bound.inputTokens
          ? undefined
          : { ...terms, bound: { ...bound, inputTokens: tokens.value } }
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
        const encoding = encodingOfAll(terms.targets)
        if (encoding === undefined) return yield* countedByProvider(terms, target, request)
        const { bytes, texts } = textsOf(body)
        const tokens = yield* counts.count(tenantId, { encoding, texts })
        if (Option.isNone(tokens)) return undefined
        const inputTokens = terms.bound.inputTokens - bytes + tokens.value
        return { ...terms, bound: { ...terms.bound, inputTokens } }
      })

      const admitBy = (
        meter: UsageMeter,
        subject: BudgetSubject,
        target: ModelTarget,
        terms: EstimateTerms,
        request: AdmissionRequest
      ): Effect.Effect<Estimate, GatewayError> => {
        const { metadata, perTurnNanoUsd, reservation } = request
        const most = least(perTurnNanoUsd ?? null, reservation?.amountNanoUsd ?? null)
        let remaining: RemainingBudget = { nanoUsd: most, tokens: null }

        // Nothing may come between what was reserved and the meter, which releases it when the caller has left.
        const reserve = (estimate: Estimate): Effect.Effect<GatewayError | undefined, GatewayError> => {
          const { amountNanoUsd, tokens } = estimate
          const held: Effect.Effect<BudgetReservation, AdmissionDenied> =
            reservation === undefined
              ? reservations.reserve(subject, amountNanoUsd, tokens, metadata)
              : reservations.transfer(subject, reservation, amountNanoUsd, tokens)
          return Effect.uninterruptibleMask((restore) =>
            Effect.matchEffect(restore(held), {
              onSuccess: (made) => {
                meter.hold(made, target, estimate)
                return Effect.succeed(undefined)
              },
              onFailure: ({ error, remaining: left }) => {
                if (left === undefined) return Effect.fail(error)
                remaining = { nanoUsd: least(most, left.nanoUsd), tokens: left.tokens }
                return Effect.succeed(error)
              }
            })
          )
        }

        const reserveWithin = (estimate: Estimate) =>
          most === null || estimate.amountNanoUsd <= most
            ? reserve(estimate)
            : Effect.succeed(tooLarge(estimate, reservation))

        const reserveLess = Effect.fnUntraced(function* (wanted: Estimate, first: GatewayError) {
          let denied: GatewayError | undefined = first
          const exact = yield* counted(terms, target, request, subject)
          const again = exact === undefined ? wanted : yield* estimateOf(exact)
          if (exact !== undefined) {
            denied = yield* reserveWithin(again)
            if (denied === undefined) return again
          }
          const smaller = fitting(exact ?? terms, again, remaining)
          if (smaller === undefined) return yield* denied
          denied = yield* reserve(smaller)
          return denied === undefined ? smaller : yield* denied
        })

        return Effect.flatMapEager(estimateOf(terms), (wanted) =>
          Effect.flatMap(reserveWithin(wanted), (denied) =>
            denied === undefined ? Effect.succeed(wanted) : reserveLess(wanted, denied)
          )
        )
      }

      /** Tries again if the caps have changed since the terms were computed. */
      const admit = (
        meter: UsageMeter,
        subject: BudgetSubject,
        target: ModelTarget,
        terms: EstimateTerms,
        request: AdmissionRequest
      ): Effect.Effect<Estimate, GatewayError> =>
        Effect.flatMap(Effect.result(admitBy(meter, subject, target, terms, request)), (held) =>
          Effect.flatMapEager(reservations.areCurrent(subject, terms.constraints), (isStill) => {
            if (isStill) return Effect.fromResult(held)
            meter.release()
            return Effect.flatMapEager(reservations.constraintsOf(subject), (constraints) =>
              admitBy(meter, subject, target, { ...terms, constraints }, request)
            )
          })
        )

      return Admission.of({
        admit: (...all) => Effect.tapError(admit(...all), ({ error }) => countDenial(error.code ?? "unknown"))
      })
    })
  )
}

const least = (one: bigint | null, other: bigint | null): bigint | null =>
  one === null ? other : other === null || one < other ? one : other

const tooLarge = ({ amountNanoUsd }: Estimate, reservation: ExistingReservation | undefined): GatewayError =>
  gatewayError(
    reservation !== undefined && amountNanoUsd > reservation.amountNanoUsd
      ? new ReservationTooSmall({ estimateUsd: amountNanoUsd })
      : new TurnBudgetExceeded({ detail: "The call may cost more than the agent's budget for one turn." }),
    { headers: notRetryable }
  )
